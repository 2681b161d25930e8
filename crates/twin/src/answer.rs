//! Responses in a form that can be compared.

use std::collections::BTreeMap;

use ldap::{Dn, PagedResults, Response, ResponseMessage, ResultCode, oids};

use crate::exchange::DECODE_LIMITS;

/// All responses to a request.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// Result code; `None` until the last response has arrived.
    pub(crate) code: Option<ResultCode>,
    /// Entries in order of arrival.
    pub(crate) entries: Vec<AnswerEntry>,
    /// URIs of continuation references.
    pub(crate) references: Vec<String>,
    /// Value of an extended response.
    pub(crate) value: Option<Vec<u8>>,
    /// Cookie of paged results; empty after the last page.
    pub(crate) cookie: Option<Vec<u8>>,
    /// Size of the responses in bytes.
    pub(crate) size: usize,
}

/// An entry that a search returned.
#[derive(Debug)]
pub(crate) struct AnswerEntry {
    pub(crate) dn: String,
    /// Normalized DN.
    pub(crate) normal: String,
    /// Values by description in lower case.
    pub(crate) attributes: BTreeMap<String, Vec<Vec<u8>>>,
}

impl Answer {
    /// Adds a response. Returns `None` if it cannot be decoded, and true if it is the last response.
    pub(crate) fn take(&mut self, frame: &[u8]) -> Option<bool> {
        let message = ResponseMessage::decode(frame, &DECODE_LIMITS).ok()?;
        self.size += frame.len();
        match message.response {
            Response::SearchEntry(entry) => {
                let mut attributes: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
                for attribute in entry.attributes.iter() {
                    let values = attribute.values.iter().map(<[u8]>::to_vec);
                    attributes.entry(attribute.description.to_ascii_lowercase()).or_default().extend(values);
                }
                let (dn, normal) = (entry.object_name.to_owned(), normal_dn(entry.object_name));
                self.entries.push(AnswerEntry { dn, normal, attributes });
            }
            Response::SearchReference(uris) => self.references.extend(uris.iter().map(str::to_owned)),
            Response::Extended { value, .. } => self.value = value.map(<[u8]>::to_vec),
            _ => {}
        }
        let result = message.response.result();
        self.code = result.map(|result| result.code).or(self.code);
        let paged = message.controls.find(oids::PAGED_RESULTS).and_then(|control| control.value);
        if let Some(paged) = paged.and_then(PagedResults::decode) {
            self.cookie = Some(paged.cookie.to_vec());
        }
        Some(result.is_some())
    }

    /// Adds the entries of earlier pages of the same search.
    pub(crate) fn add_earlier_pages(&mut self, mut earlier: Answer) {
        earlier.entries.append(&mut self.entries);
        self.entries = earlier.entries;
        self.size += earlier.size;
    }
}

/// Normalizes a DN: names and values in lower case, with single spaces. Text that is not a DN is normalized as one
/// value.
pub(crate) fn normal_dn(text: &str) -> String {
    let Ok(dn) = Dn::parse(text) else { return normal_text(text) };
    let rdns = dn.rdns().map(|rdn| {
        let mut avas: Vec<String> = rdn
            .avas
            .iter()
            .map(|ava| {
                let value = ldap::escaped_value(&ava.value);
                format!("{}={}", ava.attribute.to_ascii_lowercase(), normal_text(&value))
            })
            .collect();
        avas.sort_unstable();
        avas.join("+")
    });
    rdns.collect::<Vec<_>>().join(",")
}

/// Returns text in lower case, trimmed and with single spaces.
pub(crate) fn normal_text(text: &str) -> String {
    text.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_have_one_normal_form() {
        assert_eq!(normal_dn("UID=Anna,  OU=My  People,dc=X"), normal_dn("uid=anna,ou=my people,DC=x"));
        assert_eq!(normal_dn("a=1+b=2,c=3"), normal_dn("B=2+A=1,C=3"));
        assert_ne!(normal_dn("cn=a\\,b,c=x"), normal_dn("cn=a,cn=b,c=x"));
        assert_eq!(normal_dn("no name"), "no name");
    }
}
