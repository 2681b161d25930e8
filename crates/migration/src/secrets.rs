//! Passwords and keys in the values of a configuration. They are masked in all proposed files.

/// Text in place of a secret.
pub(crate) const MASK: &str = "***";

/// Endings of the names of attributes whose whole value is a secret: `olcRootPW`, `olcDbACLPasswd`, `olcDbPass`,
/// `nsslapd-rootpw`, `nsDS5ReplicaCredentials`, `nsSymmetricKey`, `ds-cfg-bind-password`, `ds-cfg-key-store-pin`.
const NAME_ENDS: [&str; 9] =
    ["pw", "pwd", "pass", "passwd", "password", "credentials", "secret", "-pin", "symmetrickey"];

/// Names before the equals sign of a word whose value is a secret, as in `credentials=` of `olcSyncrepl` and
/// `olcDbIDAssertBind`, or in the extension `x-bindpw=` of a URL.
const WORD_KEYS: [&str; 7] = ["credentials", "cred", "password", "passwd", "secret", "bindpw", "rootpw"];

/// Returns true if the values of an attribute are secrets. The name must be in lower case.
pub(crate) fn is_secret(name: &str) -> bool {
    NAME_ENDS.iter().any(|end| name.ends_with(end))
}

/// Returns a text with a mask in place of the secrets in its words. As in slapd.conf(5), quotes may enclose blanks in
/// any part of a word, and a backslash escapes the next character.
pub(crate) fn masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let (mut word, mut after) = rest.split_at(word_end(rest));
        match secret_start(word) {
            // If the quotes begin before the secret, the closing quote follows the mask.
            Some(start) => {
                // slapd writes quotes around a secret, but does not escape quotes in the secret, so mask everything up
                // to the next name.
                if word.contains('"') {
                    (word, after) = rest.split_at(word.len() + next_name(after));
                }
                let (shown, secret) = word.split_at(start);
                let is_open = shown.matches('"').count() % 2 == 1;
                out.extend([shown, MASK, if is_open && secret.ends_with('"') { "\"" } else { "" }]);
            }
            None => out += word,
        }
        let blanks = after.len() - after.trim_start().len();
        let (blank, next) = after.split_at(blanks);
        out += blank;
        rest = next;
    }
    out
}

/// Returns the length of the first word of a text.
fn word_end(text: &str) -> usize {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            c if c.is_whitespace() && !is_quoted => return at,
            _ => {}
        }
    }
    text.len()
}

/// Returns the position of the blank before the next word of the form `name=value`.
fn next_name(text: &str) -> usize {
    let blanks = text.char_indices().filter(|(_, c)| c.is_whitespace());
    let mut before = blanks.filter(|(at, c)| {
        let word = text.get(at + c.len_utf8()..).unwrap_or_default().trim_start_matches('"');
        let name = word.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        name.len() < word.len() && name.starts_with('=')
    });
    before.next().map_or(text.len(), |(at, _)| at)
}

/// Returns the position in `word` where a secret starts: after the first `name=` with a name that ends with one of
/// [`WORD_KEYS`].
fn secret_start(word: &str) -> Option<usize> {
    let lower = word.to_ascii_lowercase();
    let ends = lower.match_indices('=').map(|(at, _)| at);
    let mut secret = ends
        .filter(|at| WORD_KEYS.iter().any(|key| lower.get(..*at).is_some_and(|name| name.ends_with(key))));
    secret.next().map(|at| at + 1)
}
