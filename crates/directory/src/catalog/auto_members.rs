//! Rules of the setting `auto_members`, which add new and changed entries to groups.

use schema::{Schema, TypeId};

use store::{Batch, Read};

use super::META_JOINS;
use super::covered_entries::CoveredEntries;
use super::is_link_type;
use super::secret::Secrets;
use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::model::pending_join::{PendingJoin, PendingJoins};
use crate::model::rows::META;
use crate::model::rule_tokens::{Parser, named, tokens};

/// Attribute that receives the members if the rule names none.
const MEMBER: &str = "member";

/// Returns the pending rules: rules for which some existing entries have not been examined yet.
///
/// # Errors
/// The row is damaged.
pub(crate) fn pending_joins(read: &Read) -> Result<PendingJoins, OperationError> {
    let Some(row) = read.get(META, META_JOINS)? else { return Ok(PendingJoins::default()) };
    PendingJoins::decode(row).ok_or_else(|| OperationError::Damaged("joins".to_owned()))
}

/// Applies a record that sets the pending rules, unless a later record has set them.
///
/// # Errors
/// The row is damaged; the store failed.
pub(crate) fn apply_joins(
    batch: &mut Batch<'_>,
    position: u64,
    list: &[PendingJoin],
) -> Result<(), OperationError> {
    if position > pending_joins(batch)?.position {
        let row = PendingJoins { position, list: list.to_vec() };
        batch.put(META, META_JOINS, &row.encode())?;
    }
    Ok(())
}

/// A rule that adds entries to a group.
#[derive(Clone, Debug)]
pub(crate) struct AutoMemberRule {
    pub(crate) name: String,
    /// DN of the group as written in the settings, and its normal form.
    pub(crate) group: (String, NormalName),
    /// Attribute of the group that receives the members.
    pub(crate) member: TypeId,
    /// Whether an entry also joins the group when a modify makes the rule cover the entry.
    pub(crate) on_modify: bool,
    pub(crate) covered: CoveredEntries,
}

impl AutoMemberRule {
    /// Compiles a rule: `NAME: into 'GROUP' [by ATTRIBUTE] [also modified] [in 'DN'] [matching 'FILTER']`.
    ///
    /// # Errors
    /// A message that describes the mistake in the rule.
    pub(crate) fn read(text: &str, schema: &Schema, secrets: &Secrets) -> Result<AutoMemberRule, String> {
        let (name, rest) = named(text, "staff: into 'cn=staff,dc=example,dc=com' matching '(title=*)'")?;
        let tokens = tokens(rest)?;
        let mut parser = Parser { tokens: &tokens };
        parser.expect("into")?;
        let dn = parser.quoted("the DN of a group")?;
        let group = super::access_rules::normal(&dn, schema)?;
        if group.depth() == 0 {
            return Err("the root of the tree is no group".to_owned());
        }
        let member = if parser.takes("by") { parser.word("an attribute type")? } else { MEMBER };
        let member = schema.attribute_type(member).ok_or_else(|| format!("{member} is not defined"))?;
        if !is_link_type(member) {
            return Err(format!("values of {} do not name entries", member.name()));
        }
        let on_modify = parser.takes("also");
        if on_modify {
            parser.expect("modified")?;
        }
        let covered = CoveredEntries::read(&parser.covered_entries()?, (schema, secrets))?;
        let (name, member) = (name.to_owned(), member.id);
        Ok(AutoMemberRule { name, group: (dn, group), member, on_modify, covered })
    }
}
