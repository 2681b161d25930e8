//! Two directories that differ only in hidden data, and the access rules that hide it.
//!
//! The hidden data are entries (below a hidden unit, next to visible entries, below a visible entry, above a visible
//! entry), three attributes of visible entries, a collective attribute, and single values of other attributes. Each
//! directory has different hidden data: an entry may differ between the two, or exist in only one. Visible entries
//! refer to hidden entries as members, managers, friends (whose values became links) and by aliases, with the same
//! values in both directories.
//!
//! The rules of a scene are random, except for those that hide data: by a filter, by places, by allowing only visible
//! data, or differently for each user. Because `deny` has precedence, no random rule shows hidden data.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use fastrand::Rng;

use super::data_rules::{Dynamic, HIDDEN_GROUP, HIGHEST_NUMBER, ROOMS, settings};
use crate::SUFFIX;

/// Number of users that send requests. The password of each is its uid and `-secret`.
pub(crate) const REQUESTERS: usize = 3;

/// Attributes that only the administrator may read, search, compare or write.
pub(crate) const HIDDEN_TYPES: [&str; 3] = ["homePhone", "employeeNumber", "carLicense"];

/// A collective attribute that only the administrator may read, search, compare or write.
pub(crate) const HIDDEN_COLLECTIVE: &str = "c-PostalCode";

/// The group by which rules refer to the requesters. It is hidden, and the same in both directories.
const REQUESTERS_GROUP: &str = "cn=askers,ou=vault";

/// Description of members whose membership ends.
const ENDING_MEMBER: &str = "member;x-until-20990101000000Z";

type Attributes = BTreeMap<String, Vec<String>>;

/// An entry of one or both directories.
struct Planned {
    dn: String,
    /// Attributes in each directory, or `None` if the directory lacks the entry.
    sides: [Option<Attributes>; 2],
}

/// The two directories and their names.
pub(crate) struct World {
    /// LDIF of each directory.
    pub(crate) ldif: [String; 2],
    pub settings: String,
    pub(crate) dynamic: Vec<Dynamic>,
    /// Names of entries of one or both directories that are deleted before the requests.
    pub(crate) deleted: Vec<String>,
    /// Whether rules let requesters list and undelete deleted entries. If true, both directories have the same deleted
    /// entries.
    lists_deleted: bool,
    /// Names of visible entries.
    pub(crate) shown: Vec<String>,
    /// Names of entries that are hidden in both directories, and may differ.
    pub(crate) both: Vec<String>,
    /// Names of hidden entries that only one directory has, and which one.
    pub(crate) one: Vec<(String, usize)>,
    /// Names that no entry has.
    pub(crate) absent: Vec<String>,
    /// Entries for which a rule must deny `browse`, each with the word for its scope.
    hidden_places: Vec<(&'static str, String)>,
}

/// Returns the DN of a requester.
pub(crate) fn requester_dn(number: usize) -> String {
    format!("uid=a{number},ou=askers,{SUFFIX}")
}

pub(crate) fn pick<'a, T: ?Sized>(rng: &mut Rng, all: &'a [&'a T]) -> &'a T {
    all[rng.usize(..all.len())]
}

pub(crate) fn one_of<'a, T>(rng: &mut Rng, all: &'a [T]) -> &'a T {
    &all[rng.usize(..all.len())]
}

fn chance(rng: &mut Rng, of: u32) -> bool {
    rng.u32(..of) == 0
}

fn attributes(pairs: &[(&str, &str)]) -> Attributes {
    let mut all = Attributes::new();
    for (name, value) in pairs {
        all.entry((*name).to_owned()).or_default().push((*value).to_owned());
    }
    all
}

impl World {
    /// Generates two directories. With `lists_deleted`, rules let requesters list and undelete deleted entries.
    pub(crate) fn random(rng: &mut Rng, lists_deleted: bool) -> World {
        let settings = settings(rng);
        let (planned, hidden_places, deleted) = Default::default();
        let mut planner = Planner { rng, planned, hidden_places, deleted, names: names() };
        planner.plan();
        planner.deleted_entries(!lists_deleted);
        let dynamic = planner.dynamic_entries();
        let Planner { planned, hidden_places, deleted, .. } = planner;
        let is_secret = |of: &Attributes| of.get("employeeType").is_some_and(|of| of == &["secret"]);
        let mut world = World {
            ldif: [0, 1].map(|side| ldif_of(&planned, side)),
            settings,
            dynamic,
            deleted,
            lists_deleted,
            shown: Vec::new(),
            both: Vec::new(),
            one: Vec::new(),
            absent: names().absent,
            hidden_places,
        };
        for Planned { dn, sides } in planned {
            let is_hidden = sides.iter().flatten().any(is_secret);
            match world.deleted.contains(&dn) {
                true => world.absent.push(dn),
                false => world.note(dn, sides.map(|side| side.is_some()), is_hidden),
            }
        }
        for Dynamic { dn, sides, is_hidden } in std::mem::take(&mut world.dynamic) {
            world.note(dn.clone(), sides, is_hidden);
            world.dynamic.push(Dynamic { dn, sides, is_hidden });
        }
        world
    }

    /// Records the name of an entry that these directories have.
    fn note(&mut self, dn: String, sides: [bool; 2], is_hidden: bool) {
        match sides {
            [true, true] if is_hidden => self.both.push(dn),
            [true, true] => self.shown.push(dn),
            [true, false] => self.one.push((dn, 0)),
            [false, true] => self.one.push((dn, 1)),
            [false, false] => self.absent.push(dn),
        }
    }

    /// Returns the only directory that has a hidden entry of this name, if there is one. Names here contain no extra
    /// spaces.
    pub(crate) fn only_side(&self, dn: &str) -> Option<usize> {
        let dn = dn.replace(' ', "");
        self.one.iter().find(|(name, _)| name.eq_ignore_ascii_case(&dn)).map(|(_, side)| *side)
    }

    /// Returns random access rules, including those that hide the hidden data.
    pub(crate) fn rules(&self, rng: &mut Rng) -> Vec<String> {
        let mut rules: Vec<String> = Vec::new();
        let mode = rng.u32(..5);
        let unmarked = if mode == 2 { " matching '(!(employeeType=secret))'" } else { "" };
        let all = all_requesters(rng);
        match mode {
            0 => rules.push(format!("deny browse matching '(employeeType=secret)' to {all}")),
            1 => rules.extend(self.denied_places(&all)),
            2 => {}
            // The data is hidden in one way from one requester, and in another way from all other requesters.
            _ => {
                let others = format!("user '{}', group '{REQUESTERS_GROUP},{SUFFIX}'", requester_dn(1));
                let first = format!("anonymous, user '{}'", requester_dn(0));
                rules.push(format!("deny browse matching '(employeeType=secret)' to {first}"));
                rules.extend(self.denied_places(&others));
            }
        }
        rules.push(format!("deny read, write of {}, {HIDDEN_COLLECTIVE} to {all}", HIDDEN_TYPES.join(", ")));
        rules.push(format!(
            "deny read, write of description values matching '(description=secret*)' to {all}"
        ));
        rules.push(format!("deny read of title values matching '(title=secret*)' to {all}"));
        rules.push(format!("deny read of c-o values matching '(c-o=secret*)' to {all}"));
        rules.push(format!("deny write of title, employeeType, objectClass, c-o to {all}"));
        // Rules refer by name to entries below this one, so it must not be renamed.
        rules.push(format!("deny rename at 'uid=v0,ou=people,{SUFFIX}' to {all}"));
        for number in [4, 5] {
            rules.push(format!(
                "deny write, reset of userPassword at 'uid=v{number},ou=people,{SUFFIX}' to {all}"
            ));
        }
        rules.push(format!("allow read, explain{unmarked} to user 'uid=keeper,ou=keepers,{SUFFIX}'"));
        if rng.u32(..3) > 0 {
            let who = pick(rng, &["anyone", "authenticated"]);
            rules.push(format!("allow read{unmarked} to {who}"));
        }
        if self.lists_deleted {
            let who = pick(rng, &["authenticated", "users in 'ou=askers,dc=example,dc=com'"]);
            rules.push(format!("allow use of undelete to {who}"));
            rules.push(format!("allow add, delete children of 'ou=open,{SUFFIX}'{unmarked} to {who}"));
        }
        if rng.u32(..3) > 0 {
            let units = ["open", "people", "mixed", "groups"];
            let (one, other) = (pick(rng, &units), pick(rng, &units));
            let all = "read, write, add, delete, rename";
            rules.push(format!("allow {all} children of 'ou={one},{SUFFIX}'{unmarked} to anyone"));
            rules.push(format!("allow write children of 'ou={other},{SUFFIX}'{unmarked} to authenticated"));
        }
        let (types, who) =
            ("roomNumber, departmentNumber, uidNumber, entryTtl", pick(rng, &["anyone", "authenticated"]));
        rules.push(format!("allow write of {types}{unmarked} to {who}"));
        for _ in 0..rng.usize(2..9) {
            rules.push(random_allow(rng, unmarked));
        }
        for _ in 0..rng.usize(..3) {
            rules.push(random_deny(rng));
        }
        rng.shuffle(&mut rules);
        rules.iter().enumerate().map(|(number, rule)| format!("r{number}: {rule}")).collect()
    }

    fn denied_places(&self, who: &str) -> Vec<String> {
        let deny = |(reach, dn): &(&str, String)| format!("deny browse {reach} '{dn}' to {who}");
        self.hidden_places.iter().map(deny).collect()
    }
}

/// Returns a subject of rules that covers all requesters, in one of many forms.
fn all_requesters(rng: &mut Rng) -> String {
    let users: Vec<String> =
        (0..REQUESTERS).map(|number| format!("user '{}'", requester_dn(number))).collect();
    let who = match rng.u32(..7) {
        0 => "anyone".to_owned(),
        1 => "anonymous, authenticated".to_owned(),
        2 => format!("anonymous, users in 'ou=askers,{SUFFIX}'"),
        3 => format!("anonymous, group '{REQUESTERS_GROUP},{SUFFIX}'"),
        4 => "anonymous, users matching '(employeeType=asker)'".to_owned(),
        5 => format!("anonymous, {}", users.join(", ")),
        _ => format!("anonymous, {}, users in 'ou=askers,{SUFFIX}' matching '(uid=a*)'", users[0]),
    };
    if chance(rng, 6) { format!("{who} from '127.0.0.0/8'") } else { who }
}

/// Returns a subject of rules that covers some or all requesters.
fn some_requesters(rng: &mut Rng) -> String {
    match rng.u32(..9) {
        0..=2 => "anyone".to_owned(),
        3 | 4 => "authenticated".to_owned(),
        5 => format!("user '{}'", requester_dn(rng.usize(..REQUESTERS))),
        6 => format!("group '{REQUESTERS_GROUP},{SUFFIX}'"),
        7 => format!("self, named by {}", pick(rng, &["manager", "friend"])),
        _ => "anonymous".to_owned(),
    }
}

fn random_allow(rng: &mut Rng, unmarked: &str) -> String {
    let place = |rng: &mut Rng, units: &[&str]| {
        let unit = pick(rng, units);
        let reach = pick(rng, &["in", "below", "children of"]);
        match unit {
            "" => String::new(),
            unit => format!(" {reach} 'ou={unit},{SUFFIX}'"),
        }
    };
    let who = some_requesters(rng);
    let units = ["", "people", "open", "mixed", "groups", "askers", "aliases", "shell", "vault"];
    match rng.u32(..14) {
        0..=3 => {
            format!("allow read{}{unmarked} to {who}", place(rng, &["", "", "", "people", "open", "mixed"]))
        }
        4 => {
            let types =
                pick(rng, &["cn, uid, mail", "*", "description, seeAlso", "@person", "member, manager"]);
            format!("allow read of {types}{}{unmarked} to {who}", place(rng, &units))
        }
        5 => format!("allow browse, search{}{unmarked} to {who}", place(rng, &units)),
        6 => format!("allow compare of *{}{unmarked} to {who}", place(rng, &units)),
        7 => {
            let types = pick(
                rng,
                &["description, mail", "seeAlso, manager, member, friend", "telephoneNumber, sn, cn"],
            );
            format!(
                "allow write of {types}{}{unmarked} to {who}",
                place(rng, &["", "open", "people", "groups"])
            )
        }
        8 => {
            let unit = pick(rng, &["open", "people", "mixed", "groups"]);
            let rights = pick(rng, &["add", "add, delete", "add, delete, rename", "add, rename"]);
            format!("allow {rights} children of 'ou={unit},{SUFFIX}'{unmarked} to {who}")
        }
        9 => format!("allow reset children of 'ou=people,{SUFFIX}'{unmarked} to {who}"),
        10 => format!("allow write of userPassword, description{unmarked} to self"),
        11 => format!("allow explain{}{unmarked} to {who}", place(rng, &["", "people", "open", "mixed"])),
        12 => {
            let other = requester_dn(rng.usize(..REQUESTERS));
            format!("allow proxy at '{other}'{unmarked} to authenticated")
        }
        _ => format!("allow join, leave of member{}{unmarked} to authenticated", place(rng, &["", "groups"])),
    }
}

fn random_deny(rng: &mut Rng) -> String {
    let who = some_requesters(rng);
    match rng.u32(..6) {
        0 => format!("deny read of mail, seeAlso to {who}"),
        1 => format!("deny search of cn, manager to {who}"),
        2 => format!("deny browse children of 'ou=open,{SUFFIX}' to {who}"),
        3 => format!("deny read matching '(description=plain)' to {who}"),
        4 => format!("deny compare of uid to {who}"),
        _ => {
            let uses = ["dereference", "assertion", "paging, sorting", "password-modify", "effective-rights"];
            let who = pick(rng, &["anyone", "anonymous", "authenticated"]);
            format!("deny use of {} to {who}", pick(rng, &uses))
        }
    }
}

/// Names of entries that may exist.
struct Names {
    /// Hidden entries that may exist in only one directory.
    hidden: Vec<String>,
    absent: Vec<String>,
}

fn names() -> Names {
    let mut hidden = Vec::new();
    for number in 0..5 {
        hidden.push(format!("cn=s{number},ou=vault,{SUFFIX}"));
        hidden.push(format!("cn=h{number},ou=mixed,{SUFFIX}"));
        hidden.push(format!("cn=hg{number},ou=groups,{SUFFIX}"));
    }
    for number in 0..3 {
        hidden.push(format!("uid=h{number},ou=people,{SUFFIX}"));
        hidden.push(format!("cn=h{number},ou=open,{SUFFIX}"));
    }
    hidden.push(format!("ou=attic,{SUFFIX}"));
    // The superior of these entries has another hidden entry in both directories.
    hidden.extend((1..4).map(|number| format!("cn=child{number},uid=v0,ou=people,{SUFFIX}")));
    let mut absent = Vec::new();
    for unit in ["vault", "mixed", "groups", "open", "people"] {
        absent.extend((0..3).map(|number| format!("cn=new{number},ou={unit},{SUFFIX}")));
    }
    absent.push(format!("ou=nowhere,{SUFFIX}"));
    absent.push(format!("cn=x,ou=nowhere,{SUFFIX}"));
    Names { hidden, absent }
}

struct Planner<'r> {
    rng: &'r mut Rng,
    planned: Vec<Planned>,
    hidden_places: Vec<(&'static str, String)>,
    deleted: Vec<String>,
    names: Names,
}

impl Planner<'_> {
    fn plan(&mut self) {
        self.visible("", &[("objectClass", "domain"), ("dc", "example")]);
        for unit in ["askers", "keepers", "people", "open", "mixed", "groups", "aliases"] {
            self.visible(&format!("ou={unit}"), &[("objectClass", "organizationalUnit")]);
        }
        self.hidden_in_both("ou=vault", &[("objectClass", "organizationalUnit")]);
        self.hidden_places.push(("in", format!("ou=vault,{SUFFIX}")));
        let highest = HIGHEST_NUMBER.to_string();
        self.hidden_in_both("ou=shell", &[("objectClass", "organizationalUnit"), ("uidNumber", &highest)]);
        self.hidden_places.push(("at", format!("ou=shell,{SUFFIX}")));
        let mut askers = vec![("objectClass", "groupOfNames")];
        let members: Vec<String> = (0..REQUESTERS).map(requester_dn).collect();
        askers.extend(members.iter().map(|member| ("member", member.as_str())));
        for number in 0..REQUESTERS {
            self.person(&format!("uid=a{number},ou=askers"), Some("asker"), true);
        }
        self.person("uid=keeper,ou=keepers", None, true);
        self.hidden_in_both(REQUESTERS_GROUP, &askers);
        self.hidden_in_both(HIDDEN_GROUP, &[("objectClass", "groupOfNames"), ("member", SUFFIX)]);
        for number in 0..6 {
            self.person(&format!("uid=v{number},ou=people"), None, number < 4);
        }
        for number in 0..4 {
            self.person(&format!("cn=o{number},ou=open"), None, false);
        }
        self.person("cn=m0,ou=mixed", None, false);
        self.person("cn=inner,ou=shell", None, false);
        for number in 0..4 {
            let members = unique((0..self.rng.usize(1..5)).map(|_| self.any_name()).collect());
            let mut group = vec![("objectClass", "groupOfNames")];
            for member in &members {
                let description = if chance(self.rng, 3) { ENDING_MEMBER } else { "member" };
                group.push((description, member.as_str()));
            }
            self.visible(&format!("cn=g{number},ou=groups"), &group);
        }
        // Whether these filters match an entry depends on hidden values.
        let tests = ["(|(employeeNumber=*)(homePhone=*)(mail=hidden*))", "(!(description=secret*))"];
        for (number, test) in tests.into_iter().enumerate() {
            let url = format!("ldap:///{SUFFIX}??sub?{test}");
            let group = [("objectClass", "groupOfURLs"), ("memberURL", url.as_str())];
            self.visible(&format!("cn=d{number},ou=groups"), &group);
        }
        for number in 0..6 {
            let to = self.any_name();
            let alias =
                [("objectClass", "alias"), ("objectClass", "extensibleObject"), ("aliasedObjectName", &to)];
            self.visible(&format!("cn=al{number},ou=aliases"), &alias);
        }
        let away = [
            ("objectClass", "referral"),
            ("objectClass", "extensibleObject"),
            ("ref", "ldap://127.0.0.1:1/dc=x"),
        ];
        self.visible("ou=away,ou=open", &away);
        self.visible("cn=sub", &[("objectClass", "subentry"), ("subtreeSpecification", "{}")]);
        self.collective_subentry();
        // Both directories have a hidden entry below a visible entry, and one next to a visible entry, so that an entry
        // can be deleted in both directories or in neither.
        self.hidden_slot(&format!("cn=child,uid=v0,ou=people,{SUFFIX}"), false);
        self.hidden_slot(&format!("cn=always,ou=mixed,{SUFFIX}"), false);
        for name in std::mem::take(&mut self.names.hidden) {
            self.hidden_slot(&name, true);
        }
    }

    fn push(&mut self, dn: String, sides: [Option<Attributes>; 2]) {
        // Entry ids follow this order. Hidden entries get random positions, and visible entries keep their relative
        // order.
        let is_hidden = sides
            .iter()
            .flatten()
            .any(|of| of.contains_key("employeeType") && of["employeeType"] == ["secret"]);
        let parent = dn.split_once(',').map(|(_, parent)| parent.to_owned()).unwrap_or_default();
        let after = self.planned.iter().position(|other| other.dn == parent).map_or(0, |place| place + 1);
        let place = if is_hidden { self.rng.usize(after..=self.planned.len()) } else { self.planned.len() };
        self.planned.insert(place, Planned { dn, sides });
    }

    fn visible(&mut self, rdns: &str, pairs: &[(&str, &str)]) {
        let entry = named(rdns, attributes(pairs));
        let dn = if rdns.is_empty() { SUFFIX.to_owned() } else { format!("{rdns},{SUFFIX}") };
        self.push(dn, [Some(entry.clone()), Some(entry)]);
    }

    fn hidden_in_both(&mut self, rdns: &str, pairs: &[(&str, &str)]) {
        let mut entry = named(rdns, attributes(pairs));
        entry.get_mut("objectClass").unwrap().push("extensibleObject".to_owned());
        entry.insert("employeeType".to_owned(), vec!["secret".to_owned()]);
        self.push(format!("{rdns},{SUFFIX}"), [Some(entry.clone()), Some(entry)]);
    }

    /// Adds a subentry with collective values: some values are visible, and the other values are hidden and differ
    /// between the directories.
    fn collective_subentry(&mut self) {
        let entry = attributes(&[
            ("objectClass", "subentry"),
            ("objectClass", "collectiveAttributeSubentry"),
            ("subtreeSpecification", "{}"),
            ("cn", "shared"),
            ("c-l", "Oslo"),
            ("c-o", "plain"),
        ]);
        let sides = [0, 1].map(|_| {
            let mut own = entry.clone();
            if self.rng.bool() {
                own.insert(HIDDEN_COLLECTIVE.to_owned(), vec![format!("+49 {}", self.rng.u32(..4))]);
            }
            if self.rng.bool() {
                own.entry("c-o".to_owned()).or_default().push(format!("secret {}", self.rng.u32(..3)));
            }
            Some(own)
        });
        self.push(format!("cn=shared,{SUFFIX}"), sides);
    }

    /// Adds a visible person, whose hidden attributes differ between the directories.
    fn person(&mut self, rdns: &str, kind: Option<&str>, has_password: bool) {
        let name = rdns.split(['=', ',']).nth(1).unwrap().to_owned();
        let mail = format!("{name}@example.com");
        let mut entry = attributes(&[
            ("objectClass", "inetOrgPerson"),
            ("objectClass", "extensibleObject"),
            ("cn", &name),
            ("sn", "Person"),
            ("mail", &mail),
            ("telephoneNumber", "+1 555"),
            ("description", pick(self.rng, &["plain", "fancy", "same for all"])),
        ]);
        entry.insert("uid".to_owned(), vec![name.clone()]);
        entry.insert("roomNumber".to_owned(), vec![format!("r-{name}")]);
        if let Some(kind) = kind {
            entry.insert("employeeType".to_owned(), vec![kind.to_owned()]);
        }
        for (attribute, often) in [("manager", 2), ("seeAlso", 2), ("friend", 2)] {
            if chance(self.rng, often) {
                let names = (0..self.rng.usize(1..4)).map(|_| self.any_name()).collect::<Vec<_>>();
                entry.insert(attribute.to_owned(), unique(names));
            }
        }
        if chance(self.rng, 3) {
            let excluded = pick(self.rng, &[HIDDEN_COLLECTIVE, "c-l", "excludeAllCollectiveAttributes"]);
            entry.insert("collectiveExclusions".to_owned(), vec![excluded.to_owned()]);
        }
        let has_hidden_values = self.rng.bool();
        let is_asker = has_password;
        // Vary whether there is a password, because a requester who may read pwdChangedTime may learn whether there is
        // one.
        let has_password = has_password || self.rng.bool();
        let sides = [0, 1].map(|_| {
            let mut own = entry.clone();
            for hidden in HIDDEN_TYPES {
                if self.rng.bool() {
                    own.insert(hidden.to_owned(), vec![format!("+49 {}", self.rng.u32(..4))]);
                }
            }
            if has_hidden_values {
                let values = own.get_mut("description").unwrap();
                values.extend(
                    (0..self.rng.usize(1..4)).map(|number| format!("secret {number}{}", self.rng.u32(..3))),
                );
            }
            if self.rng.bool() {
                let description = pick(self.rng, &["title", "title;lang-de", "title;x-only-here"]).to_owned();
                own.insert(description, vec![format!("secret {}", self.rng.u32(..3))]);
            }
            if has_password {
                let password = if is_asker { name.clone() } else { format!("{}", self.rng.u32(..)) };
                own.insert("userPassword".to_owned(), vec![format!("{password}-secret")]);
            }
            Some(own)
        });
        self.push(format!("{rdns},{SUFFIX}"), sides);
    }

    /// Adds a hidden entry with the name `dn`. Its content differs between the directories. If `may_lack` is true, each
    /// directory may lack the entry.
    fn hidden_slot(&mut self, dn: &str, may_lack: bool) {
        let dn = dn.to_owned();
        let reach = if self.rng.bool() && dn.starts_with("cn=s") { "at" } else { "in" };
        if !dn.ends_with(&format!("ou=vault,{SUFFIX}")) {
            self.hidden_places.push((reach, dn.clone()));
        }
        let sides = [0, 1].map(|_| {
            let is_there = !may_lack || self.rng.u32(..5) < 3;
            is_there.then(|| self.hidden_entry(&dn))
        });
        let can_have_children = |of: &Option<Attributes>| {
            of.as_ref()
                .is_some_and(|of| !["alias", "referral", "subentry"].contains(&of["objectClass"][0].as_str()))
        };
        let inner: Vec<bool> = sides.iter().map(|side| can_have_children(side) && self.rng.bool()).collect();
        self.push(dn.clone(), sides);
        if inner.iter().any(|is_there| *is_there) {
            let below = format!("cn=below,{dn}");
            self.hidden_places.push(("in", below.clone()));
            let sides = [inner[0], inner[1]].map(|is_there| is_there.then(|| self.hidden_entry(&below)));
            self.push(below, sides);
        }
    }

    /// Adds entries that are deleted before the requests. Hidden entries may exist in only one directory.
    fn deleted_entries(&mut self, hides_some: bool) {
        for number in 0..8 {
            self.person(&format!("cn=gone{number},ou=open"), None, false);
            self.deleted.push(format!("cn=gone{number},ou=open,{SUFFIX}"));
        }
        for unit in ["open", "mixed", "people"].iter().filter(|_| hides_some) {
            let dn = format!("cn=lost,ou={unit},{SUFFIX}");
            self.hidden_places.push(("in", dn.clone()));
            // The administrator deletes entries without the ManageDsaIT control, which a referral would require.
            let is_referral = |entry: &Attributes| entry["objectClass"][0] == "referral";
            let sides = [0, 1].map(|_| Some(self.hidden_entry(&dn)).filter(|entry| !is_referral(entry)));
            self.push(dn.clone(), sides);
            self.deleted.push(dn);
        }
    }

    /// Returns dynamic entries. Hidden entries may exist in only one directory.
    fn dynamic_entries(&mut self) -> Vec<Dynamic> {
        let mut entry = |number: u32| {
            let (dn, is_hidden) = (format!("cn=dy{number},ou=open,{SUFFIX}"), number > 1);
            if is_hidden {
                self.hidden_places.push(("in", dn.clone()));
            }
            let sides = [0, 1].map(|_| !is_hidden || self.rng.bool());
            Dynamic { dn, sides, is_hidden }
        };
        (0..5).map(&mut entry).collect()
    }

    /// Returns a random hidden entry.
    fn hidden_entry(&mut self, dn: &str) -> Attributes {
        let to = self.any_name();
        let members: Vec<String> = (0..self.rng.usize(1..4)).map(|_| self.any_name()).collect();
        let mut entry = match self.rng.u32(..10) {
            0 => attributes(&[("objectClass", "alias"), ("aliasedObjectName", &to)]),
            1 => attributes(&[("objectClass", "referral"), ("ref", "ldap://127.0.0.1:1/dc=hidden")]),
            2 => attributes(&[("objectClass", "subentry"), ("subtreeSpecification", "{}"), ("cn", "sub")]),
            3..=5 => {
                let mut group = attributes(&[("objectClass", "groupOfNames"), ("cn", "group")]);
                let mut members = unique(members);
                let ending = members.split_off(self.rng.usize(..=members.len()));
                group.insert("member".to_owned(), members);
                group.insert(ENDING_MEMBER.to_owned(), ending);
                group
            }
            6 => attributes(&[("objectClass", "organizationalUnit"), ("ou", "unit")]),
            _ => attributes(&[
                ("objectClass", "inetOrgPerson"),
                ("cn", "person"),
                ("sn", "Hidden"),
                ("uid", &format!("hidden{}", self.rng.u32(..))),
                ("mail", "hidden@example.com"),
                ("userPassword", "hidden-secret"),
                ("manager", &to),
            ]),
        };
        entry.get_mut("objectClass").unwrap().push("extensibleObject".to_owned());
        entry.insert("employeeType".to_owned(), vec!["secret".to_owned()]);
        if self.rng.bool() {
            entry.insert("description;x-hidden".to_owned(), vec!["hidden".to_owned()]);
        }
        if self.rng.bool() {
            entry.insert("roomNumber".to_owned(), vec![format!("r{}", self.rng.u32(..ROOMS))]);
        }
        if self.rng.bool() {
            entry.insert("uidNumber".to_owned(), vec![self.rng.u32(1_000..HIGHEST_NUMBER).to_string()]);
        }
        named(dn, entry)
    }

    /// Returns a name that is visible, hidden in one or both directories, or missing.
    fn any_name(&mut self) -> String {
        let visible =
            ["uid=v0,ou=people", "uid=v1,ou=people", "cn=o0,ou=open", "cn=g0,ou=groups", "cn=al0,ou=aliases"];
        match self.rng.u32(..10) {
            0..=2 => format!("{},{SUFFIX}", pick(self.rng, &visible)),
            3 => one_of(self.rng, &self.names.absent).clone(),
            4 => requester_dn(self.rng.usize(..REQUESTERS)),
            5 => format!("cn=always,ou=mixed,{SUFFIX}"),
            _ => one_of(self.rng, &names().hidden).clone(),
        }
    }
}

fn unique(mut names: Vec<String>) -> Vec<String> {
    let mut seen = Vec::new();
    names.retain(|name| {
        let is_new = !seen.contains(name);
        seen.push(name.clone());
        is_new
    });
    names
}

/// Returns the entry with the values of its RDN added.
fn named(rdns: &str, mut entry: Attributes) -> Attributes {
    if let Some((attribute, value)) = rdns.split(',').next().and_then(|rdn| rdn.split_once('=')) {
        let values = entry.entry(attribute.to_owned()).or_default();
        if !values.iter().any(|of| of.eq_ignore_ascii_case(value)) {
            values.push(value.to_owned());
        }
    }
    entry
}

/// Returns LDIF of one directory. Entries that are in both directories get the same times and UUIDs.
fn ldif_of(planned: &[Planned], side: usize) -> String {
    let mut text = String::new();
    for Planned { dn, sides } in planned {
        let Some(entry) = &sides[side] else { continue };
        let _ = writeln!(text, "dn: {dn}");
        for (name, values) in entry {
            for value in values {
                let _ = writeln!(text, "{name}: {value}");
            }
        }
        let _ = writeln!(text, "entryUUID: {}", uuid_text(uuid_of(dn)));
        let _ = writeln!(text, "entryCSN: 20260101000000.000000Z#000000#000#000000");
        let _ = writeln!(text, "createTimestamp: 20260101000000Z\nmodifyTimestamp: 20260101000000Z\n");
    }
    text
}

/// Returns the entryUUID with which an entry is imported.
pub(crate) fn uuid_of(dn: &str) -> u128 {
    // FNV-1a.
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = dn.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    u128::from(hash >> 32) << 96 | 0x4000_8000 << 48 | u128::from(hash & 0xffff_ffff_ffff)
}

/// Returns the text of a UUID.
pub(crate) fn uuid_text(uuid: u128) -> String {
    let hex = format!("{uuid:032x}");
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}
