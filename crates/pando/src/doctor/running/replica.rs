//! Checks of replication without a shared log: of this server as a replica, of its supplier, and of the replicas that
//! read its log.

use std::time::Duration;

use client::{Connection, Tls};
use server::Config;

use super::{Figures, validity};
use crate::doctor::Finding;

/// Lag of this server as a replica, in seconds, above which a warning is given.
const LAG_WARNING_SECONDS: u64 = 60;

/// Lag of a replica of this server, in changes, above which a warning is given.
const LAG_WARNING_CHANGES: u64 = 10_000;

/// Maximum wait for the supplier in each step of connecting to it.
const PATIENCE: Duration = Duration::from_secs(5);

/// Name of the check in findings about this server as a replica.
const REPLICA: &str = "replica";

/// Checks this server as a replica: whether it follows its supplier, how far it lags, and whether its data differ from
/// the supplier's data.
pub(super) fn own(figures: &Figures) -> Option<Finding> {
    let state = figures.text("State,Replica")?;
    let supplier = figures.text("Supplier,Replica").unwrap_or("its supplier");
    let (records, seconds) = (
        figures.number("Lag Records,Replica").unwrap_or(0),
        figures.number("Lag Seconds,Replica").unwrap_or(0),
    );
    let reason = figures.text("Failing,Replica").filter(|reason| *reason != "no").unwrap_or_default();
    let apply = figures.text("Apply,Replica").filter(|reason| *reason != "no");
    let differing = figures.text("Differing,Replica").filter(|parts| *parts != "no");
    let last = format!("it last had all changes {seconds} seconds ago");
    Some(match (state, apply) {
        ("promoted", _) => Finding::warning(REPLICA, "it was promoted: remove the table [replica]"),
        ("undecided", _) => {
            let text = format!("it was promoted, and makes no change until {supplier} answers: {reason}");
            Finding::problem(REPLICA, text)
        }
        ("halted", _) => Finding::problem(REPLICA, format!("it does not go on, and {last}: {reason}")),
        (_, Some(apply)) => {
            Finding::problem(REPLICA, format!("it cannot apply records, and lacks {records}: {apply}"))
        }
        ("following", None) if differing.is_some() => {
            let parts = differing.unwrap_or_default();
            Finding::problem(
                REPLICA,
                format!(
                    "its data differs from its supplier's, in: {parts}. `pando verify` on both may show which is \
                     damaged; copy the data again"
                ),
            )
        }
        ("following", None) if records > 0 && seconds > LAG_WARNING_SECONDS => {
            Finding::warning(REPLICA, format!("it follows {supplier} and lacks {records} records; {last}"))
        }
        ("following", None) => {
            Finding::fine(REPLICA, format!("it follows {supplier} and lacks {records} records"))
        }
        _ => Finding::problem(REPLICA, format!("it does not reach {supplier}, and {last}: {reason}")),
    })
}

/// Connects to the supplier, and checks when its certificate expires. Returns `None` if the settings have no supplier
/// or no certificate authorities for it.
pub(super) fn supplier(config: &Config, now: u64) -> Option<Finding> {
    const CHECK: &str = "supplier";
    let settings = config.replica.as_ref()?;
    let authorities = settings.authorities.as_ref()?;
    let failed = |what: String| Some(Finding::problem(CHECK, format!("{}: {what}", settings.supplier)));
    let tls = match std::fs::read(authorities).map(|pem| Tls::authorities(&pem)) {
        Ok(Ok(tls)) => tls,
        Ok(Err(error)) => return failed(format!("{}: {error}", authorities.display())),
        Err(error) => return failed(format!("cannot read {}: {error}", authorities.display())),
    };
    let connection = match Connection::open_within(&settings.supplier, Some(&tls), PATIENCE) {
        Ok(connection) => connection,
        Err(error) => return failed(error.to_string()),
    };
    let facts = schema::certificate_facts(connection.server_certificate()?).ok()?;
    let until = u64::try_from(facts.not_after).unwrap_or(0);
    Some(validity(CHECK, &format!("the certificate of {}", settings.supplier), until, now))
}

/// Checks the replicas that read the log of this server.
pub(super) fn readers(figures: &Figures) -> Option<Finding> {
    let count = figures.number("Current,Replicas")?;
    let lag = figures.number("Most Lag,Replicas").unwrap_or(0);
    let differences = figures.number("Differences,Replicas").unwrap_or(0);
    let text = format!("{count} read the log of this server; the slowest lacks {lag} changes");
    Some(if differences > 0 {
        let text = format!("{text}; comparisons found other data there, which this server's log names");
        Finding::problem("replicas", text)
    } else if lag > LAG_WARNING_CHANGES {
        Finding::warning("replicas", text)
    } else {
        Finding::fine("replicas", text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    fn figures(pairs: &[(&str, &str)]) -> Figures {
        Figures(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn states_of_a_replica_become_findings() {
        let of = |state, failing, apply, records, seconds| {
            let pairs = [
                ("State,Replica", state),
                ("Failing,Replica", failing),
                ("Apply,Replica", apply),
                ("Lag Records,Replica", records),
                ("Lag Seconds,Replica", seconds),
            ];
            own(&figures(&pairs)).unwrap()
        };
        assert!(own(&figures(&[])).is_none());
        assert_eq!(of("following", "no", "no", "3", "1").weight, Severity::Fine);
        assert_eq!(of("following", "no", "no", "3", "61").weight, Severity::Warning);
        assert_eq!(of("following", "no", "no", "0", "61").weight, Severity::Fine);
        assert_eq!(of("following", "no", "the disk is full", "3", "1").weight, Severity::Problem);
        assert_eq!(of("promoted", "no", "no", "0", "0").weight, Severity::Warning);
        let undecided = of("undecided", "refused", "no", "0", "0");
        assert!(undecided.weight == Severity::Problem && undecided.text.contains("refused"), "{undecided:?}");
        for (state, reason) in [("halted", "the histories differ"), ("disconnected", "refused")] {
            let found = of(state, reason, "no", "3", "70");
            assert_eq!(found.weight, Severity::Problem);
            assert!(found.text.contains(reason) && found.text.contains("70 seconds ago"), "{found:?}");
        }
        let differing = figures(&[("State,Replica", "following"), ("Differing,Replica", "o=a")]);
        assert_eq!(own(&differing).unwrap().weight, Severity::Problem);
        let readers = |lag, differences| {
            let pairs = [
                ("Current,Replicas", "2"),
                ("Most Lag,Replicas", lag),
                ("Differences,Replicas", differences),
            ];
            readers(&figures(&pairs)).unwrap().weight
        };
        assert_eq!((readers("9", "0"), readers("20000", "0")), (Severity::Fine, Severity::Warning));
        assert_eq!(readers("9", "1"), Severity::Problem);
    }
}
