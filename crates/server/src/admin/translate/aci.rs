//! `aci` values of 389 DS and OpenDJ: allow and deny, where deny wins, as here.

use super::{Translation, quoted};

/// Translates a value that stands in the entry `dn`; empty for a global one.
pub(super) fn translate(translation: &mut Translation, line: usize, dn: &str, value: &str) {
    let Some((targets, rest)) = split_version(value) else {
        return translation.leave_out(line, value, "there is no (version 3.0; acl ...)");
    };
    let mut place = (!dn.is_empty()).then(|| ("in", dn.to_owned()));
    let (mut attributes, mut matching, mut uses) = (None, String::new(), Vec::new());
    let mut values = Vec::new();
    for target in targets {
        let (key, negated, text) = match parts(target) {
            Some(parts) => parts,
            None => return translation.leave_out(line, target, "this is no target"),
        };
        let result = match key.as_str() {
            "targetattr" => attributes_of(text, negated).map(|of| attributes = Some(of)),
            "target" if !negated && !text.contains('*') && !text.contains('$') => {
                let named = text.strip_prefix("ldap:///").unwrap_or(text);
                let word = place.as_ref().map_or("in", |(word, _)| word);
                place = (!named.is_empty()).then(|| (word, named.to_owned()));
                Ok(())
            }
            "targetscope" => {
                let word = match text.to_ascii_lowercase().as_str() {
                    "base" | "baseobject" => "at",
                    "onelevel" | "one" | "singlelevel" => "children of",
                    "subordinate" | "children" => "below",
                    _ => "in",
                };
                place = place.map(|(_, dn)| (word, dn));
                Ok(())
            }
            "targetfilter" => match ldap::FilterBuf::parse(text) {
                Ok(filter) => {
                    let filter = if negated { format!("(!{filter})") } else { filter.to_string() };
                    matching = format!(" matching {}", quoted(&filter));
                    Ok(())
                }
                Err(_) => Err("this is no filter"),
            },
            "targattrfilters" if !negated => values_of(text).map(|of| values = of),
            "targetcontrol" | "extop" if !negated && dn.is_empty() => {
                uses.extend(text.split("||").map(str::trim).filter(|oid| !oid.is_empty()));
                Ok(())
            }
            _ => Err("entries, values, controls and operations cannot be chosen in this way here"),
        };
        if let Err(why) = result {
            let clause = format!("({target}) of {}", first_words(value));
            return translation.leave_out(line, &clause, format!("{why}; the whole aci is left out"));
        }
    }
    let names_others = |named: &str| {
        let mut named = named.trim_start_matches(" of ").split(", ");
        !named.all(|name| values.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)))
    };
    if !values.is_empty() && attributes.as_deref().is_some_and(names_others) {
        let why = "it is about some values of one attribute and all of another; the whole aci is left out";
        return translation.leave_out(line, &first_words(value), why);
    }
    let (name, permissions) = rest;
    for permission in permissions {
        let text = format!("{}: {permission}", name.trim());
        match permitted(permission) {
            Err(why) => translation.leave_out(line, &text, why),
            Ok(said) => {
                if said.asks_times {
                    let why = "times are in UTC here, and in the zone of the server there";
                    translation.leave_out(line, &text, why);
                }
                if !uses.is_empty() {
                    say_uses(translation, (line, &text, &name), &said, &uses);
                    continue;
                }
                if !values.is_empty() && said.rights != ["write"] {
                    let why = "of single values write alone is carried over";
                    translation.leave_out(line, &text, why);
                    continue;
                }
                let at = place.as_ref().map_or(String::new(), |(word, dn)| format!(" {word} {}", quoted(dn)));
                let at = at + &matching;
                for (attribute, filter) in &values {
                    let word = if said.is_allow { "allow" } else { "deny" };
                    let to = format!(" to {}{}", said.who.join(", "), said.rest);
                    let of = format!("of {attribute} values matching {}", quoted(filter));
                    translation.add(&name, &format!("{word} write {of}{at}{to}"));
                }
                if !values.is_empty() {
                    continue;
                }
                say(translation, (line, &text, &name), &said, attributes.as_deref(), &at);
            }
        }
    }
}

fn first_words(value: &str) -> String {
    value.chars().take(60).collect()
}

/// The pieces in front of `(version`, and the name and the permissions in it.
#[allow(clippy::type_complexity, reason = "read once, right above")]
fn split_version(value: &str) -> Option<(Vec<&str>, (String, Vec<&str>))> {
    let start = value.to_ascii_lowercase().find("version 3.0")?;
    let head = value.get(..start)?.trim_end().strip_suffix('(')?;
    let targets = bracketed(head);
    let rest = value.get(start..)?;
    let acl = rest.to_ascii_lowercase().find("acl")?;
    let mut quotes = rest.get(acl..)?.splitn(3, '"');
    let (_, name, body) = (quotes.next()?, quotes.next()?, quotes.next()?);
    let body = body.trim().trim_start_matches(';').trim();
    let body = body.strip_suffix(')').unwrap_or(body);
    let permissions = body.split(';').map(str::trim).filter(|piece| !piece.is_empty()).collect();
    Some((targets, (name.to_owned(), permissions)))
}

/// What stands in brackets, those within quotes and other brackets aside.
fn bracketed(text: &str) -> Vec<&str> {
    let (mut pieces, mut start, mut depth, mut is_quoted) = (Vec::new(), 0, 0_usize, false);
    for (place, c) in text.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '(' if !is_quoted => {
                depth += 1;
                if depth == 1 {
                    start = place + 1;
                }
            }
            ')' if !is_quoted => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    pieces.push(text.get(start..place).unwrap_or_default().trim());
                }
            }
            _ => {}
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// `key = "text"` or `key != "text"`.
fn parts(target: &str) -> Option<(String, bool, &str)> {
    let (key, text) = target.split_once('=')?;
    let key = key.trim();
    let negated = key.ends_with('!');
    let key = key.trim_end_matches(['!', '>']).trim().to_ascii_lowercase();
    Some((key, negated, text.trim().trim_matches('"').trim()))
}

fn attributes_of(text: &str, negated: bool) -> Result<String, &'static str> {
    let names: Vec<&str> = text.split("||").map(str::trim).filter(|name| !name.is_empty()).collect();
    if names.iter().any(|name| name.contains('*') && *name != "*") {
        return Err("attributes by a pattern");
    }
    Ok(match negated {
        true => format!(" of * but not of {}", names.join(", ")),
        false => format!(" of {}", names.join(", ")),
    })
}

/// The attributes of `add=ATTRIBUTE:FILTER && ..., del=...`, each with the filter for its values.
fn values_of(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    const WRONG: &str = "this is no list of attributes and filters";
    let (mut added, mut deleted) = (Vec::new(), Vec::new());
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (operation, list) = rest.split_once('=').ok_or(WRONG)?;
        let end = ["add=", "del=", "delete="].iter().filter_map(|word| list.find(word)).min();
        let (list, behind) = list.split_at(end.unwrap_or(list.len()));
        rest = behind;
        let into = match operation.trim().to_ascii_lowercase().as_str() {
            "add" => &mut added,
            "del" | "delete" => &mut deleted,
            _ => return Err(WRONG),
        };
        for named in list.trim_end_matches([',', ';', ' ']).split("&&") {
            let (attribute, filter) = named.trim().split_once(':').ok_or(WRONG)?;
            let filter = ldap::FilterBuf::parse(filter.trim()).map_err(|_| WRONG)?;
            into.push((attribute.trim().to_owned(), filter.to_string()));
        }
    }
    added.sort();
    deleted.sort();
    match added == deleted && !added.is_empty() {
        true => Ok(added),
        false => Err("other values may be added than deleted"),
    }
}

/// A permission taken apart.
struct Permitted {
    is_allow: bool,
    rights: Vec<String>,
    who: Vec<String>,
    rest: String,
    asks_times: bool,
}

fn permitted(text: &str) -> Result<Permitted, String> {
    let (word, rest) = text.split_once('(').ok_or("there are no rights in brackets")?;
    let is_allow = match word.trim().to_ascii_lowercase().as_str() {
        "allow" => true,
        "deny" => false,
        other => return Err(format!("{other:?} is neither allow nor deny")),
    };
    let (rights, bind) = rest.split_once(')').ok_or("the rights do not end")?;
    let rights = rights.split(',').map(|right| right.trim().to_ascii_lowercase()).collect();
    let lower = bind.to_ascii_lowercase();
    if lower.split_whitespace().any(|word| word == "not") || bind.contains("!=") {
        return Err("a bind rule that is a negation".to_owned());
    }
    let (mut who, mut from, mut over_tls) = (Vec::new(), Vec::new(), false);
    let (mut methods, mut days, mut hours) = (Vec::new(), Vec::new(), None);
    let conjunctions = lower.contains("\" and ") || lower.contains(") and ");
    let mut kinds = 0;
    for (key, sign, value) in conditions(bind) {
        match key.as_str() {
            "userdn" | "groupdn" | "userattr" => {
                kinds += 1;
                for named in value.split("||").map(str::trim) {
                    who.push(asker(&key, named)?);
                }
            }
            "ip" => {
                from.extend(value.split(',').map(|net| network(net.trim())).collect::<Result<Vec<_>, _>>()?)
            }
            "ssf" => over_tls = value.parse::<u32>().is_ok_and(|bits| bits > 1),
            "authmethod" if value.eq_ignore_ascii_case("none") => {}
            "authmethod" => methods.push(match value.to_ascii_lowercase().as_str() {
                "simple" => "simple".to_owned(),
                "sasl" => "sasl".to_owned(),
                "ssl" => "EXTERNAL".to_owned(),
                other => {
                    let name = other.strip_prefix("sasl").map_or(other, str::trim);
                    match directory::BindMethod::of_mechanism(name) {
                        directory::BindMethod::Sasl(known) => known.name().to_owned(),
                        _ => return Err(format!("{name:?} is no mechanism here")),
                    }
                }
            }),
            "dayofweek" => days.extend(value.split(',').map(day).collect::<Result<Vec<_>, _>>()?),
            "timeofday" => narrow(hours.get_or_insert((0, 24 * 60)), &sign, &value)?,
            _ => return Err(format!("{key} = {value:?} cannot be asked here")),
        }
    }
    let asks_times = !days.is_empty() || hours.is_some();
    let has_more = !from.is_empty() || over_tls || !methods.is_empty() || asks_times;
    if (conjunctions && kinds > 1) || (has_more && lower.contains("\" or ")) {
        return Err("conditions on who asks that hold together".to_owned());
    }
    if who.is_empty() {
        who.push("anyone".to_owned());
    }
    let mut rest = String::new();
    if !from.is_empty() {
        rest = format!(" from {}", from.join(", "));
    }
    if over_tls {
        rest += " over tls";
    }
    if !methods.is_empty() {
        rest += &format!(" bound by {}", methods.join(", "));
    }
    if !days.is_empty() {
        rest += &format!(" on {}", days.join(", "));
    }
    if let Some((start, end)) = hours {
        let clock = |minutes: u32| format!("{:02}:{:02}", minutes / 60, minutes % 60);
        rest += &format!(" between {} and {}", clock(start), clock(end));
    }
    Ok(Permitted { is_allow, rights, who, rest, asks_times })
}

fn day(text: &str) -> Result<&'static str, String> {
    const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let text = text.trim().to_ascii_lowercase();
    let named = DAYS.into_iter().find(|day| text.len() >= 3 && day.starts_with(&text));
    named.ok_or_else(|| format!("{text:?} is no day"))
}

/// Narrows a part of a day, in minutes, by a comparison with `1800`.
fn narrow((start, end): &mut (u32, u32), sign: &str, value: &str) -> Result<(), String> {
    let digits = value.parse::<u32>().map_err(|_| format!("{value:?} is no time"))?;
    let minutes = digits / 100 * 60 + digits % 100;
    match sign {
        ">=" => *start = minutes,
        ">" => *start = minutes + 1,
        "<" => *end = minutes,
        "<=" => *end = minutes + 1,
        "=" => (*start, *end) = (minutes, minutes + 1),
        _ => return Err(format!("{sign:?} compares no times")),
    }
    match *start < *end && *end <= 24 * 60 {
        true => Ok(()),
        false => Err("the times leave nothing between them".to_owned()),
    }
}

/// The keys, signs and values of a bind rule: `key = "value"`.
fn conditions(bind: &str) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    let mut pieces = bind.split('"');
    while let (Some(before), Some(value)) = (pieces.next(), pieces.next()) {
        let before = before.trim();
        let key = before.trim_end_matches(['=', '>', '<', '!']);
        let sign = before.get(key.len()..).unwrap_or_default();
        let key = key.trim_end().rsplit([' ', '(', ')']).next().unwrap_or_default();
        all.push((key.to_ascii_lowercase(), sign.to_owned(), value.trim().to_owned()));
    }
    all
}

fn asker(key: &str, named: &str) -> Result<String, String> {
    if key == "userattr" {
        return match named.split_once('#') {
            Some((attribute, kind))
                if kind.eq_ignore_ascii_case("USERDN") && !attribute.contains("parent") =>
            {
                Ok(format!("named by {attribute}"))
            }
            _ => Err(format!("userattr {named:?} names whom no rule can name here")),
        };
    }
    if let Some(url) = ldap::LdapUrl::parse(named).ok().filter(|url| url.scope.is_some() && key == "userdn") {
        if url.scope != Some(ldap::Scope::WholeSubtree) || url.host.is_some() {
            return Err(format!("{named:?} is a search of another scope or server"));
        }
        let place = if url.dn.is_empty() { String::new() } else { format!(" in {}", quoted(&url.dn)) };
        let matching = url.filter.map(|filter| format!(" matching {}", quoted(&filter)));
        return match (place.is_empty(), matching) {
            (true, None) => Ok("authenticated".to_owned()),
            (_, matching) => Ok(format!("users{place}{}", matching.unwrap_or_default())),
        };
    }
    let dn = named.strip_prefix("ldap:///").unwrap_or(named);
    if dn.contains(['*', '?', '$']) {
        return Err(format!("{named:?} is a pattern, a search, or a macro"));
    }
    Ok(match (key, dn.to_ascii_lowercase().as_str()) {
        ("groupdn", _) => format!("group {}", quoted(dn)),
        (_, "anyone") => "anyone".to_owned(),
        (_, "all") => "authenticated".to_owned(),
        (_, "self") => "self".to_owned(),
        (_, "parent") => return Err("ldap:///parent names the entry above".to_owned()),
        _ => format!("user {}", quoted(dn)),
    })
}

/// An address, one with a prefix or a mask, or with `*` at its end.
fn network(text: &str) -> Result<String, String> {
    let octets: Vec<&str> = text.split('.').collect();
    let fixed = octets.iter().take_while(|octet| **octet != "*").count();
    let written = if text.contains('*') && fixed > 0 && fixed < 4 {
        let mut all: Vec<&str> = octets.into_iter().take(fixed).collect();
        all.resize(4, "0");
        format!("{}/{}", all.join("."), fixed * 8)
    } else {
        text.replace('+', "/")
    };
    let is_network = written.parse::<ipnet::IpNet>().is_ok() || written.parse::<std::net::IpAddr>().is_ok();
    if is_network { Ok(format!("'{written}'")) } else { Err(format!("{text:?} is no network")) }
}

/// Controls and extended operations: who may read them may use them, in OpenDJ's words.
fn say_uses(
    translation: &mut Translation,
    (line, text, name): (usize, &str, &str),
    said: &Permitted,
    oids: &[&str],
) {
    if !said.rights.iter().any(|right| right == "read" || right == "all") {
        return translation.leave_out(line, text, "of controls and operations there is read alone");
    }
    if said.who.iter().any(|who| who == "self" || who.starts_with("named by")) {
        return translation.leave_out(
            line,
            text,
            "controls and operations are of no entry that could be somebody's",
        );
    }
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        oids.iter().copied().partition(|oid| *oid == "*" || directory::access::may_be_used(oid));
    if !unknown.is_empty() {
        let why = format!("{} are no controls and operations that rules are about here", unknown.join(", "));
        translation.leave_out(line, text, why);
    }
    let word = if said.is_allow { "allow" } else { "deny" };
    let to = format!(" to {}{}", said.who.join(", "), said.rest);
    match known.as_slice() {
        [] => {}
        known if known.contains(&"*") => translation.add(name, &format!("{word} use{to}")),
        known => translation.add(name, &format!("{word} use of {}{to}", known.join(", "))),
    }
}

fn say(
    translation: &mut Translation,
    (line, text, name): (usize, &str, &str),
    said: &Permitted,
    attributes: Option<&str>,
    at: &str,
) {
    let (mut of_attributes, mut of_entries) = (Vec::new(), Vec::new());
    let has = |right: &str| said.rights.iter().any(|known| known == right || known == "all");
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
    let is_proxy = said.rights.iter().any(|right| right == "proxy");
    of_entries.extend(is_proxy.then_some("proxy"));
    if said.is_allow && has("read") && !(has("search") && has("compare")) {
        translation.leave_out(line, text, "read without search or compare: here it gives these too");
    }
    // There an entry shows where something of it may be read.
    if !said.is_allow && has("read") && has("search") && has("compare") && attributes == Some(" of *") {
        if !has("write") {
            translation.leave_out(line, text, "who does not see an entry cannot change it here");
        }
        of_entries.push("browse");
    }
    let word = if said.is_allow { "allow" } else { "deny" };
    let to = format!(" to {}{}", said.who.join(", "), said.rest);
    let known = [&of_attributes[..], &of_entries[..]].concat();
    if known.is_empty() {
        return translation.leave_out(line, text, "none of these rights is one here");
    }
    if let (false, Some(attributes)) = (of_attributes.is_empty(), attributes) {
        translation.add(name, &format!("{word} {}{attributes}{at}{to}", of_attributes.join(", ")));
    }
    if !of_entries.is_empty() {
        translation.add(name, &format!("{word} {}{at}{to}", of_entries.join(", ")));
    }
    if attributes.is_none() && of_entries.is_empty() {
        translation.leave_out(line, text, "without targetattr it is about no attributes");
    }
}
