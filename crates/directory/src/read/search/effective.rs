//! The Get Effective Rights control: reports with each result the rights of a requester. The report has the format of
//! 389 DS (`entryLevelRights`, `attributeLevelRights`) or, if a search requests `aclRights`, the format of OpenDJ.
//!
//! Any requester may ask for its own rights. Only the administrator and requesters with the right `explain` may ask
//! for the rights of other requesters. The report covers the attributes that the control names and the attributes of
//! the entry's classes. The report never depends on which attributes the entry has, because such a report would
//! reveal values that the requester may not read.

use ldap::response::put_value;
use schema::TypeId;

use super::SearchInputs;
use crate::access::{
    AccessExplanation, EffectiveRights, EntryRights, Requester, RightQuestion, RulesInForce, TraversalCache,
    denied, explain,
};
use crate::catalog::access_rules::TypeSet;
use crate::catalog::is_user_password;
use crate::filter::Candidate;
use crate::model::access_rule::{
    ADD, BROWSE, COMPARE, DELETE, EXPLAIN, PROXY, READ, RENAME, RESET, Rights, SEARCH, WRITE,
};
use crate::model::client_link::ClientLink;
use crate::model::outcome::OperationError;
use crate::read::access_question;
use crate::read::controls::EffectiveRightsOptions;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// State of the Get Effective Rights control in one search.
#[derive(Debug)]
pub(super) struct RightsReport {
    subject: Requester,
    link: Option<ClientLink>,
    /// Effective rights to report.
    reported: EffectiveRights,
    /// Effective rights of the requester of the search; `None` if this requester may ask for the reported rights at all
    /// entries.
    requester_rights: Option<EffectiveRights>,
    /// Types that the control names.
    named: Vec<TypeId>,
    /// Whether the report covers the attributes of the entry's classes.
    by_class: bool,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Letters,
    Acl { rights: bool, info: bool },
}

impl RightsReport {
    /// Creates the state of the control for a search.
    ///
    /// # Errors
    /// insufficientAccessRights if there is no entry at which the requester may ask for the requested rights;
    /// noSuchObject for an identity that does not exist.
    pub(super) fn of(inputs: &SearchInputs<'_>, requested: &EffectiveRightsOptions) -> Result<RightsReport> {
        let SearchInputs { snapshot, context, rights: own, request, .. } = *inputs;
        let (state, requester, link) = (snapshot.state(), context.requester, context.link);
        if requested.identity.as_deref().is_some_and(|identity| !is_own(requester, identity))
            && !own.may_explain_some()
        {
            return Err(denied("you may ask for your own rights, not for those of others"));
        }
        let subject = match &requested.identity {
            Some(identity) => access_question::subject_for(state, requester, identity)?,
            None => requester.clone(),
        };
        let RulesInForce { rules, .. } = RulesInForce::of(state);
        let reported = EffectiveRights::under(&rules, state, &subject, link.as_ref())?;
        let may_always = own.is_administrator() || same(&subject, requester);
        let requester_rights = if may_always { None } else { Some(own.clone()) };
        let schema = &state.catalog.schema;
        let (mut named, mut by_class): (Vec<TypeId>, bool) = (Vec::new(), request.attributes.is_empty());
        let (mut rights, mut info) = (false, false);
        for selector in request.attributes.iter().chain(requested.attributes.iter().map(String::as_str)) {
            match selector {
                "*" => by_class = true,
                _ if selector.eq_ignore_ascii_case("aclRights") => rights = true,
                _ if selector.eq_ignore_ascii_case("aclRightsInfo") => info = true,
                _ => named.extend(schema.parse_description(selector).map(|description| description.type_id)),
            }
        }
        let mut seen = TypeSet::default();
        named.retain(|type_id| {
            !seen.contains(*type_id) && {
                seen.insert(*type_id);
                true
            }
        });
        let form = if rights || info { Form::Acl { rights, info } } else { Form::Letters };
        Ok(RightsReport { subject, link, reported, requester_rights, named, by_class, form })
    }

    /// Returns a copy for another thread.
    pub(super) fn copy(&self) -> RightsReport {
        RightsReport {
            subject: self.subject.clone(),
            reported: self.reported.clone(),
            requester_rights: self.requester_rights.clone(),
            named: self.named.clone(),
            ..*self
        }
    }

    /// Returns the attributes that report the rights at an entry, with their values encoded.
    ///
    /// # Errors
    /// The store failed.
    pub(super) fn attributes(
        &self,
        state: TreeState<'_>,
        candidate: &Candidate<'_>,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        let (id, parent) = (candidate.id, candidate.node.parent);
        let at = |rights: &EffectiveRights| rights.at(state, &mut TraversalCache::default(), id, parent);
        if let Some(requester_rights) = &self.requester_rights
            && !at(requester_rights)?.is_some_and(|at| at.may(EXPLAIN))
        {
            return Ok(Vec::new());
        }
        let rights = at(&self.reported)?;
        let rights = rights.as_deref();
        let is_own = self.reported.own() == Some(id);
        let rights = ReportedRights { rights, is_own };
        let types = self.types(state, candidate);
        match self.form {
            Form::Letters => Ok(letters(state, rights, &types)),
            Form::Acl { rights: wants_rights, info } => {
                let mut all = Vec::new();
                if wants_rights {
                    all.extend(acl_rights(state, rights, &types));
                }
                if info {
                    self.add_info(state, candidate, &types, &mut all)?;
                }
                Ok(all)
            }
        }
    }

    /// Returns the types to report, without duplicates. The types that the control names come first.
    fn types(&self, state: TreeState<'_>, candidate: &Candidate<'_>) -> Vec<TypeId> {
        let mut types = Vec::new();
        let mut add = |type_id: TypeId| {
            if !types.contains(&type_id) {
                types.push(type_id);
            }
        };
        self.named.iter().copied().for_each(&mut add);
        if self.by_class {
            let schema = &state.catalog.schema;
            for class in &state.catalog.class_set(candidate.node.class_set).closure {
                let class = schema.class_by_id(*class);
                class.all_must.iter().chain(&class.all_may).copied().for_each(&mut add);
            }
        }
        types
    }

    /// Adds `aclRightsInfo`, which names the rule that decides each right.
    fn add_info(
        &self,
        state: TreeState<'_>,
        candidate: &Candidate<'_>,
        types: &[TypeId],
        all: &mut Vec<(String, Vec<u8>)>,
    ) -> Result<()> {
        let dn = state.dn(candidate.id)?.unwrap_or_default();
        let (id, parent) = (candidate.id, candidate.node.parent);
        let mut add = |name: String, word: &str, right: Rights, type_id: Option<TypeId>| {
            let requested = RightQuestion { word, right, type_id, id, parent, dn: &dn, link: self.link };
            let explanation = explain(state, &self.subject, requested)?;
            all.push((name, encoded(&summary(&explanation))));
            Ok::<_, OperationError>(())
        };
        for (word, name, right) in [
            ("add", "add", ADD),
            ("delete", "delete", DELETE),
            ("browse", "read", BROWSE),
            ("rename", "write", RENAME),
        ] {
            add(format!("aclRightsInfo;logs;entryLevel;{name}"), word, right, None)?;
        }
        for type_id in types {
            let attribute = state.catalog.schema.type_by_id(*type_id).name();
            for (word, right) in [("search", SEARCH), ("read", READ), ("compare", COMPARE), ("write", WRITE)]
            {
                let name = format!("aclRightsInfo;logs;attributeLevel;{word};{attribute}");
                add(name, word, right, Some(*type_id))?;
            }
        }
        Ok(())
    }
}

/// Returns true if the text of an identity denotes the requester itself.
fn is_own(requester: &Requester, identity: &str) -> bool {
    requester.authorization_id().eq_ignore_ascii_case(identity)
        || (*requester == Requester::Anonymous && identity == "dn:")
}

fn same(one: &Requester, other: &Requester) -> bool {
    match (one, other) {
        (Requester::User { id: one, .. }, Requester::User { id: other, .. }) => one == other,
        _ => one == other,
    }
}

/// Formats the rights as 389 DS does.
fn letters(state: TreeState<'_>, shown: ReportedRights<'_>, types: &[TypeId]) -> Vec<(String, Vec<u8>)> {
    let may = |may: fn(&EntryRights) -> bool| shown.rights.is_none_or(may);
    let entry: String = [
        ('v', may(EntryRights::may_browse)),
        ('a', may(|at| at.may(ADD))),
        ('d', may(|at| at.may(DELETE))),
        ('n', may(|at| at.may(RENAME))),
    ]
    .iter()
    .filter_map(|(letter, may)| may.then_some(*letter))
    .collect();
    let or_none = |letters: String| if letters.is_empty() { "none".to_owned() } else { letters };
    let of_types: Vec<String> = types
        .iter()
        .map(|type_id| {
            let [search, read, compare, write] = shown.of_type(state, *type_id);
            let [join, leave] = shown.of_own(*type_id);
            let known = [
                ('r', read),
                ('s', search),
                ('c', compare),
                ('w', write),
                ('o', write),
                ('W', join && !write),
                ('O', leave && !write),
            ];
            let letters = known.iter().filter_map(|(letter, may)| may.then_some(*letter)).collect();
            format!("{}:{}", state.catalog.schema.type_by_id(*type_id).name(), or_none(letters))
        })
        .collect();
    let mut all = vec![("entryLevelRights".to_owned(), encoded(&or_none(entry)))];
    if !of_types.is_empty() {
        all.push(("attributeLevelRights".to_owned(), encoded(&of_types.join(", "))));
    }
    all
}

/// Formats the rights as OpenDJ does.
fn acl_rights(state: TreeState<'_>, shown: ReportedRights<'_>, types: &[TypeId]) -> Vec<(String, Vec<u8>)> {
    let may = |may: fn(&EntryRights) -> bool| u8::from(shown.rights.is_none_or(may));
    let entry = format!(
        "add:{},delete:{},read:{},write:{},proxy:{}",
        may(|at| at.may(ADD)),
        may(|at| at.may(DELETE)),
        may(EntryRights::may_browse),
        may(EntryRights::may_write_some),
        may(|at| at.may(PROXY)),
    );
    let mut all = vec![("aclRights;entryLevel".to_owned(), encoded(&entry))];
    for type_id in types {
        let [search, read, compare, write] = shown.of_type(state, *type_id).map(u8::from);
        let [join, leave] = shown.of_own(*type_id).map(u8::from);
        let value = format!(
            "search:{search},read:{read},compare:{compare},write:{write},selfwrite_add:{join},\
             selfwrite_delete:{leave},proxy:{}",
            u8::from(shown.rights.is_none())
        );
        let name = state.catalog.schema.type_by_id(*type_id).name();
        all.push((format!("aclRights;attributeLevel;{name}"), encoded(&value)));
    }
    all
}

/// Rights to report.
#[derive(Clone, Copy)]
struct ReportedRights<'r> {
    /// Rights at the entry; `None` if everything is allowed.
    rights: Option<&'r EntryRights>,
    /// Whether the entry belongs to the requester whose rights are reported.
    is_own: bool,
}

impl ReportedRights<'_> {
    /// Returns whether values of a type may be searched, read, compared and written. For passwords of other entries,
    /// the last element is the right to reset the password.
    fn of_type(self, state: TreeState<'_>, type_id: TypeId) -> [bool; 4] {
        let Some(rights) = self.rights else { return [true; 4] };
        let is_reset = !self.is_own && is_user_password(&state.catalog.schema, type_id);
        [
            rights.may_search(type_id),
            rights.may_read(type_id),
            rights.may_compare(type_id),
            if is_reset { rights.may(RESET) } else { rights.may_write(type_id) },
        ]
    }

    /// Returns whether the requester may add its own name to the values of a type, and delete it from them.
    fn of_own(self, type_id: TypeId) -> [bool; 2] {
        self.rights.map_or([true; 2], |rights| [rights.may_join(type_id), rights.may_leave(type_id)])
    }
}

fn summary(explanation: &AccessExplanation) -> String {
    let mut parts = vec![explanation.word().to_owned()];
    parts.extend(explanation.rules.iter().map(ToString::to_string));
    parts.extend(explanation.notes.iter().cloned());
    parts.join("; ")
}

fn encoded(value: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_value(&mut bytes, value.as_bytes());
    bytes
}
