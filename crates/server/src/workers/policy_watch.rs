//! Password policies that do not hold as they are written: the log says each once, when it begins and when it has
//! ended.

use directory::Directory;

/// What the log has said.
#[derive(Debug, Default)]
pub(crate) struct PolicyWatch {
    told: Vec<String>,
}

impl PolicyWatch {
    /// Looks at the policies as they are now.
    pub(crate) fn look(&mut self, directory: &Directory) {
        for line in self.news(directory.policy_notices()) {
            tracing::warn!("{line}");
        }
    }

    fn news(&mut self, notices: Vec<String>) -> Vec<String> {
        let begun = notices.iter().filter(|notice| !self.told.contains(notice)).cloned();
        let mut lines: Vec<String> = begun.collect();
        let ended = self.told.iter().filter(|notice| !notices.contains(notice));
        lines.extend(ended.map(|notice| format!("no longer so: {notice}")));
        self.told = notices;
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_said_once() {
        let mut watch = PolicyWatch::default();
        let mut news = |notices: &[&str]| watch.news(notices.iter().map(|text| (*text).to_owned()).collect());
        assert_eq!(news(&["a", "b"]), ["a", "b"]);
        assert!(news(&["a", "b"]).is_empty());
        assert_eq!(news(&["b", "c"]), ["c", "no longer so: a"]);
        assert_eq!(news(&[]), ["no longer so: b", "no longer so: c"]);
    }
}
