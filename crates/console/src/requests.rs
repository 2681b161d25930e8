//! Requests to the directory with answers of limited size. The result of a search is read page by page, and the values
//! of an entry are read in ranges.

use client::{Attribute, ClientError, Connection, Entry, Reply};
use ldap::{
    Control, ControlsBuf, FilterBuf, PagedResults, PolicyResponse, Request, ResultCode, Scope, SearchRequest,
    SelectionBuf, oids,
};

use crate::limits::{PAGE_BYTES_MAX, VALUES_PER_PAGE, VALUES_PER_REQUEST, WHOLE_ENTRY_BYTES_MAX};
use crate::page_error::PageError;

/// Maximum number of value ranges in one request that the server accepts.
const RANGES_MAX: usize = 16;

/// A search whose result is read page by page.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    pub(crate) base: String,
    pub(crate) scope: Scope,
    pub(crate) filter: String,
    /// Attributes to return. If the list is empty, entries are returned without attributes.
    pub(crate) attributes: Vec<String>,
}

/// One page of the result of a search.
#[derive(Debug, Default)]
pub(crate) struct SearchPage {
    pub(crate) entries: Vec<Entry>,
    /// Cookie for the next page; `None` on the last page.
    pub(crate) next: Option<Vec<u8>>,
    /// Estimated number of entries on all pages; `None` if the server returned no estimate.
    pub(crate) estimate: Option<u32>,
    /// Whether entries were omitted because the page would have been too large.
    pub(crate) is_cut: bool,
    /// Message about the limit that ended the search early; `None` if the search was complete.
    pub(crate) limit: Option<String>,
}

/// Reads one page of a search. Blocks.
///
/// # Errors
/// The filter is invalid, or the directory refuses the search or does not answer. If a limit is reached after entries
/// were returned, that is no error.
pub(crate) fn page(
    connection: &mut Connection,
    search: &Search,
    size: u32,
    cookie: &[u8],
    bytes_max: usize,
) -> Result<SearchPage, PageError> {
    let value = PagedResults { size, cookie }.encode();
    let control = Control { oid: oids::PAGED_RESULTS, critical: true, value: Some(&value) };
    let controls = ControlsBuf::from_iter([control]);
    let filter = FilterBuf::parse(&search.filter).map_err(ClientError::Filter)?;
    let attributes =
        if search.attributes.is_empty() { vec!["1.1".to_owned()] } else { search.attributes.clone() };
    let selection = SelectionBuf::from_iter(attributes.iter().map(String::as_str));
    let request =
        SearchRequest::new(&search.base, search.scope, filter.as_filter(), selection.as_selection());
    let (mut found, mut bytes) = (SearchPage::default(), 0);
    let last = connection.search_each::<ClientError>(request, controls.as_controls(), |entry| {
        let entry = Entry::from(entry);
        bytes += size_of(&entry);
        // The rest of the answer must be read too. Otherwise the connection could not be used for other requests.
        if bytes <= bytes_max {
            found.entries.push(entry)
        } else {
            found.is_cut = true
        }
        Ok(())
    })?;
    let message = last.message();
    if let Some(page) =
        message.controls.find(oids::PAGED_RESULTS).and_then(|control| PagedResults::decode(control.value?))
    {
        found.estimate = Some(page.size).filter(|size| *size > 0);
        found.next = Some(page.cookie.to_vec()).filter(|cookie| !cookie.is_empty());
    }
    let Some(outcome) = last.outcome() else { return Ok(found) };
    let is_limit =
        [ResultCode::SIZE_LIMIT_EXCEEDED, ResultCode::TIME_LIMIT_EXCEEDED, ResultCode::ADMIN_LIMIT_EXCEEDED]
            .contains(&outcome.code);
    if is_limit && !found.entries.is_empty() {
        found.limit = Some(format!("{}: {}", outcome.code, outcome.diagnostic));
        return Ok(found);
    }
    PageError::unless_success(outcome, None)?;
    Ok(found)
}

fn size_of(entry: &Entry) -> usize {
    let values = |attribute: &Attribute| attribute.values.iter().map(|value| value.len() + 32).sum::<usize>();
    let attributes =
        entry.attributes.iter().map(|attribute| attribute.description.len() + 32 + values(attribute));
    entry.dn.len() + 32 + attributes.sum::<usize>()
}

/// Returns the attribute description with which a request asks for at most `count` values, beginning with the value at
/// index `first`.
pub(crate) fn range(description: &str, first: usize, count: usize) -> String {
    format!("{description};range={first}-{}", first + count.max(1) - 1)
}

/// A range of the values of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Values {
    /// The attribute description, without the range.
    pub(crate) description: String,
    pub(crate) values: Vec<Vec<u8>>,
    /// Index of the next value; `None` if there are no further values.
    pub(crate) next: Option<usize>,
}

/// Removes the range option from the description of a returned attribute. The index of the next value is computed from
/// the option.
pub(crate) fn without_range(attribute: Attribute) -> Values {
    let Attribute { description, values } = attribute;
    let mut next = None;
    let remaining = description.split(';').filter(|part| match part.strip_prefix("range=") {
        Some(range) => {
            let last = range.split_once('-').and_then(|(_, last)| last.parse::<usize>().ok());
            next = last.map(|last| last.saturating_add(1));
            false
        }
        None => true,
    });
    let description = remaining.collect::<Vec<_>>().join(";");
    Values { description, values, next }
}

/// An entry. Each attribute has at least its first values.
#[derive(Debug)]
pub(crate) struct WholeEntry {
    pub(crate) dn: String,
    pub(crate) attributes: Vec<Values>,
}

impl WholeEntry {
    /// Returns the values of an attribute as text.
    pub(crate) fn texts(&self, description: &str) -> Vec<String> {
        let mut attributes = self.attributes.iter();
        let found = attributes.find(|attribute| attribute.description.eq_ignore_ascii_case(description));
        let values = found.map(|found| found.values.as_slice()).unwrap_or_default();
        values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }
}

/// Reads an entry with the first values of each attribute. First reads the names of the attributes, and then the values
/// in ranges, so that no attribute is too large. `selection` contains attribute names, `*` or `+`. Blocks.
///
/// # Errors
/// The entry does not exist or the requester cannot see it, or the directory refuses the search or does not answer.
pub(crate) fn entry(
    connection: &mut Connection,
    dn: &str,
    selection: &[&str],
) -> Result<WholeEntry, PageError> {
    let filter = FilterBuf::parse("(objectClass=*)").map_err(ClientError::Filter)?;
    let mut read = |names: &[&str], types_only: bool| {
        let selection = SelectionBuf::from_iter(names);
        let mut request =
            SearchRequest::new(dn, Scope::BaseObject, filter.as_filter(), selection.as_selection());
        request.types_only = types_only;
        let reply = connection.request(Request::Search(request), ldap::Controls::NONE)?;
        PageError::unless_success(reply.outcome.clone(), None)?;
        let missing = || PageError::Request(axum::http::StatusCode::NOT_FOUND, "trouble.no_such_entry");
        reply.entries.into_iter().next().ok_or_else(missing)
    };
    let names = read(selection, true)?;
    let descriptions: Vec<String> = names
        .attributes
        .into_iter()
        .map(|attribute| range(&attribute.description, 0, VALUES_PER_PAGE))
        .collect();
    let (mut attributes, mut bytes) = (Vec::new(), 0);
    for names in descriptions.chunks(RANGES_MAX) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let part = read(&names, false)?;
        bytes += size_of(&part);
        if bytes > PAGE_BYTES_MAX * 16 {
            return Err(PageError::Client(ClientError::TooLarge(PAGE_BYTES_MAX * 16)));
        }
        attributes.extend(part.attributes.into_iter().map(without_range));
    }
    Ok(WholeEntry { dn: names.dn, attributes })
}

/// Reads an entry with all values of the attributes in `selection`. Blocks.
///
/// # Errors
/// The same as those of [`entry`], or the entry is too large.
pub(crate) fn whole_entry(
    connection: &mut Connection,
    dn: &str,
    selection: &[&str],
) -> Result<WholeEntry, PageError> {
    let mut entry = entry(connection, dn, selection)?;
    let mut bytes = 0;
    for attribute in &mut entry.attributes {
        while let Some(first) = attribute.next {
            let name = range(&attribute.description, first, VALUES_PER_REQUEST);
            let found =
                connection.entry(&entry.dn, &[&name])?.and_then(|found| found.attributes.into_iter().next());
            let Some(found) = found else { break };
            bytes += found.values.iter().map(|value| value.len() + 32).sum::<usize>();
            if bytes > WHOLE_ENTRY_BYTES_MAX {
                return Err(PageError::Client(ClientError::TooLarge(WHOLE_ENTRY_BYTES_MAX)));
            }
            let more = without_range(found);
            attribute.next = more.next.filter(|_| !more.values.is_empty());
            attribute.values.extend(more.values);
        }
    }
    Ok(entry)
}

/// Makes a change. Blocks.
///
/// # Errors
/// The directory refuses the change or does not answer.
pub(crate) fn change(
    connection: &mut Connection,
    request: Request<'_>,
    controls: &[Control<'_>],
) -> Result<(), PageError> {
    let controls = ControlsBuf::from_iter(controls.iter().copied());
    let reply = connection.request(request, controls.as_controls())?;
    PageError::unless_success(reply.outcome.clone(), policy_of(&reply))
}

/// Returns the value of an assertion control (RFC 4528) with this filter. The server makes a change with the control
/// only if the entry matches the filter.
pub(crate) fn assertion(filter: &str) -> Result<Vec<u8>, PageError> {
    let mut value = Vec::new();
    FilterBuf::parse(filter).map_err(ClientError::Filter)?.as_filter().encode(&mut value);
    Ok(value)
}

/// Returns the password policy response control of an answer.
pub(crate) fn policy_of(reply: &Reply) -> Option<PolicyResponse> {
    let control = reply.last.as_ref()?.message().controls.find(oids::PASSWORD_POLICY)?;
    PolicyResponse::decode(control.value?)
}

/// Returns the naming contexts. The default naming context is first. Blocks.
pub(crate) fn contexts(connection: &mut Connection) -> Result<Vec<String>, PageError> {
    let root = connection.entry("", &["namingContexts", "defaultNamingContext"])?;
    let Some(root) = root else { return Ok(Vec::new()) };
    let mut contexts = root.texts("namingContexts");
    if let Some(first) = root.text("defaultNamingContext") {
        contexts.retain(|context| *context != first);
        contexts.insert(0, first);
    }
    Ok(contexts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_options_are_removed_from_descriptions() {
        let of = |description: &str| {
            let found = without_range(Attribute { description: description.to_owned(), values: Vec::new() });
            (found.description, found.next)
        };
        assert_eq!(range("cn", 0, 100), "cn;range=0-99");
        assert_eq!(of("member;range=0-99"), ("member".to_owned(), Some(100)));
        assert_eq!(of("cn;lang-de;range=5-*"), ("cn;lang-de".to_owned(), None));
        assert_eq!(of("userCertificate;binary"), ("userCertificate;binary".to_owned(), None));
    }
}
