//! Check of corpora: every fuzz target must have a corpus, and a test must replay each corpus, so that faults found by
//! fuzzing stay fixed without fuzzing.

use std::collections::BTreeSet;

use crate::files::Files;

/// Returns targets without a corpus, corpora without a target, and corpora that no test replays.
pub(crate) fn check(files: &Files) -> Result<Vec<String>, String> {
    let targets = middles(files, "fuzz/fuzz_targets/", ".rs");
    let corpora: BTreeSet<&str> =
        middles(files, "fuzz/corpus/", "").iter().filter_map(|path| Some(path.split_once('/')?.0)).collect();
    let mut replays = String::new();
    for name in files.names.iter().filter(|name| name.ends_with("/tests/corpus_replay.rs")) {
        replays += &files.text(name)?;
    }
    Ok(offences(&targets, &corpora, &replays))
}

fn middles<'a>(files: &'a Files, prefix: &str, suffix: &str) -> BTreeSet<&'a str> {
    files.names.iter().filter_map(|name| name.strip_prefix(prefix)?.strip_suffix(suffix)).collect()
}

fn offences(targets: &BTreeSet<&str>, corpora: &BTreeSet<&str>, replays: &str) -> Vec<String> {
    let without_corpus = targets.difference(corpora).map(|name| format!("fuzz target {name}: no corpus"));
    let without_target =
        corpora.difference(targets).map(|name| format!("fuzz/corpus/{name}: no fuzz target"));
    let is_replayed = |name: &str| replays.contains(&format!("replay(\"{name}\", "));
    let without_replay = corpora
        .iter()
        .filter(|name| !is_replayed(name))
        .map(|name| format!("fuzz/corpus/{name}: no tests/corpus_replay.rs replays it"));
    without_corpus.chain(without_target).chain(without_replay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_target_has_a_corpus_and_each_corpus_a_replay() {
        let (dn, both) = (BTreeSet::from(["dn"]), BTreeSet::from(["dn", "url"]));
        let replays = "replay(\"dn\", properties::dn);";
        assert_eq!(offences(&dn, &dn, replays), Vec::<String>::new());
        assert_eq!(offences(&both, &dn, replays), ["fuzz target url: no corpus"]);
        assert_eq!(
            offences(&dn, &both, replays),
            ["fuzz/corpus/url: no fuzz target", "fuzz/corpus/url: no tests/corpus_replay.rs replays it"]
        );
    }
}
