//! Export of the entries of a directory as LDIF (RFC 2849), in one pass over the rows.
//!
//! Entries are in ascending order of ids, which is the order in which they were added. The exception is an entry that
//! was moved below a younger entry: such an entry follows the younger entry, so that each superior precedes its
//! subordinates. The entries can therefore be added again in this order. The same rows give the same text, byte for
//! byte.
//!
//! Values are written directly from the store, without an allocation per value. The text contains what a search by the
//! administrator returns, including passwords in stored form. Computed attributes (memberOf, entryDN, counts) are
//! included only if requested by name, because they cannot be added again. Aliases, referrals and subentries are
//! exported like other entries.

mod tree;

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{self, Write};
use std::ops::{Bound, ControlFlow};

use ldap::ldif::put_ldif_line;
use ldap::{Filter, Scope, SelectionBuf};
use store::Direction;

use crate::catalog::{AttributeDef, Shown};
use crate::filter::{Candidate, Compiler, Matcher, Term, Truth, for_each_visible};
use crate::model::entry::{AttributeRow, Content, EntryRow};
use crate::model::limits::TREE_DEPTH_MAX;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::record::Value;
use crate::model::rows::{
    AttrId, ENTRIES, EntryId, LINKS, NAMES, NODES, NodeRow, children_counter, decode_name_row, link_key,
};
use crate::model::value_end::name_with_end;
use crate::read::search::{SearchScope, Selection};
use crate::snapshot::name_cache::NameCache;
use crate::tree::stored_values::{table_values, whole_value};
use crate::tree::{Found, TreeState, damaged_row, node, value_ends};

pub use self::tree::{TreeBounds, export_tree};

/// Size of the buffer for text, in bytes.
const BUFFER_SIZE: usize = 1 << 20;

/// Attributes that may be exported: all attributes that the administrator may read.
const SHOWN: Shown = Shown::Secrets;

/// Number of link targets read in one step.
const TARGET_BLOCK: usize = 512;

/// Request for an export. A default request exports every entry with all attributes that a client may write.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportRequest<'a> {
    /// Base of the export: this entry and all entries below it are exported; `None` for all entries.
    pub base: Option<&'a str>,
    /// Filter that entries must match.
    pub filter: Option<Filter<'a>>,
    /// Attributes to export, as in a search (including `*`, `+` and `@class`). If empty, all attributes that a client
    /// may write are exported.
    pub attributes: &'a [String],
    /// Whether to export stored operational attributes, too.
    pub operational: bool,
}

/// Summary of an export.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportSummary {
    /// Number of entries.
    pub entries: u64,
    /// Bytes of text.
    pub bytes: u64,
    /// Log position at which the entries were read.
    pub position: u64,
}

/// Error that ended an export.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The base does not exist, or rows are damaged.
    #[error(transparent)]
    Operation(#[from] OperationError),
    /// The text cannot be written.
    #[error("cannot write: {0}")]
    Write(#[from] io::Error),
}

impl From<store::StoreError> for ExportError {
    fn from(error: store::StoreError) -> ExportError {
        ExportError::Operation(error.into())
    }
}

type Result<T> = std::result::Result<T, ExportError>;

/// Writes the entries at one log position as LDIF. The text starts with the version of LDIF, and a comment that states
/// the position.
///
/// # Errors
/// noSuchObject if the base does not exist. Other errors: rows are damaged, or the text cannot be written. The text
/// written before an error is not a complete export.
pub fn export(
    state: TreeState<'_>,
    request: &ExportRequest<'_>,
    out: &mut dyn Write,
) -> Result<ExportSummary> {
    let mut export = Export::start(state, request, out)?;
    export.heading(request)?;
    export.entries()?;
    export.flush()?;
    Ok(export.summary)
}

/// Writes one entry as LDIF, with its stored operational attributes.
///
/// # Errors
/// As [`export`]. To limit the size of the entry, `out` may refuse further text.
pub fn export_entry(state: TreeState<'_>, dn: &str, out: &mut dyn Write) -> Result<ExportSummary> {
    let request = ExportRequest { operational: true, ..ExportRequest::default() };
    let mut export = Export::start(state, &request, out)?;
    let id = find_base(state, dn)?;
    let node = node(state.read, id)?.ok_or_else(|| damaged_row("nodes", id))?;
    export.entry(&Candidate::new(id, node))?;
    export.flush()?;
    Ok(export.summary)
}

struct Export<'s, 'o> {
    state: TreeState<'s>,
    selection: Selection,
    filter: Option<(Term, Matcher)>,
    scope: Option<SearchScope>,
    names: NameCache,
    /// Superiors that are not exported yet. The export of older entries below these superiors is postponed.
    awaited: HashSet<u64>,
    /// DN of the current entry.
    dn: Vec<u8>,
    text: Vec<u8>,
    out: &'o mut dyn Write,
    summary: ExportSummary,
}

impl<'s, 'o> Export<'s, 'o> {
    fn start(
        state: TreeState<'s>,
        request: &ExportRequest<'_>,
        out: &'o mut dyn Write,
    ) -> Result<Export<'s, 'o>> {
        let compiler = Compiler { catalog: state.catalog, shown: SHOWN, known: None };
        let mut filter = request.filter.map(|filter| compiler.compile(filter));
        if let Some(filter) = &mut filter {
            filter.find_targets_in(state)?;
        }
        let scope = match request.base {
            None => None,
            Some(base) => Some(SearchScope {
                kind: Scope::WholeSubtree,
                base: find_base(state, base)?,
                aliased: HashSet::default(),
                extras: HashSet::default(),
                follows_aliases: false,
                has_aliases: false,
                manages: true,
                returns_referrals: false,
                subentries: None,
                is_of_stored: true,
                last: None,
            }),
        };
        let summary = ExportSummary { position: state.read.position()?, ..ExportSummary::default() };
        Ok(Export {
            state,
            selection: selection(state, request),
            filter: filter.map(|filter| (filter, Matcher::new(SHOWN))),
            scope,
            names: NameCache::default(),
            awaited: HashSet::new(),
            dn: Vec::new(),
            text: Vec::with_capacity(BUFFER_SIZE + (64 << 10)),
            out,
            summary,
        })
    }

    /// Writes the version line, and comments that describe the export.
    fn heading(&mut self, request: &ExportRequest<'_>) -> Result<()> {
        let mut heading = format!("version: 1\n# Pando export at log position {}\n", self.summary.position);
        if let Some(base) = request.base {
            comment(&mut heading, "base", base);
        }
        if let Some(filter) = request.filter {
            comment(&mut heading, "filter", &filter.to_string());
        }
        if !request.attributes.is_empty() {
            comment(&mut heading, "attributes", &request.attributes.join(","));
        }
        heading.push('\n');
        self.text.extend_from_slice(heading.as_bytes());
        Ok(())
    }

    fn entries(&mut self) -> Result<()> {
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut rows = self.state.read.scan(ENTRIES, all, Direction::Forward);
        for row in self.state.read.scan(NODES, all, Direction::Forward) {
            let (key, value) = row?;
            let id = EntryId(u64::from_be_bytes(key.try_into().unwrap_or_default()));
            let node = NodeRow::decode(value).ok_or_else(|| damaged_row("nodes", id))?;
            // `nodes` and `entries` contain all entries, so both cursors advance together.
            let (entry_key, row) = rows.next().transpose()?.ok_or_else(|| damaged_row("entries", id))?;
            if entry_key != key {
                return Err(damaged_row("entries", id).into());
            }
            let container = self.names.container(self.state, node.parent)?;
            if container.highest > id {
                self.awaited.insert(container.highest.0);
                continue;
            }
            let row = EntryRow::decode(row).ok_or_else(|| damaged_row("entries", id))?;
            self.entry(&Candidate::with_entry(id, node, row))?;
            if self.awaited.remove(&id.0) {
                self.older_below(id, id, 0)?;
            }
        }
        match rows.next().transpose()? {
            Some((key, _)) => {
                let id = EntryId(u64::from_be_bytes(key.try_into().unwrap_or_default()));
                Err(damaged_row("nodes", id).into())
            }
            None => Ok(()),
        }
    }

    /// Exports the entries below `container` that are older than `last`. These entries were postponed until `container`
    /// was exported.
    fn older_below(&mut self, container: EntryId, last: EntryId, depth: usize) -> Result<()> {
        if depth > TREE_DEPTH_MAX || self.state.read.count(&children_counter(container))? == 0 {
            return Ok(());
        }
        for id in self.children_below(container, last)? {
            let node = node(self.state.read, id)?.ok_or_else(|| damaged_row("nodes", id))?;
            self.entry(&Candidate::new(id, node))?;
            self.older_below(id, last, depth + 1)?;
        }
        Ok(())
    }

    /// Returns the children of `container` with ids below `last`, ascending.
    fn children_below(&self, container: EntryId, last: EntryId) -> Result<Vec<EntryId>> {
        let prefix = container.0.to_be_bytes();
        let mut children = Vec::new();
        for row in self.state.read.scan_below(NAMES, &prefix) {
            let (_, value) = row?;
            let (id, _) = decode_name_row(value).ok_or_else(|| damaged_row("names", container))?;
            if id < last {
                children.push(id);
            }
        }
        children.sort_unstable();
        Ok(children)
    }

    /// Exports an entry, if it is selected.
    fn entry(&mut self, candidate: &Candidate<'s>) -> Result<()> {
        let state = self.state;
        if let Some(scope) = &mut self.scope
            && !scope.contains(state, &mut self.names, candidate.id, &candidate.node)?
        {
            return Ok(());
        }
        if let Some((filter, matcher)) = &mut self.filter
            && matcher.truth(filter, state, candidate)? != Truth::True
        {
            return Ok(());
        }
        self.put_name(candidate.node.parent, candidate.node.rdn)?;
        put_ldif_line(&mut self.text, "dn", &self.dn);
        for attribute in candidate.entry(state)?.attributes() {
            if self.selection.decide(state.catalog, attribute.id) {
                self.attribute(candidate.id, &attribute)?;
            }
        }
        self.virtual_attributes(candidate)?;
        self.text.push(b'\n');
        self.summary.entries += 1;
        self.flush_if_full()
    }

    /// Writes the DN of an entry into `dn`.
    fn put_name(&mut self, parent: EntryId, rdn: &[u8]) -> Result<()> {
        let container = self.names.container(self.state, parent)?;
        let above = self.names.dn(container);
        self.dn.clear();
        self.dn.extend_from_slice(rdn);
        if !above.is_empty() {
            self.dn.push(b',');
            self.dn.extend_from_slice(above);
        }
        Ok(())
    }

    fn attribute(&mut self, id: EntryId, attribute: &AttributeRow<'_>) -> Result<()> {
        let state = self.state;
        let (schema, def) = (&state.catalog.schema, state.catalog.attribute(attribute.id));
        let name = &def.name;
        match attribute.content {
            Content::Inline(values) => {
                for value in values.iter() {
                    let value = whole_value(state.read, id, attribute.id, &value)?;
                    put_ldif_line(&mut self.text, name, &def.value_text(schema, value));
                }
                Ok(())
            }
            Content::Links => {
                let ends = Ends::of(state, (id, attribute.id))?;
                self.links(id, attribute, (name, &ends))?;
                self.table(id, attribute, (name, &ends))
            }
            Content::Table => self.table(id, attribute, (name, &Ends::default())),
        }
    }

    /// Exports values that have rows of their own. An attribute may have millions of these values.
    fn table(
        &mut self,
        id: EntryId,
        attribute: &AttributeRow<'_>,
        (name, ends): (&str, &Ends),
    ) -> Result<()> {
        let catalog = self.state.catalog;
        let def = catalog.attribute(attribute.id);
        for row in table_values(self.state.read, id, attribute.id) {
            let value = row?.1;
            let name = ends.name(name, || Value::Bytes(value.to_vec()));
            put_ldif_line(&mut self.text, &name, &def.value_text(&catalog.schema, value));
            self.flush_if_full()?;
        }
        Ok(())
    }

    /// Exports the present names of the entries to which the values of a link attribute refer.
    fn links(
        &mut self,
        id: EntryId,
        attribute: &AttributeRow<'_>,
        (name, ends): (&str, &Ends),
    ) -> Result<()> {
        let mut targets = self.state.read.ids(LINKS, &link_key(id, attribute.id))?;
        let mut block = Vec::new();
        while targets.next_block(&mut block, TARGET_BLOCK)? > 0 {
            for target in block.drain(..).map(EntryId) {
                let row = node(self.state.read, target)?.ok_or_else(|| damaged_row("links", id))?;
                self.put_name(row.parent, row.rdn)?;
                put_ldif_line(&mut self.text, &ends.name(name, || Value::Link(target)), &self.dn);
            }
            self.flush_if_full()?;
        }
        Ok(())
    }

    fn virtual_attributes(&mut self, candidate: &Candidate<'s>) -> Result<()> {
        let (state, text) = (self.state, &mut self.text);
        for (attribute, type_id) in &self.selection.virtual_attributes {
            let name = state.catalog.schema.type_by_id(*type_id).name();
            let entry = (candidate.id, &candidate.node);
            for_each_visible(state, *attribute, None, entry, &mut |value| {
                put_ldif_line(text, name, value);
                ControlFlow::Continue(())
            })?;
        }
        Ok(())
    }

    fn flush_if_full(&mut self) -> Result<()> {
        if self.text.len() >= BUFFER_SIZE { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.out.write_all(&self.text)?;
        self.summary.bytes += self.text.len() as u64;
        self.text.clear();
        Ok(())
    }
}

/// End times of the values of one attribute of an entry. The number of end times is limited by [`VALUE_ENDS_MAX`].
///
/// [`VALUE_ENDS_MAX`]: crate::model::limits::VALUE_ENDS_MAX
#[derive(Default)]
struct Ends(Vec<(Value, u64)>);

impl Ends {
    fn of(state: TreeState<'_>, (id, attribute): (EntryId, AttrId)) -> Result<Ends> {
        let mut ends = Vec::new();
        value_ends::for_each(state.read, id, Some(attribute), &mut |_, value, until| {
            ends.push((value, until));
            Ok(ControlFlow::Continue(()))
        })?;
        ends.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Ends(ends))
    }

    /// Returns the attribute's name for a value, with the option for an end time if the value has one.
    fn name<'n>(&self, name: &'n str, value: impl FnOnce() -> Value) -> Cow<'n, str> {
        if self.0.is_empty() {
            return Cow::Borrowed(name);
        }
        let value = value();
        let place = self.0.binary_search_by(|(known, _)| known.cmp(&value)).ok();
        match place.and_then(|place| self.0.get(place)) {
            Some((_, until)) => Cow::Owned(name_with_end(name, *until)),
            None => Cow::Borrowed(name),
        }
    }
}

/// Writes a comment on one line, even if `text` contains line breaks.
fn comment(heading: &mut String, what: &str, text: &str) {
    heading.push_str("# ");
    heading.push_str(what);
    heading.push_str(": ");
    heading.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
    heading.push('\n');
}

fn find_base(state: TreeState<'_>, base: &str) -> Result<EntryId> {
    let name = NormalName::of(&parse_dn(base)?, &state.catalog.schema);
    match state.find(&name)? {
        Found::Entry(id, _) => Ok(id),
        Found::Missing { .. } => Err(OperationError::refused(
            ldap::ResultCode::NO_SUCH_OBJECT,
            format!("the base {base:?} does not exist"),
        )
        .into()),
    }
}

/// Returns the attributes to export. Computed attributes are included only if requested by name.
fn selection(state: TreeState<'_>, request: &ExportRequest<'_>) -> Selection {
    let mut stored = SelectionBuf::new();
    let mut named = SelectionBuf::new();
    // An empty list means all user attributes, unless it contains another selector.
    if request.attributes.is_empty() {
        stored.push("*");
        // Add operational attributes that clients may write, such as the `ref` of a referral.
        let schema = &state.catalog.schema;
        let is_clients = |def: &&AttributeDef| {
            def.is_operational && !schema.type_by_id(def.description.type_id).no_user_modification
        };
        state.catalog.attributes().iter().filter(is_clients).for_each(|def| stored.push(&def.name));
    }
    if request.operational {
        stored.push("+");
    }
    for attribute in request.attributes {
        stored.push(attribute);
        if attribute != "+" {
            named.push(attribute);
        }
    }
    let mut selection = Selection::of(stored.as_selection(), state.catalog, SHOWN);
    selection.virtual_attributes =
        Selection::of(named.as_selection(), state.catalog, SHOWN).virtual_attributes;
    selection
}

#[cfg(test)]
mod tests {
    use ldap::ldif::{LdifBody, LdifReader};
    use ldap::{FilterBuf, Scope};

    use super::*;
    use crate::testing::*;

    fn text_of(directory: &TestDirectory, request: &ExportRequest<'_>) -> String {
        let mut text = Vec::new();
        let summary = export(directory.snapshot.state(), request, &mut text).unwrap();
        assert_eq!(summary.bytes, text.len() as u64);
        String::from_utf8(text).unwrap()
    }

    fn dns(text: &str) -> Vec<String> {
        let mut reader = LdifReader::new(text.as_bytes());
        let mut dns = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            dns.push(record.dn.split(',').next().unwrap().to_owned());
        }
        dns
    }

    fn sample() -> TestDirectory {
        let mut directory = TestDirectory::with_suffix_entry();
        for (dn, class, naming) in [
            ("ou=a,dc=example,dc=com", "organizationalUnit", ("ou", "a")),
            ("cn=x,ou=a,dc=example,dc=com", "device", ("cn", "x")),
            ("ou=b,dc=example,dc=com", "organizationalUnit", ("ou", "b")),
            ("ou=c,ou=b,dc=example,dc=com", "organizationalUnit", ("ou", "c")),
            ("cn=y,dc=example,dc=com", "device", ("cn", "y")),
        ] {
            let outcome = directory.add(dn, &[("objectClass", &[class]), (naming.0, &[naming.1])]);
            assert_eq!(outcome, crate::model::outcome::Outcome::success(), "{dn}");
        }
        directory
    }

    #[test]
    fn exports_entries_in_the_order_of_their_ids() {
        let directory = sample();
        let text = text_of(&directory, &ExportRequest::default());
        assert_eq!(dns(&text), ["dc=example", "ou=a", "cn=x", "ou=b", "ou=c", "cn=y"]);
        assert!(text.starts_with("version: 1\n# Pando export at log position "), "{text}");
        assert!(text.contains("\ndn: cn=x,ou=a,dc=example,dc=com\nobjectClass: device\ncn: x\n\n"), "{text}");
        assert!(!text.contains("entryUUID"), "{text}");
    }

    #[test]
    fn exports_names_in_the_form_of_rfc_4514() {
        let mut directory = sample();
        let see: &[&str] = &["cn=x; ou=a; dc=example;dc=com", "cn=\"a, b\";o=elsewhere"];
        let dn = "cn=z,dc=example,dc=com";
        let named: &[&str] = &["OID.2.5.4.3=c;o=d"];
        let classes: &[&str] = &["device", "extensibleObject"];
        let outcome =
            directory.add(dn, &[("objectClass", classes), ("seeAlso", see), ("associatedName", named)]);
        assert_eq!(outcome, crate::model::outcome::Outcome::success());
        let text = text_of(&directory, &ExportRequest::default());
        assert!(text.contains("\nseeAlso: cn=x,ou=a,dc=example,dc=com\n"), "{text}");
        assert!(text.contains("\nseeAlso: cn=a\\, b,o=elsewhere\n"), "{text}");
        assert!(text.contains("\nassociatedName: cn=c,o=d\n"), "{text}");
    }

    #[test]
    fn exports_operational_attributes_that_clients_write() {
        let mut directory = sample();
        let url = "ldap://elsewhere.example/";
        let outcome = directory.add(
            "ou=away,dc=example,dc=com",
            &[("objectClass", &["referral", "extensibleObject"]), ("ou", &["away"]), ("ref", &[url])],
        );
        assert_eq!(outcome, crate::model::outcome::Outcome::success());
        let text = text_of(&directory, &ExportRequest::default());
        assert!(text.contains("\nref: ldap://elsewhere.example/\n"), "{text}");
    }

    #[test]
    fn a_superior_is_exported_before_an_older_subordinate() {
        let mut directory = sample();
        let moved =
            directory.modify_dn("ou=a,dc=example,dc=com", "ou=a", false, Some("ou=c,ou=b,dc=example,dc=com"));
        assert_eq!(moved, crate::model::outcome::Outcome::success());
        let all = text_of(&directory, &ExportRequest::default());
        assert_eq!(dns(&all), ["dc=example", "ou=b", "ou=c", "ou=a", "cn=x", "cn=y"]);
        assert_eq!(all, text_of(&directory, &ExportRequest::default()), "not the same text twice");
        // The export postpones ou=a until ou=c is exported. The new entry is below ou=a, and younger than ou=c.
        let added = directory
            .add("cn=z,ou=a,ou=c,ou=b,dc=example,dc=com", &[("objectClass", &["device"]), ("cn", &["z"])]);
        assert_eq!(added, crate::model::outcome::Outcome::success());
        let all = text_of(&directory, &ExportRequest::default());
        assert_eq!(dns(&all), ["dc=example", "ou=b", "ou=c", "ou=a", "cn=x", "cn=y", "cn=z"]);
    }

    #[test]
    fn base_filter_and_attributes_select_the_exported_data() {
        let directory = sample();
        let filter = FilterBuf::parse("(objectClass=device)").unwrap();
        let base = ExportRequest { base: Some("OU=A, dc=example,dc=com"), ..ExportRequest::default() };
        assert_eq!(dns(&text_of(&directory, &base)), ["ou=a", "cn=x"]);
        let filtered = ExportRequest { filter: Some(filter.as_filter()), ..ExportRequest::default() };
        assert_eq!(dns(&text_of(&directory, &filtered)), ["cn=x", "cn=y"]);
        let names = ["cn".to_owned(), "numSubordinates".to_owned()];
        let chosen = ExportRequest { attributes: &names, ..base };
        let text = text_of(&directory, &chosen);
        assert!(text.contains("dn: ou=a,dc=example,dc=com\nnumSubordinates: 1\n\n"), "{text}");
        assert!(text.ends_with("dn: cn=x,ou=a,dc=example,dc=com\ncn: x\nnumSubordinates: 0\n\n"), "{text}");
        let nowhere = ExportRequest { base: Some("ou=z,dc=example,dc=com"), ..ExportRequest::default() };
        let error = export(directory.snapshot.state(), &nowhere, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("ou=z"), "{error}");
    }

    #[test]
    fn exports_values_of_every_form_as_a_search_returns_them() {
        let mut directory = sample();
        let large = "x".repeat(3_000);
        let many: Vec<String> = (0..200).map(|number| format!("value {number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let group = "cn=group,dc=example,dc=com";
        let added = directory.add(
            group,
            &[
                ("objectClass", &["groupOfNames", "uidObject"]),
                ("cn", &["group"]),
                ("uid", &["g"]),
                ("businessCategory", &[&large, "short"]),
                ("description", &many),
                ("member", &["cn=x,ou=a,dc=example,dc=com", "cn=nobody,dc=example,dc=com"]),
            ],
        );
        assert_eq!(added, crate::model::outcome::Outcome::success());
        let request = ExportRequest { operational: true, ..ExportRequest::default() };
        let text = text_of(&directory, &request);
        let mut reader = LdifReader::new(text.as_bytes());
        let mut count = 0;
        while let Some(record) = reader.next_record().unwrap() {
            let LdifBody::Entry(values) = record.body else { panic!("not an entry") };
            let mut exported: std::collections::BTreeMap<String, Vec<Vec<u8>>> = Default::default();
            for line in values.iter() {
                exported.entry(line.description.to_owned()).or_default().push(line.value.to_vec());
            }
            let (dn, exported) = (record.dn.to_owned(), exported);
            let mut searched =
                directory.search(&dn, Scope::BaseObject, "(objectClass=*)", &["*", "+"]).entries.remove(0);
            let made = crate::catalog::VirtualAttribute::all(&directory.snapshot.state().catalog.schema);
            for (_, type_id) in made {
                let name = directory.snapshot.state().catalog.schema.type_by_id(type_id).name().to_owned();
                searched.attributes.remove(&name);
            }
            assert_eq!(exported, searched.attributes, "{dn}");
            count += 1;
        }
        assert_eq!(count, 7);
    }
}
