//! Messages about mistakes in the keys of files. If a key is misspelt, the message proposes the most similar key. If a
//! list is written as one string, the message contains a hint.

/// Minimum similarity of a misspelt key to the proposed key, from 0 to 1.
const SIMILARITY_MIN: f64 = 0.7;

/// Returns the known key that is most similar to `key`; `None` if none is similar enough.
pub fn nearest<'a>(key: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The last components are compared separately, because the key may lack its table or be in the wrong table.
    let last = |name: &'a str| name.rsplit('.').next().unwrap_or(name);
    let own = key.rsplit('.').next().unwrap_or(key);
    let similarity = |name| f64::max(strsim::jaro_winkler(key, name), strsim::jaro_winkler(own, last(name)));
    let similar = candidates.into_iter().map(|name| (similarity(name), name));
    let best = similar.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (best.0 >= SIMILARITY_MIN).then_some(best.1)
}

/// Returns a message about a key of the node file. `message` is the message of the TOML library.
pub(super) fn explained(key: &str, message: &str) -> String {
    if let Some(rest) = message.strip_prefix("unknown field `")
        && let Some((unknown, candidates)) = rest.split_once('`')
        && let Some(nearest) = nearest(unknown, candidates.split('`').skip(1).step_by(2))
    {
        return format!("unknown field `{unknown}`: the nearest is `{nearest}`{candidates}");
    }
    if let Some(rest) = message.strip_prefix("invalid type: string \"")
        && let Some(value) = rest.strip_suffix("\", expected a sequence")
    {
        return format!("{key} is a list: write {key} = [\"{value}\"]");
    }
    message.to_owned()
}

#[cfg(test)]
mod tests {
    use super::{explained, nearest};

    #[test]
    fn the_nearest_key_is_found_for_a_misspelt_key() {
        let candidates = ["suffixes", "schema_files", "limits.size_limit", "indexes"];
        for (key, expected) in [
            ("sufixes", Some("suffixes")),
            ("size_limt", Some("limits.size_limit")),
            ("limits.size", Some("limits.size_limit")),
            ("index", Some("indexes")),
            ("zzz", None),
        ] {
            assert_eq!(nearest(key, candidates), expected, "{key}");
        }
    }

    #[test]
    fn parser_messages_suggest_the_correct_form() {
        let message = explained("metrics.listn", "unknown field `listn`, expected one of `listen`, `tls`");
        assert_eq!(
            message,
            "unknown field `listn`: the nearest is `listen`, expected one of `listen`, `tls`"
        );
        let message = explained("listen", "invalid type: string \"ldap://\", expected a sequence");
        assert_eq!(message, "listen is a list: write listen = [\"ldap://\"]");
        let message = explained("threads", "invalid type: string \"x\", expected a nonzero usize");
        assert_eq!(message, "invalid type: string \"x\", expected a nonzero usize");
    }
}
