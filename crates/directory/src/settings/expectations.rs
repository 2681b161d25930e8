//! Checks of expectations about access rules. Expectations are evaluated under the proposed rules, on the existing
//! entries.

use schema::Schema;

use super::{DirectorySettings, SettingsProblem};
use crate::access::{
    ASKED, AccessExplanation, QuestionPlace, Requester, RightQuestion, RulesInForce, explain_under,
    explain_use,
};
use crate::catalog::Secrets;
use crate::model::expectation::{Expectation, USE_WORD};
use crate::model::limits::ACCESS_RULES_MAX;
use crate::model::name::{NormalName, parse_dn};
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::model::usable::Uses;
use crate::tree::{Found, TreeState, damaged_row};

const KEY: &str = "access_expectations";

/// Checks the syntax of expectations and the names in them. Needs no entries.
pub(super) fn check(texts: &[String], schema: &Schema, problems: &mut Vec<SettingsProblem>) {
    if texts.len() > ACCESS_RULES_MAX {
        let what =
            format!("there are {} expectations, but at most {ACCESS_RULES_MAX} are allowed", texts.len());
        problems.push(SettingsProblem::key(KEY, what));
        return;
    }
    for (number, text) in texts.iter().enumerate() {
        if let Err(what) = checked(text, schema) {
            problems.push(problem(number, format!("{text:?}: {what}")));
        }
    }
}

fn problem(number: usize, what: String) -> SettingsProblem {
    SettingsProblem::member(KEY, number, format!("access expectation {what}"))
}

fn checked(text: &str, schema: &Schema) -> Result<Expectation, String> {
    let read = Expectation::parse(text)?;
    if read.right == USE_WORD {
        if read.attribute.is_none() || !read.entry.is_empty() {
            return Err(
                "use does not apply to entries: name only a control or an extended operation".to_owned()
            );
        }
        Uses::named(read.attribute.as_slice())?;
        check_names(read.requester.iter(), schema)?;
        return Ok(read);
    }
    let Some((_, _, wants_attribute)) = ASKED.iter().find(|(word, ..)| *word == read.right) else {
        let words: Vec<_> = ASKED.iter().map(|(word, ..)| *word).collect();
        return Err(format!("{:?} is not a right: choose from {}", read.right, words.join(", ")));
    };
    match &read.attribute {
        Some(name) if schema.attribute_type(name).is_none() => {
            return Err(format!("{name} is not an attribute type of the schema"));
        }
        attribute if attribute.is_some() != *wants_attribute => {
            return Err(format!(
                "{} is a right of {}",
                read.right,
                if *wants_attribute { "an attribute" } else { "the entry" }
            ));
        }
        _ => {}
    }
    check_names(read.requester.iter().chain([&read.entry]), schema)?;
    Ok(read)
}

fn check_names<'a>(dns: impl Iterator<Item = &'a String>, schema: &Schema) -> Result<(), String> {
    for dn in dns {
        let parsed = parse_dn(dn).map_err(|error| error.to_string())?;
        if let Some(failure) = NormalName::of(&parsed, schema).failure {
            return Err(format!("{dn:?}: {failure}"));
        }
    }
    Ok(())
}

/// Returns a problem for each expectation that the proposed rules do not meet. Skips expectations about trees without
/// entries. Returns a single problem if the proposed rules need definitions of the schema that are not in force yet.
///
/// # Errors
/// The store failed.
pub(super) fn unfulfilled(
    state: TreeState<'_>,
    proposal: &DirectorySettings,
) -> Result<Vec<SettingsProblem>, OperationError> {
    let mut problems = Vec::new();
    let texts = &proposal.general.access_expectations;
    if texts.is_empty() {
        return Ok(problems);
    }
    let anonymous_read = proposal.general.anonymous_read || state.settings.node.anonymous_read;
    let schema = &state.catalog.schema;
    let secrets = Secrets::of(schema, &proposal.general.secret_attributes);
    let rules = RulesInForce::proposed(&proposal.general.access_rules, anonymous_read, (schema, &secrets));
    if rules.rules.is_broken {
        let what = "the rules need definitions of the schema that are not in force yet: apply these first";
        problems.push(SettingsProblem::key(KEY, what));
        return Ok(problems);
    }
    for (number, text) in texts.iter().enumerate() {
        let Ok(read) = checked(text, schema) else { continue };
        match explained(state, &rules, &read)? {
            Answer::NotYet => {}
            Answer::Missing(dn) => problems.push(problem(number, format!("{text:?}: {dn:?} does not exist"))),
            // If the right applies only to some values, neither "may" nor "may not" is met.
            Answer::Explained(explained)
                if explained.is_allowed == read.is_allowed && !explained.is_partly => {}
            Answer::Explained(explained) => {
                let mut what = format!("{text:?}: {}", explained.verdict);
                explained.rules.iter().for_each(|rule| what += &format!("; {rule}"));
                explained.notes.iter().for_each(|note| what += &format!("; {note}"));
                problems.push(problem(number, what));
            }
        }
    }
    Ok(problems)
}

enum Answer {
    /// The tree has no entries yet.
    NotYet,
    Missing(String),
    Explained(AccessExplanation),
}

fn explained(
    state: TreeState<'_>,
    rules: &RulesInForce,
    read: &Expectation,
) -> Result<Answer, OperationError> {
    let schema = &state.catalog.schema;
    let normal = |dn: &str| Ok::<_, OperationError>(NormalName::of(&parse_dn(dn)?, schema));
    let has_started = |name: &NormalName| {
        Ok::<_, OperationError>(match state.find(name)? {
            Found::Missing { nearest: None } => false,
            Found::Entry(..) | Found::Missing { .. } => true,
        })
    };
    let subject = match &read.requester {
        None => Requester::Anonymous,
        Some(dn) => {
            let name = normal(dn)?;
            match state.entry_of(&name)? {
                Some(id) => Requester::User { id, dn: dn.clone() },
                None if has_started(&name)? => return Ok(Answer::Missing(dn.clone())),
                None => return Ok(Answer::NotYet),
            }
        }
    };
    if read.right == USE_WORD {
        let uses = Uses::named(read.attribute.as_slice()).unwrap_or_default();
        return Ok(Answer::Explained(explain_use(state, rules, &subject, (uses, None))?));
    }
    let name = normal(&read.entry)?;
    let (id, parent) = match QuestionPlace::of(state, &name, read.right == "add")? {
        QuestionPlace::Entry(id) => (id, state.node(id)?.ok_or_else(|| damaged_row("nodes", id))?.parent),
        QuestionPlace::New { parent } => (EntryId::ROOT, parent),
        QuestionPlace::Nowhere { .. } if has_started(&name)? => {
            return Ok(Answer::Missing(read.entry.clone()));
        }
        QuestionPlace::Nowhere { .. } => return Ok(Answer::NotYet),
    };
    let Some((word, right, _)) = ASKED.iter().find(|(word, ..)| *word == read.right).copied() else {
        return Ok(Answer::NotYet);
    };
    let type_id =
        read.attribute.as_deref().and_then(|name| schema.attribute_type(name)).map(|known| known.id);
    let question = RightQuestion { word, right, type_id, id, parent, dn: &read.entry, link: None };
    Ok(Answer::Explained(explain_under(state, rules, &subject, question)?))
}
