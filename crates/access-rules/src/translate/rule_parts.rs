//! Rule parts: the parts of an access rule that a translation produces. The text of the rule is made from these parts.
//!
//! The text of a rule has no escapes, so a DN or a name from the source could end a quote and begin another part.
//! Therefore a text is returned only if the directory's own parser parses it as the intended rule.

use directory::access::{AccessRule, LinkConditions, Reach, RequesterSpec, Rights};
use ipnet::IpNet;
use ldap::{Dn, FilterBuf};
use schema::{Schema, Secrecy, Secrets};

/// Maximum size in octets of a rule's name without the number that makes it unique. The limit for the whole name is
/// 100.
const NAME_MAX: usize = 90;

/// An access rule without its name.
#[derive(Clone, Debug, Default)]
pub(super) struct RuleParts {
    pub(super) is_allow: bool,
    /// Rights, as written in rules.
    pub(super) rights: Vec<&'static str>,
    /// Attribute types, or OIDs of controls and extended operations.
    pub(super) attributes: Vec<String>,
    pub(super) but_attributes: Vec<String>,
    pub(super) values: Option<String>,
    pub(super) place: Option<(Reach, String)>,
    pub(super) but_places: Vec<(Reach, String)>,
    pub(super) filter: Option<String>,
    pub(super) is_where_seen: bool,
    pub(super) requesters: Vec<RequesterSpec>,
    pub(super) link: LinkConditions,
}

impl RuleParts {
    /// Returns the text of the rule.
    ///
    /// # Errors
    /// A part is not valid, or the parser would read a different rule from the text.
    pub(super) fn text(&self, name: &str) -> Result<String, String> {
        self.check()?;
        let text = self.render(name)?;
        let rights = Rights::of_rule(&self.rights, self.is_allow, self.is_where_seen);
        let meant = AccessRule {
            name: name.to_owned(),
            is_allow: self.is_allow,
            rights: rights.ok_or("a right is none here")?,
            attributes: self.attributes.clone(),
            values: self.values.clone(),
            but_attributes: self.but_attributes.clone(),
            place: self.place.clone(),
            but_places: self.but_places.clone(),
            filter: self.filter.clone(),
            requesters: self.requesters.clone(),
            link: self.link.clone(),
        };
        match AccessRule::parse(&text) {
            Ok(read) if read == meant => Ok(text),
            Ok(_) => Err(format!("{text:?} would be read as another rule than the one that is meant")),
            Err(error) => Err(format!("{text:?} would not be read as a rule: {error}")),
        }
    }

    /// Returns a requester whom the rule allows to read passwords of other users. No rule has this effect in Pando. If
    /// the rule is for all attributes, only a requester that is a single user, such as a replicator, is returned.
    pub(super) fn reader_of_passwords(&self) -> Option<&RequesterSpec> {
        if !self.is_allow || !self.rights.contains(&"read") {
            return None;
        }
        let schema = Schema::shipped();
        let secrets = Secrets::of(&schema, &[]);
        let is_password = |name: &String| {
            let known = schema.attribute_type(name);
            known.is_some_and(|known| secrets.of_type(known.id) >= Secrecy::Administrator)
        };
        let is_named = self.attributes.iter().any(is_password);
        let has = |names: &[String], name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        let is_for_all = (self.attributes.is_empty() || has(&self.attributes, "*"))
            && !has(&self.but_attributes, "userPassword");
        self.requesters.iter().find(|requester| match requester {
            RequesterSpec::Itself => false,
            RequesterSpec::User(_) => is_named || is_for_all,
            _ => is_named,
        })
    }

    /// Checks that the names, DNs and filters in the rule are valid.
    fn check(&self) -> Result<(), String> {
        let places = self.place.iter().chain(&self.but_places).map(|(_, dn)| dn);
        places.chain(self.requesters.iter().filter_map(dn_of)).try_for_each(|dn| check_dn(dn))?;
        let of_requesters = self.requesters.iter().filter_map(|requester| match requester {
            RequesterSpec::UsersMatching(_, filter) => Some(filter),
            _ => None,
        });
        for filter in self.filter.iter().chain(&self.values).chain(of_requesters) {
            FilterBuf::parse(filter).map_err(|error| format!("{filter:?} is no filter: {error}"))?;
        }
        let named = self.requesters.iter().filter_map(|requester| match requester {
            RequesterSpec::NamedBy(attribute) => Some(attribute),
            _ => None,
        });
        match self.attributes.iter().chain(&self.but_attributes).chain(named).find(|name| !is_name(name)) {
            Some(name) => Err(format!("{name:?} is no name of an attribute type")),
            None => Ok(()),
        }
    }

    fn render(&self, name: &str) -> Result<String, String> {
        let word = if self.is_allow { "allow" } else { "deny" };
        let mut text = format!("{name}: {word} {}", self.rights.join(", "));
        if !self.attributes.is_empty() {
            text += &format!(" of {}", self.attributes.join(", "));
        }
        if !self.but_attributes.is_empty() {
            text += &format!(" but not of {}", self.but_attributes.join(", "));
        }
        if let Some(filter) = &self.values {
            text += &format!(" values matching {}", quoted(filter)?);
        }
        if let Some((reach, dn)) = &self.place {
            text += &format!(" {} {}", word_of(*reach), quoted(dn)?);
        }
        for (reach, dn) in &self.but_places {
            text += &format!(" but not {} {}", word_of(*reach), quoted(dn)?);
        }
        if let Some(filter) = &self.filter {
            text += &format!(" matching {}", quoted(filter)?);
        }
        if self.is_where_seen {
            text += " where seen";
        }
        let requesters: Vec<_> = self.requesters.iter().map(requester_text).collect::<Result<_, _>>()?;
        text += &format!(" to {}", requesters.join(", "));
        Ok(text + &link_text(&self.link))
    }
}

/// Checks that a text is a DN (RFC 4514). The separator `;`, which RFC 2253 permits, is permitted here too.
pub(super) fn check_dn(dn: &str) -> Result<(), String> {
    match Dn::parse(dn) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{dn:?} is no DN: {error}")),
    }
}

/// RDNs of a DN, each with its attributes and values.
pub(super) type Path = Vec<Vec<(String, Vec<u8>)>>;

/// Returns the RDNs of a DN, root first, for comparison with other paths. Attribute names are OIDs if the shipped
/// schema defines them. Values are in lower case. The other server may compare DNs differently, because the schema of
/// that server is not available here. The path of an invalid DN is empty.
pub(super) fn path(dn: &str) -> Path {
    let schema = Schema::shipped();
    let dn = Dn::parse(dn).unwrap_or_default();
    let name_of = |name: &str| match schema.attribute_type(name) {
        Some(known) => known.oid.clone(),
        None => name.to_ascii_lowercase(),
    };
    let rdns = dn.rdns().rev().map(|rdn| {
        let value = |value: &[u8]| String::from_utf8_lossy(value).to_lowercase().into_bytes();
        let mut avas: Vec<_> =
            rdn.avas.iter().map(|ava| (name_of(ava.attribute), value(&ava.value))).collect();
        avas.sort();
        avas
    });
    rdns.collect()
}

/// Returns true if a DN is at or below `above`. Both DNs must be valid.
pub(super) fn is_in(dn: &str, above: &str) -> bool {
    path(dn).starts_with(&path(above))
}

/// Returns a name for a rule. No rule in `taken` has this name. The name has no characters that end a name in a rule,
/// and is not too long.
pub(super) fn free_name(wanted: &str, taken: &[String]) -> String {
    let clean = |c: char| if matches!(c, ':' | '"' | '\'') || c.is_control() { ' ' } else { c };
    let mut name: String = wanted.chars().map(clean).collect();
    name = name.trim().to_owned();
    while name.len() > NAME_MAX {
        name.pop();
    }
    let name = if name.trim().is_empty() { "rule" } else { name.trim() };
    let is_taken = |name: &str| {
        let known = |rule: &String| rule.split_once(':').map(|(known, _)| known.to_lowercase());
        taken.iter().any(|rule| known(rule) == Some(name.to_lowercase()))
    };
    let numbered = (2_u64..).map(|number| format!("{name} {number}"));
    let mut names = std::iter::once(name.to_owned()).chain(numbered);
    names.find(|name| !is_taken(name)).unwrap_or_default()
}

fn dn_of(requester: &RequesterSpec) -> Option<&String> {
    match requester {
        RequesterSpec::User(dn) | RequesterSpec::UsersIn(dn) | RequesterSpec::Group(dn) => Some(dn),
        RequesterSpec::UsersMatching(dn, _) => dn.as_ref(),
        _ => None,
    }
}

/// Returns true if a rule can contain this word as the name of an attribute, a control or an extended operation. The
/// word is a name, an OID, `*`, `+` or `@class`, without options.
fn is_name(word: &str) -> bool {
    let name = word.strip_prefix('@').unwrap_or(word);
    let is_name_octet = |octet: u8| octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_');
    matches!(word, "*" | "+") || (!name.is_empty() && name.bytes().all(is_name_octet))
}

fn word_of(reach: Reach) -> &'static str {
    match reach {
        Reach::In => "in",
        Reach::At => "at",
        Reach::Below => "below",
        Reach::Children => "children of",
    }
}

/// Quotes a text. Fails if the text contains the quote.
fn quoted(text: &str) -> Result<String, String> {
    match (text.contains('\''), text.contains('"')) {
        (false, _) => Ok(format!("'{text}'")),
        (true, false) => Ok(format!("\"{text}\"")),
        (true, true) => Err(format!("{text:?} has both kinds of quotes")),
    }
}

fn requester_text(requester: &RequesterSpec) -> Result<String, String> {
    Ok(match requester {
        RequesterSpec::User(dn) => format!("user {}", quoted(dn)?),
        RequesterSpec::UsersIn(dn) => format!("users in {}", quoted(dn)?),
        RequesterSpec::UsersMatching(None, filter) => format!("users matching {}", quoted(filter)?),
        RequesterSpec::UsersMatching(Some(dn), filter) => {
            format!("users in {} matching {}", quoted(dn)?, quoted(filter)?)
        }
        RequesterSpec::Group(dn) => format!("group {}", quoted(dn)?),
        other => other.to_string(),
    })
}

fn link_text(link: &LinkConditions) -> String {
    let mut text = String::new();
    if !link.networks.is_empty() {
        let networks: Vec<_> = link.networks.iter().map(network_text).collect();
        text += &format!(" from {}", networks.join(", "));
    }
    if link.over_tls {
        text += " over tls";
    }
    if !link.methods.is_empty() {
        text += &format!(" bound by {}", link.methods.join(", "));
    }
    if let Some(days) = link.days {
        let named: Vec<_> = DAYS.iter().zip(days).filter(|(_, is_on)| *is_on).map(|(day, _)| *day).collect();
        text += &format!(" on {}", named.join(", "));
    }
    if let Some((start, end)) = link.hours {
        let clock = |minutes: u64| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        text += &format!(" between {} and {}", clock(start), clock(end));
    }
    if !link.listeners.is_empty() {
        let names: Vec<_> = link.listeners.iter().map(ToString::to_string).collect();
        text += &format!(" at listener {}", names.join(", "));
    }
    text
}

fn network_text(network: &IpNet) -> String {
    match network.prefix_len() == network.max_prefix_len() {
        true => format!("'{}'", network.addr()),
        false => format!("'{network}'"),
    }
}

/// Days of the week as written in rules.
pub(super) const DAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

#[cfg(test)]
mod tests {
    use super::*;

    fn to_user(dn: &str) -> RuleParts {
        let requesters = vec![RequesterSpec::User(dn.to_owned())];
        RuleParts { is_allow: true, rights: vec!["read"], requesters, ..RuleParts::default() }
    }

    #[test]
    fn rule_text_parses_as_intended_or_is_refused() {
        let check = |meant: &RuleParts, expected: Result<&str, &str>| match (meant.text("a"), expected) {
            (Ok(text), Ok(expected)) => assert_eq!(text, expected),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (found, _) => panic!("{found:?} in place of {expected:?}"),
        };
        check(&to_user("cn=a\\; b,dc=x"), Ok("a: allow read to user 'cn=a\\; b,dc=x'"));
        check(&to_user("cn=o'a,dc=x"), Ok("a: allow read to user \"cn=o'a,dc=x\""));
        check(&to_user("cn=o'a\\\",dc=x"), Err("both kinds of quotes"));
        check(&to_user("cn=a;dc=x"), Ok("a: allow read to user 'cn=a;dc=x'"));
        check(&to_user("cn=a,x"), Err("is no DN"));
        let of = |name: &str| RuleParts { attributes: vec![name.to_owned()], ..to_user("cn=a") };
        check(&of("cn"), Ok("a: allow read of cn to user 'cn=a'"));
        for name in ["cn to anyone", "cn,sn", "", "cn;lang-de", "@", "userCertificate;binary", "a*"] {
            check(&of(name), Err("is no name of an attribute type"));
        }
        let matching = RuleParts { filter: Some("(cn=a".to_owned()), ..to_user("cn=a") };
        check(&matching, Err("is no filter"));
        let nobody = RuleParts { requesters: Vec::new(), ..to_user("cn=a") };
        check(&nobody, Err("would not be read as a rule"));
        let use_of_cn =
            RuleParts { rights: vec!["use"], filter: Some("(cn=a)".to_owned()), ..to_user("cn=a") };
        check(&use_of_cn, Err("would not be read as a rule"));
    }

    #[test]
    fn rule_names_are_unique_and_short() {
        let taken = ["Read: x".to_owned(), "read 2: y".to_owned()];
        for (wanted, expected) in [
            ("read", "read 3"),
            ("a: 'b'\n", "a   b"),
            (" ", "rule"),
            (&"ö".repeat(80), &"ö".repeat(45)),
            (&format!("{} b", "a".repeat(89)), &"a".repeat(89)),
        ] {
            assert_eq!(free_name(wanted, &taken), expected);
        }
    }

    #[test]
    fn dns_at_or_below_another_are_recognized() {
        for (dn, above, expected) in [
            ("ou=a,dc=x", "DC=X", true),
            ("ou=a, dc=x", "ou=A,dc=x", true),
            ("ou=a,dc=y", "dc=x", false),
            ("ou=ab,dc=x", "ou=a,dc=x", false),
            ("dc=x", "ou=a,dc=x", false),
            ("dc=x", "", true),
        ] {
            assert_eq!(is_in(dn, above), expected, "{dn} {above}");
        }
    }
}
