//! Lists of resources (RFC 7644 section 3.4.2): filters, sorting, and pages by index or by cursor (RFC 9865).

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ldap::Excerpt;
use serde_json::{Map, Value, json};

use crate::error::{Result, ScimError};
use crate::filter::{Filter, parse_filter};
use crate::limits::{PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX, SKIPPED_MAX};
use crate::model::ResourceType;
use crate::path::AttributePath;
use crate::places::{Place, Places};
use crate::read::{RequestedAttributes, Writer};
use crate::resources::Resources;
use crate::selection::Selection;
use crate::session::{FoundEntry, Query, Session};
use crate::translate::{sort_attribute, translate};

/// URNs of the schemas of a list and of a search by POST.
const LIST: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";
const SEARCH: &str = "urn:ietf:params:scim:api:messages:2.0:SearchRequest";

/// Number of octets in a cursor before the directory's cookie. These octets contain the resource type and the length of
/// the list.
const CURSOR_HEAD: usize = 9;

/// The parameters of a request for a list.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    filter: Option<Filter>,
    /// The filter as the client sent it.
    filter_text: String,
    sort_by: Option<AttributePath>,
    is_descending: bool,
    start_index: usize,
    count: usize,
    cursor: Option<String>,
    pub(crate) selection: Selection,
}

impl Listing {
    /// Parses the parameters in the query of a URL. Unknown parameters are ignored.
    pub(crate) fn of_query(query: &[(String, String)]) -> Result<Listing> {
        let value = |name: &str| {
            query.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
        };
        let number = |name: &str| match value(name) {
            None => Ok(None),
            Some(text) => text.parse::<i64>().map(Some).map_err(|_| not_a_number(name, text)),
        };
        Listing {
            start_index: index(number("startIndex")?),
            count: count(number("count")?),
            cursor: value("cursor").map(str::to_owned),
            is_descending: order(value("sortOrder"))?,
            selection: selection_of(query)?,
            ..Listing::default()
        }
        .with(value("filter"), value("sortBy"))
    }

    /// Parses the body of a search by POST (section 3.4.3).
    pub(crate) fn of_body(body: Map<String, Value>) -> Result<Listing> {
        let mut listing = Listing { start_index: 1, count: PAGE_SIZE_DEFAULT, ..Listing::default() };
        let (mut has_schema, mut filter, mut sort_by) = (false, None, None);
        let (mut included, mut excluded) = (None, None);
        for (name, value) in body {
            let wrong = |expected: &str| ScimError::value(format!("{name}: {expected} expected"));
            let text = |value: Value| match value {
                Value::String(text) => Ok(text),
                _ => Err(wrong("a string")),
            };
            match name.to_ascii_lowercase().as_str() {
                _ if value.is_null() => {}
                "schemas" => {
                    has_schema =
                        value.as_array().is_some_and(|schemas| schemas.iter().any(|one| one == SEARCH));
                }
                "filter" => filter = Some(text(value)?),
                "sortby" => sort_by = Some(text(value)?),
                "sortorder" => listing.is_descending = order(Some(&text(value)?))?,
                "startindex" => {
                    listing.start_index = index(Some(value.as_i64().ok_or_else(|| wrong("an integer"))?))
                }
                "count" => listing.count = count(Some(value.as_i64().ok_or_else(|| wrong("an integer"))?)),
                "cursor" => listing.cursor = Some(text(value)?),
                "attributes" => included = Some(texts(value).ok_or_else(|| wrong("a list of names"))?),
                "excludedattributes" => {
                    excluded = Some(texts(value).ok_or_else(|| wrong("a list of names"))?)
                }
                _ => return Err(ScimError::syntax(format!("{:?} is not part of a search", Excerpt(&name)))),
            }
        }
        if !has_schema {
            return Err(ScimError::syntax(format!("schemas: {SEARCH} is missing")));
        }
        listing.selection = Selection::parse(included, excluded)?;
        listing.with(filter.as_deref(), sort_by.as_deref())
    }

    fn with(self, filter: Option<&str>, sort_by: Option<&str>) -> Result<Listing> {
        let sort_by = sort_by.map(|text| {
            let invalid = || ScimError::path(format!("sortBy: {:?} names no attribute", Excerpt(text)));
            AttributePath::parse(text).ok_or_else(invalid)
        });
        Ok(Listing {
            filter: filter.map(parse_filter).transpose()?,
            filter_text: filter.unwrap_or_default().to_owned(),
            sort_by: sort_by.transpose()?,
            ..self
        })
    }
}

/// Parses `attributes` and `excludedAttributes` in the query of a URL.
pub(crate) fn selection_of(query: &[(String, String)]) -> Result<Selection> {
    let value =
        |name: &str| query.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    let names = |text: &String| text.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
    let (included, excluded) = (value("attributes").map(names), value("excludedAttributes").map(names));
    Selection::parse(included, excluded)
}

fn not_a_number(name: &str, text: &str) -> ScimError {
    ScimError::value(format!("{name}: {:?} is no integer", Excerpt(text)))
}

/// Converts a start index, which begins at 1. A number less than 1 has the meaning of 1 (section 3.4.2.4).
fn index(number: Option<i64>) -> usize {
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or(1).max(1)
}

/// Converts the size of a page. A negative number has the meaning of 0. A number above the maximum has the meaning of
/// the maximum.
fn count(number: Option<i64>) -> usize {
    number.map_or(PAGE_SIZE_DEFAULT, |number| usize::try_from(number).unwrap_or(0)).min(PAGE_SIZE_MAX)
}

fn order(text: Option<&str>) -> Result<bool> {
    match text.map(str::to_ascii_lowercase).as_deref() {
        None | Some("ascending" | "") => Ok(false),
        Some("descending") => Ok(true),
        Some(_) => Err(ScimError::value("sortOrder: ascending or descending expected")),
    }
}

fn texts(value: Value) -> Option<Vec<String>> {
    let Value::Array(values) = value else { return None };
    values.into_iter().map(|value| value.as_str().map(str::to_owned)).collect()
}

/// One resource type of a list.
struct Source<'a> {
    resource: &'a ResourceType,
    filter: String,
    sort: Option<(String, bool)>,
    requested: RequestedAttributes,
}

impl Source<'_> {
    fn query(&self) -> Query<'_> {
        Query {
            base: &self.resource.base,
            filter: &self.filter,
            attributes: &self.requested.attributes,
            links: &self.requested.links,
            sort: self.sort.as_ref().map(|(name, reverse)| (name.as_str(), *reverse)),
        }
    }
}

/// Lists resources. All resources of one type come before the resources of the next type.
pub(crate) fn list(
    resources: &Resources<'_>,
    session: &mut Session,
    places: (&Places, &str),
    types: &[&ResourceType],
    listing: &Listing,
) -> Result<Value> {
    let mut sources = Vec::new();
    for resource in types {
        sources.push(source(resources, session, resource, types, listing)?);
    }
    let writer = resources.writer();
    match &listing.cursor {
        Some(cursor) => by_cursor(&writer, session, &sources, listing, cursor),
        None => by_index(&writer, session, places, &sources, listing),
    }
}

fn source<'a>(
    resources: &Resources<'_>,
    session: &mut Session,
    resource: &'a ResourceType,
    types: &[&ResourceType],
    listing: &Listing,
) -> Result<Source<'a>> {
    let mut filter = resource.class_filter();
    if let Some(stated) = &listing.filter {
        let stated = &stated
            .clone()
            .of_one_type(&|path| resource.has(path) || !types.iter().any(|other| other.has(path)));
        let mut find = |id: &str| resources.dn_of(session, id);
        filter = format!("(&{filter}{})", translate(resource, stated, &mut find)?);
    }
    let sort = match &listing.sort_by {
        Some(path) if resource.has(path) || types.len() == 1 => {
            Some((sort_attribute(resource, path)?, listing.is_descending))
        }
        _ => None,
    };
    Ok(Source { resource, filter, sort, requested: RequestedAttributes::of(resource, &listing.selection) })
}

fn by_index(
    writer: &Writer<'_>,
    session: &mut Session,
    places: (&Places, &str),
    sources: &[Source<'_>],
    listing: &Listing,
) -> Result<Value> {
    let skipped = listing.start_index - 1;
    let (mut total, mut listed) = (0, Vec::new());
    for source in sources {
        let key = |index: usize| {
            let order = listing.sort_by.as_ref().map(|path| format!("{path} {}", listing.is_descending));
            let attributes = source.requested.attributes.join(" ");
            let kind = source.resource.name.endpoint();
            let list = [kind, &listing.filter_text, &order.unwrap_or_default(), &attributes];
            places.0.key(places.1, &list, index)
        };
        let from = skipped.saturating_sub(total);
        let wanted = listing.count - listed.len();
        let (found, length) = window(session, source, (places.0, &key), from, wanted)?;
        total += length;
        listed.extend(found.iter().map(|found| writer.resource(source.resource, found, &listing.selection)));
    }
    let mut answer = json!({ "schemas": [LIST], "totalResults": total, "itemsPerPage": listed.len() });
    answer["startIndex"] = listing.start_index.into();
    answer["Resources"] = listed.into();
    Ok(answer)
}

/// Returns at most `wanted` entries from the index `from` on, and the length of the whole list.
fn window(
    session: &mut Session,
    source: &Source<'_>,
    (places, key): (&Places, &dyn Fn(usize) -> u64),
    from: usize,
    wanted: usize,
) -> Result<(Vec<FoundEntry>, usize)> {
    let query = source.query();
    if wanted == 0 {
        return Ok((Vec::new(), session.count(&query)?.unwrap_or(0)));
    }
    let known = if from == 0 { None } else { places.find(key(from)) };
    let mut total = known.as_ref().map(|place| place.total);
    let (mut position, mut cookie) = known.map_or((0, Vec::new()), |place| (from, place.cookie));
    if from - position > SKIPPED_MAX {
        let text = format!("startIndex: a list is read from its beginning, at most {SKIPPED_MAX} resources");
        return Err(ScimError::too_many(text));
    }
    let mut listed = Vec::new();
    loop {
        let is_skipping = position < from;
        let size = if is_skipping { from - position } else { wanted - listed.len() };
        let page = session.page(&query, size.min(PAGE_SIZE_MAX), &cookie)?;
        position += page.found.len();
        cookie = page.cookie;
        if !is_skipping {
            listed.extend(page.found);
        }
        if cookie.is_empty() {
            return Ok((listed, position));
        }
        if listed.len() == wanted {
            break;
        }
    }
    let total = match total.take() {
        Some(total) => total,
        None => session.count(&query)?.unwrap_or(position + 1),
    };
    // The cookie shows that there is at least one more entry, which may have been added after the entries were counted.
    let total = total.max(position + 1);
    places.remember(key(position), Place { cookie, total });
    Ok((listed, total))
}

fn by_cursor(
    writer: &Writer<'_>,
    session: &mut Session,
    sources: &[Source<'_>],
    listing: &Listing,
    cursor: &str,
) -> Result<Value> {
    let (mut at, total, mut cookie) = if cursor.is_empty() {
        let mut total = 0;
        for source in sources {
            total += session.count(&source.query())?.unwrap_or(0);
        }
        (0, total, Vec::new())
    } else {
        opened(cursor).filter(|(at, ..)| *at < sources.len()).ok_or_else(foreign)?
    };
    let mut listed = Vec::new();
    while listed.len() < listing.count && at < sources.len() {
        let source = &sources[at];
        let page = session.page(&source.query(), listing.count - listed.len(), &cookie);
        let page =
            page.map_err(|error| if cookie.is_empty() || error.status != 400 { error } else { foreign() })?;
        let found = page.found.iter();
        listed.extend(found.map(|found| writer.resource(source.resource, found, &listing.selection)));
        cookie = page.cookie;
        if cookie.is_empty() {
            at += 1;
        }
    }
    let mut answer = json!({ "schemas": [LIST], "totalResults": total, "itemsPerPage": listed.len() });
    // A request for 0 resources has no cursor, because there is none for the beginning of a list.
    if at < sources.len() && (at > 0 || !cookie.is_empty()) {
        let kind = u8::try_from(at).unwrap_or(u8::MAX);
        let octets = [&[kind][..], &(total as u64).to_be_bytes(), &cookie].concat();
        answer["nextCursor"] = URL_SAFE_NO_PAD.encode(octets).into();
    }
    answer["Resources"] = listed.into();
    Ok(answer)
}

/// Decodes a cursor. The directory checks whether the cookie in it belongs to this request.
fn opened(cursor: &str) -> Option<(usize, usize, Vec<u8>)> {
    let octets = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (head, cookie) = octets.split_at_checked(CURSOR_HEAD)?;
    let (kind, total) = head.split_first()?;
    if *kind == 0 && cookie.is_empty() {
        return None;
    }
    let total = u64::from_be_bytes(total.try_into().ok()?);
    Some((usize::from(*kind), usize::try_from(total).ok()?, cookie.to_vec()))
}

fn foreign() -> ScimError {
    ScimError::cursor("the cursor was not given for this request, or by another directory: begin again")
}
