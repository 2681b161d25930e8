//! List of the rules about a right at an entry and below the entry, with the requesters that each rule names.
//!
//! An explanation (`explain.rs`) is about one requester and names the rules that decide for that requester. The list is
//! about all requesters, so it resolves no users and no groups. The list contains each rule that covers the entry or an
//! entry below it.

use schema::TypeId;

use super::explain::{DecidingRule, RightQuestion, RulesInForce, is_about};
use super::requester::RequesterFacts;
use crate::catalog::access_rules::{Rule, is_testable_with_browse};
use crate::catalog::{Secrecy, Shown, counts_entries, is_user_password};
use crate::filter::{Candidate, Matcher, Truth};
use crate::model::access_rule::{
    ADD, AccessRule, BROWSE, COMPARE, DELETE, JOIN, LEAVE, PROXY, RENAME, RESET, Reach, RequesterSpec,
    Rights, SEARCH, USE, WRITE,
};
use crate::model::name::NormalName;
use crate::model::outcome::OperationError;
use crate::model::quoted::Quoted;
use crate::model::rows::{EntryId, children_counter};
use crate::tree::{TreeState, damaged_row};

type Result<T> = std::result::Result<T, OperationError>;

/// Rules about a right at an entry and below the entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessList {
    /// The right, the attribute and the entry, such as `read mail of "dc=example"`.
    pub what: String,
    /// The rules, in the order of the settings.
    pub rules: Vec<ListedRule>,
    /// Facts that decide the right in addition to rules.
    pub notes: Vec<String>,
}

/// A rule of an [`AccessList`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRule {
    /// The rule, with its text.
    pub rule: DecidingRule,
    /// Whether the rule covers the entry. If false, the rule covers only entries below the entry.
    pub covers_entry: bool,
    /// Requesters that the rule names.
    pub requesters: Vec<ListedRequester>,
}

/// Requesters that a rule names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedRequester {
    /// The requesters.
    pub requester: RequesterSpec,
    /// Number of a rule that denies the right at the entry to all these requesters; `None` if no single rule is known
    /// to deny the right to all of them without a condition, and for requesters of a `deny` rule.
    pub denied_by: Option<usize>,
}

impl AccessList {
    /// Formats the list as lines of text. Each line consists of a word for the line's kind, a tab, and fields
    /// separated by tabs. A line `who` describes requesters that the preceding rule names.
    pub fn to_lines(&self) -> String {
        let mut lines = format!("list\t{}\n", self.what);
        for ListedRule { rule, covers_entry, requesters } in &self.rules {
            let kind = if rule.is_allow { "allow" } else { "deny" };
            let place = if *covers_entry { "here" } else { "below" };
            lines += &format!("{kind}\t{place}\t{}\t{}\n", rule.number, rule.text.replace('\n', " "));
            for ListedRequester { requester, denied_by } in requesters {
                let (kind, dn) = kind_and_dn(requester);
                let denied_by = denied_by.map_or_else(String::new, |number| number.to_string());
                lines += &format!("who\t{kind}\t{dn}\t{denied_by}\t{requester}\n").replace('\r', " ");
            }
        }
        self.notes.iter().for_each(|note| lines += &format!("note\t{note}\n"));
        lines
    }
}

/// Returns a word for the kind of these requesters, and the DN in their description.
fn kind_and_dn(requester: &RequesterSpec) -> (&'static str, &str) {
    match requester {
        RequesterSpec::Anyone => ("anyone", ""),
        RequesterSpec::Anonymous => ("anonymous", ""),
        RequesterSpec::Authenticated => ("authenticated", ""),
        RequesterSpec::Itself => ("self", ""),
        RequesterSpec::User(dn) => ("user", dn),
        RequesterSpec::UsersIn(dn) => ("users", dn),
        RequesterSpec::UsersMatching(dn, _) => ("matching", dn.as_deref().unwrap_or_default()),
        RequesterSpec::Group(dn) => ("group", dn),
        RequesterSpec::NamedBy(_) => ("named", ""),
    }
}

/// Lists the rules about a right. If `with_below`, the list also has rules that cover only entries below the entry.
///
/// # Errors
/// The store failed.
pub(crate) fn access_list(
    state: TreeState<'_>,
    rules: &RulesInForce,
    question: RightQuestion<'_>,
    with_below: bool,
) -> Result<AccessList> {
    let schema = &*state.catalog.schema;
    let of = match question.type_id {
        Some(type_id) => format!(" {} of", schema.type_by_id(type_id).name()),
        None => String::new(),
    };
    let what = format!("{}{of} {}", question.word, Quoted(question.dn));
    let mut list = AccessList { what, ..AccessList::default() };
    let (decided, notes) = decided(state, question);
    list.notes = notes;
    let Some(decided) = decided else { return Ok(list) };
    if rules.rules.is_broken {
        list.notes.push("a rule cannot be read, so only the administrator has rights".to_owned());
        return Ok(list);
    }
    let has_below =
        with_below && question.id != EntryId::ROOT && state.read.count(&children_counter(question.id))? > 0;
    let mut facts = RequesterFacts::new(state, None);
    for (place, rule) in rules.rules.rules.iter().enumerate().filter(|(_, rule)| !rule.rights.has(USE)) {
        if !decided.concerns(rule) {
            continue;
        }
        let coverage = coverage(state, &mut facts, rule, question)?;
        if coverage.covers_entry || (has_below && coverage.below != Below::Nothing) {
            let rule = rules.rule(place, rule.is_allow);
            let parsed = AccessRule::parse(&rule.text).map(|parsed| parsed.requesters).unwrap_or_default();
            let requesters =
                parsed.into_iter().map(|requester| ListedRequester { requester, denied_by: None });
            let requesters = requesters.collect();
            list.rules.push(ListedRule { rule, covers_entry: coverage.covers_entry, requesters });
        }
    }
    let denials = denials(rules, &list);
    for listed in list.rules.iter_mut().filter(|listed| listed.rule.is_allow && listed.covers_entry) {
        for requester in &mut listed.requesters {
            let denies = denials.iter().find(|(_, denied)| includes(denied, &requester.requester));
            requester.denied_by = denies.map(|(number, _)| *number);
        }
    }
    let is_hidden = |listed: &ListedRule| {
        let place = listed.rule.number.wrapping_sub(1);
        listed.rule.is_allow && rules.rules.rules.get(place).is_some_and(|rule| !rule.rights.has(BROWSE))
    };
    if list.rules.iter().any(is_hidden) {
        let note = "a rule for entries that are seen gives the right only if another rule permits to browse";
        list.notes.push(note.to_owned());
    }
    Ok(list)
}

/// Rights that a question depends on, each with the attribute type that it concerns, if any.
struct DecidingRights {
    rights: Vec<(Rights, Option<TypeId>)>,
}

impl DecidingRights {
    fn concerns(&self, rule: &Rule) -> bool {
        // A requester without the right to browse an entry has no other right at the entry. A rule that denies this
        // right therefore concerns every question.
        let hides = !rule.is_allow && rule.rights.has(BROWSE);
        hides || self.rights.iter().any(|(right, type_id)| is_about(rule, *right, *type_id))
    }
}

/// Returns the rights that a question depends on, or `None` if rules do not decide the question. Also returns notes
/// about other facts that decide the question.
fn decided(state: TreeState<'_>, question: RightQuestion<'_>) -> (Option<DecidingRights>, Vec<String>) {
    let schema = &*state.catalog.schema;
    let mut notes = Vec::new();
    if [WRITE, ADD, DELETE, RENAME, JOIN, LEAVE, PROXY, RESET].contains(&question.right) {
        notes.push("anonymous clients cannot change anything, whatever the rules say".to_owned());
    }
    let own_password = "users change their own password by the right to write it, that of others by reset";
    let Some(type_id) = question.type_id else {
        if question.right == RESET {
            notes.push(own_password.to_owned());
        }
        return (Some(DecidingRights { rights: vec![(question.right, None)] }), notes);
    };
    let name = schema.type_by_id(type_id).name();
    let is_changed = [WRITE, JOIN, LEAVE].contains(&question.right);
    let mut rights = vec![(question.right, Some(type_id))];
    if question.right == COMPARE && is_user_password(schema, type_id) {
        notes.push(format!(
            "the setting password_comparers says who compares {name}; users may compare their own"
        ));
        return (None, notes);
    }
    if !is_changed && state.catalog.secrets.of_type(type_id) > Shown::AsRulesSay.highest() {
        notes.push(format!("{name} is a secret: no rule permits to {} it", question.word));
        return (None, notes);
    }
    if question.right == SEARCH && is_testable_with_browse(schema, type_id) {
        notes.push(format!("{name} may be searched wherever the entry may be seen"));
        rights = vec![(BROWSE, None)];
    }
    if question.right == WRITE && is_user_password(schema, type_id) {
        notes.push(own_password.to_owned());
        rights.push((RESET, None));
    }
    if counts_entries(schema, type_id) && !is_changed {
        notes.push(format!("{name} counts entries: only for those whom the same rules hold for everywhere"));
    }
    if state.catalog.secrets.of_type(type_id) == Secrecy::Guarded {
        notes.push(format!("{name} is a secret: a rule has to name it"));
    }
    (Some(DecidingRights { rights }), notes)
}

/// Returns the requesters to whom a rule unconditionally denies the right at the entry, each with the number of that
/// rule.
fn denials(rules: &RulesInForce, list: &AccessList) -> Vec<(usize, RequesterSpec)> {
    let is_plain = |listed: &&ListedRule| {
        let rule = rules.rules.rules.get(listed.rule.number.wrapping_sub(1));
        listed.covers_entry
            && rule.is_some_and(|rule| !rule.is_allow && rule.values.is_none() && !rule.depends_on_link())
    };
    let plain = list.rules.iter().filter(is_plain);
    let all = plain.flat_map(|listed| {
        let requesters = listed.requesters.iter();
        requesters.map(|of| (listed.rule.number, of.requester.clone()))
    });
    all.collect()
}

/// Returns true if all requesters of `one` are known to be among the requesters of `all`.
fn includes(all: &RequesterSpec, one: &RequesterSpec) -> bool {
    match all {
        RequesterSpec::Anyone => true,
        RequesterSpec::Authenticated => !matches!(one, RequesterSpec::Anyone | RequesterSpec::Anonymous),
        all => all == one,
    }
}

/// Extent to which the entries below an entry are covered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Below {
    Nothing,
    Something,
    Everything,
}

/// Extent to which a rule, or one place in a rule, covers an entry and the entries below the entry.
#[derive(Clone, Copy, Debug)]
struct Coverage {
    covers_entry: bool,
    below: Below,
}

fn coverage(
    state: TreeState<'_>,
    facts: &mut RequesterFacts<'_>,
    rule: &Rule,
    question: RightQuestion<'_>,
) -> Result<Coverage> {
    let everything = Coverage { covers_entry: true, below: Below::Everything };
    let mut all = rule.place.as_ref().map_or(Ok(everything), |place| of_place(state, place, question))?;
    for but in &rule.but {
        let but = of_place(state, but, question)?;
        all.covers_entry &= !but.covers_entry;
        if but.below == Below::Everything {
            all.below = Below::Nothing;
        }
    }
    if let Some(filter) = rule.filter.as_ref().filter(|_| all.covers_entry) {
        let truth = match question.id {
            // The question is about a new entry with unknown attributes, so the filter of a rule cannot be evaluated.
            EntryId::ROOT => Truth::Undefined,
            id => {
                let term = facts.ready(filter)?;
                let candidate = Candidate::new(id, state.node(id)?.ok_or_else(|| damaged_row("nodes", id))?);
                Matcher::new(Shown::Plain).truth(&term, state.as_stored(), &candidate)?
            }
        };
        all.covers_entry = truth == Truth::True || truth == Truth::Undefined && !rule.is_allow;
    }
    Ok(all)
}

fn of_place(
    state: TreeState<'_>,
    (reach, name): &(Reach, NormalName),
    question: RightQuestion<'_>,
) -> Result<Coverage> {
    let nothing = Coverage { covers_entry: false, below: Below::Nothing };
    if name.depth() == 0 {
        let is_all = matches!(reach, Reach::In | Reach::Below);
        return Ok(if is_all { Coverage { covers_entry: true, below: Below::Everything } } else { nothing });
    }
    let Some(base) = state.entry_of(name)? else { return Ok(nothing) };
    let is_it = base == question.id;
    let is_above = !is_it && state.is_at_or_below(question.parent, base)?;
    let is_under = !is_it && question.id != EntryId::ROOT && state.is_at_or_below(base, question.id)?;
    let covers_entry = match reach {
        Reach::In => is_it || is_above,
        Reach::Below => is_above,
        Reach::At => is_it,
        Reach::Children => base == question.parent,
    };
    let below = match reach {
        Reach::In | Reach::Below if is_it || is_above => Below::Everything,
        Reach::Children if is_it => Below::Something,
        _ if is_under => Below::Something,
        _ => Below::Nothing,
    };
    Ok(Coverage { covers_entry, below })
}
