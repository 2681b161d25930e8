//! Other replicating servers, compared with the cluster. The same driver makes the same changes of the same entries, at
//! one group of servers at a time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bench::peers::{Data, OpenDj, OpenLdap, Replicas, Setup};
use bench::template::Parameters;
use serde_json::{Map, Value, json};

use super::driver::Driver;
use super::processes::Processes;
use super::{CLIENTS, Measure};
use crate::Result;
use crate::nodes::SUFFIX;

/// Time limit for the other servers to receive all changes of a step.
const CATCH_UP_MAX: Duration = Duration::from_secs(300);
/// Warm-up of servers that compile at run time, before they are measured.
const JAVA_WARM_UP: &str = "10s";
/// Seed of `pando generate`. With this seed, the data is the same as in the cluster.
const SEED: u64 = 1;

/// Other servers that are installed on this machine.
pub(super) struct Peers {
    /// Folder of the unpacked OpenDJ.
    opendj: PathBuf,
}

/// Measurements so far.
#[derive(Default)]
pub(super) struct Measured {
    /// Steps, in the form that the measurement of the cluster uses.
    pub(super) steps: Vec<Value>,
    /// Product, settings and guarantee of each group.
    pub(super) groups: Vec<Value>,
}

impl Peers {
    /// Finds the servers in the places where `./dev peers` puts them.
    ///
    /// # Errors
    /// A server is missing.
    pub(super) fn find() -> Result<Peers> {
        let opendj = std::path::absolute(OpenDj::unpacked())?;
        OpenLdap::must_be_installed()?;
        OpenDj::must_be_installed(&opendj)?;
        Ok(Peers { opendj })
    }

    /// Measures one group after the other, and adds the results to `measured`.
    pub(super) fn measure(
        &self,
        program: &Path,
        folder: &Path,
        what: &Measure,
        measured: &mut Measured,
    ) -> Result<()> {
        let data = make_data(folder, what.entries)?;
        let mut setup = Setup::new(&data.suffix, vec!["uid".parse()?], data.bytes);
        setup.schema.clone_from(&data.schema);
        let password = folder.join("peers-password");
        std::fs::write(&password, &setup.admin_password)?;
        let driver = Driver { what, program: program.to_owned(), user: setup.admin_dn.clone(), password };
        let own = folder.join("slapd");
        let group = Replicas::openldap(&own, &setup, &data)?;
        measured.measure(&driver, "slapd with two consumers", &group)?;
        drop(group);
        std::fs::remove_dir_all(&own)?;
        let own = folder.join("opendj");
        let group = Replicas::opendj(&self.opendj, &own, &setup, &data)?;
        let (_, served) = group.processes().next().ok_or("a group without servers")?;
        let mut warm_up =
            driver.command("people-modify", &url(served), served.id(), &folder.join("warm-up.json"));
        if !warm_up.args(["--clients", "50", "--duration", JAVA_WARM_UP]).status()?.success() {
            return Err("OpenDJ: pando bench fails while it warms up".into());
        }
        measured.measure(&driver, "OpenDJ with two replicas", &group)?;
        drop(group);
        Ok(std::fs::remove_dir_all(&own)?)
    }
}

impl Measured {
    /// Measures the highest rate of changes at the first server of a group, and the time until the other servers have
    /// received all changes.
    fn measure(&mut self, driver: &Driver<'_>, name: &str, group: &Replicas) -> Result<()> {
        println!("{name}: loaded in {:.0} s", group.load().cost.wall.as_secs_f64());
        let (_, served) = group.processes().next().ok_or("a group without servers")?;
        for clients in CLIENTS {
            let step = format!("changes of {clients} clients, {name}");
            group
                .caught_up_within(CATCH_UP_MAX)?
                .ok_or_else(|| format!("before {step}: not equal in time"))?;
            let all = group.processes().map(|(name, server)| (name.to_owned(), server.id())).collect();
            let cost = Processes::begin(all);
            let more = ["--clients", &clients.to_string()];
            let mut figures = driver.run(&step, "people-modify", &url(served), served.id(), &more)?;
            let cores = cost.cores();
            let caught_up = group.caught_up_within(CATCH_UP_MAX)?;
            let caught_up = caught_up
                .ok_or_else(|| format!("{step}: others lack changes after {} s", CATCH_UP_MAX.as_secs()))?;
            figures["others_behind_ms"] = json!(caught_up.as_secs_f64() * 1_000.0);
            println!("{step}: {figures}");
            self.steps.push(json!({ "step": step, "figures": figures, "cores": cores }));
        }
        let settings = group.settings().iter().map(|(name, value)| (name.clone(), json!(value)));
        self.groups.push(json!({
            "name": name,
            "product": group.product(),
            "promise": group.promise(),
            "loader": group.load().command,
            "load_seconds": group.load().cost.wall.as_secs_f64(),
            "settings": settings.collect::<Map<_, _>>(),
        }));
        Ok(())
    }
}

fn url(server: &bench::peers::Server) -> String {
    format!("ldap://{}", server.address())
}

/// Returns the people of the cluster as LDIF, with hashed passwords.
fn make_data(folder: &Path, entries: u64) -> Result<Data> {
    let parameters = Parameters { entries: Some(entries), ..Parameters::default() };
    let data = Data::generate("people", &parameters, SEED, &folder.join("people.ldif"))?;
    if data.suffix == SUFFIX {
        return Ok(data);
    }
    Err(format!("the people are below {}, not below {SUFFIX}", data.suffix).into())
}
