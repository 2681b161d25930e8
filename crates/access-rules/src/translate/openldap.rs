//! Translation of `access to <what> by <who> <access> ...` (slapd.access(5)).
//!
//! In OpenLDAP, the first clause that covers the accessed entry and attribute decides. Within this clause, the first
//! `by` that covers the requester decides. In Pando, the order of rules has no effect. The translation therefore
//! excludes from each clause the entries and attributes that earlier clauses cover. Attributes and subtrees are
//! excluded by name. Entries and single values are excluded by negated filters. If a `by` grants less access than a
//! later `by` of the same clause, a deny rule takes the missing access from its requester.

use directory::ListenerName;
use directory::access::{LinkConditions, Reach, RequesterSpec};
use ipnet::IpNet;

use super::Translation;
use super::pattern::Pattern;
use super::rule_parts::{Path, RuleParts, check_dn, path};

/// Entries and attributes that a clause covers and no earlier clause covers.
#[derive(Clone, Debug)]
struct Region {
    place: Option<(Reach, String)>,
    but_places: Vec<(Reach, String)>,
    /// Attributes; `None` for all attributes.
    attributes: Option<Vec<String>>,
    but_attributes: Vec<String>,
    /// Filter that values must match. Requires a single attribute.
    values: Option<String>,
    /// Filter that entries must match.
    filter: Option<String>,
    /// DN of an entry, with `$1` in place of the text that the capture group of the regular expression matches.
    expanded: Option<String>,
}

/// Access that one `by` grants. The letters of its levels are c (compare), s (search), r (read), a (add), z (delete), w
/// (a and z) and x (authenticate).
#[derive(Clone, Debug)]
struct Grant {
    requester: RequesterSpec,
    link: LinkConditions,
    rights: Rights,
}

impl Grant {
    /// Returns true if the grant applies to all requesters on all connections.
    fn is_for_all(&self) -> bool {
        self.requester == RequesterSpec::Anyone && self.link == LinkConditions::default()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rights {
    compare: bool,
    search: bool,
    read: bool,
    add: bool,
    delete: bool,
    own: bool,
}

impl Rights {
    fn is_none(self) -> bool {
        self == Rights::default()
    }

    /// Returns true if values can be searched for or compared, but not read.
    fn is_blind(self) -> bool {
        (self.search || self.compare) && !self.read
    }

    fn covers(self, other: Rights) -> bool {
        let pairs = [
            (self.compare, other.compare),
            (self.search, other.search),
            (self.read, other.read),
            (self.add, other.add),
            (self.delete, other.delete),
            (self.own || (self.add && self.delete), other.own),
        ];
        pairs.iter().all(|(has, wants)| *has || !wants)
    }
}

/// Translates the clauses of one database, in order. Each pair is the line number and the text of a clause.
pub(super) fn translate(translation: &mut Translation, clauses: &[(usize, String)]) {
    let mut decided: Vec<Region> = Vec::new();
    for (number, (line, clause)) in clauses.iter().enumerate() {
        let words = match words(clause) {
            Ok(words) => words,
            Err(why) => {
                translation.leave_out(*line, clause, why);
                continue;
            }
        };
        let mut words = words.iter().map(String::as_str).peekable();
        if words.peek().is_some_and(|word| word.starts_with('{') && word.ends_with('}')) {
            words.next();
        }
        if words.next().is_none_or(|word| strip_number(word) != "to") {
            translation.leave_out(*line, clause, "this is no \"to ... by ...\"");
            continue;
        }
        let mut what = Vec::new();
        while let Some(word) = words.next_if(|word| *word != "by") {
            what.push(word.to_owned());
        }
        let region = match region(&what) {
            Ok(region) => region,
            Err(why) => {
                let why = format!("{why}; if it closes something, that is open because of the later clauses");
                translation.leave_out(*line, clause, why);
                continue;
            }
        };
        let mut bys = Vec::new();
        while words.next().is_some() {
            let mut by = Vec::new();
            while let Some(word) = words.next_if(|word| *word != "by") {
                by.push(word.to_owned());
            }
            bys.push(by);
        }
        let (grants, goes_on) = grants(translation, *line, &bys, region.expanded.as_deref());
        let mut left = vec![region.clone()];
        for before in &decided {
            left = left.iter().flat_map(|region| subtract(region, before)).collect();
        }
        if left.is_empty() {
            translation.leave_out(*line, clause, "earlier clauses decide all that it is about");
            continue;
        }
        if !goes_on {
            decided.push(region.clone());
        }
        for region in &left {
            say(translation, (*line, clause, number + 1), region, &grants);
        }
    }
}

fn strip_number(word: &str) -> &str {
    word.strip_prefix('{').and_then(|rest| Some(rest.split_once('}')?.1)).unwrap_or(word)
}

/// Splits a text into words as slapd does. Blanks in quotes do not separate words. A backslash removes the special
/// meaning of the next character. Quotes and such backslashes are removed.
fn words(text: &str) -> Result<Vec<String>, &'static str> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '"' => quoted = !quoted,
            '\\' => word.extend(rest.next()),
            c if c.is_whitespace() && !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            c => word.push(c),
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    if quoted { Err("a quote does not end") } else { Ok(words) }
}

fn region(what: &[String]) -> Result<Region, String> {
    let mut region = Region {
        place: None,
        but_places: Vec::new(),
        attributes: None,
        but_attributes: Vec::new(),
        values: None,
        filter: None,
        expanded: None,
    };
    let (mut value, mut named_by) = (None, None);
    for word in what {
        let lower = word.to_ascii_lowercase();
        if word == "*" {
            continue;
        }
        let Some((key, text)) = word.split_once('=') else {
            return Err(format!("{word:?} is not known"));
        };
        match lower.split_once('=').map_or("", |(key, _)| key) {
            "dn" | "dn.exact" | "dn.base" | "dn.baseobject" => {
                region.place = Some((Reach::At, text.to_owned()));
            }
            "dn.subtree" | "dn.sub" if text.is_empty() => {}
            "dn.subtree" | "dn.sub" => region.place = Some((Reach::In, text.to_owned())),
            "dn.children" => region.place = Some((Reach::Below, text.to_owned())),
            "dn.one" | "dn.onelevel" => region.place = Some((Reach::Children, text.to_owned())),
            "attrs" | "attr" => {
                let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
                if let Some(name) = names.iter().find(|name| name.starts_with('!')) {
                    return Err(format!("{name} is the attributes that a class does not have"));
                }
                region.attributes = Some(names);
            }
            "dn.regex" => {
                let pattern = Pattern::read(text).ok_or("a place by this regular expression")?;
                (region.place, region.expanded, named_by) = (pattern.place, pattern.expanded, pattern.rdn);
            }
            "filter" => {
                ldap::FilterBuf::parse(text).map_err(|error| format!("{text:?} is no filter: {error}"))?;
                region.filter = Some(text.to_owned());
            }
            "val" | "val.exact" => value = Some(text),
            _ if key.starts_with("val") => return Err("values by a pattern, a rule or a place".to_owned()),
            _ => return Err(format!("{word:?} is not known")),
        }
    }
    if let Some((_, dn)) = &region.place {
        check_dn(dn)?;
    }
    if let Some(name) = named_by {
        let filter = region.filter.take().unwrap_or_default();
        region.filter =
            Some(if filter.is_empty() { format!("({name}=*)") } else { format!("(&({name}=*){filter})") });
    }
    if let Some(value) = value {
        region.values = Some(value_filter(region.attributes.as_deref(), value)?);
    }
    Ok(region)
}

/// Returns a filter that matches this value of the clause's single attribute.
fn value_filter(attributes: Option<&[String]>, value: &str) -> Result<String, String> {
    let Some([name]) = attributes else { return Err("a value of more than one attribute".to_owned()) };
    if NOT_BY_VALUE.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return Err(format!("values of {name} are not told apart here"));
    }
    let mut filter = format!("({name}=");
    for c in value.chars() {
        match c {
            '(' | ')' | '*' | '\\' | '\'' | '\0' => filter += &format!("\\{:02x}", u32::from(c)),
            c => filter.push(c),
        }
    }
    Ok(filter + ")")
}

/// Names of attributes whose single values a filter cannot distinguish here. These attributes represent the entry
/// itself, have values that name other entries, belong to every entry, or contain passwords.
const NOT_BY_VALUE: [&str; 12] = [
    "entry",
    "children",
    "objectClass",
    "userPassword",
    "member",
    "uniqueMember",
    "owner",
    "manager",
    "secretary",
    "seeAlso",
    "roleOccupant",
    "memberOf",
];

/// Returns the parts of `region` that are outside of `other`.
fn subtract(region: &Region, other: &Region) -> Vec<Region> {
    let mut left = subtract_whole(region, other);
    // Values that the filter of `other` does not match remain.
    left.extend(other.values.as_ref().filter(|_| region.values != other.values).and_then(|taken| {
        let values = match &region.values {
            Some(own) => format!("(&{own}(!{taken}))"),
            None => format!("(!{taken})"),
        };
        Some(Region { values: Some(values), ..common(region, other)? })
    }));
    // Of the entries in both scopes, those remain that do not match the filter of `other`.
    left.extend(other.filter.as_ref().and_then(|filter| {
        let filter = format!("(!{filter})");
        let filter = match &region.filter {
            Some(own) => format!("(&{own}{filter})"),
            None => filter,
        };
        Some(Region { filter: Some(filter), ..common(region, other)? })
    }));
    left
}

/// Returns the intersection of two regions. The filters of `other` are ignored.
fn common(region: &Region, other: &Region) -> Option<Region> {
    let mut common = region.clone();
    match nested(region.place.as_ref(), other.place.as_ref()) {
        Nesting::Apart => return None,
        Nesting::Within => {}
        Nesting::Around(place) => common.place = Some(place),
    }
    common.but_places.extend(other.but_places.iter().cloned());
    let is_in = |names: &[String], name: &String| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    if let Some(taken) = &other.attributes {
        let own = region.attributes.as_deref();
        let both = taken
            .iter()
            .filter(|name| own.is_none_or(|own| is_in(own, name)) && !is_in(&region.but_attributes, name));
        let both: Vec<String> = both.cloned().collect();
        if both.is_empty() {
            return None;
        }
        (common.attributes, common.but_attributes) = (Some(both), Vec::new());
    }
    Some(common)
}

/// Returns the parts of `region` outside of `other`, as if `other` had no filters.
fn subtract_whole(region: &Region, other: &Region) -> Vec<Region> {
    match nested(region.place.as_ref(), other.place.as_ref()) {
        Nesting::Apart => vec![region.clone()],
        Nesting::Around(_) if are_apart(region, other) => vec![region.clone()],
        Nesting::Within => without_attributes(region, other).into_iter().collect(),
        Nesting::Around(place) => {
            let mut outside = region.clone();
            outside.but_places.push(place.clone());
            let mut inside = region.clone();
            inside.place = Some(place);
            let mut left = vec![outside];
            left.extend(without_attributes(&inside, other));
            left
        }
    }
}

/// Returns true if both regions name attributes, but have no attribute in common.
fn are_apart(region: &Region, other: &Region) -> bool {
    let (Some(own), Some(taken)) = (&region.attributes, &other.attributes) else { return false };
    !own.iter().any(|name| taken.iter().any(|other| other.eq_ignore_ascii_case(name)))
}

fn without_attributes(region: &Region, other: &Region) -> Option<Region> {
    let taken = other.attributes.as_ref()?;
    let mut left = region.clone();
    match &mut left.attributes {
        None => {
            let is_new =
                |name: &&String| !region.but_attributes.iter().any(|known| known.eq_ignore_ascii_case(name));
            left.but_attributes.extend(taken.iter().filter(is_new).cloned());
        }
        Some(own) => {
            own.retain(|name| !taken.iter().any(|other| other.eq_ignore_ascii_case(name)));
            if own.is_empty() {
                return None;
            }
        }
    }
    Some(left)
}

enum Nesting {
    Apart,
    /// The first place is within the second place.
    Within,
    /// The second place is within the first place. The value is the second place.
    Around((Reach, String)),
}

fn nested(one: Option<&(Reach, String)>, other: Option<&(Reach, String)>) -> Nesting {
    let (Some((reach, dn)), Some((other_reach, other_dn))) = (one, other) else {
        return match other {
            None => Nesting::Within,
            Some(other) => Nesting::Around(other.clone()),
        };
    };
    let (dn, other) = (path(dn), path(other_dn));
    let is_below = |dn: &Path, above: &Path| dn.len() > above.len() && dn.starts_with(above);
    let is_child = |dn: &Path, above: &Path| is_below(dn, above) && dn.len() == above.len() + 1;
    let is_within = match (reach, other_reach) {
        _ if dn == other => {
            reach == other_reach || *other_reach == Reach::In || {
                *other_reach == Reach::Below && *reach == Reach::Children
            }
        }
        (_, Reach::In | Reach::Below) => is_below(&dn, &other),
        (Reach::At, Reach::Children) => is_child(&dn, &other),
        _ => false,
    };
    let holds = match (other_reach, reach) {
        _ if dn == other => {
            *reach == Reach::In || (*reach == Reach::Below && *other_reach == Reach::Children)
        }
        (_, Reach::In | Reach::Below) => is_below(&other, &dn),
        (Reach::At, Reach::Children) => is_child(&other, &dn),
        _ => false,
    };
    match (is_within, holds) {
        (true, _) => Nesting::Within,
        (false, true) => Nesting::Around((*other_reach, other_dn.clone())),
        (false, false) => Nesting::Apart,
    }
}

/// Returns the grants of a clause. The flag is true if the clause contains `by * break`: later clauses then decide
/// about all requesters that no grant covers.
fn grants(
    translation: &mut Translation,
    line: usize,
    bys: &[Vec<String>],
    expanded: Option<&str>,
) -> (Vec<Grant>, bool) {
    let (mut grants, mut goes_on) = (Vec::new(), false);
    for by in bys {
        let clause = format!("by {}", by.join(" "));
        let mut by: Vec<&str> = by.iter().map(String::as_str).collect();
        match by.last().copied() {
            Some("break") if by.first() == Some(&"*") => {
                goes_on = true;
                continue;
            }
            Some("break" | "continue") => {
                translation.leave_out(line, &clause, "clauses that go on for some");
                continue;
            }
            Some("stop") => {
                by.pop();
            }
            _ => {}
        }
        let access = match by.last().and_then(|word| rights(word)) {
            Some(access) => {
                by.pop();
                access
            }
            // A `by` without an access level grants nothing.
            None => Rights::default(),
        };
        if access.is_blind() {
            let why = "search or compare without read: here only at entries that another rule shows, because every \
                       other would show their names";
            translation.leave_out(line, &clause, why);
        }
        match who(&by, expanded) {
            Ok((requester, link)) => grants.push(Grant { requester, link, rights: access }),
            Err(why) => translation.leave_out(line, &clause, why),
        }
    }
    (grants, goes_on)
}

fn rights(word: &str) -> Option<Rights> {
    let level = |level: u8| Rights {
        compare: level >= 1,
        search: level >= 2,
        read: level >= 3,
        add: level >= 4,
        delete: level >= 4,
        own: false,
    };
    let word = word.to_ascii_lowercase();
    Some(match word.as_str() {
        "none" | "disclose" | "auth" | "=0" | "=d" | "=x" | "=xd" | "=dx" => level(0),
        "compare" => level(1),
        "search" => level(2),
        "read" => level(3),
        "write" | "manage" => level(4),
        "add" => Rights { add: true, ..level(3) },
        "delete" => Rights { delete: true, ..level(3) },
        "selfwrite" | "selfread" if word == "selfwrite" => Rights { own: true, ..level(3) },
        _ => {
            let letters = word.strip_prefix('=')?;
            let has = |letter: char| letters.contains(letter);
            if !letters.chars().all(|letter| "cdxsrwazm".contains(letter)) {
                return None;
            }
            Rights {
                compare: has('c'),
                search: has('s'),
                read: has('r'),
                add: has('w') || has('a') || has('m'),
                delete: has('w') || has('z') || has('m'),
                own: false,
            }
        }
    })
}

/// Returns the requester of a `by` clause, and the clause's conditions on the connection. `expanded` is the DN of the
/// entries, with `$1` for the text that the capture group matches.
fn who(by: &[&str], expanded: Option<&str>) -> Result<(RequesterSpec, LinkConditions), String> {
    let (mut whom, mut link) = (None, LinkConditions::default());
    for word in by {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let found = match key.to_ascii_lowercase().as_str() {
            "*" => RequesterSpec::Anyone,
            "anonymous" => RequesterSpec::Anonymous,
            "users" => RequesterSpec::Authenticated,
            "self" => RequesterSpec::Itself,
            "dn" | "dn.exact" | "dn.base" | "dn.baseobject" if value == "*" => RequesterSpec::Authenticated,
            "dn" | "dn.exact" | "dn.base" | "dn.baseobject" => {
                if value.to_ascii_lowercase().contains("cn=auth") {
                    return Err(
                        "an identity of SASL without an entry; over the local socket it is the administrator"
                            .into(),
                    );
                }
                RequesterSpec::User(value.to_owned())
            }
            "dn.subtree" | "dn.sub" => RequesterSpec::UsersIn(value.to_owned()),
            "dn.regex" | "dn.expand" | "dn.exact,expand" | "dn.base,expand" => requester_of(value, expanded)
                .ok_or_else(|| format!("{word:?} names whom no rule can name here"))?,
            "dnattr" => RequesterSpec::NamedBy(value.to_owned()),
            key if key == "group" || key.starts_with("group/") || key.starts_with("group.exact") => {
                let named = key.split('.').next().unwrap_or_default();
                let attribute = named.split('/').nth(2).unwrap_or("member");
                if !["member", "uniquemember"].contains(&attribute) {
                    return Err(format!("groups by {attribute}: here they are by member and uniqueMember"));
                }
                RequesterSpec::Group(value.to_owned())
            }
            "ssf" | "tls_ssf" | "transport_ssf" => {
                let bits = value.parse::<u32>().map_err(|_| format!("{value:?} is no strength"))?;
                link.over_tls |= bits > 1;
                continue;
            }
            "peername.ip" | "peername.ipv6" => {
                link.networks = vec![network(value)?];
                continue;
            }
            "sockurl" | "sockurl.exact" => {
                link.listeners = vec![listener_of(value)?];
                continue;
            }
            "sockname" | "sockname.exact" if value.to_ascii_uppercase().starts_with("PATH=") => {
                link.listeners = vec![ListenerName::LDAPI];
                continue;
            }
            _ => return Err(format!("{word:?} names whom no rule can name here")),
        };
        if whom.replace(found).is_some() {
            return Err("two conditions on who asks".to_owned());
        }
    }
    Ok((whom.unwrap_or(RequesterSpec::Anyone), link))
}

/// Returns the requester that `value` selects. `value` is a regular expression of DNs, or equals `expanded` and then
/// selects the entry itself.
fn requester_of(value: &str, expanded: Option<&str>) -> Option<RequesterSpec> {
    let literal = value.strip_prefix('^').and_then(|rest| rest.strip_suffix('$')).unwrap_or(value);
    if expanded.is_some_and(|expanded| expanded.eq_ignore_ascii_case(literal)) {
        return Some(RequesterSpec::Itself);
    }
    let Pattern { place, rdn: None, .. } = Pattern::read(value)? else { return None };
    match place {
        Some((Reach::At, dn)) => Some(RequesterSpec::User(dn)),
        Some((Reach::In | Reach::Below, dn)) => Some(RequesterSpec::UsersIn(dn)),
        Some((Reach::Children, _)) => None,
        // In slapd 2.5, `.+` without a capture group matches no requester.
        None if value.contains('+') => value.contains("(.+)").then_some(RequesterSpec::Authenticated),
        None => Some(RequesterSpec::Anyone),
    }
}

/// Returns the name of Pando's listener for a URL that has only a scheme.
fn listener_of(url: &str) -> Result<ListenerName, String> {
    let trimmed = url.trim_end_matches('/').to_ascii_lowercase();
    match trimmed.split_once(':').map_or((trimmed.as_str(), ""), |(scheme, rest)| (scheme, rest)) {
        ("ldapi", _) => Ok(ListenerName::LDAPI),
        ("ldap", "") => Ok(ListenerName::LDAP),
        ("ldaps", "") => Ok(ListenerName::LDAPS),
        _ => Err(format!(
            "{url:?} is a listener with an address: give it a name (listener.name in the node file) and write \
             \"at listener\" and that"
        )),
    }
}

/// Parses an address, with or without a mask, such as `10.0.0.0%255.0.0.0`. Ignores a port in braces after the address.
fn network(value: &str) -> Result<IpNet, String> {
    let wrong = || format!("{value:?} is no network");
    let value = value.split('{').next().unwrap_or_default();
    let Some((address, mask)) = value.split_once('%') else {
        return value.parse::<std::net::IpAddr>().map(IpNet::from).map_err(|_| wrong());
    };
    let (address, mask) = (address.parse().map_err(|_| wrong())?, mask.parse().map_err(|_| wrong())?);
    let network = ipnet::IpNet::with_netmask(address, mask).map_err(|_| wrong())?;
    Ok(network.trunc())
}

/// Adds the rules for one region of a clause. The arguments identify the clause by its line, its text and its number.
fn say(
    translation: &mut Translation,
    (line, clause, number): (usize, &str, usize),
    region: &Region,
    grants: &[Grant],
) {
    let mut add = |name: &str, meant: RuleParts| {
        translation.report_readers_of_passwords(line, clause, &meant);
        match translation.texts(name, &[meant]) {
            Ok(texts) => translation.rules.extend(texts),
            Err(why) => {
                let why = format!("{why}; if it closes something, that is open by the other clauses");
                translation.leave_out(line, clause, why);
            }
        }
    };
    for (place, grant) in grants.iter().enumerate() {
        let name = format!("to {number} by {}", place + 1);
        let later = grants.get(place + 1..).unwrap_or_default();
        let meant = |is_allow, rights, about| RuleParts {
            is_allow,
            rights,
            requesters: vec![grant.requester.clone()],
            link: grant.link.clone(),
            ..about
        };
        if later.iter().any(|later| !grant.rights.covers(later.rights) && !grant.is_for_all()) {
            // A later `by` would grant more access to the requester, so a deny rule is needed.
            let hides =
                !grant.rights.read && has_entry(region) && later.iter().any(|later| later.rights.read);
            let words = if hides { vec!["browse"] } else { rights_missing(grant.rights, later) };
            if let Some(about) = about(region, false, false) {
                add(&format!("{name} no more"), meant(false, words, about));
            }
        }
        if grant.rights.is_none() {
            continue;
        }
        let words = words_of(grant.rights);
        if !words.is_empty()
            && let Some(mut about) = about(region, false, true)
        {
            // OpenLDAP returns an entry only with the right to read the attribute `entry`. The right to search does not
            // suffice.
            about.is_where_seen |= grant.rights.is_blind();
            add(&name, meant(true, words, about));
        }
        // The clause names `entry`, which is the entry itself without its attributes.
        let names_entry = |names: &Vec<String>| names.iter().any(|name| name.eq_ignore_ascii_case("entry"));
        if grant.rights.read && region.attributes.as_ref().is_some_and(names_entry) {
            let alone = Region { attributes: None, but_attributes: Vec::new(), ..region.clone() };
            if let Some(about) = about(&alone, false, true) {
                add(&format!("{name} entry"), meant(true, vec!["browse"], about));
            }
        }
        if grant.rights.add
            && grant.rights.delete
            && let Some(about) = about(region, true, true)
        {
            add(&format!("{name} entries"), meant(true, vec!["add", "delete", "rename"], about));
        }
    }
}

fn words_of(rights: Rights) -> Vec<&'static str> {
    let mut words = Vec::new();
    match (rights.compare, rights.search, rights.read) {
        (_, _, true) => words.push("read"),
        (compare, search, false) => {
            words.extend(compare.then_some("compare"));
            words.extend(search.then_some("search"));
        }
    }
    match (rights.add, rights.delete) {
        (true, true) => words.push("write"),
        _ if rights.own => words.extend(["join", "leave"]),
        // A rule cannot grant only the right to add values or only the right to delete values, except for the
        // requester's own name as a value.
        _ => {}
    }
    words
}

/// Returns the rights that later grants include and `own` does not.
fn rights_missing(own: Rights, later: &[Grant]) -> Vec<&'static str> {
    let any = |has: fn(Rights) -> bool| later.iter().any(|grant| has(grant.rights)) && !has(own);
    let mut words = Vec::new();
    if any(|rights| rights.read) {
        words.push("read");
        words.extend(["search", "compare"].into_iter().filter(|_| !own.search));
    }
    words.extend((any(|rights| rights.search) && own.read).then_some("search"));
    words.extend(any(|rights| rights.add || rights.delete).then_some("write"));
    if words.is_empty() {
        words.extend(["search", "compare"]);
    }
    words
}

/// Returns true if a region includes the entries themselves. OpenLDAP treats an entry separately from its attributes.
fn has_entry(region: &Region) -> bool {
    match &region.attributes {
        None => !region.but_attributes.iter().any(|name| name.eq_ignore_ascii_case("entry")),
        Some(names) => names.iter().any(|name| name.eq_ignore_ascii_case("entry")),
    }
}

/// Converts a region to rule parts. If `of_entries` is true, the parts are for the entries themselves, and the result
/// is `None` if the region does not include both `entry` and `children`. Otherwise the parts are for attributes, and
/// the result is `None` if the region includes no attributes.
fn about(region: &Region, of_entries: bool, is_allow: bool) -> Option<RuleParts> {
    let is_entry =
        |name: &String| name.eq_ignore_ascii_case("entry") || name.eq_ignore_ascii_case("children");
    let mut about = RuleParts::default();
    if of_entries {
        // In OpenLDAP, the right to write all attributes includes `entry` and `children`, which represent the entry and
        // its children.
        let has_both = match &region.attributes {
            None => !region.but_attributes.iter().any(is_entry),
            Some(names) => names.iter().filter(|name| is_entry(name)).count() == 2,
        };
        if !has_both {
            return None;
        }
    } else {
        let without_entry = |names: &[String]| names.iter().filter(|name| !is_entry(name)).cloned().collect();
        if let Some(names) = &region.attributes {
            about.attributes = without_entry(names);
            if about.attributes.is_empty() {
                return None;
            }
        }
        about.but_attributes = without_entry(&region.but_attributes);
        about.values.clone_from(&region.values);
    }
    about.place.clone_from(&region.place);
    about.but_places.clone_from(&region.but_places);
    about.filter.clone_from(&region.filter);
    about.is_where_seen = !of_entries && !has_entry(region) && is_allow;
    Some(about)
}
