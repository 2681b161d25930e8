//! Commands of the administrator on a Unix socket: one line, answered with one JSON value.

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::Path;
use std::rc::Rc;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::front::Front;
use crate::limits::{COMMAND, COMMAND_SIZE_MAX, DRAIN};

/// Command of the administrator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Reports the differences found so far.
    Report,
    /// Makes the new server answer the clients.
    Switch,
    /// Makes the old server answer the clients again.
    Back,
}

impl Command {
    const ALL: [Command; 3] = [Command::Report, Command::Switch, Command::Back];

    fn word(self) -> &'static str {
        match self {
            Command::Report => "report",
            Command::Switch => "switch",
            Command::Back => "back",
        }
    }
}

/// Creates the socket, which only its owner may use. A socket that no process serves is replaced.
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    if path.exists() && BlockingStream::connect(path).is_err() {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers commands.
pub(crate) async fn serve(front: Rc<Front>, listener: UnixListener) {
    loop {
        match listener.accept().await {
            Ok((socket, _)) => drop(spawn_local(answer(Rc::clone(&front), socket))),
            Err(error) => {
                eprintln!("pando: the control socket: {error}");
                tokio::time::sleep(COMMAND).await;
            }
        }
    }
}

async fn answer(front: Rc<Front>, mut socket: UnixStream) {
    let mut line = Vec::new();
    let mut limited = (&mut socket).take(COMMAND_SIZE_MAX as u64);
    if !matches!(timeout(COMMAND, limited.read_to_end(&mut line)).await, Ok(Ok(_))) {
        return;
    }
    let word = String::from_utf8_lossy(&line);
    let value = match Command::ALL.into_iter().find(|command| command.word() == word.trim()) {
        Some(Command::Report) => report(&front),
        Some(Command::Switch) => outcome(&front, front.switch(1).await),
        Some(Command::Back) => outcome(&front, front.switch(0).await),
        None => json!({"error": "unknown command"}),
    };
    let _ = socket.write_all(value.to_string().as_bytes()).await;
    let _ = socket.shutdown().await;
}

fn outcome(front: &Front, outcome: Result<(), String>) -> Value {
    match outcome {
        Ok(()) => {
            eprintln!("pando: the {} server answers the clients", name(front.active()));
            json!({"answers_clients": name(front.active())})
        }
        Err(error) => json!({"error": error}),
    }
}

fn report(front: &Front) -> Value {
    let mut report = front.shared.figures().report();
    if let Some(fields) = report.as_object_mut() {
        let waiting = json!({"answers": front.shared.waiting(), "bytes": front.shared.bytes()});
        fields.insert("answers_clients".to_owned(), json!(name(front.active())));
        fields.insert("clients".to_owned(), json!(front.client_count()));
        fields.insert("not_replayed_yet".to_owned(), waiting);
        fields.insert("out_of_step".to_owned(), json!(front.shared.out_of_step()));
    }
    report
}

fn name(server: usize) -> &'static str {
    if server == 0 { "old" } else { "new" }
}

/// Sends a command to a running proxy. Returns its answer.
///
/// # Errors
/// No proxy serves the socket, or it does not answer.
pub fn send_command(path: &Path, command: Command) -> io::Result<Value> {
    let mut socket = BlockingStream::connect(path)?;
    socket.set_read_timeout(Some(DRAIN + COMMAND))?;
    socket.write_all(command.word().as_bytes())?;
    socket.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer)?;
    serde_json::from_slice(&answer).map_err(io::Error::other)
}
