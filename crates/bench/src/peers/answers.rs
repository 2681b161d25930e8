//! Comparison of the answers of servers with the same data. Sampled entries are searched for by DN, by every indexed
//! attribute and by parts of values. The answers are compared attribute by attribute.

use std::collections::BTreeMap;

use client::{Connection, Entry};
use ldap::{Controls, Dn, FilterBuf, Request, ResultCode, Scope, SearchRequest, SelectionBuf};

use super::{Data, IndexKind, Passwords, PeerError, Setup};
use crate::result::Comparison;

/// Maximum number of entries of a search. If there are more, only the result code is compared, because each server
/// chooses the entries that it returns.
const SIZE_LIMIT: u32 = 200;
/// Maximum number of differences that a result describes.
const EXAMPLES_MAX: usize = 20;

/// One search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Base DN.
    pub base: String,
    /// Scope.
    pub scope: Scope,
    /// Filter.
    pub filter: String,
}

/// A server's answer: the result code, and the entries in a form that does not depend on the order of entries or the
/// spelling of DNs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    code: ResultCode,
    entries: BTreeMap<String, Attributes>,
}

type Attributes = BTreeMap<String, Vec<Vec<u8>>>;

/// Returns the searches to send, for the sampled entries of the data.
pub fn questions(setup: &Setup, data: &Data) -> Vec<Question> {
    let mut questions = Vec::new();
    let everywhere =
        |filter: String| Question { base: setup.suffix.clone(), scope: Scope::WholeSubtree, filter };
    for sample in &data.samples {
        questions.push(Question {
            base: sample.dn.clone(),
            scope: Scope::BaseObject,
            filter: "(objectClass=*)".to_owned(),
        });
        for index in &setup.indexes {
            let Some(value) = sample.text(&index.attribute) else { continue };
            let name = &index.attribute;
            if index.kinds.contains(&IndexKind::Equality) {
                questions.push(everywhere(format!("({name}={})", escaped(&value))));
            }
            if index.kinds.contains(&IndexKind::Substring) && value.chars().count() > 4 {
                let middle: String = value.chars().skip(1).take(value.chars().count() - 2).collect();
                questions.push(everywhere(format!("({name}=*{}*)", escaped(&middle))));
                let begin: String = value.chars().take(value.chars().count() - 1).collect();
                questions.push(everywhere(format!("({name}={}*)", escaped(&begin))));
            }
        }
    }
    // Several samples may have the same value, but each value is searched for only once.
    let mut seen = std::collections::BTreeSet::new();
    questions.retain(|question| seen.insert((question.base.clone(), question.filter.clone())));
    questions
}

/// Escapes a value (RFC 4515 section 3).
fn escaped(value: &str) -> String {
    let mut text = String::new();
    for c in value.chars() {
        match c {
            '*' | '(' | ')' | '\\' | '\0' => text.push_str(&format!("\\{:02x}", c as u32)),
            _ => text.push(c),
        }
    }
    text
}

/// Sends all searches to one server. `passwords` is the storage form of passwords in the data.
///
/// # Errors
/// The server does not answer. Any result code is an answer.
pub fn send_all(
    connection: &mut Connection,
    questions: &[Question],
    passwords: Passwords,
) -> Result<Vec<Answer>, PeerError> {
    questions.iter().map(|question| send(connection, question, passwords)).collect()
}

fn send(connection: &mut Connection, question: &Question, passwords: Passwords) -> Result<Answer, PeerError> {
    let failed = |error: &dyn std::fmt::Display| {
        PeerError::Answer(format!("search {} {}: {error}", question.base, question.filter))
    };
    let filter = FilterBuf::parse(&question.filter).map_err(|error| failed(&error))?;
    let attributes = SelectionBuf::from_iter(["*"]);
    let (filter, attributes) = (filter.as_filter(), attributes.as_selection());
    let request = SearchRequest {
        size_limit: SIZE_LIMIT,
        ..SearchRequest::new(&question.base, question.scope, filter, attributes)
    };
    let reply =
        connection.request(Request::Search(request), Controls::NONE).map_err(|error| failed(&error))?;
    let code = reply.outcome.code;
    let is_whole = code != ResultCode::SIZE_LIMIT_EXCEEDED;
    let entries = reply.entries.into_iter().filter(|_| is_whole);
    Ok(Answer { code, entries: entries.map(|entry| normal(entry, passwords)).collect() })
}

fn normal(entry: Entry, passwords: Passwords) -> (String, Attributes) {
    let mut attributes = Attributes::new();
    for attribute in entry.attributes {
        let name = attribute.description.to_ascii_lowercase();
        // 389 DS stores access control rules in this attribute. They are not part of the data.
        if name == "aci" {
            continue;
        }
        // Servers return a clear-text password in their stored form: OpenDJ adds the prefix {CLEAR}. Hashes are the
        // same on all servers.
        if name == "userpassword" && passwords == Passwords::Clear {
            continue;
        }
        let mut values = attribute.values;
        if name == "objectclass" {
            values.iter_mut().for_each(|value| value.make_ascii_lowercase());
        }
        values.sort_unstable();
        attributes.insert(name, values);
    }
    (normal_dn(&entry.dn), attributes)
}

/// Returns a DN in lower case and with uniform escapes.
fn normal_dn(text: &str) -> String {
    Dn::parse(text).map_or_else(|_| text.to_lowercase(), |dn| dn.to_string().to_lowercase())
}

/// Compares answers to the same searches. All servers are compared with the first server.
pub fn compare(name: &str, questions: &[Question], servers: &[(String, Vec<Answer>)]) -> Comparison {
    let mut comparison = Comparison {
        workload: name.to_owned(),
        servers: servers.iter().map(|(product, _)| product.clone()).collect(),
        requests: questions.len() as u64,
        differing: 0,
        examples: Vec::new(),
    };
    let Some(((reference, expected), others)) = servers.split_first() else { return comparison };
    for (number, question) in questions.iter().enumerate() {
        let differences: Vec<_> = others
            .iter()
            .filter_map(|(product, answers)| {
                let difference = difference(&expected[number], &answers[number])?;
                Some(format!(
                    "{} {}: {product} against {reference}: {difference}",
                    question.base, question.filter
                ))
            })
            .collect();
        comparison.differing += u64::from(!differences.is_empty());
        let room = EXAMPLES_MAX.saturating_sub(comparison.examples.len());
        comparison.examples.extend(differences.into_iter().take(room));
    }
    comparison
}

/// Describes the difference between two answers.
fn difference(one: &Answer, other: &Answer) -> Option<String> {
    if one == other {
        return None;
    }
    if one.code != other.code {
        return Some(format!("{} instead of {}", other.code, one.code));
    }
    if let Some(dn) = one.entries.keys().find(|dn| !other.entries.contains_key(*dn)) {
        return Some(format!("no {dn} ({} entries instead of {})", other.entries.len(), one.entries.len()));
    }
    for (dn, attributes) in &other.entries {
        let Some(expected) = one.entries.get(dn) else {
            return Some(format!(
                "{dn} too ({} entries instead of {})",
                other.entries.len(),
                one.entries.len()
            ));
        };
        let names = expected.keys().chain(attributes.keys());
        let mut differing = names.filter(|name| !are_same(name, expected.get(*name), attributes.get(*name)));
        if let Some(name) = differing.next() {
            let count = |of: &Attributes| of.get(name).map_or(0, Vec::len);
            return Some(format!(
                "{dn} has other values of {name} ({} instead of {})",
                count(attributes),
                count(expected)
            ));
        }
    }
    None
}

/// Returns true if values are equal. 389 DS and OpenDJ add superclasses to objectClass; OpenLDAP and Pando return the
/// given values. RFC 4512 section 3.3 allows both behaviors.
fn are_same(name: &str, one: Option<&Vec<Vec<u8>>>, other: Option<&Vec<Vec<u8>>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) if name == "objectclass" => {
            let is_within =
                |one: &[Vec<u8>], other: &[Vec<u8>]| one.iter().all(|class| other.contains(class));
            is_within(one, other) || is_within(other, one)
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::Attribute;

    fn answer(dn: &str, sn: &[&str]) -> Answer {
        let values = sn.iter().map(|value| value.as_bytes().to_vec()).collect();
        let attributes = vec![Attribute { description: "SN".to_owned(), values }];
        let entries = [normal(Entry { dn: dn.to_owned(), attributes }, Passwords::Salted)];
        Answer { code: ResultCode::SUCCESS, entries: entries.into_iter().collect() }
    }

    #[test]
    fn order_case_and_escapes_do_not_count_as_differences() {
        let one = answer("cn=A\\2cB, O=x", &["1", "2"]);
        assert_eq!(difference(&one, &answer("CN=a\\,b,o=X", &["2", "1"])), None);
        let check = |other: Answer, part: &str| {
            let found = difference(&one, &other).unwrap();
            assert!(found.contains(part), "{found}");
        };
        check(answer("cn=A\\2cB,o=x", &["1"]), "other values of sn (1 instead of 2)");
        let classes =
            |classes: &[&str]| Some(classes.iter().map(|class| class.as_bytes().to_vec()).collect());
        let given = classes(&["person"]);
        let completed = classes(&["person", "top"]);
        assert!(are_same("objectclass", given.as_ref(), completed.as_ref()));
        assert!(!are_same("objectclass", classes(&["device", "top"]).as_ref(), given.as_ref()));
        assert!(!are_same("cn", given.as_ref(), completed.as_ref()));
        check(answer("cn=other,o=x", &["1", "2"]), "no cn=a\\,b,o=x");
        check(Answer { code: ResultCode::BUSY, ..one.clone() }, "busy instead of success");
    }

    /// OpenDJ returns a clear-text password with a scheme prefix; other servers return it as it was given. This does
    /// not count as a difference.
    #[test]
    fn the_form_of_clear_passwords_does_not_count_as_a_difference() {
        let answer = |password: &str, passwords: Passwords| {
            let attribute = |name: &str, value: &str| Attribute {
                description: name.to_owned(),
                values: vec![value.as_bytes().to_vec()],
            };
            let attributes = vec![attribute("sn", "a"), attribute("userPassword", password)];
            let entries = [normal(Entry { dn: "cn=a,o=x".to_owned(), attributes }, passwords)];
            Answer { code: ResultCode::SUCCESS, entries: entries.into_iter().collect() }
        };
        let check = |passwords: Passwords, is_same: bool| {
            let one = answer("secret", passwords);
            let other = answer("{CLEAR}secret", passwords);
            assert_eq!(difference(&one, &other).is_none(), is_same, "{passwords:?}");
            assert!(one.entries["cn=a,o=x"].contains_key("sn"));
        };
        check(Passwords::Clear, true);
        check(Passwords::Salted, false);
        check(Passwords::Slow, false);
    }

    #[test]
    fn each_sample_is_queried_through_every_index() {
        let setup =
            Setup::new("o=x", vec!["cn:equality,substring".parse().unwrap(), "uid".parse().unwrap()], 0);
        let attributes = vec![Attribute { description: "cn".to_owned(), values: vec![b"Ab (c)*".to_vec()] }];
        let sample = Entry { dn: "cn=a,o=x".to_owned(), attributes };
        let data = Data {
            path: "f".into(),
            template: "t".to_owned(),
            seed: 1,
            entries: 2,
            bytes: 0,
            suffix: "o=x".to_owned(),
            schema: None,
            samples: vec![sample.clone(), sample],
            user: None,
        };
        let questions = questions(&setup, &data);
        let filters: Vec<_> = questions.iter().map(|question| question.filter.as_str()).collect();
        assert_eq!(
            filters,
            ["(objectClass=*)", "(cn=Ab \\28c\\29\\2a)", "(cn=*b \\28c\\29*)", "(cn=Ab \\28c\\29*)"]
        );
        for question in &questions {
            FilterBuf::parse(&question.filter).unwrap();
        }
    }

    #[test]
    fn differing_requests_are_counted_once() {
        let question =
            Question { base: "o=x".to_owned(), scope: Scope::BaseObject, filter: "(a=b)".to_owned() };
        let same = || vec![answer("o=x", &["1"])];
        let servers = [
            ("A".to_owned(), same()),
            ("B".to_owned(), vec![answer("o=x", &[])]),
            ("C".to_owned(), vec![answer("o=y", &[])]),
        ];
        let comparison = compare("w", std::slice::from_ref(&question), &servers);
        assert_eq!((comparison.requests, comparison.differing, comparison.examples.len()), (1, 1, 2));
        let comparison = compare("w", &[question], &[("A".to_owned(), same()), ("B".to_owned(), same())]);
        assert_eq!(comparison.differing, 0);
    }
}
