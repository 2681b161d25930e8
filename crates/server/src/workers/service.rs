//! Threads that run as long as the server, and their shutdown.

use std::io;
use std::thread::JoinHandle;

/// A thread of the server, and the function that makes it stop. Dropping this struct stops the thread and waits for its
/// end.
pub(crate) struct Service {
    /// `None` after the thread was joined.
    thread: Option<JoinHandle<()>>,
    /// `None` after the function was called.
    stop: Option<Box<dyn FnOnce() + Send>>,
}

impl Service {
    /// Starts a thread that runs until `stop` is called.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(
        name: &str,
        run: impl FnOnce() + Send + 'static,
        stop: impl FnOnce() + Send + 'static,
    ) -> io::Result<Service> {
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(run)?;
        Ok(Service { thread: Some(thread), stop: Some(Box::new(stop)) })
    }

    /// Stops the thread and waits for its end. Returns its name if it panicked.
    fn stop(&mut self) -> Result<(), String> {
        if let Some(stop) = self.stop.take() {
            stop();
        }
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let name = thread.thread().name().unwrap_or_default().to_owned();
        thread.join().map_err(|_| name)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // An error is ignored here: the panic was printed already, and a failed start reports its own error.
        let _ = self.stop();
    }
}

/// Services in the order of their start. They are stopped one after another in reverse order, because a service may use
/// earlier services. Dropping this list, for example if a later part of the server cannot start, stops them in the same
/// way.
#[derive(Default)]
pub(crate) struct Services(Vec<Service>);

impl Services {
    /// Adds a service that was just started.
    pub(crate) fn add(&mut self, service: Service) {
        self.0.push(service);
    }

    /// Stops all services, even if some of them have panicked.
    ///
    /// # Errors
    /// At least one thread has panicked. The text is the name of the first such thread.
    pub(crate) fn stop(mut self) -> Result<(), String> {
        let mut result = Ok(());
        while let Some(mut service) = self.0.pop() {
            result = result.and(service.stop());
        }
        result
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Starts a service that sends its name to `ends` when it ends.
    fn service(name: &'static str, ends: &Sender<&'static str>) -> Service {
        let (stop, stopped) = channel::<()>();
        let ends = ends.clone();
        let run = move || {
            let _ = stopped.recv();
            assert_ne!(name, "defect");
            ends.send(name).unwrap();
        };
        Service::start(name, run, move || drop(stop)).unwrap()
    }

    fn started(names: &[&'static str]) -> (Services, Receiver<&'static str>) {
        let (ends, ended) = channel();
        let mut services = Services::default();
        names.iter().for_each(|name| services.add(service(name, &ends)));
        (services, ended)
    }

    #[test]
    fn services_stop_in_the_reverse_order_of_their_start() {
        let (services, ended) = started(&["audit", "writer", "logins"]);
        assert_eq!(ended.try_iter().count(), 0);
        assert_eq!(services.stop(), Ok(()));
        assert_eq!(ended.iter().collect::<Vec<_>>(), ["logins", "writer", "audit"]);
    }

    #[test]
    fn dropping_services_waits_until_they_have_ended() {
        let (services, ended) = started(&["audit", "writer"]);
        drop(services);
        assert_eq!(ended.try_iter().collect::<Vec<_>>(), ["writer", "audit"]);
    }

    #[test]
    fn a_panic_of_a_service_stops_the_others_and_is_reported() {
        let (services, ended) = started(&["audit", "defect", "logins"]);
        assert_eq!(services.stop(), Err("defect".to_owned()));
        assert_eq!(ended.iter().collect::<Vec<_>>(), ["logins", "audit"]);
    }
}
