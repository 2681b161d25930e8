//! Random access rules and an evaluator for them. The evaluator is written only from `docs/how-to/access-rules.md`,
//! independently of the code under test.

use std::net::IpAddr;

use directory::{BindMethod, ClientLink};
use fastrand::Rng;

use crate::filters::{Filter, is_described, nested};
use crate::tree::{GROUPS, HIDDEN, PEOPLE, STAFF, SUFFIX, Tree, describes, is_at_or_below, parent, user};

/// Keyword of a right.
pub(crate) type Right = &'static str;

pub(crate) const RIGHTS: [Right; 6] = ["browse", "compare", "search", "read", "write", "reset"];

/// Attribute types of the tests, each with the classes (`@class`) that contain it, and its supertypes.
pub(crate) const TYPES: [(&str, &[&str], &[&str]); 15] = [
    ("objectClass", &["person", "organizationalUnit"], &[]),
    ("cn", &["person"], &["name"]),
    ("sn", &["person"], &["name"]),
    ("ou", &["organizationalUnit"], &["name"]),
    ("title", &[], &["name"]),
    ("uid", &[], &[]),
    ("mail", &[], &[]),
    ("dc", &[], &[]),
    ("telephoneNumber", &["person", "organizationalUnit"], &[]),
    ("description", &["person", "organizationalUnit"], &[]),
    ("manager", &[], &["distinguishedName"]),
    ("member", &[], &["distinguishedName"]),
    ("memberOf", &[], &[]),
    ("isMemberOf", &[], &[]),
    ("entryDN", &[], &[]),
];

pub(crate) fn is_operational(name: &str) -> bool {
    matches!(
        name,
        "memberOf" | "isMemberOf" | "entryDN" | "numSubordinates" | "hasSubordinates" | "entryUUID"
    )
}

/// The requesters to whom a rule applies.
#[derive(Clone, Debug)]
pub(crate) enum Who {
    Anyone,
    Anonymous,
    Authenticated,
    Itself,
    User(String),
    UsersIn(String),
    /// Users that match the filter; if a place is given, only users in that place.
    UsersMatching(Option<String>, Filter),
    Group(String),
    NamedBy(&'static str),
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) is_allow: bool,
    pub(crate) rights: Vec<Right>,
    /// Attributes that the rule names; empty if it names none.
    pub(crate) attributes: Vec<&'static str>,
    pub(crate) place: Option<(&'static str, String)>,
    /// Filter that the values of the rule's only attribute must match.
    pub(crate) values: Option<Filter>,
    /// Attributes that the rule excludes.
    pub(crate) but_attributes: Vec<&'static str>,
    pub(crate) but_places: Vec<(&'static str, String)>,
    /// Filter that the entries must match.
    pub(crate) filter: Option<Filter>,
    /// Whether the rule covers only entries that other rules permit to browse.
    pub(crate) where_seen: bool,
    pub(crate) who: Vec<Who>,
    /// First octet of the network that requests must come from.
    pub(crate) network: Option<u8>,
    pub(crate) over_tls: bool,
    /// Required bind method.
    pub(crate) method: Option<&'static str>,
    pub(crate) day: Option<&'static str>,
    /// Hours between which the rule applies.
    pub(crate) hours: Option<(u8, u8)>,
    /// Listeners at which the rule applies.
    pub(crate) listeners: &'static [&'static str],
}

fn some<'a, T>(rng: &mut Rng, all: &'a [T]) -> &'a T {
    &all[rng.usize(..all.len())]
}

impl Rule {
    pub(crate) fn random(rng: &mut Rng, is_allow: bool) -> Rule {
        let mut rights: Vec<Right> = (0..rng.usize(1..3)).map(|_| *some(rng, &RIGHTS[..4])).collect();
        rights.extend((rng.u8(0..3) == 0).then(|| *some(rng, &RIGHTS[4..])));
        let named = [
            "mail",
            "description",
            "sn",
            "cn",
            "telephoneNumber",
            "objectClass",
            "manager",
            "member",
            "userPassword",
        ];
        let more = ["*", "+", "@person", "name", "memberOf", "isMemberOf", "uid", "ou", "title"];
        let attributes = match rng.u8(0..5) {
            0 | 1 => Vec::new(),
            2 => vec![*some(rng, &more)],
            _ => (0..rng.usize(1..3)).map(|_| *some(rng, &named)).collect(),
        };
        let places = [SUFFIX, PEOPLE, STAFF, GROUPS, HIDDEN, "ou=nowhere,dc=example,dc=com"];
        let place = (rng.u8(0..3) > 0).then(|| {
            let dn = match rng.u8(0..4) {
                0 => user(rng.usize(..4)),
                _ => (*some(rng, &places)).to_owned(),
            };
            (*some(rng, &["in", "at", "below", "children of"]), dn)
        });
        let but_attributes = match rng.u8(0..4) {
            0 => vec![*some(rng, &named), *some(rng, &more)],
            _ => Vec::new(),
        };
        let but_places = match rng.u8(0..4) {
            0 => vec![(*some(rng, &["in", "at", "below", "children of"]), (*some(rng, &places)).to_owned())],
            _ => Vec::new(),
        };
        let of_values = (rng.u8(0..4) == 0).then(|| {
            let attribute = *some(rng, &["mail", "description", "cn", "telephoneNumber", "name"]);
            rights.retain(|right| ["compare", "search", "read", "write"].contains(right));
            if rights.is_empty() || rng.bool() {
                rights.push("write");
            }
            (attribute, Filter::of_values(rng, attribute, 2))
        });
        let (attributes, but_attributes) = match &of_values {
            Some((attribute, _)) => (vec![*attribute], Vec::new()),
            None => (attributes, but_attributes),
        };
        let who = (0..rng.usize(1..3)).map(|_| Who::random(rng)).collect();
        let network = (rng.u8(0..6) == 0).then(|| if rng.bool() { 10 } else { 127 });
        Rule {
            is_allow,
            rights,
            attributes,
            values: of_values.map(|(_, filter)| filter),
            place,
            but_attributes,
            but_places,
            filter: (rng.u8(0..4) == 0).then(|| Filter::random(rng, 2)),
            where_seen: rng.u8(0..5) == 0,
            who,
            network,
            over_tls: rng.u8(0..10) == 0,
            method: (rng.u8(0..16) == 0).then(|| *some(rng, &["simple", "sasl", "EXTERNAL", "PLAIN"])),
            day: (rng.u8(0..16) == 0).then(|| *some(rng, &["monday", "sunday", "friday"])),
            hours: (rng.u8(0..16) == 0).then(|| *some(rng, &[(8, 18), (18, 8), (0, 24)])),
            listeners: match rng.u8(0..16) {
                0 if rng.bool() => &["ldapi"],
                0 => &["ldap", "ldaps"],
                _ => &[],
            },
        }
    }

    /// Returns the text of the rule, with this name.
    pub(crate) fn text(&self, name: &str) -> String {
        let allow = if self.is_allow { "allow" } else { "deny" };
        let mut text = format!("{name}: {allow} {}", self.rights.join(", "));
        if !self.attributes.is_empty() {
            text += &format!(" of {}", self.attributes.join(", "));
        }
        if let Some(filter) = &self.values {
            text += &format!(" values matching '{}'", filter.text());
        }
        if !self.but_attributes.is_empty() {
            text += &format!(" but not of {}", self.but_attributes.join(", "));
        }
        if let Some((word, dn)) = &self.place {
            text += &format!(" {word} '{dn}'");
        }
        self.but_places.iter().for_each(|(word, dn)| text += &format!(" but not {word} '{dn}'"));
        if let Some(filter) = &self.filter {
            text += &format!(" matching '{}'", filter.text());
        }
        if self.where_seen {
            text += " where seen";
        }
        let who: Vec<_> = self.who.iter().map(Who::text).collect();
        text += &format!(" to {}", who.join(", "));
        if let Some(network) = self.network {
            text += &format!(" from '{network}.0.0.0/8', 'fe80::1'");
        }
        if self.over_tls {
            text += " over tls";
        }
        if let Some(day) = self.day {
            text += &format!(" on {day}");
        }
        if let Some(method) = self.method {
            text += &format!(" bound by {method}");
        }
        if !self.listeners.is_empty() {
            text += &format!(" at listener {}", self.listeners.join(", "));
        }
        match self.hours {
            Some((from, to)) => text + &format!(" between {from:02}:00 and {to:02}:00"),
            None => text,
        }
    }

    /// Returns true if the rule applies to requests of this connection. If the connection is unknown, a `deny` rule
    /// applies and an `allow` rule does not.
    fn holds_over(&self, link: Option<ClientLink>) -> bool {
        let mut known = Vec::new();
        known.extend(self.network.map(|network| {
            link.map(|link| matches!(link.address, Some(IpAddr::V4(of)) if of.octets()[0] == network))
        }));
        known.extend(self.over_tls.then(|| link.map(|link| link.is_protected)));
        known.extend(self.method.map(|wanted| {
            let method = link.and_then(|link| link.method);
            method.map(|method| match method {
                BindMethod::None | BindMethod::MailToken => false,
                BindMethod::Simple => wanted == "simple",
                BindMethod::Sasl(mechanism) => wanted == "sasl" || wanted == mechanism.name(),
            })
        }));
        known.extend((!self.listeners.is_empty()).then(|| {
            let listener = link.and_then(|link| link.listener);
            listener.map(|listener| self.listeners.contains(&listener.as_str()))
        }));
        let at = link.and_then(|link| link.at).map(|at| at.to_string());
        known.extend(self.day.map(|day| at.as_ref().map(|at| at.starts_with(day))));
        known.extend(self.hours.map(|(from, to)| {
            let hour: u8 = at.as_ref()?.split_once(' ').unwrap().1[..2].parse().unwrap();
            Some(if from < to { from <= hour && hour < to } else { hour >= from || hour < to })
        }));
        match known.contains(&Some(false)) {
            true => false,
            false => !self.is_allow || !known.contains(&None),
        }
    }

    fn is_for(&self, requester: &str, dn: &str, tree: &Tree) -> bool {
        self.who.iter().any(|who| who.is(requester, dn, tree))
    }

    fn is_at(&self, dn: &str, tree: &Tree) -> bool {
        self.place.as_ref().is_none_or(|place| is_in(place, dn))
            && !self.but_places.iter().any(|place| is_in(place, dn))
            && self.filter.as_ref().is_none_or(|filter| filter.matches(tree, dn))
    }

    /// Returns true if the rule covers the right. `allow read` allows search and compare, and any `allow` rule allows
    /// browse. `deny read` denies search and compare, and `deny browse` denies everything. The right to write
    /// userPassword includes the right to reset userPassword.
    fn has(&self, right: Right) -> bool {
        let named = |right: &str| self.rights.contains(&right);
        let by_read = matches!(right, "search" | "compare") && named("read");
        let by_write = right == "reset" && named("write") && self.is_about("userPassword");
        let by_greater = by_read || by_write;
        match self.is_allow {
            true => named(right) || by_greater || (right == "browse" && !self.where_seen),
            false => named(right) || by_greater || named("browse"),
        }
    }

    fn is_about(&self, attribute: &str) -> bool {
        // A rule without attributes covers userPassword only if it denies.
        let is_any = self.attributes.is_empty() && !(self.is_allow && attribute == "userPassword");
        (is_any || names(&self.attributes, attribute)) && !names(&self.but_attributes, attribute)
    }
}

/// A rule about controls and extended operations.
#[derive(Clone, Debug)]
pub(crate) struct UseRule {
    is_allow: bool,
    /// Names or OIDs of controls and operations; empty for all.
    names: Vec<&'static str>,
    but: Vec<&'static str>,
    who: Vec<Who>,
    network: Option<u8>,
}

/// Names of some controls with their OIDs.
pub(crate) const USES: [(&str, &str); 3] = [
    ("paging", "1.2.840.113556.1.4.319"),
    ("who-am-i", "1.3.6.1.4.1.4203.1.11.3"),
    ("manage-dsa-it", "2.16.840.1.113730.3.4.2"),
];

impl UseRule {
    pub(crate) fn random(rng: &mut Rng) -> UseRule {
        let name = |rng: &mut Rng| {
            let (word, oid) = some(rng, &USES);
            if rng.bool() { *word } else { *oid }
        };
        let names = (0..rng.usize(..3)).map(|_| name(rng)).collect();
        let but = (0..rng.usize(..2)).map(|_| name(rng)).collect();
        let of_no_entry = |rng: &mut Rng| loop {
            match Who::random(rng) {
                Who::Itself | Who::NamedBy(_) => {}
                who => return who,
            }
        };
        let who = (0..rng.usize(1..3)).map(|_| of_no_entry(rng)).collect();
        let network = (rng.u8(0..3) == 0).then(|| if rng.bool() { 10 } else { 127 });
        UseRule { is_allow: rng.bool(), names, but, who, network }
    }

    pub(crate) fn text(&self, name: &str) -> String {
        let allow = if self.is_allow { "allow" } else { "deny" };
        let mut text = format!("{name}: {allow} use");
        for (word, names) in [(" of ", &self.names), (" but not of ", &self.but)] {
            if !names.is_empty() {
                text += &format!("{word}{}", names.join(", "));
            }
        }
        let who: Vec<_> = self.who.iter().map(Who::text).collect();
        text += &format!(" to {}", who.join(", "));
        self.network.map_or(text.clone(), |network| text + &format!(" from '{network}.0.0.0/8'"))
    }

    fn is_for(&self, requester: &str, tree: &Tree, link: Option<ClientLink>) -> bool {
        let is_near = self.network.is_none_or(|network| match link {
            None => !self.is_allow,
            Some(link) => matches!(link.address, Some(IpAddr::V4(of)) if of.octets()[0] == network),
        });
        is_near && self.who.iter().any(|who| who.is(requester, "", tree))
    }
}

/// Returns true if one of `USES` may be used: no rule denies it, and either an allowing rule applies to the requester
/// or no allowing rule exists.
pub(crate) fn may_use(
    rules: &[UseRule],
    (requester, tree): (&str, &Tree),
    link: Option<ClientLink>,
    (word, oid): (&str, &str),
) -> bool {
    let named = |names: &[&str]| names.contains(&word) || names.contains(&oid);
    let about = |rule: &&UseRule| (rule.names.is_empty() || named(&rule.names)) && !named(&rule.but);
    let (allows, denies): (Vec<_>, Vec<_>) = rules.iter().filter(about).partition(|rule| rule.is_allow);
    let is_for = |rule: &&UseRule| rule.is_for(requester, tree, link);
    !denies.iter().any(is_for) && (allows.is_empty() || allows.iter().any(is_for))
}

/// Returns true if an entry is at a place.
fn is_in((word, place): &(&'static str, String), dn: &str) -> bool {
    match *word {
        "at" => place == dn,
        "in" => is_at_or_below(dn, place),
        "children of" => parent(dn) == place && dn != SUFFIX,
        _ => dn != place && is_at_or_below(dn, place),
    }
}

/// Returns true if the list contains the attribute, a supertype of the attribute, or a keyword that covers the
/// attribute.
fn names(named: &[&'static str], attribute: &str) -> bool {
    let known = TYPES.iter().find(|(name, ..)| *name == attribute);
    named.iter().any(|named| match *named {
        "*" => !is_operational(attribute) && attribute != "userPassword",
        "+" => is_operational(attribute),
        _ => {
            *named == attribute
                || known.is_some_and(|(_, classes, above)| {
                    above.contains(named)
                        || named.strip_prefix('@').is_some_and(|class| classes.contains(&class))
                })
        }
    })
}

impl Who {
    fn random(rng: &mut Rng) -> Who {
        let groups = ["cn=inner", "cn=outer", "cn=secret"];
        match rng.u8(0..11) {
            0 => Who::Anyone,
            1 => Who::Anonymous,
            2 | 3 => Who::Authenticated,
            4 => Who::Itself,
            5 => Who::User(user(rng.usize(..4))),
            6 => Who::UsersIn((*some(rng, &[PEOPLE, STAFF, HIDDEN])).to_owned()),
            7 | 8 => Who::Group(format!("{},{GROUPS}", some(rng, &groups))),
            9 => {
                let place = rng.bool().then(|| (*some(rng, &[PEOPLE, STAFF, HIDDEN])).to_owned());
                Who::UsersMatching(place, Filter::random(rng, 1))
            }
            _ => Who::NamedBy(if rng.bool() { "manager" } else { "member" }),
        }
    }

    fn text(&self) -> String {
        match self {
            Who::Anyone => "anyone".to_owned(),
            Who::Anonymous => "anonymous".to_owned(),
            Who::Authenticated => "authenticated".to_owned(),
            Who::Itself => "self".to_owned(),
            Who::User(dn) => format!("user '{dn}'"),
            Who::UsersIn(dn) => format!("users in '{dn}'"),
            Who::UsersMatching(None, filter) => format!("users matching '{}'", filter.text()),
            Who::UsersMatching(Some(dn), filter) => format!("users in '{dn}' matching '{}'", filter.text()),
            Who::Group(dn) => format!("group '{dn}'"),
            Who::NamedBy(attribute) => format!("named by {attribute}"),
        }
    }

    fn is(&self, requester: &str, dn: &str, tree: &Tree) -> bool {
        let bound = !requester.is_empty();
        match self {
            Who::Anyone => true,
            Who::Anonymous => !bound,
            Who::Authenticated => bound,
            Who::Itself => bound && requester == dn,
            Who::User(user) => requester == user,
            Who::UsersIn(place) => bound && tree.contains_key(place) && is_at_or_below(requester, place),
            Who::UsersMatching(place, filter) => {
                let is_in = |place: &String| tree.contains_key(place) && is_at_or_below(requester, place);
                bound && place.as_ref().is_none_or(is_in) && filter.matches(tree, requester)
            }
            Who::Group(group) => bound && is_member(tree, requester, group, 0),
            Who::NamedBy(attribute) => {
                let named = tree.get(dn).and_then(|entry| entry.get(*attribute));
                bound && named.is_some_and(|named| named.iter().any(|name| name == requester))
            }
        }
    }
}

fn is_member(tree: &Tree, member: &str, group: &str, depth: usize) -> bool {
    let Some(group) = tree.get(group) else { return false };
    if is_described(tree, group, member) {
        return true;
    }
    let members = group.get("member");
    members.is_some_and(|members| {
        members
            .iter()
            .any(|known| known == member || (depth < 4 && is_member(tree, member, known, depth + 1)))
    })
}

/// Effective rights of a requester under access rules.
pub(crate) struct Rights<'r> {
    pub(crate) rules: &'r [Rule],
    pub(crate) requester: &'r str,
    pub(crate) tree: &'r Tree,
    pub(crate) link: Option<ClientLink>,
}

impl Rights<'_> {
    fn deciding(&self, is_allow: bool, right: Right, dn: &str, attribute: Option<&str>) -> Vec<&Rule> {
        let rules = self.rules.iter().filter(|rule| {
            rule.is_allow == is_allow
                && rule.holds_over(self.link)
                && rule.has(right)
                && attribute.is_none_or(|attribute| rule.is_about(attribute))
                && rule.is_at(dn, self.tree)
                && rule.is_for(self.requester, dn, self.tree)
        });
        rules.collect()
    }

    fn decides(&self, is_allow: bool, right: Right, dn: &str) -> bool {
        !self.deciding(is_allow, right, dn, None).is_empty()
    }

    pub(crate) fn sees(&self, dn: &str) -> bool {
        self.decides(true, "browse", dn) && !self.decides(false, "browse", dn)
    }

    /// Returns the extent to which a right covers the values of an attribute: all, some, or none. `Some` may cover no
    /// existing value.
    pub(crate) fn extent(&self, right: Right, dn: &str, attribute: &str) -> Extent {
        if !self.sees(dn) {
            return Extent::Nothing;
        }
        if attribute == "objectClass" && right == "search" {
            return Extent::All;
        }
        if matches!(attribute, "numSubordinates" | "hasSubordinates") && !self.same_everywhere() {
            return Extent::Nothing;
        }
        let allows = self.deciding(true, right, dn, Some(attribute));
        let denies = self.deciding(false, right, dn, Some(attribute));
        let is_for_all = |rule: &&Rule| rule.values.is_none();
        if allows.is_empty() || denies.iter().any(is_for_all) {
            return Extent::Nothing;
        }
        if allows.iter().any(is_for_all) && denies.is_empty() { Extent::All } else { Extent::Some }
    }

    pub(crate) fn may(&self, right: Right, dn: &str, attribute: &str) -> bool {
        self.extent(right, dn, attribute) != Extent::Nothing
    }

    /// Returns true if a right to an attribute extends to a value.
    pub(crate) fn may_value(&self, right: Right, dn: &str, attribute: &str, value: &str) -> bool {
        let is_meant = |rule: &&Rule| rule.values.as_ref().is_none_or(|filter| filter.matches_value(value));
        match self.extent(right, dn, attribute) {
            Extent::All => true,
            Extent::Nothing => false,
            Extent::Some => {
                self.deciding(true, right, dn, Some(attribute)).iter().any(is_meant)
                    && !self.deciding(false, right, dn, Some(attribute)).iter().any(is_meant)
            }
        }
    }

    /// Returns true if the password of a visible entry may be changed. The requester's own password requires the right
    /// to write, another password the right to reset.
    pub(crate) fn may_change_password(&self, dn: &str) -> bool {
        match self.requester == dn {
            true => self.may("write", dn, "userPassword"),
            false => self.decides(true, "reset", dn) && !self.decides(false, "reset", dn),
        }
    }

    /// Returns true if the same rules apply to the requester at all entries.
    fn same_everywhere(&self) -> bool {
        self.rules.iter().filter(|rule| rule.holds_over(self.link)).all(|rule| {
            let always = rule.who.iter().any(|who| {
                !matches!(who, Who::Itself | Who::NamedBy(_)) && who.is(self.requester, "", self.tree)
            });
            let sometimes = !self.requester.is_empty()
                && rule.who.iter().any(|who| matches!(who, Who::Itself | Who::NamedBy(_)));
            match (always, sometimes) {
                (true, _) => rule.place.is_none() && rule.but_places.is_empty() && rule.filter.is_none(),
                (false, sometimes) => !sometimes,
            }
        })
    }

    /// Returns the DN of the nearest visible entry at or above a name; empty if there is none.
    pub(crate) fn nearest(&self, dn: &str) -> String {
        let mut at = dn;
        while !at.is_empty() {
            if self.tree.contains_key(at) && self.sees(at) {
                return at.to_owned();
            }
            at = parent(at);
        }
        String::new()
    }

    /// Returns true if the search in the URL of a dynamic group finds an entry with the requester's rights.
    fn finds(&self, right: Right, group: &str, dn: &str) -> bool {
        describes(&self.tree[group], dn)
            && self.extent(right, group, "memberURL") == Extent::All
            && Filter::described().truth(self, dn) == Some(true)
    }

    /// Returns the visible entries that a group contains by its URL, for a filter.
    pub(crate) fn described_members(&self, group: &str) -> Vec<String> {
        let is_found = |dn: &&String| self.sees(dn) && self.finds("search", group, dn);
        self.tree.keys().filter(is_found).cloned().collect()
    }

    /// Returns the values of an attribute that a right covers. For memberOf, these are the groups whose members the
    /// right covers; for isMemberOf, also the groups of these groups.
    pub(crate) fn values(&self, dn: &str, attribute: &str, right: Right) -> Vec<String> {
        match attribute {
            "memberOf" => {
                let names = |entry: &crate::tree::Attributes| {
                    entry.get("member").is_some_and(|members| members.iter().any(|member| member == dn))
                };
                let groups = self.tree.iter().filter(|(group, entry)| {
                    (names(entry) && self.may(right, group, "member"))
                        || (self.sees(group) && self.finds(right, group, dn))
                });
                groups.map(|(group, _)| group.clone()).collect()
            }
            "isMemberOf" => nested(dn, &|at| self.values(at, "memberOf", right)),
            "entryDN" => vec![dn.to_owned()],
            _ => {
                let values = self.tree[dn].get(attribute).into_iter().flatten();
                values.filter(|value| self.may_value(right, dn, attribute, value)).cloned().collect()
            }
        }
    }
}

/// Extent to which a right covers the values of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Nothing,
    Some,
    All,
}
