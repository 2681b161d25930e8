//! Patterns: regular expressions of DNs in slapd.access(5) that select a subtree, the children of an entry, or one
//! entry.

use directory::access::Reach;

use super::rule_parts::check_dn;

/// Entries that a regular expression of DNs selects.
#[derive(Clone, Debug)]
pub(super) struct Pattern {
    /// Part of the tree that contains the entries; `None` for the whole tree.
    pub(super) place: Option<(Reach, String)>,
    /// Attribute of the RDN, if the regular expression names it.
    pub(super) rdn: Option<String>,
    /// DN of a selected entry, with `$1` in place of the text that the only capture group matches; `None` without a
    /// capture group. A `by` clause with the same DN refers to the selected entry itself.
    pub(super) expanded: Option<String>,
}

/// Beginnings of a regular expression before a DN. Each beginning has the range of entries, relative to that DN, that
/// it selects. slapd matches the expression with the normal form of a DN, in which no blanks follow RDNs and commas in
/// values are escaped.
const BEGINNINGS: [(&str, Reach); 15] = [
    ("(.+,)?", Reach::In),
    ("(.*,)?", Reach::In),
    ("(.+,)*", Reach::In),
    ("(.*,)*", Reach::In),
    (".*,", Reach::Below),
    (".+,", Reach::Below),
    ("(.*),", Reach::Below),
    ("(.+),", Reach::Below),
    ("(.*,)", Reach::Below),
    ("(.+,)", Reach::Below),
    ("[^,]+,", Reach::Children),
    ("[^,]*,", Reach::Children),
    ("([^,]+),", Reach::Children),
    ("([^,]*),", Reach::Children),
    (".*", Reach::In),
];

impl Pattern {
    /// Reads a regular expression. Returns `None` if an access rule cannot select the same entries by their position in
    /// the tree.
    pub(super) fn read(expression: &str) -> Option<Pattern> {
        let (is_anchored, rest) =
            expression.strip_prefix('^').map_or((false, expression), |rest| (true, rest));
        if matches!(rest.strip_suffix('$').unwrap_or(rest), ".*" | ".+" | "(.*)" | "(.+)") {
            return Some(Pattern { place: None, rdn: None, expanded: None });
        }
        // Without `$` at its end, the expression can also match in the middle of a longer DN.
        let rest = rest.strip_suffix('$')?;
        let (rdn, rest) = match rest.split_once('=') {
            Some((name, value)) if is_name(name) && !value.is_empty() && is_open(value) => {
                (Some(name), value)
            }
            _ => (None, rest),
        };
        let beginning = BEGINNINGS.iter().find(|(beginning, _)| rest.starts_with(beginning));
        let (beginning, reach) = match (beginning, is_anchored, rdn) {
            (Some((beginning, Reach::In)), _, None) => (*beginning, Reach::In),
            // Without `^`, any text may precede the expression.
            (Some((beginning, _)), false, None) => (*beginning, Reach::Below),
            (Some((beginning, reach @ (Reach::Below | Reach::Children))), true, _) => (*beginning, *reach),
            (None, true, None) => ("", Reach::At),
            (None, false, None) if rest.starts_with(',') => (",", Reach::Below),
            (None, false, None) => ("", Reach::In),
            _ => return None,
        };
        let dn = rest.strip_prefix(beginning)?;
        if dn.contains(['(', ')', '[', ']', '*', '+', '?', '{', '}', '|', '^', '$', '\\']) {
            return None;
        }
        check_dn(dn).ok()?;
        let is_group = matches!(reach, Reach::Children) && beginning.starts_with('(');
        let expanded = rdn.filter(|_| is_group).map(|rdn| format!("{rdn}=$1,{dn}"));
        Some(Pattern { place: Some((reach, dn.to_owned())), rdn: rdn.map(str::to_owned), expanded })
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|octet| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.'))
}

/// Returns true if the value of an RDN begins with a pattern and not with literal text.
fn is_open(value: &str) -> bool {
    BEGINNINGS.iter().any(|(beginning, reach)| *reach != Reach::In && value.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_dns_are_parsed_and_others_refused() {
        let check = |expression: &str, expected: Option<(Reach, &str, Option<&str>)>| {
            let read = Pattern::read(expression);
            let read = read.map(|read| (read.place.unwrap_or((Reach::In, String::new())), read.rdn));
            let expected = expected.map(|(reach, dn, rdn)| ((reach, dn.to_owned()), rdn.map(str::to_owned)));
            assert_eq!(read, expected, "{expression}");
        };
        for all in [".*", "^.*$", ".+", "^(.*)$"] {
            check(all, Some((Reach::In, "", None)));
        }
        check("^ou=a,dc=x$", Some((Reach::At, "ou=a,dc=x", None)));
        for tree in ["ou=a,dc=x$", "^(.+,)?ou=a,dc=x$", "(.*,)?ou=a,dc=x$", ".*ou=a,dc=x$", "^.*ou=a,dc=x$"] {
            check(tree, Some((Reach::In, "ou=a,dc=x", None)));
        }
        for below in
            ["^.+,ou=a,dc=x$", ".*,ou=a,dc=x$", ",ou=a,dc=x$", "[^,]+,ou=a,dc=x$", "^(.*),ou=a,dc=x$"]
        {
            check(below, Some((Reach::Below, "ou=a,dc=x", None)));
        }
        for level in ["^[^,]+,ou=a,dc=x$", "^([^,]*),ou=a,dc=x$"] {
            check(level, Some((Reach::Children, "ou=a,dc=x", None)));
        }
        check("^uid=([^,]+),ou=a,dc=x$", Some((Reach::Children, "ou=a,dc=x", Some("uid"))));
        check("^uid=.*,ou=a,dc=x$", Some((Reach::Below, "ou=a,dc=x", Some("uid"))));
        for other in [
            "ou=a,dc=x",
            "^ou=a,dc=x",
            "uid=[^,]+,ou=a,dc=x$",
            "^uid=[a-z]+,ou=a,dc=x$",
            "^ou=(a|b),dc=x$",
            "^uid=[^,]+,ou=[^,]+,dc=x$",
            "^(.+,)?uid=([^,]+),dc=x$",
            "^a$",
            "^uid=a[^,]*,dc=x$",
            "",
        ] {
            check(other, None);
        }
    }

    #[test]
    fn the_capture_group_of_a_pattern_is_expanded() {
        let expanded = |expression| Pattern::read(expression).and_then(|read| read.expanded);
        assert_eq!(expanded("^uid=([^,]+),ou=a,dc=x$").as_deref(), Some("uid=$1,ou=a,dc=x"));
        for without in ["^uid=[^,]+,ou=a,dc=x$", "^([^,]+),ou=a,dc=x$", "^uid=(.+),ou=a,dc=x$"] {
            assert_eq!(expanded(without), None, "{without}");
        }
    }
}
