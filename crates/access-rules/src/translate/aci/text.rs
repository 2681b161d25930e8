//! Parser of `aci` values.
//!
//! ```text
//! (TARGET = "TEXT") ... (version 3.0; acl "NAME"; allow|deny (RIGHT, ...) BIND RULE; ...)
//! BIND RULE:  KEY = "TEXT", [not] (BIND RULE), BIND RULE and BIND RULE, BIND RULE or BIND RULE
//! ```
//!
//! Quotes, brackets and semicolons are special only at positions where the grammar permits them. Ambiguous text is
//! refused, because servers read it differently. Examples of ambiguous text are a quote after a backslash, and a
//! mixture of `and` and `or` without brackets.

/// Maximum nesting depth of bind rules.
const DEPTH_MAX: usize = 32;

/// A parsed `aci` value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Aci<'a> {
    pub(super) targets: Vec<Target<'a>>,
    pub(super) name: &'a str,
    pub(super) permissions: Vec<Permission<'a>>,
}

/// A target: `key = "text"` or `key != "text"` in brackets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Target<'a> {
    /// Key of the target, in lower case.
    pub(super) key: String,
    pub(super) is_negated: bool,
    pub(super) text: &'a str,
    /// Text of the target between its brackets, as in the source.
    pub(super) source: &'a str,
}

/// A permission: `allow (rights) bind-rule`, or the same with `deny`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Permission<'a> {
    pub(super) is_allow: bool,
    /// Rights, in lower case.
    pub(super) rights: Vec<String>,
    pub(super) bind: Bind<'a>,
    pub(super) source: &'a str,
}

/// A parsed bind rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bind<'a> {
    Is(Condition<'a>),
    Not(Box<Bind<'a>>),
    All(Vec<Bind<'a>>),
    Any(Vec<Bind<'a>>),
}

/// A condition of a bind rule: `key = "value"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Condition<'a> {
    /// Key of the condition, in lower case.
    pub(super) key: String,
    pub(super) sign: &'static str,
    pub(super) value: &'a str,
}

impl<'a> Aci<'a> {
    /// Parses an `aci` value.
    ///
    /// # Errors
    /// A message with the unexpected text, and with what was expected.
    pub(super) fn read(value: &'a str) -> Result<Aci<'a>, String> {
        let mut parser = Parser { text: value, at: 0 };
        let mut targets = Vec::new();
        loop {
            parser.expect("(")?;
            let start = parser.at;
            let key = parser.word().to_ascii_lowercase();
            if key == "version" {
                break;
            }
            targets.push(parser.target(key, start)?);
        }
        match parser.word() {
            "3.0" => {}
            other => return Err(format!("version {other:?} is not known")),
        }
        parser.expect(";")?;
        if !parser.word().eq_ignore_ascii_case("acl") {
            return Err("there is no acl with a name in quotes".to_owned());
        }
        let name = parser.quoted()?;
        parser.expect(";")?;
        let mut permissions = Vec::new();
        loop {
            permissions.push(parser.permission()?);
            let is_more = parser.takes(";");
            if parser.takes(")") {
                break;
            }
            if !is_more {
                return Err(format!("found {} instead of ;", parser.next_text()));
            }
        }
        match parser.rest().is_empty() {
            true => Ok(Aci { targets, name, permissions }),
            false => Err(format!("{} follows the last bracket", parser.next_text())),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    /// Skips blanks, and returns the remaining text.
    fn rest(&mut self) -> &'a str {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let trimmed = rest.trim_start();
        self.at += rest.len() - trimmed.len();
        trimmed
    }

    fn next_text(&mut self) -> String {
        match self.rest() {
            "" => "the end".to_owned(),
            rest => format!("{:?}", rest.chars().take(20).collect::<String>()),
        }
    }

    fn takes(&mut self, what: &str) -> bool {
        let takes = self.rest().starts_with(what);
        if takes {
            self.at += what.len();
        }
        takes
    }

    fn expect(&mut self, what: &str) -> Result<(), String> {
        match self.takes(what) {
            true => Ok(()),
            false => Err(format!("found {} instead of {what}", self.next_text())),
        }
    }

    /// Consumes a word, which may be empty.
    fn word(&mut self) -> &'a str {
        let rest = self.rest();
        let ends = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
        let word = rest.get(..rest.find(ends).unwrap_or(rest.len())).unwrap_or_default();
        self.at += word.len();
        word
    }

    /// Returns the next word in lower case, without consuming it.
    fn peeked_word(&mut self) -> String {
        let start = self.at;
        let word = self.word().to_ascii_lowercase();
        self.at = start;
        word
    }

    /// Consumes a text in quotes. Returns it without blanks at its ends.
    fn quoted(&mut self) -> Result<&'a str, String> {
        self.expect("\"")?;
        let rest = self.text.get(self.at..).unwrap_or_default();
        let end = rest.find('"').ok_or("a quote does not end")?;
        let inner = rest.get(..end).unwrap_or_default();
        if inner.bytes().rev().take_while(|octet| *octet == b'\\').count() % 2 == 1 {
            return Err("a quote follows a backslash, and ends the text on some servers only".to_owned());
        }
        self.at += end + 1;
        Ok(inner.trim())
    }

    /// Consumes the text of a target from the end of the key `key` to the closing bracket of the target.
    fn target(&mut self, key: String, start: usize) -> Result<Target<'a>, String> {
        if key.is_empty() {
            return Err(format!("found {} instead of a target", self.next_text()));
        }
        let is_negated = self.takes("!");
        self.expect("=")?;
        let text = match self.rest().starts_with('"') {
            true => self.quoted()?,
            false => self.bare()?,
        };
        let source = self.text.get(start..self.at).unwrap_or_default().trim();
        self.expect(")")?;
        Ok(Target { key, is_negated, text, source })
    }

    /// Consumes a text without quotes, up to the first unmatched closing bracket.
    fn bare(&mut self) -> Result<&'a str, String> {
        let rest = self.rest();
        let mut depth = 0_usize;
        let mut before = ' ';
        for (place, c) in rest.char_indices() {
            match c {
                '"' => return Err("a quote stands in the middle of a target".to_owned()),
                '(' | ')' if before == '\\' => {
                    return Err("a bracket follows a backslash outside of quotes".to_owned());
                }
                '(' => depth += 1,
                ')' if depth == 0 => {
                    self.at += place;
                    return Ok(rest.get(..place).unwrap_or_default().trim());
                }
                ')' => depth -= 1,
                _ => {}
            }
            before = c;
        }
        Err("the brackets of a target do not end".to_owned())
    }

    fn permission(&mut self) -> Result<Permission<'a>, String> {
        self.rest();
        let start = self.at;
        let is_allow = match self.word().to_ascii_lowercase().as_str() {
            "allow" => true,
            "deny" => false,
            other => {
                let next = self.next_text();
                return Err(format!("{other:?} before {next} is neither allow nor deny"));
            }
        };
        self.expect("(")?;
        let mut rights = Vec::new();
        loop {
            match self.word() {
                "" => return Err(format!("found {} instead of a right", self.next_text())),
                right => rights.push(right.to_ascii_lowercase()),
            }
            if !self.takes(",") {
                break;
            }
        }
        self.expect(")")?;
        let bind = self.bind(0)?;
        let source = self.text.get(start..self.at).unwrap_or_default().trim();
        Ok(Permission { is_allow, rights, bind, source })
    }

    fn bind(&mut self, depth: usize) -> Result<Bind<'a>, String> {
        let first = self.bind_term(depth)?;
        let joint = self.peeked_word();
        if !matches!(joint.as_str(), "and" | "or") {
            return Ok(first);
        }
        let mut all = vec![first];
        loop {
            let next = self.peeked_word();
            if next == joint {
                self.word();
                all.push(self.bind_term(depth)?);
            } else if matches!(next.as_str(), "and" | "or") {
                return Err(
                    "and and or stand side by side without brackets, and servers differ on them".to_owned()
                );
            } else {
                break;
            }
        }
        Ok(if joint == "and" { Bind::All(all) } else { Bind::Any(all) })
    }

    fn bind_term(&mut self, depth: usize) -> Result<Bind<'a>, String> {
        if depth == DEPTH_MAX {
            return Err("its brackets are too many".to_owned());
        }
        if self.takes("(") {
            let inner = self.bind(depth + 1)?;
            self.expect(")")?;
            return Ok(inner);
        }
        let key = self.word().to_ascii_lowercase();
        if key == "not" {
            return Ok(Bind::Not(Box::new(self.bind_term(depth + 1)?)));
        }
        if key.is_empty() {
            return Err(format!("found {} instead of a bind rule", self.next_text()));
        }
        const SIGNS: [&str; 6] = ["!=", ">=", "<=", "=", ">", "<"];
        let sign = SIGNS.into_iter().find(|sign| self.takes(sign));
        let sign = sign.ok_or_else(|| format!("found {} instead of =", self.next_text()))?;
        Ok(Bind::Is(Condition { key, sign, value: self.quoted()? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends the values of all conditions in a bind rule, in order.
    fn values<'a>(bind: &Bind<'a>, out: &mut Vec<&'a str>) {
        match bind {
            Bind::Is(condition) => out.push(condition.value),
            Bind::Not(inner) => values(inner, out),
            Bind::All(all) | Bind::Any(all) => all.iter().for_each(|inner| values(inner, out)),
        }
    }

    #[test]
    fn aci_values_are_parsed_completely() {
        let aci = Aci::read(
            "(target = \"ldap:///ou=a;b,dc=x\")(targetfilter=(&(a=b)(c=d)))( targetattr != \"cn || (sn\" ) \
             (version 3.0;acl \"a; b) allow\" ;allow (read,write) userdn = \"ldap:///cn=a\\; (b,dc=x\"; \
             deny(ALL) ( groupdn=\"ldap:///cn=g\" or not userdn != \"ldap:///self\") and ip = \"1.2.3.4\" ; )",
        )
        .unwrap();
        let targets: Vec<_> =
            aci.targets.iter().map(|target| (target.key.as_str(), target.is_negated, target.text)).collect();
        assert_eq!(
            targets,
            [
                ("target", false, "ldap:///ou=a;b,dc=x"),
                ("targetfilter", false, "(&(a=b)(c=d))"),
                ("targetattr", true, "cn || (sn"),
            ]
        );
        assert_eq!((aci.name, aci.permissions.len()), ("a; b) allow", 2));
        let [first, second] = &aci.permissions[..] else { panic!("two permissions") };
        assert!(first.is_allow && first.rights == ["read", "write"] && !second.is_allow);
        assert_eq!(second.rights, ["all"]);
        let mut found = Vec::new();
        values(&first.bind, &mut found);
        assert_eq!(found, ["ldap:///cn=a\\; (b,dc=x"]);
        assert!(matches!(&second.bind, Bind::All(all) if matches!(&all[..], [Bind::Any(any), Bind::Is(ip)]
            if matches!(&any[..], [Bind::Is(_), Bind::Not(_)]) && ip.value == "1.2.3.4")));
        assert_eq!(first.source, "allow (read,write) userdn = \"ldap:///cn=a\\; (b,dc=x\"");
    }

    #[test]
    fn rejects_ambiguous_text() {
        let all = |bind: &str| format!("(targetattr=\"cn\")(version 3.0; acl \"a\"; allow (read) {bind};)");
        assert!(Aci::read(&all("userdn=\"ldap:///all\"")).is_ok());
        for (text, expected) in [
            ("".to_owned(), "found the end instead of ("),
            ("(targetattr=\"cn\")".to_owned(), "found the end instead of ("),
            (
                "(targetattr=\"cn)(version 3.0; acl \"a\"; allow (read) userdn=\"b\";)".to_owned(),
                "instead of )",
            ),
            ("(targetattr=cn\"b\")".to_owned(), "in the middle of a target"),
            ("(targetfilter=(cn=a\\)b))".to_owned(), "follows a backslash outside of quotes"),
            ("(=\"cn\")".to_owned(), "instead of a target"),
            ("(version 2.0; acl \"a\";)".to_owned(), "version \"2.0\" is not known"),
            ("(version 3.0; acl a; allow (read) userdn=\"b\";)".to_owned(), "instead of \""),
            ("(version 3.0; acl \"a\"; permit (read) userdn=\"b\";)".to_owned(), "neither allow nor deny"),
            ("(version 3.0; acl \"a\"; allow () userdn=\"b\";)".to_owned(), "instead of a right"),
            ("(version 3.0; acl \"a\"; allow (read;) userdn=\"b\";)".to_owned(), "instead of )"),
            (all("userdn=\"ldap:///cn=a\\\" or b\""), "ends the text on some servers only"),
            (all("userdn=\"a\" userdn=\"b\""), "instead of ;"),
            (all("userdn=\"a\" || \"b\""), "instead of ;"),
            (all("userdn=\"a\" and userdn=\"b\" or userdn=\"c\""), "side by side without brackets"),
            (all("userdn=\"a\" and"), "instead of a bind rule"),
            (all("(userdn=\"a\""), "instead of )"),
            (all("userdn=\"a\")"), "follows the last bracket"),
            (all("userdn \"a\""), "instead of ="),
            (all("userdn='a'"), "instead of \""),
            (all("userdn=\"a"), "a quote does not end"),
            (all(""), "instead of a bind rule"),
            (all(&format!("{}userdn=\"a\"", "(".repeat(40))), "too many"),
            (all("userdn=\"a\"") + " more", "follows the last bracket"),
        ] {
            let error = Aci::read(&text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
