//! Parser of the text of an access rule, as the settings contain it:
//!
//! ```text
//! NAME: allow|deny RIGHT, ... [of ATTRIBUTE, ...] [values matching 'FILTER'] [but not of ATTRIBUTE, ...]
//!     [in|at|below|children of 'DN'] [but not in|at|below|children of 'DN', ...] [matching 'FILTER']
//!     [where seen] to WHO, ... [from 'NETWORK', ...] [over tls] [bound by METHOD, ...]
//!     [on DAY, ...] [between HH:MM and HH:MM] [at listener NAME, ...]
//! ```
//!
//! DNs and filters are enclosed in single or double quotes. The parser checks only the grammar. The rule's compiler
//! checks that attribute types are defined and that DNs are valid. `docs/how-to/access-rules.md` explains the syntax.

use std::fmt;

use crate::model::link_conditions::LinkConditions;
use crate::model::rule_tokens::{Parser, named, tokens};

/// A right, as a bit of [`Rights`].
pub(crate) const BROWSE: Rights = Rights(1);
pub(crate) const COMPARE: Rights = Rights(2);
pub(crate) const SEARCH: Rights = Rights(4);
pub(crate) const READ: Rights = Rights(8);
pub(crate) const WRITE: Rights = Rights(16);
pub(crate) const ADD: Rights = Rights(32);
pub(crate) const DELETE: Rights = Rights(64);
pub(crate) const RENAME: Rights = Rights(128);
pub(crate) const EXPLAIN: Rights = Rights(256);
pub(crate) const JOIN: Rights = Rights(512);
pub(crate) const LEAVE: Rights = Rights(1024);
pub(crate) const PROXY: Rights = Rights(2048);
pub(crate) const RESET: Rights = Rights(4096);
/// Right to use controls and extended operations. This right applies to no entry, so a rule cannot combine it with
/// other rights.
pub(crate) const USE: Rights = Rights(8192);

/// Keywords of rights in a rule.
const RIGHTS: [(&str, Rights); 14] = [
    ("browse", BROWSE),
    ("compare", COMPARE),
    ("search", SEARCH),
    ("read", READ),
    ("write", WRITE),
    ("add", ADD),
    ("delete", DELETE),
    ("rename", RENAME),
    ("explain", EXPLAIN),
    ("join", JOIN),
    ("leave", LEAVE),
    ("proxy", PROXY),
    ("reset", RESET),
    ("use", USE),
];

/// A set of rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rights(pub(crate) u16);

impl Rights {
    /// Returns the right with this keyword.
    pub(crate) fn of_word(word: &str) -> Option<Rights> {
        RIGHTS.iter().find(|(known, _)| *known == word).map(|(_, right)| *right)
    }

    /// Returns true if the set contains any right of `right`.
    pub(crate) fn has(self, right: Rights) -> bool {
        self.0 & right.0 != 0
    }

    pub(crate) fn with(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }

    /// Returns the rights that are in both sets.
    pub(crate) fn of(self, others: Rights) -> Rights {
        Rights(self.0 & others.0)
    }

    pub(crate) fn without(self, other: Rights) -> Rights {
        Rights(self.0 & !other.0)
    }

    /// Returns the rights of an allow or deny rule that lists these keywords, with the implied rights. `is_where_seen`
    /// is true if the rule contains "where seen". Returns `None` if a keyword is unknown.
    pub fn of_rule(words: &[&str], is_allow: bool, is_where_seen: bool) -> Option<Rights> {
        let named = words.iter().map(|word| Rights::of_word(word));
        let named = named.collect::<Option<Vec<_>>>()?.into_iter().fold(Rights::default(), Rights::with);
        Some(named.in_rule(is_allow, is_where_seen))
    }

    fn in_rule(self, is_allow: bool, is_where_seen: bool) -> Rights {
        match (is_allow, is_where_seen) {
            // With "where seen", an allow rule does not grant the right to browse: other rules decide about this
            // right.
            (true, true) => self.with_smaller(),
            (true, false) => self.allowed(),
            (false, _) => self.denied(),
        }
    }

    /// Adds implied rights: `read` implies `search` and `compare`; `write` implies `join` (adding the requester's own
    /// name) and `leave` (deleting this name).
    fn with_smaller(self) -> Rights {
        let read = if self.has(READ) { SEARCH.with(COMPARE) } else { Rights::default() };
        let write = if self.has(WRITE) { JOIN.with(LEAVE) } else { Rights::default() };
        self.with(read).with(write)
    }

    /// Adds the rights that an `allow` rule implies. Any right to an entry includes the right to browse the entry.
    fn allowed(self) -> Rights {
        if self == USE {
            return self;
        }
        self.with_smaller().with(BROWSE)
    }

    /// Adds the rights that a `deny` rule also removes. Without the right to read an attribute, a requester may not
    /// filter by the attribute. Without the right to browse an entry, a requester has no right to the entry at all.
    fn denied(self) -> Rights {
        match self.has(BROWSE) {
            true => Rights(!USE.0),
            false => self.with_smaller(),
        }
    }
}

/// Entries that a rule covers, relative to a named entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The named entry and everything below it.
    In,
    /// The named entry.
    At,
    /// Everything below the named entry.
    Below,
    /// Entries one level below the named entry.
    Children,
}

/// Requesters that a rule applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequesterSpec {
    /// Every requester, bound or not.
    Anyone,
    /// Requesters that have not bound.
    Anonymous,
    /// Requesters that have bound.
    Authenticated,
    /// The user whose entry is accessed.
    Itself,
    /// The user of this DN.
    User(String),
    /// Users whose entries are at or below this DN.
    UsersIn(String),
    /// Users whose entries match this filter and, if a DN is given, are at or below the DN.
    UsersMatching(Option<String>, String),
    /// Direct and nested members of this group.
    Group(String),
    /// Users that the accessed entry names in an attribute of this type.
    NamedBy(String),
}

impl fmt::Display for RequesterSpec {
    /// Writes the words of the rule.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequesterSpec::Anyone => write!(f, "anyone"),
            RequesterSpec::Anonymous => write!(f, "anonymous"),
            RequesterSpec::Authenticated => write!(f, "authenticated"),
            RequesterSpec::Itself => write!(f, "self"),
            RequesterSpec::User(dn) => write!(f, "user {dn:?}"),
            RequesterSpec::UsersIn(dn) => write!(f, "users in {dn:?}"),
            RequesterSpec::UsersMatching(None, filter) => write!(f, "users matching {filter:?}"),
            RequesterSpec::UsersMatching(Some(dn), filter) => {
                write!(f, "users in {dn:?} matching {filter:?}")
            }
            RequesterSpec::Group(dn) => write!(f, "group {dn:?}"),
            RequesterSpec::NamedBy(attribute) => write!(f, "named by {attribute}"),
        }
    }
}

/// A parsed rule. Names are as written in the text of the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessRule {
    /// Name of the rule.
    pub name: String,
    /// True if the rule allows, false if it denies.
    pub is_allow: bool,
    /// The rights of the rule, including implied rights.
    pub rights: Rights,
    /// Attribute types, `*` (all user attributes), `+` (all operational attributes), `@class`, or names of controls and
    /// extended operations. Empty if the rule names none.
    pub attributes: Vec<String>,
    /// Filter that selects single values of the attribute.
    pub values: Option<String>,
    /// Attribute types that the rule excludes.
    pub but_attributes: Vec<String>,
    /// Place of the entries in the tree.
    pub place: Option<(Reach, String)>,
    /// Places that the rule excludes.
    pub but_places: Vec<(Reach, String)>,
    /// Filter that the entries must match.
    pub filter: Option<String>,
    /// Requesters that the rule applies to.
    pub requesters: Vec<RequesterSpec>,
    /// Conditions on the connection of the request.
    pub link: LinkConditions,
}

impl AccessRule {
    /// Parses the text of a rule.
    ///
    /// # Errors
    /// A message that describes the fault and its correction.
    pub fn parse(text: &str) -> Result<AccessRule, String> {
        let (name, rest) = named(text, "staff: allow read to authenticated")?;
        let tokens = tokens(rest)?;
        let mut parser = Parser { tokens: &tokens };
        let is_allow = match parser.word("allow or deny")? {
            "allow" => true,
            "deny" => false,
            other => return Err(format!("expected allow or deny, found {other:?}")),
        };
        let rights = parser.rights()?;
        let mut rule = AccessRule {
            name: name.to_owned(),
            is_allow,
            rights: rights.in_rule(is_allow, false),
            attributes: Vec::new(),
            values: None,
            but_attributes: Vec::new(),
            place: None,
            but_places: Vec::new(),
            filter: None,
            requesters: Vec::new(),
            link: LinkConditions::default(),
        };
        loop {
            if rule.attributes.is_empty() && parser.takes("of") {
                rule.attributes = parser.list("an attribute")?.into_iter().map(str::to_owned).collect();
            } else if parser.takes("but") {
                parser.expect("not")?;
                parser.exception(&mut rule)?;
            } else if rule.place.is_none()
                && let Some(reach) = parser.reach()?
            {
                rule.place = Some((reach, parser.quoted("a DN")?));
            } else if rule.values.is_none() && parser.takes("values") {
                parser.expect("matching")?;
                rule.values = Some(parser.quoted("a filter")?);
            } else if rule.filter.is_none() && parser.takes("matching") {
                rule.filter = Some(parser.quoted("a filter")?);
            } else {
                break;
            }
        }
        if parser.takes("where") {
            parser.expect("seen")?;
            rule.rights = rights.in_rule(is_allow, true);
        }
        if !parser.takes("to") {
            return Err(format!(
                "expected \"to\" and the requesters of the rule, found {}",
                parser.next_text()
            ));
        }
        loop {
            rule.requesters.push(parser.requester()?);
            if !parser.takes_comma() {
                break;
            }
        }
        rule.link = LinkConditions::parse(&mut parser)?;
        rule.check_use(rights)?;
        rule.check_values(rights)?;
        match parser.tokens {
            [] => Ok(rule),
            _ => Err(format!("unexpected {} after the end of the rule", parser.next_text())),
        }
    }
}

impl AccessRule {
    /// Checks that a rule about controls and extended operations does not refer to entries. `rights` are the rights
    /// that the rule lists.
    fn check_use(&self, rights: Rights) -> Result<(), String> {
        if !rights.has(USE) {
            return Ok(());
        }
        let is_of_entries = self.place.is_some() || !self.but_places.is_empty() || self.filter.is_some();
        let tests_entries = |requester: &RequesterSpec| {
            matches!(requester, RequesterSpec::Itself | RequesterSpec::NamedBy(_))
        };
        if rights != USE || is_of_entries || self.requesters.iter().any(tests_entries) {
            return Err("use does not apply to entries: a rule for it has no other right, no place and no filter, and \
                        its requesters are neither self nor named by an attribute"
                .into());
        }
        Ok(())
    }

    /// Checks that a rule about single values names exactly one attribute, and lists only rights that apply to single
    /// values. `rights` are the rights that the rule lists.
    fn check_values(&self, rights: Rights) -> Result<(), String> {
        if self.values.is_none() {
            return Ok(());
        }
        let is_kind = |name: &String| matches!(name.as_bytes(), [b'*' | b'+' | b'@', ..]);
        if self.attributes.len() != 1
            || self.attributes.iter().any(is_kind)
            || !self.but_attributes.is_empty()
        {
            return Err("a rule for some values names the one attribute type that they are of".into());
        }
        if rights.without(OF_VALUES) != Rights::default() {
            return Err(
                "some values can be read, searched, compared and written: a rule for them has no other right"
                    .into(),
            );
        }
        Ok(())
    }
}

/// Rights that a rule can grant for single values.
const OF_VALUES: Rights = Rights(COMPARE.0 | SEARCH.0 | READ.0 | WRITE.0);

impl Parser<'_, '_> {
    fn rights(&mut self) -> Result<Rights, String> {
        let mut rights = Rights::default();
        for word in self.list("a right")? {
            let Some(right) = Rights::of_word(word) else {
                let known: Vec<_> = RIGHTS.iter().map(|(known, _)| *known).collect();
                return Err(format!("{word:?} is not a right: choose from {}", known.join(", ")));
            };
            rights = rights.with(right);
        }
        Ok(rights)
    }

    /// Parses the keywords before the DN of a place. Returns `None` if the next token starts another clause of the
    /// rule.
    fn reach(&mut self) -> Result<Option<Reach>, String> {
        for (word, reach) in [("in", Reach::In), ("at", Reach::At), ("below", Reach::Below)] {
            if self.takes(word) {
                return Ok(Some(reach));
            }
        }
        if !self.takes("children") {
            return Ok(None);
        }
        match self.takes("of") {
            true => Ok(Some(Reach::Children)),
            false => Err(format!("expected \"of\" and a DN, found {}", self.next_text())),
        }
    }

    /// Parses the attributes or places after "but not".
    fn exception(&mut self, rule: &mut AccessRule) -> Result<(), String> {
        if self.takes("of") {
            let names = self.list("an attribute")?;
            rule.but_attributes.extend(names.into_iter().map(str::to_owned));
            return Ok(());
        }
        let Some(reach) = self.reach()? else {
            return Err(format!("expected attributes or a place, found {}", self.next_text()));
        };
        loop {
            rule.but_places.push((reach, self.quoted("a DN")?));
            if !self.takes_comma() {
                return Ok(());
            }
        }
    }

    fn requester(&mut self) -> Result<RequesterSpec, String> {
        const WANTED: &str = "anyone, anonymous, authenticated, self, user, users in, group (a DN each), \
             users matching (a filter) or named by ATTRIBUTE";
        Ok(match self.word(WANTED)? {
            "anyone" => RequesterSpec::Anyone,
            "anonymous" => RequesterSpec::Anonymous,
            "authenticated" => RequesterSpec::Authenticated,
            "self" => RequesterSpec::Itself,
            "user" => RequesterSpec::User(self.quoted("a DN")?),
            "users" if self.takes("in") => {
                let place = self.quoted("a DN")?;
                match self.takes("matching") {
                    true => RequesterSpec::UsersMatching(Some(place), self.quoted("a filter")?),
                    false => RequesterSpec::UsersIn(place),
                }
            }
            "users" if self.takes("matching") => RequesterSpec::UsersMatching(None, self.quoted("a filter")?),
            "group" => RequesterSpec::Group(self.quoted("a DN")?),
            "named" if self.takes("by") => RequesterSpec::NamedBy(self.word("an attribute")?.to_owned()),
            other => return Err(format!("expected {WANTED}, found {other:?}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_rules() {
        let rule =
            AccessRule::parse("phones: deny read of homePhone, mobile to anonymous, authenticated").unwrap();
        assert_eq!((rule.name.as_str(), rule.is_allow), ("phones", false));
        assert_eq!(rule.rights, READ.with(SEARCH).with(COMPARE));
        assert_eq!(rule.attributes, ["homePhone", "mobile"]);
        assert_eq!(
            (rule.place, rule.requesters),
            (None, vec![RequesterSpec::Anonymous, RequesterSpec::Authenticated])
        );
        let text =
            "help desk : allow write,read of userPassword in \"ou=people,dc=example\" to group \"cn=a, o=b\"";
        let rule = AccessRule::parse(text).unwrap();
        assert_eq!((rule.name.as_str(), rule.is_allow), ("help desk", true));
        assert_eq!(
            rule.rights,
            WRITE.with(READ).with(SEARCH).with(COMPARE).with(BROWSE).with(JOIN).with(LEAVE)
        );
        assert_eq!(rule.place, Some((Reach::In, "ou=people,dc=example".to_owned())));
        assert_eq!(rule.requesters, [RequesterSpec::Group("cn=a, o=b".to_owned())]);
        assert_eq!(AccessRule::parse(&text.replace('"', "'")), Ok(rule));
        let text = "x: deny write of mail values matching '(mail=*@b)' matching '(sn=a)' to self";
        let rule = AccessRule::parse(text).unwrap();
        assert_eq!((rule.values.as_deref(), rule.filter.as_deref()), (Some("(mail=*@b)"), Some("(sn=a)")));
        let text = "x: allow read in 'o=x' matching '(sn=a*)' to users in 'o=y' matching '(uid=b)', \
                    users matching '(uid=c)'";
        let rule = AccessRule::parse(text).unwrap();
        assert_eq!(rule.filter.as_deref(), Some("(sn=a*)"));
        let matching = |place: Option<&str>, filter: &str| {
            RequesterSpec::UsersMatching(place.map(str::to_owned), filter.to_owned())
        };
        assert_eq!(rule.requesters, [matching(Some("o=y"), "(uid=b)"), matching(None, "(uid=c)")]);
        let all = "x: allow browse below \"\" to anyone, self, user \"\", users in \"o=x\", named by manager";
        let rule = AccessRule::parse(all).unwrap();
        assert_eq!((rule.rights, rule.place), (BROWSE, Some((Reach::Below, String::new()))));
        assert_eq!(rule.requesters.len(), 5);
        let all = Rights(!USE.0);
        assert_eq!(AccessRule::parse("x: deny browse to anyone").unwrap().rights, all);
        let rule = AccessRule::parse("x: allow use of paging, 1.2.3 to anonymous from '::1'").unwrap();
        assert_eq!(
            (rule.rights, &rule.attributes[..]),
            (USE, &["paging".to_owned(), "1.2.3".to_owned()][..])
        );
    }

    #[test]
    fn reports_what_is_wrong_with_a_rule() {
        for (text, expected) in [
            ("allow read to anyone", "begins with its name"),
            (": allow read to anyone", "a name of 1 to"),
            ("x: permit read to anyone", "expected allow or deny, found \"permit\""),
            ("x: allow", "expected a right, found the end of the rule"),
            ("x: allow see to anyone", "\"see\" is not a right: choose from browse, "),
            ("x: allow read,, to anyone", "expected a right, found a comma"),
            ("x: allow read of to anyone", ", found \"anyone\""),
            ("x: allow read in ou=x to anyone", "expected a DN in quotes, found \"ou=x\""),
            ("x: allow read in \"ou=x to anyone", "is not closed"),
            ("x: allow read matching (sn=a) to anyone", "expected a filter in quotes, found \"(sn=a)\""),
            ("x: allow read", ", found the end of the rule"),
            ("x: allow read to", ", found the end of the rule"),
            ("x: allow read to users \"ou=x\"", ", found \"users\""),
            ("x: allow read to anyone else", "unexpected \"else\" after the end"),
            ("x: allow use, read to anyone", "use does not apply to entries"),
            ("x: deny use in 'o=x' to anyone", "use does not apply to entries"),
            ("x: deny use but not at 'o=x' to anyone", "use does not apply to entries"),
            ("x: deny use matching '(sn=a)' to anyone", "use does not apply to entries"),
            ("x: deny use to anonymous, self", "use does not apply to entries"),
            ("x: deny use to named by owner", "use does not apply to entries"),
            ("x: allow read of mail values '(mail=a)' to anyone", "matching"),
            ("x: allow read of mail values matching (mail=a) to anyone", "a filter in quotes"),
            ("x: allow read values matching '(mail=a)' to anyone", "names the one attribute type"),
            (
                "x: allow read of mail, cn values matching '(mail=a)' to anyone",
                "names the one attribute type",
            ),
            ("x: allow read of * values matching '(mail=a)' to anyone", "names the one attribute type"),
            ("x: allow read of @person values matching '(sn=a)' to anyone", "names the one attribute type"),
            (
                "x: allow read of cn values matching '(cn=a)' but not of sn to anyone",
                "names the one attribute type",
            ),
            (
                "x: allow read, browse of cn values matching '(cn=a)' to anyone",
                "a rule for them has no other right",
            ),
            ("x: allow join of cn values matching '(cn=a)' to anyone", "a rule for them has no other right"),
            (
                "x: deny use of paging values matching '(cn=a)' to anyone",
                "a rule for them has no other right",
            ),
        ] {
            let error = AccessRule::parse(text).unwrap_err();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
    }
}
