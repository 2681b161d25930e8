//! Questions about access. [`answer`] reports whether a requester has a right and which rule decides, as `pando access
//! explain` does. [`list`] reports which rules cover a right, for all requesters.

use std::net::IpAddr;

use ldap::{AccessQuestion, ResultCode};

use super::identity;
use crate::access::{
    ASKED, AccessExplanation, AccessList, EffectiveRights, QuestionPlace, Requester, RightQuestion,
    RulesInForce, access_list, denied, explain, explain_use,
};
use crate::model::access_rule::EXPLAIN;
use crate::model::client_link::{BindMethod, ClientLink, ListenerName, WeekTime};
use crate::model::expectation::USE_WORD;
use crate::model::name::{NormalName, invalid_name, parse_dn};
use crate::model::outcome::{OperationError, Outcome};
use crate::model::quoted::Quoted;
use crate::model::rows::EntryId;
use crate::model::usable::Uses;
use crate::tree::{TreeState, damaged_row};

type Result<T> = std::result::Result<T, OperationError>;

/// Reports whether a requester has a right. Only the administrator, and requesters with the right `explain` at the
/// entry, may ask.
///
/// # Errors
/// The outcome to send: insufficientAccessRights; noSuchObject for a missing entry; protocolError for an unknown right,
/// a missing attribute, or an attribute that the right does not take.
pub fn answer(
    state: TreeState<'_>,
    requester: &Requester,
    question: &AccessQuestion<'_>,
) -> std::result::Result<AccessExplanation, Outcome> {
    try_answer(state, requester, question).map_err(Outcome::from)
}

/// Lists the rules that cover a right at an entry, for all requesters. The same requesters as for [`answer`] may ask.
/// The administrator also receives the rules that cover only entries below that entry.
///
/// # Errors
/// As [`answer`].
pub fn list(
    state: TreeState<'_>,
    requester: &Requester,
    question: &AccessQuestion<'_>,
) -> std::result::Result<AccessList, Outcome> {
    try_list(state, requester, question).map_err(Outcome::from)
}

/// A right that was refused at an entry.
#[derive(Clone, Copy, Debug)]
pub struct RefusedRight<'a> {
    /// Word for the right.
    pub word: &'a str,
    /// DN of the entry.
    pub entry: &'a str,
    /// The attributes concerned; empty for a right to the whole entry.
    pub attributes: &'a [&'a str],
}

/// Returns the name of the rule that denies a right, or a note that no rule allows it. Returns `None` if the right is
/// allowed, or if rules do not decide it. Checks no permission: only callers that may see everything may call this
/// function.
pub fn refusing_rule(
    state: TreeState<'_>,
    requester: &Requester,
    refused: RefusedRight<'_>,
    link: Option<ClientLink>,
) -> Option<String> {
    if !state.settings.has_access_rules() {
        return None;
    }
    let schema = &*state.catalog.schema;
    let (word, right, wants_attribute) = ASKED.iter().find(|(word, ..)| *word == refused.word).copied()?;
    let name = NormalName::of(&parse_dn(refused.entry).ok()?, schema);
    let (id, parent) = match QuestionPlace::of(state, &name, word == "add").ok()? {
        QuestionPlace::Entry(id) => (id, state.node(id).ok()??.parent),
        QuestionPlace::New { parent } => (EntryId::ROOT, parent),
        QuestionPlace::Nowhere { .. } => return None,
    };
    let type_of = |name: &&str| schema.parse_description(name).map(|description| description.type_id).ok();
    let types: Vec<_> = match wants_attribute {
        true => refused.attributes.iter().filter_map(type_of).map(Some).collect(),
        false => vec![None],
    };
    types.into_iter().find_map(|type_id| {
        let right_question = RightQuestion { word, right, type_id, id, parent, dn: refused.entry, link };
        let explanation =
            explain(state, requester, right_question).ok().filter(|explained| !explained.is_allowed)?;
        let denying = explanation.rules.iter().find(|rule| !rule.is_allow);
        Some(denying.map_or_else(|| "none allows it".to_owned(), |rule| rule.name().to_owned()))
    })
}

fn try_answer(
    state: TreeState<'_>,
    requester: &Requester,
    question: &AccessQuestion<'_>,
) -> Result<AccessExplanation> {
    if question.right == USE_WORD {
        return answer_use(state, requester, question);
    }
    let (place, right_question) = resolved(state, requester, question)?;
    let subject = subject_for(state, requester, question.requester)?;
    explain(state, &subject, at_place(state, &place, right_question)?)
}

fn try_list(
    state: TreeState<'_>,
    requester: &Requester,
    question: &AccessQuestion<'_>,
) -> Result<AccessList> {
    if question.right == USE_WORD {
        return Err(wrong("use is a right of no entry: name a requester".to_owned()));
    }
    let (place, right_question) = resolved(state, requester, question)?;
    let right_question = at_place(state, &place, right_question)?;
    access_list(state, &RulesInForce::of(state), right_question, requester.is_administrator())
}

/// Parses a question and checks that `requester` may ask it. The entry and its superior are not yet set: [`at_place`]
/// sets them.
fn resolved<'q>(
    state: TreeState<'_>,
    requester: &Requester,
    question: &AccessQuestion<'q>,
) -> Result<(QuestionPlace, RightQuestion<'q>)> {
    let schema = &*state.catalog.schema;
    let dn = parse_dn(question.entry)?;
    let name = NormalName::of(&dn, schema);
    if let Some(failure) = &name.failure {
        return Err(invalid_name(question.entry, failure));
    }
    let known = ASKED.iter().find(|(word, ..)| *word == question.right);
    let place = QuestionPlace::of(state, &name, question.right == "add")?;
    check_requester(state, requester, question.entry, &place)?;
    let Some((word, right, wants_attribute)) = known.copied() else {
        let words: Vec<_> = ASKED.iter().map(|(word, ..)| *word).collect();
        return Err(wrong(format!("{:?} is not a right: choose from {}", question.right, words.join(", "))));
    };
    let type_id = match question.attribute {
        Some(name) => {
            let known = schema.parse_description(name).map(|description| description.type_id).ok();
            Some(known.ok_or_else(|| wrong(format!("{} is no attribute type of the schema", Quoted(name))))?)
        }
        None => None,
    };
    if type_id.is_some() != wants_attribute {
        let what =
            if wants_attribute { "of an attribute: name one" } else { "of the entry: name no attribute" };
        return Err(wrong(format!("{word} is a right {what}")));
    }
    let link = link_of(question)?;
    let (id, parent) = (EntryId::ROOT, EntryId::ROOT);
    Ok((place, RightQuestion { word, right, type_id, id, parent, dn: question.entry, link }))
}

/// Sets the entry of a question, and its superior, to those of `place`.
fn at_place<'q>(
    state: TreeState<'_>,
    place: &QuestionPlace,
    right_question: RightQuestion<'q>,
) -> Result<RightQuestion<'q>> {
    match *place {
        QuestionPlace::Entry(id) => {
            let node = state.node(id)?.ok_or_else(|| damaged_row("nodes", id))?;
            Ok(RightQuestion { id, parent: node.parent, ..right_question })
        }
        QuestionPlace::New { parent } => Ok(RightQuestion { id: EntryId::ROOT, parent, ..right_question }),
        QuestionPlace::Nowhere { .. } => {
            let what = format!("{} does not exist", Quoted(right_question.dn));
            Err(OperationError::NoSuchObject { matched_dn: String::new(), what })
        }
    }
}

/// Answers whether a requester may use a control or an extended operation. The answer does not depend on an entry.
fn answer_use(
    state: TreeState<'_>,
    requester: &Requester,
    question: &AccessQuestion<'_>,
) -> Result<AccessExplanation> {
    if !EffectiveRights::of(state, &requester.context())?.may_explain_some() {
        return Err(denied("no access rule lets you explain the rules"));
    }
    let name = question.attribute.filter(|_| question.entry.is_empty());
    let name =
        name.ok_or_else(|| wrong("use is a right of no entry: name a control or an operation".to_owned()))?;
    let uses = Uses::named(&[name.to_owned()]).map_err(wrong)?;
    let subject = subject_for(state, requester, question.requester)?;
    explain_use(state, &RulesInForce::of(state), &subject, (uses, link_of(question)?.as_ref()))
}

/// Returns the connection that the question is about; `None` if the question names no connection.
fn link_of(question: &AccessQuestion<'_>) -> Result<Option<ClientLink>> {
    let AccessQuestion { address, over_tls, bound_by, time, listener, .. } = *question;
    let has_text = [address, bound_by, time, listener].iter().any(Option::is_some);
    if !has_text && !over_tls {
        return Ok(None);
    }
    let no_address = |text: &str| wrong(format!("{text:?} is no address"));
    let no_time =
        |text: &str| wrong(format!("{text:?} is no time: write a day and a time, \"monday 08:30\""));
    let method = |text: &str| match text.eq_ignore_ascii_case("simple") {
        true => BindMethod::Simple,
        false => BindMethod::of_mechanism(text),
    };
    let method = bound_by.map(|text| match method(text) {
        BindMethod::None => Err(wrong(format!("{text:?} is neither simple nor a mechanism"))),
        known => Ok(known),
    });
    Ok(Some(ClientLink {
        address: address.map(|text| text.parse::<IpAddr>().map_err(|_| no_address(text))).transpose()?,
        is_protected: over_tls,
        method: method.transpose()?,
        at: time.map(|text| WeekTime::parse(text).ok_or_else(|| no_time(text))).transpose()?,
        listener: listener.map(|text| text.parse::<ListenerName>().map_err(wrong)).transpose()?,
    }))
}

fn check_requester(
    state: TreeState<'_>,
    requester: &Requester,
    dn: &str,
    place: &QuestionPlace,
) -> Result<()> {
    let rights = EffectiveRights::of(state, &requester.context())?;
    if rights.is_administrator() {
        return Ok(());
    }
    let refused = || denied("no access rule lets you explain the rules here");
    if !rights.is_restricted() {
        return Err(refused());
    }
    let (at, hidden) = match place {
        QuestionPlace::Entry(id) => (Some(*id), Some(*id)),
        QuestionPlace::New { parent } => (Some(*parent), Some(*parent)),
        QuestionPlace::Nowhere { nearest } => (None, *nearest),
    };
    let at = match at.filter(|id| *id != EntryId::ROOT) {
        Some(id) => rights.at_entry(state, id)?,
        None => None,
    };
    match at {
        Some(at) if at.may(EXPLAIN) => Ok(()),
        Some(at) if at.may_browse() => Err(refused()),
        _ => Err(rights.hidden(state, dn, hidden)?),
    }
}

/// Resolves an identity that a question of `requester` names. The identity of another user is reported as unknown if
/// `requester` may not see that user's entry.
///
/// # Errors
/// As [`subject`].
pub(crate) fn subject_for(state: TreeState<'_>, requester: &Requester, identity: &str) -> Result<Requester> {
    let subject = subject(state, identity)?;
    if let Requester::User { id, .. } = &subject
        && subject != *requester
        && !EffectiveRights::of(state, &requester.context())?.may_browse(state, *id)?
    {
        return Err(no_such_requester(identity));
    }
    Ok(subject)
}

/// Resolves an identity.
///
/// # Errors
/// noSuchObject for an unknown identity; the store failed.
pub(crate) fn subject(state: TreeState<'_>, identity: &str) -> Result<Requester> {
    match identity {
        "" | "dn:" => Ok(Requester::Anonymous),
        known => {
            let found = identity::requester(state, known)?;
            found.ok_or_else(|| no_such_requester(known))
        }
    }
}

fn no_such_requester(identity: &str) -> OperationError {
    OperationError::refused(
        ResultCode::NO_SUCH_OBJECT,
        format!("{} is not a user of this directory", Quoted(identity)),
    )
}

fn wrong(what: String) -> OperationError {
    OperationError::refused(ResultCode::PROTOCOL_ERROR, what)
}
