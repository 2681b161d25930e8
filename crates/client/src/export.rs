//! Export of the entries of any LDAP server as LDIF (RFC 2849), as a stream.
//!
//! Text is written as soon as possible. While it cannot be written, nothing is read, so TCP slows the server down.
//! Entries are written in the server's order, except that a superior is written before its subordinates. So the text
//! can be imported from top to bottom. An entry that arrives before its superior waits in memory. Pando sends entries
//! in the order in which they were added, so the only entries that wait are those that were moved below a newer entry.
//!
//! The export is not a snapshot. An entry that is changed during the export appears as before or after the change. An
//! entry that is moved may be missing.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};

use ldap::ldif::put_ldif_line;
use ldap::{Dn, Filter, SearchEntry};

use crate::{Connection, Content, ContentError};

/// Size of the buffer for text, in octets.
const BUFFER_SIZE: usize = 256 << 10;

/// Maximum size in octets of entries that wait for their superiors. If more octets wait, the export writes the entries
/// in the order in which it receives them.
const WAITING_MAX: usize = 64 << 20;

/// Attribute that shows which entries may have subordinates. Only the names of these entries must be stored.
const HAS_SUBORDINATES: &str = "hasSubordinates";

/// Scope and form of an export.
#[derive(Clone, Copy, Debug)]
pub struct LdifExport<'a> {
    /// Entry at and below which entries are exported; `None` for all naming contexts in the server's root DSE.
    pub base: Option<&'a str>,
    /// Filter that entries must match. With a filter, entries are written as they arrive, because superiors may not
    /// match.
    pub filter: Option<Filter<'a>>,
    /// Attribute selectors, as in a search.
    pub attributes: &'a [String],
    /// Names of collective attributes (RFC 3671). Only subentries store them, so they are omitted from other entries.
    pub collective: &'a [&'a str],
    /// Heading of the text, written as a comment.
    pub heading: &'a str,
}

/// Counts of a finished export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LdifExported {
    /// Number of entries.
    pub entries: u64,
    /// Size of the text in octets.
    pub bytes: u64,
}

/// Reason why an export ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LdifExportError {
    /// The entries could not be read.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// The text could not be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

/// Writes the entries of a server as LDIF.
///
/// # Errors
/// See [`LdifExportError`]. The text written before an error is incomplete.
pub fn export_ldif(
    connection: &mut Connection,
    request: &LdifExport<'_>,
    out: &mut dyn Write,
) -> Result<LdifExported, LdifExportError> {
    let content = Content { base: request.base, filter: request.filter, attributes: &[] };
    let bases = content.bases(connection)?;
    let names: Vec<&str> = request.attributes.iter().map(String::as_str).chain([HAS_SUBORDINATES]).collect();
    let content = Content { attributes: &names, ..content };
    let mut export = Export {
        out,
        text: format!("version: 1\n# {}\n\n", request.heading).into_bytes(),
        collective: request.collective,
        keeps_order: request.filter.is_none(),
        shows_has_subordinates: request
            .attributes
            .iter()
            .any(|name| name.eq_ignore_ascii_case(HAS_SUBORDINATES)),
        above: bases.iter().map(|base| key(superior(base))).collect(),
        seen: HashSet::new(),
        waiting: HashMap::new(),
        waiting_bytes: 0,
        done: LdifExported::default(),
    };
    content.read(connection, &bases, &mut |entry| export.entry(entry))?;
    export.end()
}

struct Export<'o> {
    out: &'o mut dyn Write,
    text: Vec<u8>,
    collective: &'o [&'o str],
    keeps_order: bool,
    shows_has_subordinates: bool,
    /// Keys of the superiors of the top entries. No entry waits for them.
    above: Vec<u64>,
    /// Keys of entries that were written and may have subordinates.
    seen: HashSet<u64>,
    /// Text and keys of waiting entries, by the keys of their superiors.
    waiting: HashMap<u64, Vec<(u64, Vec<u8>)>>,
    waiting_bytes: usize,
    done: LdifExported,
}

impl Export<'_> {
    fn entry(&mut self, entry: &SearchEntry<'_>) -> Result<(), LdifExportError> {
        let dn = entry.object_name;
        if !self.keeps_order {
            self.put(entry);
            return self.flush_if_full();
        }
        let (own, above) = (key(dn), key(superior(dn)));
        if self.waiting_bytes > WAITING_MAX {
            self.give_up_order()?;
        }
        if self.seen.contains(&above) || self.above.contains(&above) {
            if self.put(entry) {
                self.seen.insert(own);
            }
            self.put_waiting(own)?;
            return self.flush_if_full();
        }
        let start = self.text.len();
        self.put(entry);
        let text = self.text.split_off(start);
        self.waiting_bytes += text.len();
        self.waiting.entry(above).or_default().push((own, text));
        Ok(())
    }

    /// Appends an entry. Returns true if it may have subordinates.
    fn put(&mut self, entry: &SearchEntry<'_>) -> bool {
        let mut may_have_subordinates = true;
        put_ldif_line(&mut self.text, "dn", entry.object_name.as_bytes());
        let left_out = if is_subentry(entry) { &[] } else { self.collective };
        for attribute in entry.attributes.iter() {
            let name = attribute.description.split(';').next().unwrap_or_default();
            if left_out.iter().any(|left_out| left_out.eq_ignore_ascii_case(name)) {
                continue;
            }
            if attribute.description.eq_ignore_ascii_case(HAS_SUBORDINATES) {
                may_have_subordinates = attribute.values.iter().next() != Some(b"FALSE");
                if !self.shows_has_subordinates {
                    continue;
                }
            }
            for value in attribute.values.iter() {
                put_ldif_line(&mut self.text, attribute.description, value);
            }
        }
        self.text.push(b'\n');
        self.done.entries += 1;
        may_have_subordinates
    }

    /// Appends the entries that wait for this superior, and recursively the entries that wait for these entries.
    fn put_waiting(&mut self, superior: u64) -> Result<(), LdifExportError> {
        let mut next: Vec<(u64, Vec<u8>)> = self.waiting.remove(&superior).unwrap_or_default();
        next.reverse();
        while let Some((own, text)) = next.pop() {
            self.waiting_bytes -= text.len();
            self.text.extend_from_slice(&text);
            self.flush_if_full()?;
            self.seen.insert(own);
            next.extend(self.waiting.remove(&own).unwrap_or_default().into_iter().rev());
        }
        Ok(())
    }

    /// Appends all waiting entries, each followed by its subordinates.
    fn give_up_order(&mut self) -> Result<(), LdifExportError> {
        let below: HashSet<u64> = self.waiting.values().flatten().map(|(own, _)| *own).collect();
        let mut tops: Vec<u64> =
            self.waiting.keys().copied().filter(|above| !below.contains(above)).collect();
        tops.sort_unstable();
        for top in tops {
            self.put_waiting(top)?;
        }
        // The remaining entries form a cycle. This is possible because entries can be moved while the search returns
        // them.
        while let Some(top) = self.waiting.keys().next().copied() {
            self.put_waiting(top)?;
        }
        Ok(())
    }

    fn end(mut self) -> Result<LdifExported, LdifExportError> {
        self.give_up_order()?;
        self.flush()?;
        Ok(self.done)
    }

    fn flush_if_full(&mut self) -> Result<(), LdifExportError> {
        if self.text.len() >= BUFFER_SIZE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), LdifExportError> {
        self.out.write_all(&self.text)?;
        self.done.bytes += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }
}

/// Returns true if an entry is a subentry, by its object classes.
fn is_subentry(entry: &SearchEntry<'_>) -> bool {
    let mut classes = entry.attributes.iter().filter(|of| of.description.eq_ignore_ascii_case("objectClass"));
    classes.any(|of| of.values.iter().any(|class| class.eq_ignore_ascii_case(b"subentry")))
}

/// Returns the DN of the superior; empty if there is none, or if the text is not a DN.
fn superior(dn: &str) -> &str {
    Dn::parse(dn).map_or("", |dn| dn.text_from(1))
}

/// Returns a key of a DN: the hash of the server's text, ignoring case.
fn key(dn: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    dn.bytes().for_each(|octet| octet.to_ascii_lowercase().hash(&mut hasher));
    hasher.finish()
}
