//! Resolution of the target entry of an update or a compare.
//!
//! Updates and compares do not follow aliases (for the superiors of an added entry see RFC 4511 section 4.7). An alias
//! among the superiors of the target therefore counts as an entry without subordinates. A referral entry among the
//! superiors always leads to another server. If the target itself is a referral entry, ManageDsaIT makes it an ordinary
//! entry (RFC 3296 section 5.2).
//!
//! No entry can have a name with a type that the schema lacks, or with a value that does not conform to its syntax.
//! Such a name results in invalidDNSyntax (RFC 4511 section 4.1.9), unless a referral entry among the superiors shows
//! that another server holds the name.

use ldap::{Dn, ResultCode};

use crate::model::limits::TREE_DEPTH_MAX;
use crate::model::name::{NormalName, invalid_name, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::{EntryId, NodeFlags};
use crate::model::virtual_entries::{MONITOR_DN, SUBSCHEMA_DN};
use crate::tree::referral::referral;
use crate::tree::{Found, TreeState, damaged_row};

type Result<T> = std::result::Result<T, OperationError>;

/// An existing entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Id of the entry.
    pub id: EntryId,
    /// Whether the entry is an alias, a referral or a subentry.
    pub flags: NodeFlags,
    /// DN in the form for clients.
    pub dn: String,
}

/// Finds the entry with a DN.
///
/// # Errors
/// invalidDNSyntax; noSuchObject with the matched DN; referral below a referral entry, and at a referral entry unless
/// `manage_dsa_it` is true.
pub fn locate(state: TreeState<'_>, dn: &str, manage_dsa_it: bool) -> Result<Target> {
    let dn = parse_dn(dn)?;
    let name = NormalName::of(&dn, &state.catalog.schema);
    locate_name(state, &dn, &name, manage_dsa_it)
}

/// Finds the entry with a DN that is already parsed.
///
/// # Errors
/// See [`locate`].
pub fn locate_name(
    state: TreeState<'_>,
    dn: &Dn<'_>,
    name: &NormalName,
    manage_dsa_it: bool,
) -> Result<Target> {
    match state.find(name)? {
        Found::Missing { nearest } => Err(missing(state, dn, name, nearest)?),
        Found::Entry(id, flags) if flags.is_referral() && !manage_dsa_it => {
            Err(referral(state, id, "", None)?)
        }
        Found::Entry(id, flags) => Ok(Target { id, flags, dn: entry_dn(state, id)? }),
    }
}

/// Returns the error for a name that does not exist, given the result of [`TreeState::find`].
pub(crate) fn missing(
    state: TreeState<'_>,
    dn: &Dn<'_>,
    name: &NormalName,
    nearest: Option<(EntryId, NodeFlags, usize)>,
) -> Result<OperationError> {
    if let Some((id, flags, depth)) = nearest
        && flags.is_referral()
    {
        let below: Vec<_> = dn.rdns().take(dn.len() - depth).map(|rdn| rdn.text).collect();
        return referral(state, id, &below.join(","), None);
    }
    if let Some(failure) = &name.failure {
        return Ok(invalid_name(dn.text(), failure));
    }
    let Some((id, flags, _)) = nearest else {
        return Ok(OperationError::NoSuchObject {
            matched_dn: String::new(),
            what: outside(state, dn, name),
        });
    };
    let matched_dn = entry_dn(state, id)?;
    let what = match flags.is_alias() {
        true => format!(
            "{} does not exist: {} is an alias, and nothing is below an alias",
            Quoted(dn.text()),
            Quoted(&matched_dn)
        ),
        false => format!(
            "{} does not exist; the nearest entry above it is {}",
            Quoted(dn.text()),
            Quoted(&matched_dn)
        ),
    };
    Ok(OperationError::NoSuchObject { matched_dn, what })
}

/// Returns the diagnostic message for a name that is in no naming context, or in a naming context whose suffix entry
/// does not exist.
fn outside(state: TreeState<'_>, dn: &Dn<'_>, name: &NormalName) -> String {
    if let Some(suffix) = state.catalog.suffix_above(&name.key) {
        return format!(
            "{} does not exist: its suffix {} has no entry yet",
            Quoted(dn.text()),
            Quoted(&suffix.dn)
        );
    }
    let suffixes: Vec<_> =
        state.catalog.suffixes.iter().map(|suffix| Quoted(&suffix.dn).to_string()).collect();
    match suffixes.as_slice() {
        [] => format!("{} does not exist: this server has no suffix", Quoted(dn.text())),
        some => {
            format!("{} lies in no suffix of this server, which has {}", Quoted(dn.text()), some.join(", "))
        }
    }
}

/// Refuses the names of the root DSE, the subschema subentry, and the entries at and below `cn=monitor`.
///
/// # Errors
/// An error with the result code `code`. The diagnostic text names the entry.
pub(crate) fn check_not_virtual(
    state: TreeState<'_>,
    dn: &Dn<'_>,
    name: &NormalName,
    code: ResultCode,
) -> Result<()> {
    let refused = |what: &str| Err(OperationError::refused(code, format!("{what} is made by the server")));
    if dn.is_empty() {
        return refused("the root DSE");
    }
    if state.catalog.suffix_above(&name.key).is_some() {
        return Ok(());
    }
    for (virtual_dn, what) in
        [(SUBSCHEMA_DN, "the subschema subentry"), (MONITOR_DN, "everything in cn=monitor")]
    {
        let virtual_name = NormalName::of(&parse_dn(virtual_dn)?, &state.catalog.schema);
        if !virtual_name.key.is_empty() && name.key.starts_with(&virtual_name.key) {
            return refused(what);
        }
    }
    Ok(())
}

/// Checks that an entry with `rdn_count` RDNs is not too far below its suffix entry.
///
/// # Errors
/// unwillingToPerform beyond [`TREE_DEPTH_MAX`].
pub(crate) fn check_depth(rdn_count: usize, suffix_rdn_count: usize) -> Result<()> {
    // The depth counts the entries from the suffix entry down. The suffix entry counts as one entry, whatever its
    // number of RDNs. TREE_DEPTH_MAX also counts the root.
    let depth = rdn_count + 1 - suffix_rdn_count.min(rdn_count);
    if depth < TREE_DEPTH_MAX {
        return Ok(());
    }
    Err(OperationError::refused(
        ResultCode::UNWILLING_TO_PERFORM,
        format!("the entry would be {depth} levels deep; at most {} are allowed", TREE_DEPTH_MAX - 1),
    ))
}

/// Returns the DN of an entry that must exist, because it was just found in `names`.
pub(crate) fn entry_dn(state: TreeState<'_>, id: EntryId) -> Result<String> {
    state.dn(id)?.ok_or_else(|| damaged_row("nodes", id))
}
