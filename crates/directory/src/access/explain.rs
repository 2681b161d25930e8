//! Explanation of a right: the rules that grant or refuse the right, and alternatives that would grant it.
//!
//! The answer itself comes from [`EntryRights`], as it does for operations. This module only determines the deciding
//! rules, from all rules. This determination is slow, so it is made only on request.

use std::fmt;
use std::sync::Arc;

use schema::{Schema, TypeId};

use super::entry_rights::{EntryRights, RightExtent};
use super::requester::RequesterFacts;
use super::rule_rights::{RuleRights, TraversalCache};
use super::uses::{self, RuleEffect};
use super::{EffectiveRights, Requester};
use crate::catalog::access_rules::{AccessRules, Rule, default_rules, is_testable_with_browse};
use crate::catalog::{Catalog, Secrecy, Secrets, USER_PASSWORD, counts_entries, is_user_password};
use crate::model::access_rule::{
    ADD, AccessRule, BROWSE, COMPARE, DELETE, EXPLAIN, JOIN, LEAVE, PROXY, READ, RENAME, RESET, Reach,
    RequesterSpec, Rights, SEARCH, WRITE,
};
use crate::model::client_link::ClientLink;
use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::EntryId;
use crate::model::usable::Uses;
use crate::tree::{Found, TreeState, damaged_row};

type Result<T> = std::result::Result<T, OperationError>;

/// Explanation of a right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessExplanation {
    /// Whether the right is granted.
    pub is_allowed: bool,
    /// Whether the right covers only some values.
    pub is_partly: bool,
    /// Sentence with the requester, the right, and the answer.
    pub verdict: String,
    /// Rules that decide the right.
    pub rules: Vec<DecidingRule>,
    /// Reasons for the answer other than rules.
    pub notes: Vec<String>,
    /// Alternatives, each of which would grant the right. Empty if the right is granted, or if no rule can grant it.
    pub needed: Vec<String>,
}

/// A rule that decides a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecidingRule {
    /// Number of the rule in the settings, from 1; 0 for a default rule, which applies if the settings have no rules.
    pub number: usize,
    /// Whether the rule allows. If false, it denies.
    pub is_allow: bool,
    /// Text of the rule.
    pub text: String,
}

impl DecidingRule {
    /// Returns the rule's name.
    pub fn name(&self) -> &str {
        self.text.split_once(':').map_or("", |(name, _)| name.trim())
    }
}

impl fmt::Display for DecidingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let does = if self.is_allow { "allows" } else { "denies" };
        match self.number {
            0 => write!(f, "{does} it by default: {}", self.text),
            number => write!(f, "{does} it, rule {number}: {}", self.text),
        }
    }
}

impl AccessExplanation {
    /// Returns the answer as a word.
    pub fn word(&self) -> &'static str {
        match (self.is_allowed, self.is_partly) {
            (true, _) => "allowed",
            (false, true) => "partly",
            (false, false) => "denied",
        }
    }

    /// Formats the explanation as lines of text. Each line consists of a word for the line's kind, a tab, and a value.
    pub fn to_lines(&self) -> String {
        let mut lines = format!("{}\t{}\n", self.word(), self.verdict);
        for rule in &self.rules {
            let kind = if rule.is_allow { "allow" } else { "deny" };
            lines += &format!("{kind}\t{}\t{}\n", rule.number, rule.text.replace('\n', " "));
        }
        self.notes.iter().for_each(|note| lines += &format!("note\t{note}\n"));
        self.needed.iter().for_each(|needed| lines += &format!("needed\t{needed}\n"));
        lines
    }

    /// Parses the output of [`to_lines`](AccessExplanation::to_lines), ignoring unknown lines.
    pub fn of_lines(lines: &str) -> AccessExplanation {
        let mut explanation = AccessExplanation::default();
        for (kind, rest) in lines.lines().filter_map(|line| line.split_once('\t')) {
            match kind {
                "allowed" | "partly" | "denied" => {
                    explanation.verdict = rest.to_owned();
                    (explanation.is_allowed, explanation.is_partly) = (kind == "allowed", kind == "partly");
                }
                "allow" | "deny" => {
                    let Some((number, text)) = rest.split_once('\t') else { continue };
                    let Ok(number) = number.parse() else { continue };
                    let text = text.to_owned();
                    explanation.rules.push(DecidingRule { number, is_allow: kind == "allow", text });
                }
                "note" => explanation.notes.push(rest.to_owned()),
                "needed" => explanation.needed.push(rest.to_owned()),
                _ => {}
            }
        }
        explanation
    }
}

/// Rights that can be explained. Each item has the word for a right, the right, and whether the right concerns an
/// attribute.
pub(crate) const ASKED: [(&str, Rights, bool); 13] = [
    ("browse", BROWSE, false),
    ("compare", COMPARE, true),
    ("search", SEARCH, true),
    ("read", READ, true),
    ("write", WRITE, true),
    ("add", ADD, false),
    ("delete", DELETE, false),
    ("rename", RENAME, false),
    ("explain", EXPLAIN, false),
    ("join", JOIN, true),
    ("leave", LEAVE, true),
    ("proxy", PROXY, false),
    ("reset", RESET, false),
];

/// Question about a right at an entry.
#[derive(Clone, Copy)]
pub(crate) struct RightQuestion<'a> {
    /// Word for the right.
    pub(crate) word: &'a str,
    pub(crate) right: Rights,
    pub(crate) type_id: Option<TypeId>,
    /// The entry; [`EntryId::ROOT`] for a new entry.
    pub(crate) id: EntryId,
    pub(crate) parent: EntryId,
    /// DN of the entry, as written in the question.
    pub(crate) dn: &'a str,
    /// Connection of the request, if the question names one.
    pub(crate) link: Option<ClientLink>,
}

/// Rules with their texts.
pub(crate) struct RulesInForce {
    pub(crate) rules: Arc<AccessRules>,
    pub(crate) texts: Vec<String>,
    /// Whether these are the default rules, which apply if the settings have no rules.
    pub(crate) by_default: bool,
}

impl RulesInForce {
    /// Returns the rules in force.
    pub(crate) fn of(state: TreeState<'_>) -> RulesInForce {
        let texts = &state.settings.general.access_rules;
        let rules = &state.catalog.access_rules;
        if rules.are_there() {
            return RulesInForce { rules: Arc::clone(rules), texts: texts.clone(), by_default: false };
        }
        let Catalog { schema, secrets, .. } = state.catalog;
        RulesInForce::proposed(&[], state.settings.anonymous_read(), (schema, secrets))
    }

    /// Returns the rule at this index as a deciding rule.
    pub(super) fn rule(&self, place: usize, is_allow: bool) -> DecidingRule {
        let number = if self.by_default { 0 } else { place + 1 };
        DecidingRule { number, is_allow, text: self.texts.get(place).cloned().unwrap_or_default() }
    }

    /// Returns the rules that would be in force under these settings.
    pub(crate) fn proposed(
        texts: &[String],
        anonymous_read: bool,
        (schema, secrets): (&Schema, &Secrets),
    ) -> RulesInForce {
        let by_default = texts.is_empty();
        let texts = if by_default { default_rules(anonymous_read) } else { texts.to_vec() };
        RulesInForce { rules: Arc::new(AccessRules::of(&texts, schema, secrets)), texts, by_default }
    }
}

/// Place in the tree that a question is about.
pub(crate) enum QuestionPlace {
    Entry(EntryId),
    /// A new entry.
    New {
        parent: EntryId,
    },
    Nowhere {
        nearest: Option<EntryId>,
    },
}

impl QuestionPlace {
    /// Resolves a name to its place. If `is_new`, the question is about an entry to be added with this name.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) fn of(state: TreeState<'_>, name: &NormalName, is_new: bool) -> Result<QuestionPlace> {
        Ok(match state.find(name)? {
            // Rules decide about a new entry by its superior, even if an entry already has the name.
            Found::Entry(id, _) if is_new => {
                QuestionPlace::New { parent: state.node(id)?.ok_or_else(|| damaged_row("nodes", id))?.parent }
            }
            Found::Entry(id, _) => QuestionPlace::Entry(id),
            Found::Missing { nearest: Some((parent, _, depth)) } if is_new && depth + 1 == name.depth() => {
                QuestionPlace::New { parent }
            }
            Found::Missing { nearest } => QuestionPlace::Nowhere { nearest: nearest.map(|(id, ..)| id) },
        })
    }
}

/// Explains a right of `subject` under the rules in force.
///
/// # Errors
/// As [`EffectiveRights::of`].
pub(crate) fn explain(
    state: TreeState<'_>,
    subject: &Requester,
    question: RightQuestion<'_>,
) -> Result<AccessExplanation> {
    explain_under(state, &RulesInForce::of(state), subject, question)
}

/// Explains a right of `subject` under the given rules.
///
/// # Errors
/// As [`EffectiveRights::of`].
pub(crate) fn explain_under(
    state: TreeState<'_>,
    rules: &RulesInForce,
    subject: &Requester,
    question: RightQuestion<'_>,
) -> Result<AccessExplanation> {
    let rights = EffectiveRights::under(&rules.rules, state, subject, question.link.as_ref())?;
    explain_rights(state, rules, &rights, subject, question)
}

/// Explains a right of `subject`, whose effective rights under the rules are already computed.
///
/// # Errors
/// The store failed.
pub(crate) fn explain_rights(
    state: TreeState<'_>,
    rules: &RulesInForce,
    rights: &EffectiveRights,
    subject: &Requester,
    question: RightQuestion<'_>,
) -> Result<AccessExplanation> {
    let RulesInForce { rules, texts, by_default } = rules;
    let mut explanation = AccessExplanation::default();
    let answer = |explanation: &mut AccessExplanation, extent: &RightExtent<'_>| {
        set_answer(explanation, state, subject, question, extent);
    };
    let Some(applicable) = rights.rules.as_deref() else {
        explanation.notes.push("the administrator is above all rules".to_owned());
        answer(&mut explanation, &RightExtent::All);
        return Ok(explanation);
    };
    let at = applicable.at(state, &mut TraversalCache::default(), question.id, question.parent)?;
    let is_own = applicable.own() == Some(question.id);
    let asked_for = (question.right, question.type_id);
    let (right, type_id) = right_over_password(&state.catalog.schema, is_own, asked_for);
    let deciding =
        Explainer { state, rights, applicable, texts, by_default: *by_default, who: name_of(subject) };
    if rules.is_broken {
        explanation.notes.push("a rule cannot be read, so only the administrator has rights".to_owned());
    }
    if !at.may_browse() && question.right != BROWSE && question.right != ADD {
        answer(&mut explanation, &RightExtent::Nothing);
        explanation.notes.push("the entry cannot be seen: it is as one that is not there".to_owned());
        deciding.add(
            &mut explanation,
            RightQuestion { word: "browse", right: BROWSE, type_id: None, ..question },
        )?;
        return Ok(explanation);
    }
    let decided = RightQuestion { right, type_id, ..question };
    if let Some((is_allowed, note)) = deciding.outside_rules(subject, decided)? {
        answer(&mut explanation, &is_allowed.into());
        explanation.notes.push(note);
        return Ok(explanation);
    }
    answer(&mut explanation, &at.extent(right, type_id));
    deciding.add(&mut explanation, decided)?;
    Ok(explanation)
}

/// Returns the right that governs a change of a password, given the right to write or to reset it: the right to write
/// for the user's own entry, the right to reset for other entries. Returns other rights unchanged.
pub(crate) fn right_over_password(
    schema: &Schema,
    is_own: bool,
    (right, type_id): (Rights, Option<TypeId>),
) -> (Rights, Option<TypeId>) {
    match (right, type_id) {
        (WRITE, Some(written)) if !is_own && is_user_password(schema, written) => (RESET, None),
        (RESET, _) if is_own => (WRITE, schema.attribute_type(USER_PASSWORD).map(|password| password.id)),
        known => known,
    }
}

/// Explains whether `subject` may use controls and extended operations under the rules.
///
/// # Errors
/// The store failed.
pub(crate) fn explain_use(
    state: TreeState<'_>,
    rules_with_texts: &RulesInForce,
    subject: &Requester,
    (question, link): (Uses, Option<&ClientLink>),
) -> Result<AccessExplanation> {
    let rules = &rules_with_texts.rules;
    let own = match subject {
        Requester::Anonymous | Requester::Administrator { .. } => None,
        Requester::User { id, .. } => Some(*id),
    };
    let mut requester = RequesterFacts::new(state, own);
    let is_refused = !subject.is_administrator() && uses::refused(rules, &mut requester, link)?.has(question);
    let who = Quoted(if *subject == Requester::Anonymous { "anonymous" } else { subject.dn() }).to_string();
    let may = if is_refused { "may not" } else { "may" };
    let verdict = format!("{who} {may} use {}", question.words());
    let mut explanation =
        AccessExplanation { is_allowed: !is_refused, verdict, ..AccessExplanation::default() };
    if subject.is_administrator() {
        explanation.notes.push("the administrator is above all rules".to_owned());
        return Ok(explanation);
    }
    let mut affecting = uses::affecting_rules(rules, &mut requester, link)?;
    affecting.retain(|(_, of, _)| of.has(question));
    let kinds = [RuleEffect::Denies, RuleEffect::Allows, RuleEffect::AllowsOthers];
    let decides = kinds.into_iter().find(|kind| affecting.iter().any(|(.., effect)| effect == kind));
    for (place, ..) in affecting.into_iter().filter(|(.., effect)| Some(*effect) == decides) {
        let rule = rules_with_texts.rule(place, decides != Some(RuleEffect::Denies));
        let name = rule.name();
        match decides {
            Some(RuleEffect::Denies) => {
                let needed = format!("that rule {name:?} leaves it out, or is not for {who}");
                explanation.needed.push(needed);
                explanation.rules.push(rule);
            }
            Some(RuleEffect::AllowsOthers) => {
                explanation.needed.push(format!("that {who} is what rule {name:?} is for"))
            }
            Some(RuleEffect::Allows) | None => explanation.rules.push(rule),
        }
    }
    if explanation.rules.is_empty() {
        let note = match (is_refused, decides) {
            (true, None) => "it is for those alone whom a rule allows it by name",
            (true, Some(_)) => "rules allow it to others alone",
            (false, _) => "no rule restricts its use",
        };
        explanation.notes.push(note.to_owned());
    }
    Ok(explanation)
}

/// Returns the name of a requester.
fn name_of(subject: &Requester) -> &str {
    if *subject == Requester::Anonymous { "anonymous" } else { subject.dn() }
}

/// Sets the answer, and the verdict that states the answer.
fn set_answer(
    explanation: &mut AccessExplanation,
    state: TreeState<'_>,
    subject: &Requester,
    question: RightQuestion<'_>,
    extent: &RightExtent<'_>,
) {
    let of = match question.type_id {
        Some(type_id) => format!(" {} of", state.catalog.schema.type_by_id(type_id).name()),
        None => String::new(),
    };
    let (may, some) = match extent {
        RightExtent::All => ("may", ""),
        RightExtent::Some(..) => ("may", " some values of"),
        RightExtent::Nothing => ("may not", ""),
    };
    explanation.is_allowed = *extent == RightExtent::All;
    explanation.is_partly = matches!(extent, RightExtent::Some(..));
    explanation.verdict =
        format!("{} {may} {}{some}{of} {}", Quoted(name_of(subject)), question.word, Quoted(question.dn));
}

/// Returns text that names the rule that refuses a right, or states that no rule allows the right. Returns an empty
/// text if the requester does not have the right `explain` at the entry.
///
/// # Errors
/// The store failed.
pub(crate) fn hint(
    state: TreeState<'_>,
    rights: &EffectiveRights,
    at: &EntryRights,
    (id, right, type_id): (EntryId, Rights, Option<TypeId>),
) -> Result<String> {
    let (Some(applicable), true) = (&rights.rules, at.may(EXPLAIN)) else { return Ok(String::new()) };
    let Some(node) = state.node(id)? else { return Ok(String::new()) };
    let is_own = applicable.own() == Some(id);
    let (right, type_id) = right_over_password(&state.catalog.schema, is_own, (right, type_id));
    let texts = &state.settings.general.access_rules;
    let holding = applicable.holding(state, id, node.parent)?;
    let rules = &applicable.rules().rules;
    let is_partly = matches!(at.extent(right, type_id), RightExtent::Some(..));
    let decides = |rule: &Rule| match is_partly {
        true => rule.values.is_some(),
        false => rule.values.is_none() && !rule.is_allow,
    };
    let decides = holding
        .iter()
        .find(|place| rules.get(**place).is_some_and(|rule| decides(rule) && is_about(rule, right, type_id)));
    Ok(match decides {
        Some(place) => {
            let text = texts.get(*place).map_or("", String::as_str);
            let does = if is_partly { "is about some values" } else { "denies it" };
            format!(": rule {} {does}: {text}", place + 1)
        }
        None => ": none allows it here, ask `pando access explain` what would".to_owned(),
    })
}

/// Returns true if a rule concerns a right to a type.
pub(super) fn is_about(rule: &Rule, right: Rights, type_id: Option<TypeId>) -> bool {
    rule.rights.has(right) && type_id.is_none_or(|type_id| rule.types.contains(type_id))
}

/// Explanation in progress for one requester.
struct Explainer<'d> {
    state: TreeState<'d>,
    rights: &'d EffectiveRights,
    /// Rights of the requester under the rules.
    applicable: &'d RuleRights,
    texts: &'d [String],
    by_default: bool,
    who: &'d str,
}

impl Explainer<'_> {
    /// Returns the decision about a right that does not depend on rules, with the reason. Returns `None` if rules
    /// decide.
    fn outside_rules(
        &self,
        subject: &Requester,
        question: RightQuestion<'_>,
    ) -> Result<Option<(bool, String)>> {
        let RightQuestion { right, type_id, .. } = question;
        let schema = &*self.state.catalog.schema;
        if *subject == Requester::Anonymous
            && [WRITE, ADD, DELETE, RENAME, JOIN, LEAVE, PROXY, RESET].contains(&right)
        {
            let note = "anonymous clients cannot change anything, whatever the rules say";
            return Ok(Some((false, note.to_owned())));
        }
        let Some(type_id) = type_id else { return Ok(None) };
        let name = schema.type_by_id(type_id).name();
        if right == SEARCH && is_testable_with_browse(schema, type_id) {
            let note = format!("{name} may be searched wherever the entry may be seen");
            return Ok(Some((true, note)));
        }
        if right == COMPARE && is_user_password(schema, type_id) {
            let is_allowed = self.rights.check_compare(self.state, question.id, type_id).is_ok();
            let note = format!(
                "the setting password_comparers says who compares {name}; users may compare their own"
            );
            return Ok(Some((is_allowed, note)));
        }
        let secrecy = self.state.catalog.secrets.of_type(type_id);
        if secrecy > Secrecy::Guarded && ![WRITE, JOIN, LEAVE].contains(&right) {
            return Ok(Some((
                false,
                format!("{name} is a secret: only the administrator, whatever the rules say"),
            )));
        }
        if counts_entries(schema, type_id) && right != WRITE && !self.applicable.is_uniform() {
            let note =
                format!("{name} counts entries: only for those whom the same rules hold for everywhere");
            return Ok(Some((false, note)));
        }
        Ok(None)
    }

    /// Adds the deciding rules and, unless the right is granted, alternatives that would grant the right.
    fn add(&self, explanation: &mut AccessExplanation, question: RightQuestion<'_>) -> Result<()> {
        let rules = &self.applicable.rules().rules;
        let holding = self.applicable.holding(self.state, question.id, question.parent)?;
        // Rules on single values are deciding rules only if the right covers some values but not all.
        let is_partly = explanation.is_partly;
        let about = |place: &usize| {
            rules.get(*place).is_some_and(|rule| {
                is_about(rule, question.right, question.type_id) && (is_partly || rule.values.is_none())
            })
        };
        let is_allow = |place: &usize| rules.get(*place).is_some_and(|rule| rule.is_allow);
        let (allow, deny): (Vec<usize>, Vec<usize>) =
            holding.iter().copied().filter(about).partition(is_allow);
        let allowing = allow.iter().filter(|_| is_partly || deny.is_empty());
        explanation.rules.extend(allowing.chain(&deny).map(|place| self.rule(*place)));
        let is_for_all = |place: &usize| rules.get(*place).is_some_and(|rule| rule.values.is_none());
        if is_partly && !allow.iter().any(is_for_all) {
            let filters = allow.iter().filter_map(|place| self.value_filter_text(*place));
            let filters: Vec<_> = filters.collect();
            explanation.needed.push(format!("that the value matches {}", filters.join(" or ")));
        }
        for place in &deny {
            let rule = self.rule(*place);
            let whom =
                self.requesters(*place).iter().map(RequesterSpec::to_string).collect::<Vec<_>>().join(", ");
            let needed = match question.type_id {
                Some(type_id) => {
                    let name = self.state.catalog.schema.type_by_id(type_id).name();
                    format!("that rule {:?} leaves out {name}, or is not for {whom}", rule.name())
                }
                None => format!("that rule {:?} is not for {whom}", rule.name()),
            };
            let needed = match self.filter_text(*place) {
                Some(filter) => format!("{needed}, or that the entry does not match {filter}"),
                None => needed,
            };
            let needed = match self.value_filter_text(*place) {
                Some(filter) => format!("{needed}, or that the value does not match {filter}"),
                None => needed,
            };
            explanation.needed.push(needed);
        }
        if allow.is_empty() {
            if deny.is_empty() {
                explanation.notes.push("no rule allows it, and what none allows is denied".to_owned());
            }
            if let Some(secret) = question.type_id.filter(|id| self.state.catalog.secrets.has(*id)) {
                let name = self.state.catalog.schema.type_by_id(secret).name();
                explanation.notes.push(format!("{name} is a secret: a rule has to name it"));
            }
            self.add_others(explanation, question, &holding)?;
        }
        Ok(())
    }

    /// Adds as alternatives the rules that would grant the right at this entry if they applied to the requester. If
    /// there is no alternative, adds the alternative of a new rule, except under the default rules.
    fn add_others(
        &self,
        explanation: &mut AccessExplanation,
        question: RightQuestion<'_>,
        holding: &[usize],
    ) -> Result<()> {
        for (place, rule) in self.applicable.rules().rules.iter().enumerate() {
            if !rule.is_allow || !is_about(rule, question.right, question.type_id) || holding.contains(&place)
            {
                continue;
            }
            if !self.reaches(rule, question)? {
                continue;
            }
            let others =
                self.requesters(place).iter().map(RequesterSpec::to_string).collect::<Vec<_>>().join(", ");
            let name = self.rule(place).name().to_owned();
            let who = Quoted(self.who).to_string();
            let mut needed = format!("that {who} is what rule {name:?} is for: {others}");
            if let Some(filter) = self.filter_text(place) {
                needed += &format!(", and that the entry matches {filter}");
            }
            if !rule.holds_over(question.link.as_ref()) {
                needed += &rule.link.to_string();
            }
            explanation.needed.push(needed);
        }
        if explanation.needed.is_empty() && !self.by_default {
            explanation.needed.push(format!("a rule that allows {} here", question.word));
        }
        Ok(())
    }

    /// Returns true if the place in the question is among the places of a rule.
    fn reaches(&self, rule: &Rule, question: RightQuestion<'_>) -> Result<bool> {
        for but in &rule.but {
            if self.is_in(but, question)? {
                return Ok(false);
            }
        }
        rule.place.as_ref().map_or(Ok(true), |place| self.is_in(place, question))
    }

    fn is_in(&self, (reach, name): &(Reach, NormalName), question: RightQuestion<'_>) -> Result<bool> {
        if name.depth() == 0 {
            return Ok(matches!(reach, Reach::In | Reach::Below));
        }
        let Some(base) = self.state.entry_of(name)? else { return Ok(false) };
        Ok(match reach {
            Reach::At => base == question.id,
            Reach::In => base == question.id || self.state.is_at_or_below(question.parent, base)?,
            Reach::Below => self.state.is_at_or_below(question.parent, base)?,
            Reach::Children => base == question.parent,
        })
    }

    fn rule(&self, place: usize) -> DecidingRule {
        let number = if self.by_default { 0 } else { place + 1 };
        let is_allow = self.applicable.rules().rules.get(place).is_some_and(|rule| rule.is_allow);
        DecidingRule { number, is_allow, text: self.texts.get(place).cloned().unwrap_or_default() }
    }

    /// Returns the rule's filter on entries, in quotes.
    fn filter_text(&self, place: usize) -> Option<String> {
        let filter = self.applicable.rules().rules.get(place)?.filter.as_ref()?;
        Some(format!("{:?}", filter.to_string()))
    }

    /// Returns the rule's filter on values, in quotes.
    fn value_filter_text(&self, place: usize) -> Option<String> {
        let filter = self.applicable.rules().rules.get(place)?.values.as_ref()?;
        Some(format!("{:?}", filter.to_string()))
    }

    fn requesters(&self, place: usize) -> Vec<RequesterSpec> {
        let rule = self.texts.get(place).and_then(|text| AccessRule::parse(text).ok());
        rule.map(|rule| rule.requesters).unwrap_or_default()
    }
}
