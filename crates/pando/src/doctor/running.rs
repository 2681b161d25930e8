//! Checks of the figures that the running server publishes in cn=monitor.

mod replica;

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use client::{ClientError, Connection};
use directory::csn::unix_seconds;
use ldap::Scope;
use server::Config;

use super::Finding;

/// Remaining validity of a certificate, in seconds, below which a warning is given.
const CERTIFICATE_WARNING_SECONDS: u64 = 30 * 86_400;

/// Percentage of free bytes in the data file from which on a warning is given.
const RECLAIM_WARNING_PERCENT: u64 = 50;

/// Minimum size of a data file, in bytes, for a warning about free bytes.
const RECLAIM_FILE_MIN: u64 = 64 << 20;

/// Figures of the server. A key consists of name and group, such as `Failing,Backup`.
struct Figures(BTreeMap<String, String>);

impl Figures {
    fn read(connection: &mut Connection) -> Result<Figures, ClientError> {
        let wanted = ["monitoredInfo", "monitorCounter", "monitorTimestamp"];
        let reply = connection.search("cn=monitor", Scope::WholeSubtree, "(objectClass=*)", &wanted)?;
        let figures = reply.entries.iter().filter_map(|entry| {
            let value = wanted.iter().find_map(|name| entry.text(name))?;
            let name = entry.dn.strip_suffix(",cn=monitor")?.replace("cn=", "");
            Some((name, value))
        });
        Ok(Figures(figures.collect()))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }
}

pub(super) fn examine(connection: &mut Connection, config: &Config) -> Result<Vec<Finding>, ClientError> {
    let figures = Figures::read(connection)?;
    let Some(release) = figures.text("Uptime,Time") else {
        let text = "it does not show cn=monitor: run this command as its user or as root";
        return Ok(vec![Finding::warning("server", text)]);
    };
    let mut findings = vec![Finding::fine("server", format!("it answers, and runs for {release} seconds"))];
    findings.extend([
        writes(&figures),
        connections(&figures, config),
        searches(&figures),
        backup(&figures, config),
    ]);
    findings.extend(reclaim(&figures));
    findings.extend(certificate(&figures, now()));
    findings.extend(replica::own(&figures));
    findings.extend(replica::supplier(config, now()));
    findings.extend(replica::readers(&figures));
    findings.extend(failures(&figures));
    Ok(findings)
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn writes(figures: &Figures) -> Finding {
    match (figures.text("Writes Stopped Cause,Log"), figures.text("Changes Refused,Log")) {
        (Some(cause), _) => Finding::problem("changes", format!("none is made until a restart: {cause}")),
        (None, Some("true")) => Finding::problem("changes", "they are refused: the disk is full"),
        _ => Finding::fine("changes", "they are accepted"),
    }
}

/// Reports the free space that deletions have left in the data file.
fn reclaim(figures: &Figures) -> Option<Finding> {
    let (used, free) = (figures.number("Used Bytes,Storage")?, figures.number("Free Bytes,Storage")?);
    let percent = free.saturating_mul(100) / used.max(1);
    let text = format!(
        "{} MiB of the data file's {} MiB ({percent}%) are free for later changes",
        free >> 20,
        used >> 20
    );
    Some(match percent {
        RECLAIM_WARNING_PERCENT.. if used >= RECLAIM_FILE_MIN => Finding::warning(
            "reclaim",
            format!("{text}; `pando compact`, on the stopped server, returns them to the disk"),
        ),
        _ => Finding::fine("reclaim", text),
    })
}

/// Checks the limit of connections. The server lowers this limit if the system permits too few open files.
fn connections(figures: &Figures, config: &Config) -> Finding {
    let (max, wanted) = (figures.number("Max,Connections"), config.online.connections_max as u64);
    match max {
        Some(max) if max < wanted => Finding::warning(
            "open files",
            format!("{max} connections are possible instead of {wanted}: raise LimitNOFILE or ulimit -n"),
        ),
        _ => Finding::fine("open files", format!("{wanted} connections are possible")),
    }
}

/// Reports the indexes that searches have lacked since the start of the server.
fn searches(figures: &Figures) -> Finding {
    let lacking: Vec<&str> = figures.0.keys().filter_map(|name| name.strip_suffix(",Index Advice")).collect();
    match lacking.as_slice() {
        [] => Finding::fine("indexes", "no search lacked an index since the start"),
        some => {
            let names = some.join(", ");
            Finding::warning(
                "indexes",
                format!("searches lacked an index of {names}: see `pando index advise`"),
            )
        }
    }
}

fn backup(figures: &Figures, config: &Config) -> Finding {
    let Some(settings) = &config.backup else {
        return Finding::warning(
            "backup",
            "the node file has no table [backup]: are backups made elsewhere?",
        );
    };
    let last = figures.text("Last Backup,Backup").and_then(unix_seconds);
    let Some(last) = last else {
        return Finding::warning("backup", format!("none was made since the start in {}", settings.place));
    };
    let hours = now().saturating_sub(last) / 3_600;
    let lacking = figures.number("Changes Since,Backup").unwrap_or(0);
    match hours {
        24.. if lacking > 0 => Finding::problem(
            "backup",
            format!("the last one is {hours} hours old and lacks {lacking} changes"),
        ),
        _ => Finding::fine("backup", format!("the last one lacks {lacking} changes")),
    }
}

fn certificate(figures: &Figures, now: u64) -> Option<Finding> {
    let until = figures.text("Certificate Expires,TLS").and_then(unix_seconds)?;
    Some(validity("certificate", "it", until, now))
}

/// Checks when a certificate expires.
fn validity(check: &'static str, which: &str, until: u64, now: u64) -> Finding {
    let days = until.saturating_sub(now) / 86_400;
    if until <= now {
        Finding::problem(check, format!("{which} has expired: put a new one in its place"))
    } else if until - now < CERTIFICATE_WARNING_SECONDS {
        Finding::warning(check, format!("{which} expires in {days} days"))
    } else {
        Finding::fine(check, format!("{which} is valid for {days} days"))
    }
}

/// Reports the parts of the server that fail: audit trail, backup, password policies, cluster.
fn failures(figures: &Figures) -> Vec<Finding> {
    let failing = figures.0.iter().filter_map(|(name, value)| Some((name.strip_prefix("Failing,")?, value)));
    failing
        // Another check reports the state of a replica.
        .filter(|(group, value)| !["no", "false"].contains(&value.as_str()) && *group != "Replica")
        .map(|(group, value)| {
            let reason = if value == "true" { "it fails; the log has the reason" } else { value };
            Finding::problem("failing", format!("{group}: {reason}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    #[test]
    fn figures_become_findings() {
        let of = |pairs: &[(&str, &str)]| {
            Figures(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
        };
        assert_eq!(writes(&of(&[])).weight, Severity::Fine);
        assert_eq!(writes(&of(&[("Changes Refused,Log", "true")])).weight, Severity::Problem);
        let reclaimed = |used: u64, free: u64| {
            let (used, free) = ((used << 20).to_string(), (free << 20).to_string());
            reclaim(&of(&[("Used Bytes,Storage", &used), ("Free Bytes,Storage", &free)])).unwrap()
        };
        assert_eq!(reclaimed(20, 19).weight, Severity::Fine, "a small file");
        assert_eq!(reclaimed(400, 199).weight, Severity::Fine);
        let large = reclaimed(400, 200);
        assert_eq!(large.weight, Severity::Warning);
        assert!(large.text.starts_with("200 MiB of the data file's 400 MiB (50%)"), "{}", large.text);
        let expires = of(&[("Certificate Expires,TLS", "20300101000000Z")]);
        let expiry = unix_seconds("20300101000000Z").unwrap();
        let weight = |now| certificate(&expires, now).unwrap().weight;
        assert_eq!(weight(expiry), Severity::Problem);
        assert_eq!(weight(expiry - 86_400), Severity::Warning);
        assert_eq!(weight(expiry - 60 * 86_400), Severity::Fine);
        let failing =
            failures(&of(&[("Failing,Audit", "true"), ("Failing,Backup", "no"), ("Failing,X", "why")]));
        let texts: Vec<&str> = failing.iter().map(|finding| finding.text.as_str()).collect();
        assert_eq!(texts, ["Audit: it fails; the log has the reason", "X: why"]);
        assert_eq!(searches(&of(&[("mail,Index Advice", "x")])).weight, Severity::Warning);
    }
}
