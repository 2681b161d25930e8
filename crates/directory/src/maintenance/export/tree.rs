//! Export of a small tree, and of entries outside of the tree that have links into the tree.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;

use ldap::ResultCode;
use ldap::ldif::put_ldif_line;
use store::Read;

use super::{Ends, Export, ExportRequest, Result, TARGET_BLOCK, find_base};
use crate::filter::Candidate;
use crate::model::outcome::OperationError;
use crate::model::record::Value;
use crate::model::rows::{AttrId, EntryId, LINKED, children_counter, link_key};
use crate::tree::{TreeState, damaged_row, node};

/// Name of the attribute with an entry's UUID (RFC 4530).
const ENTRY_UUID: &str = "entryUUID";

/// Limits of the export of a small tree.
#[derive(Clone, Copy, Debug)]
pub struct TreeBounds {
    /// Maximum number of entries in the tree.
    pub entries_max: usize,
    /// Maximum number of links into the tree from entries outside of it.
    pub names_max: usize,
}

/// Links of one entry into the tree: attribute and named entry.
type EntryLinks = Vec<(AttrId, EntryId)>;

/// Writes an entry and all entries below it as LDIF, superiors first, with their stored operational attributes. Then
/// writes to `referrers` the entries outside of the tree that have links into it. An entry in `referrers` has only its
/// entryUUID and its links into the tree.
///
/// # Errors
/// As [`export`](super::export); adminLimitExceeded if a limit is exceeded.
pub fn export_tree(
    state: TreeState<'_>,
    dn: &str,
    bounds: TreeBounds,
    entries: &mut dyn Write,
    referrers: &mut dyn Write,
) -> Result<()> {
    let request = ExportRequest { operational: true, ..ExportRequest::default() };
    let base = find_base(state, dn)?;
    let mut export = Export::start(state, &request, entries)?;
    let tree = export.tree(base, bounds.entries_max)?;
    export.flush()?;
    let names = links_from_outside(state, &tree, bounds.names_max)?;
    let mut export = Export::start(state, &request, referrers)?;
    for (source, names) in names {
        export.referrer(source, names)?;
    }
    export.flush()
}

/// Returns the links into a tree from entries outside of it, by entry.
fn links_from_outside(
    state: TreeState<'_>,
    tree: &[EntryId],
    names_max: usize,
) -> Result<BTreeMap<u64, EntryLinks>> {
    let inside: HashSet<EntryId> = tree.iter().copied().collect();
    let (mut names, mut count) = (BTreeMap::<u64, EntryLinks>::new(), 0);
    for (target, def) in
        tree.iter().flat_map(|id| state.catalog.attributes().iter().map(move |def| (*id, def)))
    {
        if !def.is_link {
            continue;
        }
        for_each_source(state.read, (target, def.id), &mut |source| {
            if inside.contains(&source) {
                return Ok(());
            }
            count += 1;
            names.entry(source.0).or_default().push((def.id, target));
            bounded(count, names_max, "values elsewhere that name an entry of the tree")
        })?;
    }
    Ok(names)
}

fn for_each_source(
    read: &Read,
    (target, attribute): (EntryId, AttrId),
    each: &mut dyn FnMut(EntryId) -> Result<()>,
) -> Result<()> {
    let mut sources = read.ids(LINKED, &link_key(target, attribute))?;
    let mut block = Vec::new();
    while sources.next_block(&mut block, TARGET_BLOCK)? > 0 {
        block.drain(..).map(EntryId).try_for_each(&mut *each)?;
    }
    Ok(())
}

fn bounded(count: usize, max: usize, what: &str) -> Result<()> {
    if count <= max {
        return Ok(());
    }
    let text = format!("there are more than {max} {what}: `pando backup recover` has no such bound");
    Err(OperationError::refused(ResultCode::ADMIN_LIMIT_EXCEEDED, text).into())
}

impl Export<'_, '_> {
    /// Exports a tree. Returns the ids of its entries.
    fn tree(&mut self, base: EntryId, entries_max: usize) -> Result<Vec<EntryId>> {
        let (mut tree, mut waiting) = (Vec::new(), vec![base]);
        while let Some(id) = waiting.pop() {
            let node = node(self.state.read, id)?.ok_or_else(|| damaged_row("nodes", id))?;
            self.entry(&Candidate::new(id, node))?;
            tree.push(id);
            let children = self.state.read.count(&children_counter(id))?;
            let known = tree.len() + waiting.len();
            let all = known.saturating_add(usize::try_from(children).unwrap_or(usize::MAX));
            bounded(all, entries_max, "entries in the tree")?;
            waiting.extend(self.children_below(id, EntryId(u64::MAX))?.into_iter().rev());
        }
        Ok(tree)
    }

    /// Exports an entry with only its entryUUID and these links.
    fn referrer(&mut self, source: u64, names: EntryLinks) -> Result<()> {
        let (state, source) = (self.state, EntryId(source));
        let row = node(state.read, source)?.ok_or_else(|| damaged_row("nodes", source))?;
        self.put_name(row.parent, row.rdn)?;
        put_ldif_line(&mut self.text, "dn", &self.dn);
        let candidate = Candidate::new(source, row);
        for attribute in candidate.entry(state)?.attributes() {
            if state.catalog.attribute(attribute.id).name == ENTRY_UUID {
                self.attribute(source, &attribute)?;
            }
        }
        for (attribute, target) in names {
            let ends = Ends::of(state, (source, attribute))?;
            let row = node(state.read, target)?.ok_or_else(|| damaged_row("links", source))?;
            self.put_name(row.parent, row.rdn)?;
            let name = ends.name(&state.catalog.attribute(attribute).name, || Value::Link(target));
            put_ldif_line(&mut self.text, &name, &self.dn);
        }
        self.text.push(b'\n');
        self.flush_if_full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maintenance::export::ExportError;
    use crate::model::outcome::Outcome;
    use crate::testing::*;

    const BOUNDS: TreeBounds = TreeBounds { entries_max: 3, names_max: 2 };

    fn exported(directory: &TestDirectory, dn: &str, bounds: TreeBounds) -> Result<(String, String)> {
        let (mut entries, mut referrers) = (Vec::new(), Vec::new());
        export_tree(directory.snapshot.state(), dn, bounds, &mut entries, &mut referrers)?;
        Ok((String::from_utf8(entries).unwrap(), String::from_utf8(referrers).unwrap()))
    }

    #[test]
    fn a_tree_lists_superiors_first_and_references_from_outside() {
        let mut directory = TestDirectory::with_suffix_entry();
        let base = "ou=a,dc=example,dc=com";
        let (x, y) = (format!("cn=x,{base}"), format!("cn=y,{base}"));
        for (dn, class, naming, sees) in [
            (base, "organizationalUnit", ("ou", "a"), None),
            (&x, "device", ("cn", "x"), None),
            (&y, "device", ("cn", "y"), Some(x.as_str())),
            ("cn=z,dc=example,dc=com", "device", ("cn", "z"), Some(y.as_str())),
        ] {
            let sees: &[&str] = &sees.into_iter().collect::<Vec<_>>();
            let (classes, names) = ([class], [naming.1]);
            let mut attributes = vec![("objectClass", &classes[..]), (naming.0, &names[..])];
            attributes.extend((!sees.is_empty()).then_some(("seeAlso", sees)));
            assert_eq!(directory.add(dn, &attributes), Outcome::success(), "{dn}");
        }
        let (entries, referrers) = exported(&directory, base, BOUNDS).unwrap();
        let names: Vec<&str> = entries.lines().filter_map(|line| line.strip_prefix("dn: ")).collect();
        assert_eq!(names, [base, &x, &y]);
        assert!(entries.contains("entryUUID: ") && entries.contains(&format!("seeAlso: {x}\n")), "{entries}");
        let lines: Vec<&str> = referrers.lines().collect();
        assert_eq!((lines[0], lines[2]), ("dn: cn=z,dc=example,dc=com", format!("seeAlso: {y}").as_str()));
        assert!(lines[1].starts_with("entryUUID: ") && lines.len() == 4, "{referrers}");

        for bounds in [TreeBounds { entries_max: 2, ..BOUNDS }, TreeBounds { names_max: 0, ..BOUNDS }] {
            match exported(&directory, base, bounds) {
                Err(ExportError::Operation(OperationError::Refused { code, .. })) => {
                    assert_eq!(code, ResultCode::ADMIN_LIMIT_EXCEEDED, "{bounds:?}");
                }
                other => panic!("{bounds:?}: {other:?}"),
            }
        }
        assert!(exported(&directory, "ou=none,dc=example,dc=com", BOUNDS).is_err());
    }
}
