//! Logs password policies, dynamic groups and collective attribute subentries that do not work as written. Each problem
//! is logged once when it begins and once when it ends.

use directory::Directory;

/// Problems that were logged and still exist.
#[derive(Debug, Default)]
pub(crate) struct PolicyWatch {
    logged: Vec<String>,
}

impl PolicyWatch {
    /// Logs the problems that have begun or ended since the last call.
    pub(crate) fn log_changes(&mut self, directory: &Directory) {
        let notices = directory.policy_notices().into_iter().chain(directory.dynamic_groups().1);
        let notices = notices.chain(directory.collective_subentries().1);
        for line in self.changed_notices(notices.collect()) {
            tracing::warn!("{line}");
        }
    }

    fn changed_notices(&mut self, notices: Vec<String>) -> Vec<String> {
        let new_notices = notices.iter().filter(|notice| !self.logged.contains(notice)).cloned();
        let mut lines: Vec<String> = new_notices.collect();
        let ended = self.logged.iter().filter(|notice| !notices.contains(notice));
        lines.extend(ended.map(|notice| format!("no longer so: {notice}")));
        self.logged = notices;
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_each_notice_once() {
        let mut watch = PolicyWatch::default();
        let mut changed_notices =
            |notices: &[&str]| watch.changed_notices(notices.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(changed_notices(&["a", "b"]), ["a", "b"]);
        assert!(changed_notices(&["a", "b"]).is_empty());
        assert_eq!(changed_notices(&["b", "c"]), ["c", "no longer so: a"]);
        assert_eq!(changed_notices(&[]), ["no longer so: b", "no longer so: c"]);
    }
}
