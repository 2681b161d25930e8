//! The complete result of a search as a file: CSV for spreadsheets, or LDIF for directories.

use axum::http::StatusCode;
use client::{Connection, Entry};
use data_encoding::BASE64;
use ldap::ldif::LdifWriter;
use tokio::sync::Semaphore;

use super::query;
use crate::download::{Download, put_row};
use crate::fields::Fields;
use crate::limits::{EXPORT_BYTES_MAX, PAGE_ENTRIES};
use crate::page_error::PageError;
use crate::requests::{Search, page};

/// Creates the file for a query. Blocks.
///
/// # Errors
/// Too many exports are in progress, the query contains no filter, the result is too large, or the directory refuses
/// the search.
pub(super) fn make(
    places: &Semaphore,
    connection: &mut Connection,
    fields: &Fields,
) -> Result<Download, PageError> {
    let busy = |_| PageError::Request(StatusCode::SERVICE_UNAVAILABLE, "search.exports_busy");
    let _place = places.try_acquire().map_err(busy)?;
    let query = query(connection, fields)?;
    let unusable = PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "search.no_filter");
    let search = query.search.ok_or(unusable)?;
    if fields.text("as") == "csv" {
        let mut content = Vec::new();
        put_row(&mut content, std::iter::once("dn").chain(query.columns.iter().map(String::as_str)));
        each(connection, &search, &mut content, |entry, content| {
            let cells = query.columns.iter().map(|column| cell(entry.values(column)));
            let cells: Vec<String> = std::iter::once(entry.dn.clone()).chain(cells).collect();
            put_row(content, cells.iter().map(String::as_str));
        })?;
        return Ok(Download { media_type: "text/csv; charset=utf-8", name: "entries.csv", content });
    }
    let attributes = if fields.given("columns").is_some() { search.attributes } else { vec!["*".to_owned()] };
    let search = Search { attributes, ..search };
    let mut content = b"version: 1\n\n".to_vec();
    each(connection, &search, &mut content, |entry, content| {
        let values = entry.attributes.iter().flat_map(|attribute| {
            attribute.values.iter().map(|value| (attribute.description.as_str(), value.as_slice()))
        });
        // Writing to memory cannot fail.
        let _ = LdifWriter::new(content).entry(&entry.dn, values);
    })?;
    Ok(Download { media_type: "text/plain; charset=utf-8", name: "entries.ldif", content })
}

/// Calls `put` for each entry of a search. `put` appends the entry to `content`.
fn each(
    connection: &mut Connection,
    search: &Search,
    content: &mut Vec<u8>,
    mut put: impl FnMut(&Entry, &mut Vec<u8>),
) -> Result<(), PageError> {
    let too_large = || PageError::Request(StatusCode::UNPROCESSABLE_ENTITY, "search.too_large");
    let mut cookie = Vec::new();
    loop {
        let found = page(connection, search, PAGE_ENTRIES, &cookie, EXPORT_BYTES_MAX)?;
        for entry in &found.entries {
            put(entry, content);
            if content.len() > EXPORT_BYTES_MAX {
                return Err(too_large());
            }
        }
        if found.is_cut || found.limit.is_some() {
            return Err(too_large());
        }
        match found.next {
            Some(next) => cookie = next,
            None => return Ok(()),
        }
    }
}

/// Returns the text of a cell. Its values are separated by `|`. A value that is not text is encoded as base64.
fn cell(values: &[Vec<u8>]) -> String {
    let texts = values.iter().map(|value| match std::str::from_utf8(value) {
        Ok(text) => text.to_owned(),
        Err(_) => BASE64.encode(value),
    });
    texts.collect::<Vec<_>>().join("|")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_has_all_values() {
        assert_eq!(cell(&[b"a".to_vec(), b"\xff".to_vec()]), "a|/w==");
    }
}
