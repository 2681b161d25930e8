//! `aci` values of 389 DS, FreeIPA and OpenDJ. In all of them, as in Pando, a deny rule takes precedence over an allow
//! rule.
//!
//! [`text`] parses a value. The value is translated completely or not at all. If one permission, target or condition
//! has no equivalent, the whole value is omitted.

mod text;

use std::net::IpAddr;

use directory::access::{LinkConditions, Reach, RequesterSpec};
use ipnet::IpNet;

use super::Translation;
use super::rule_parts::{DAYS, RuleParts, check_dn, is_in};
use text::{Aci, Bind, Condition, Permission, Target};

/// Maximum number of alternatives in one bind rule.
const ALTERNATIVES_MAX: usize = 64;

/// Minimum strength of TLS connections in Pando, in bits.
const TLS_STRENGTH_BITS: u32 = 128;

/// Clause that cannot be translated, and the reason.
type Refused = (String, String);

/// Translates an `aci` value of the entry `dn`. For a global value, `dn` must be empty.
pub(super) fn translate(translation: &mut Translation, line: usize, dn: &str, value: &str) {
    let whole = |why: String| (first_words(value), format!("{why}; the whole aci is left out"));
    let aci = Aci::read(value).map_err(whole);
    let translated = aci.and_then(|aci| {
        let about = About::of(&aci.targets, dn, value)?;
        let mut translated = Translated::default();
        for permission in &aci.permissions {
            let text = format!("{}: {}", aci.name, permission.source);
            about.permission(permission, &text, &mut translated).map_err(|why| {
                let of_more = if aci.permissions.len() > 1 { "; the whole aci is left out" } else { "" };
                (text, format!("{why}{of_more}"))
            })?;
        }
        let texts = translation.texts(aci.name, &translated.rules).map_err(whole)?;
        Ok((texts, translated))
    });
    match translated {
        Ok((texts, Translated { rules, notices })) => {
            translation.rules.extend(texts);
            let clause = first_words(value);
            rules.iter().for_each(|rule| translation.report_readers_of_passwords(line, &clause, rule));
            notices.into_iter().for_each(|(clause, why)| translation.leave_out(line, &clause, why));
        }
        Err((clause, why)) => {
            let denies = value.to_ascii_lowercase().contains("deny");
            let opens = if denies { "; what it denies stays open where another rule allows it" } else { "" };
            translation.leave_out(line, &clause, format!("{why}{opens}"));
        }
    }
}

fn first_words(value: &str) -> String {
    value.chars().take(60).collect()
}

/// Rules that result from one `aci` value, and notices about them.
#[derive(Default)]
struct Translated {
    rules: Vec<RuleParts>,
    /// Differences in meaning between the rules and the source.
    notices: Vec<Refused>,
}

impl Translated {
    fn notice(&mut self, clause: &str, why: &str) {
        self.notices.push((clause.to_owned(), why.to_owned()));
    }
}

/// Targets of an `aci` value.
#[derive(Default)]
struct About {
    place: Option<(Reach, String)>,
    /// Attributes among the targets; `None` if the value has no target for attributes.
    attributes: Option<Vec<String>>,
    but_attributes: Vec<String>,
    filter: Option<String>,
    /// Attributes, each with the filter that its values must match.
    values: Vec<(String, String)>,
    /// OIDs of controls or extended operations.
    uses: Vec<String>,
}

impl About {
    fn of(targets: &[Target<'_>], dn: &str, value: &str) -> Result<About, Refused> {
        let whole = |why: String| (first_words(value), format!("{why}; the whole aci is left out"));
        check_dn(dn).map_err(whole)?;
        let mut about = About::default();
        let (mut place, mut reach) = (dn.to_owned(), Reach::In);
        for (number, target) in targets.iter().enumerate() {
            let said = match targets.iter().take(number).any(|earlier| earlier.key == target.key) {
                true => Err("it is there twice".to_owned()),
                false => about.take(target, dn, (&mut place, &mut reach)),
            };
            said.map_err(|why| {
                let clause = format!("({}) of {}", target.source, first_words(value));
                (clause, format!("{why}; the whole aci is left out"))
            })?;
        }
        match (place.is_empty(), reach) {
            (false, reach) => about.place = Some((reach, place)),
            (true, Reach::In) => {}
            (true, _) => {
                let why = "it is about the root DSE or the names below it, which no rule is about here";
                return Err(whole(why.to_owned()));
            }
        }
        let is_of_entries = about.attributes.is_some()
            || about.filter.is_some()
            || about.place.is_some()
            || !about.values.is_empty();
        if !about.uses.is_empty() && is_of_entries {
            return Err(whole("it is about controls or operations, and about entries as well".to_owned()));
        }
        let is_other =
            |name: &String| !about.values.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut named = about.attributes.iter().flatten().chain(&about.but_attributes);
        if !about.values.is_empty() && named.any(is_other) {
            let why = "it is about some values of one attribute and all of another";
            return Err(whole(why.to_owned()));
        }
        Ok(about)
    }

    fn take(
        &mut self,
        target: &Target<'_>,
        dn: &str,
        (place, reach): (&mut String, &mut Reach),
    ) -> Result<(), String> {
        let text = target.text;
        match target.key.as_str() {
            "targetattr" => {
                let names = attributes_of(text)?;
                (self.attributes, self.but_attributes) = match target.is_negated {
                    true if names.iter().any(|name| name == "*") => {
                        return Err("it is about no attributes".to_owned());
                    }
                    true => (Some(vec!["*".to_owned()]), names),
                    false => (Some(names), Vec::new()),
                };
            }
            "target" if !target.is_negated => {
                let named = dn_in(text)?;
                if !dn.is_empty() && (named.is_empty() || !is_in(named, dn)) {
                    return Err("its target is not at or below the entry that it stands in".to_owned());
                }
                named.clone_into(place);
            }
            "targetscope" if !target.is_negated => {
                *reach = match text.to_ascii_lowercase().as_str() {
                    "base" | "baseobject" => Reach::At,
                    "onelevel" | "one" | "singlelevel" => Reach::Children,
                    "subordinate" | "children" => Reach::Below,
                    "subtree" | "wholesubtree" | "sub" => Reach::In,
                    other => return Err(format!("{other:?} is no scope")),
                };
            }
            "targetfilter" => match ldap::FilterBuf::parse(text) {
                Ok(filter) if target.is_negated => self.filter = Some(format!("(!{filter})")),
                Ok(filter) => self.filter = Some(filter.to_string()),
                Err(_) => return Err("this is no filter".to_owned()),
            },
            "targattrfilters" if !target.is_negated => self.values = values_of(text)?,
            "targetcontrol" | "extop" if !target.is_negated && dn.is_empty() && self.uses.is_empty() => {
                self.uses.extend(pieces(text).map(str::to_owned));
                if self.uses.iter().any(String::is_empty) {
                    return Err("an OID is empty".to_owned());
                }
            }
            _ => {
                let why = "entries, values, controls and operations cannot be chosen in this way here";
                return Err(why.to_owned());
            }
        }
        Ok(())
    }

    /// Adds the rules that express a permission.
    fn permission(
        &self,
        permission: &Permission<'_>,
        text: &str,
        translated: &mut Translated,
    ) -> Result<(), String> {
        const RIGHTS: [&str; 11] = [
            "read",
            "write",
            "add",
            "delete",
            "search",
            "compare",
            "selfwrite",
            "proxy",
            "all",
            "import",
            "export",
        ];
        if let Some(unknown) = permission.rights.iter().find(|right| !RIGHTS.contains(&right.as_str())) {
            return Err(format!("{unknown:?} is no right here"));
        }
        let alternatives = alternatives_of(&permission.bind)?;
        if alternatives.iter().any(|(link, _)| link.days.is_some() || link.hours.is_some()) {
            translated.notice(text, "times are in UTC here, and in the zone of the server there");
        }
        for (link, requesters) in alternatives {
            let is_allow = permission.is_allow;
            let meant = RuleParts { is_allow, requesters, link, ..RuleParts::default() };
            if !self.uses.is_empty() {
                self.say_uses(permission, text, meant, translated)?;
            } else if !self.values.is_empty() {
                self.say_values(permission, &meant, translated)?;
            } else {
                self.say(permission, text, &meant, translated)?;
            }
        }
        Ok(())
    }

    /// Translates a permission for controls and extended operations. In OpenDJ, the right to read a control or extended
    /// operation means the right to use it.
    fn say_uses(
        &self,
        permission: &Permission<'_>,
        text: &str,
        meant: RuleParts,
        translated: &mut Translated,
    ) -> Result<(), String> {
        if !permission.has("read") {
            return Err("of controls and operations there is read alone".to_owned());
        }
        if meant
            .requesters
            .iter()
            .any(|requester| matches!(requester, RequesterSpec::Itself | RequesterSpec::NamedBy(_)))
        {
            return Err(
                "controls and operations belong to no entry, so a rule cannot depend on the owner of one"
                    .to_owned(),
            );
        }
        let is_known = |oid: &&String| *oid == "*" || directory::access::may_be_used(oid);
        let (known, unknown): (Vec<&String>, Vec<&String>) = self.uses.iter().partition(is_known);
        if !unknown.is_empty() {
            let unknown: Vec<_> = unknown.into_iter().map(String::as_str).collect();
            let why =
                format!("{} are no controls and operations that rules are about here", unknown.join(", "));
            translated.notice(text, &why);
        }
        let has_all = known.iter().any(|oid| *oid == "*");
        if !known.is_empty() {
            let attributes = if has_all { Vec::new() } else { known.into_iter().cloned().collect() };
            translated.rules.push(RuleParts { rights: vec!["use"], attributes, ..meant });
        }
        Ok(())
    }

    fn say_values(
        &self,
        permission: &Permission<'_>,
        meant: &RuleParts,
        translated: &mut Translated,
    ) -> Result<(), String> {
        if permission.rights != ["write"] {
            return Err("of single values write alone is carried over".to_owned());
        }
        for (attribute, filter) in &self.values {
            translated.rules.push(RuleParts {
                rights: vec!["write"],
                attributes: vec![attribute.clone()],
                values: Some(filter.clone()),
                place: self.place.clone(),
                filter: self.filter.clone(),
                ..meant.clone()
            });
        }
        Ok(())
    }

    fn say(
        &self,
        permission: &Permission<'_>,
        text: &str,
        meant: &RuleParts,
        translated: &mut Translated,
    ) -> Result<(), String> {
        let (mut of_attributes, mut of_entries) = (Vec::new(), Vec::new());
        let has = |right: &str| permission.has(right);
        if has("read") {
            of_attributes.push("read");
        } else {
            of_attributes.extend(has("search").then_some("search"));
            of_attributes.extend(has("compare").then_some("compare"));
        }
        of_attributes.extend(has("write").then_some("write"));
        if !has("write") && has("selfwrite") {
            of_attributes.extend(["join", "leave"]);
        }
        of_entries.extend((has("add") || has("import")).then_some("add"));
        of_entries.extend(has("delete").then_some("delete"));
        of_entries.extend((has("write") || has("export")).then_some("rename"));
        let is_proxy = permission.rights.iter().any(|right| right == "proxy");
        of_entries.extend(is_proxy.then_some("proxy"));
        if meant.is_allow && has("read") && !(has("search") && has("compare")) {
            translated.notice(text, "read without search or compare: here it gives these too");
        }
        // On the other servers, a requester can see an entry if any attribute of the entry is readable.
        let is_of_all =
            self.but_attributes.is_empty() && self.attributes.as_deref().is_some_and(|names| names == ["*"]);
        if !meant.is_allow && has("read") && has("search") && has("compare") && is_of_all {
            if !has("write") {
                translated.notice(text, "who does not see an entry cannot change it here");
            }
            of_entries.push("browse");
        }
        if self.attributes.is_none() && of_entries.is_empty() {
            return Err("without targetattr it is about no attributes".to_owned());
        }
        let at = RuleParts { place: self.place.clone(), filter: self.filter.clone(), ..meant.clone() };
        if let (false, Some(attributes)) = (of_attributes.is_empty(), &self.attributes) {
            translated.rules.push(RuleParts {
                rights: of_attributes,
                attributes: attributes.clone(),
                but_attributes: self.but_attributes.clone(),
                ..at.clone()
            });
        }
        if !of_entries.is_empty() {
            translated.rules.push(RuleParts { rights: of_entries, ..at });
        }
        Ok(())
    }
}

impl Permission<'_> {
    /// Returns true if the permission contains a right, either by the right's name or by "all". Must not be called for
    /// the right "proxy", because "all" does not include it.
    fn has(&self, right: &str) -> bool {
        self.rights.iter().any(|known| known == right || known == "all")
    }
}

fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split("||").map(str::trim)
}

fn attributes_of(text: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = pieces(text).map(str::to_owned).collect();
    if names.iter().any(String::is_empty) {
        return Err("an attribute has no name".to_owned());
    }
    if names.iter().any(|name| name.contains('*') && name != "*") {
        return Err("attributes by a pattern".to_owned());
    }
    Ok(names)
}

/// Parses `add=ATTRIBUTE:FILTER && ..., del=...`. Returns the attributes, each with the filter that its values must
/// match.
fn values_of(text: &str) -> Result<Vec<(String, String)>, String> {
    const WRONG: &str = "this is no list of attributes and filters";
    let (mut added, mut deleted) = (Vec::new(), Vec::new());
    for part in outside_brackets(text, &[",", ";"]) {
        let (operation, list) = part.split_once('=').ok_or(WRONG)?;
        let into = match operation.trim().to_ascii_lowercase().as_str() {
            "add" => &mut added,
            "del" | "delete" => &mut deleted,
            _ => return Err(WRONG.to_owned()),
        };
        for named in outside_brackets(list, &["&&"]) {
            let (attribute, filter) = named.split_once(':').ok_or(WRONG)?;
            let filter = ldap::FilterBuf::parse(filter.trim()).map_err(|_| WRONG)?;
            into.push((attribute.trim().to_owned(), filter.to_string()));
        }
    }
    added.sort();
    deleted.sort();
    match added == deleted && !added.is_empty() {
        true => Ok(added),
        false => Err("other values may be added than deleted".to_owned()),
    }
}

/// Splits a text at separators that are outside of brackets. In a filter, brackets that belong to a value appear only
/// as `\28` and `\29`.
fn outside_brackets<'a>(text: &'a str, separators: &[&str]) -> Vec<&'a str> {
    let (mut pieces, mut start, mut depth, mut skipped_to) = (Vec::new(), 0, 0_usize, 0);
    for (place, c) in text.char_indices().filter(|(_, c)| c.is_ascii()) {
        match c {
            _ if place < skipped_to => {}
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {
                let rest = text.get(place..).unwrap_or_default();
                let found = separators.iter().find(|separator| depth == 0 && rest.starts_with(**separator));
                if let Some(separator) = found {
                    pieces.push(text.get(start..place).unwrap_or_default().trim());
                    skipped_to = place + separator.len();
                    start = skipped_to;
                }
            }
        }
    }
    pieces.push(text.get(start..).unwrap_or_default().trim());
    pieces
}

/// Returns the alternatives in a bind rule. Each alternative consists of conditions on the connection, and of the
/// requesters to whom the permission applies if the connection meets these conditions.
fn alternatives_of(bind: &Bind<'_>) -> Result<Vec<(LinkConditions, Vec<RequesterSpec>)>, String> {
    let mut alternatives: Vec<(LinkConditions, Vec<RequesterSpec>)> = Vec::new();
    for conjunction in conjunctions(bind)? {
        let (link, requesters) = of_conjunction(&conjunction)?;
        match alternatives.iter_mut().find(|(known, _)| *known == link) {
            Some((_, known)) => known.extend(requesters),
            None => alternatives.push((link, requesters)),
        }
    }
    Ok(alternatives)
}

/// Converts a bind rule into alternatives. Each alternative is a conjunction of conditions.
fn conjunctions<'a>(bind: &Bind<'a>) -> Result<Vec<Vec<Condition<'a>>>, String> {
    let all = match bind {
        Bind::Is(condition) => vec![vec![condition.clone()]],
        Bind::Not(_) => return Err("a bind rule that is a negation".to_owned()),
        Bind::Any(any) => any.iter().map(conjunctions).collect::<Result<Vec<_>, _>>()?.concat(),
        Bind::All(all) => {
            let mut product = vec![Vec::new()];
            for inner in all {
                let inner = conjunctions(inner)?;
                let with = |before: &Vec<Condition<'a>>| {
                    let before = before.clone();
                    inner.iter().map(move |after| [&before[..], after].concat()).collect::<Vec<_>>()
                };
                product = product.iter().flat_map(with).collect();
                if product.len() > ALTERNATIVES_MAX {
                    break;
                }
            }
            product
        }
    };
    match all.len() > ALTERNATIVES_MAX {
        true => Err("its bind rule has too many alternatives".to_owned()),
        false => Ok(all),
    }
}

/// Splits a conjunction. Returns its conditions on the connection, and the requesters for whom its other conditions
/// hold.
fn of_conjunction(conditions: &[Condition<'_>]) -> Result<(LinkConditions, Vec<RequesterSpec>), String> {
    let mut link = LinkConditions::default();
    let mut requesters = None;
    for condition in conditions {
        let Condition { key, sign, value } = condition;
        let earlier = conditions.iter().filter(|other| other.key == *key).count();
        if earlier > 1 && !matches!(key.as_str(), "timeofday" | "userdn" | "groupdn" | "userattr") {
            return Err(format!("two conditions {key} that hold together"));
        }
        match (key.as_str(), *sign) {
            (_, "!=") => return Err("a bind rule that is a negation".to_owned()),
            ("userdn" | "groupdn" | "userattr", "=") => {
                let named: Vec<&str> = match key.as_str() {
                    "userattr" => vec![value],
                    _ => pieces(value).collect(),
                };
                let named = named.into_iter().map(|named| requester(key, named)).collect::<Result<_, _>>()?;
                if requesters.replace(named).is_some() {
                    return Err("conditions on who asks that hold together".to_owned());
                }
            }
            ("ip", "=") => {
                link.networks = value.split(',').map(|net| network(net.trim())).collect::<Result<_, _>>()?;
            }
            ("ssf", sign) => link.over_tls = over_tls(sign, value)?,
            ("authmethod", "=") => link.methods.extend(method(value)?),
            ("dayofweek", "=") => {
                let mut days = [false; 7];
                for named in value.split(',') {
                    *day(named.trim(), &mut days)? = true;
                }
                link.days = Some(days);
            }
            ("timeofday", sign) => narrow(link.hours.get_or_insert((0, 24 * 60)), sign, value)?,
            (key, sign) => return Err(format!("{key} {sign} {value:?} cannot be expressed here")),
        }
    }
    Ok((link, requesters.unwrap_or_else(|| vec![RequesterSpec::Anyone])))
}

/// Returns true if a condition on the strength requires TLS. In Pando, TLS connections have a strength of at least 128
/// bits, and other connections have none.
fn over_tls(sign: &str, value: &str) -> Result<bool, String> {
    let bits = value.parse::<u32>().map_err(|_| format!("{value:?} is no strength"))?;
    let least = match sign {
        ">=" | "=" => bits,
        ">" => bits.saturating_add(1),
        _ => return Err(format!("a strength by {sign} cannot be expressed here")),
    };
    match least {
        0 if sign != "=" => Ok(false),
        2..=TLS_STRENGTH_BITS => Ok(true),
        _ => Err(format!("a strength of {sign} {bits} cannot be expressed here")),
    }
}

/// Returns the bind method that a value requires. Returns `None` for the value `none`, which requires no method.
fn method(value: &str) -> Result<Option<&'static str>, String> {
    Ok(match value.to_ascii_lowercase().as_str() {
        "none" => None,
        "simple" => Some("simple"),
        "sasl" => Some("sasl"),
        "ssl" => Some("EXTERNAL"),
        other => {
            let name = other.strip_prefix("sasl").map_or(other, str::trim);
            match directory::BindMethod::of_mechanism(name) {
                directory::BindMethod::Sasl(known) => Some(known.name()),
                _ => return Err(format!("{name:?} is no mechanism here")),
            }
        }
    })
}

/// Finds the day of the week whose name begins with `text`. Fails if `text` has fewer than three letters.
fn day<'d>(text: &str, days: &'d mut [bool; 7]) -> Result<&'d mut bool, String> {
    let text = text.to_ascii_lowercase();
    let place = DAYS.iter().position(|day| text.len() >= 3 && day.starts_with(&text));
    place.and_then(|place| days.get_mut(place)).ok_or_else(|| format!("{text:?} is no day"))
}

/// Narrows a range, in minutes of a day, by a comparison with a time such as `1800`.
fn narrow((start, end): &mut (u64, u64), sign: &str, value: &str) -> Result<(), String> {
    let is_time = value.len() == 4 && value.bytes().all(|octet| octet.is_ascii_digit());
    let digits = value.parse::<u64>().ok().filter(|_| is_time);
    let digits = digits.filter(|digits| *digits <= 2400 && digits % 100 < 60);
    let digits = digits.ok_or_else(|| format!("{value:?} is no time"))?;
    let minutes = digits / 100 * 60 + digits % 100;
    let (from, to) = match sign {
        ">=" => (minutes, 24 * 60),
        ">" => (minutes + 1, 24 * 60),
        "<" => (0, minutes),
        "<=" => (0, minutes + 1),
        "=" => (minutes, minutes + 1),
        _ => return Err(format!("{sign:?} compares no times")),
    };
    (*start, *end) = ((*start).max(from), (*end).min(to));
    match *start < *end {
        true => Ok(()),
        false => Err("the times leave nothing between them".to_owned()),
    }
}

/// Returns the DN in a URL of the form `ldap:///DN`. The DN may be empty. Refuses patterns and all other URLs.
fn dn_in(named: &str) -> Result<&str, String> {
    let scheme = named.get(.."ldap:///".len()).unwrap_or_default();
    if !scheme.eq_ignore_ascii_case("ldap:///") {
        return Err(format!("{named:?} does not begin with ldap:///"));
    }
    let dn = named.get("ldap:///".len()..).unwrap_or_default().trim();
    if dn.contains(['*', '?', '$']) {
        return Err(format!("{named:?} is a pattern, a search, or a macro"));
    }
    if dn.contains('%') {
        return Err(format!("{named:?} has a %, which some servers decode and others do not"));
    }
    check_dn(dn)?;
    Ok(dn)
}

fn requester(key: &str, named: &str) -> Result<RequesterSpec, String> {
    if key == "userattr" {
        return match named.split_once('#') {
            Some((attribute, kind))
                if kind.eq_ignore_ascii_case("USERDN") && !attribute.contains("parent") =>
            {
                Ok(RequesterSpec::NamedBy(attribute.to_owned()))
            }
            _ => Err(format!("userattr {named:?} names whom no rule can name here")),
        };
    }
    if key == "userdn" && named.contains('?') {
        return searched(named);
    }
    let whom = named.get("ldap:///".len()..).unwrap_or_default().to_ascii_lowercase();
    let is_word = matches!(whom.as_str(), "anyone" | "all" | "self" | "parent");
    let dn = if is_word && key == "userdn" { "" } else { dn_in(named)? };
    match (key, whom.as_str()) {
        ("userdn", "anyone") => Ok(RequesterSpec::Anyone),
        ("userdn", "all") => Ok(RequesterSpec::Authenticated),
        ("userdn", "self") => Ok(RequesterSpec::Itself),
        ("userdn", "parent") => Err("ldap:///parent names the entry above".to_owned()),
        _ if dn.is_empty() => Err(format!("{named:?} names no entry")),
        ("groupdn", _) => Ok(RequesterSpec::Group(dn.to_owned())),
        _ => Ok(RequesterSpec::User(dn.to_owned())),
    }
}

/// Returns the requesters that a search `ldap:///BASE??sub?FILTER` finds.
fn searched(named: &str) -> Result<RequesterSpec, String> {
    let url = ldap::LdapUrl::parse(named).map_err(|error| format!("{named:?} is no URL: {error}"))?;
    let is_here = url.host.is_none() && url.scheme == ldap::UrlScheme::Ldap;
    if url.scope != Some(ldap::Scope::WholeSubtree) || !is_here || !url.extensions.is_empty() {
        return Err(format!("{named:?} is a search of another scope or server"));
    }
    // Refuse a macro, because other servers expand it everywhere, even in filters.
    if named.contains('$') {
        return Err(format!("{named:?} is a pattern, a search, or a macro"));
    }
    let place = Some(url.dn).filter(|dn| !dn.trim().is_empty());
    Ok(match (place, url.filter) {
        (None, None) => RequesterSpec::Authenticated,
        (Some(place), None) => RequesterSpec::UsersIn(place),
        (place, Some(filter)) => RequesterSpec::UsersMatching(place, filter),
    })
}

/// Parses an address of a client. The address may have a prefix length or a mask, or `*` in place of its last parts.
fn network(text: &str) -> Result<IpNet, String> {
    let wrong = || format!("{text:?} is no network");
    if text.contains('*') {
        let octets: Vec<&str> = text.split('.').collect();
        let fixed: Vec<&str> = octets.iter().copied().take_while(|octet| *octet != "*").collect();
        let is_at_end = octets.iter().skip(fixed.len()).all(|octet| *octet == "*");
        if fixed.is_empty() || !is_at_end || octets.len() > 4 {
            return Err(wrong());
        }
        let mut all = fixed.clone();
        all.resize(4, "0");
        return format!("{}/{}", all.join("."), fixed.len() * 8).parse::<IpNet>().map_err(|_| wrong());
    }
    if let Some((address, mask)) = text.split_once(['+', '/']) {
        let address = address.parse::<IpAddr>().map_err(|_| wrong())?;
        let network = match (mask.parse::<u8>(), mask.parse::<IpAddr>()) {
            (Ok(length), _) => IpNet::new(address, length).ok(),
            (_, Ok(mask)) => IpNet::with_netmask(address, mask).ok(),
            _ => None,
        };
        return network.map(|network| network.trunc()).ok_or_else(wrong);
    }
    text.parse::<IpAddr>().map(IpNet::from).map_err(|_| wrong())
}

#[cfg(test)]
mod tests;
