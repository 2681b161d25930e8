//! The Get Effective Rights control: with each result, what somebody may do with it, as 389 DS tells it
//! (`entryLevelRights`, `attributeLevelRights`) or, where a search asks for `aclRights`, as OpenDJ does.
//!
//! Everybody asks for their own rights; for those of others the administrator, and where a rule lets one `explain`. The
//! attributes told of are those named and those that the classes of the entry have, never those that happen to be
//! there: that would tell of values that may not be read.

use std::sync::Arc;

use ldap::SearchRequest;
use ldap::response::put_value;
use schema::TypeId;

use crate::access::{
    Access, AccessExplanation, Asked, EntryRights, RequestContext, Requester, RulesInForce, Standing, Walk,
    denied, explain,
};
use crate::catalog::access_rules::TypeSet;
use crate::catalog::is_user_password;
use crate::filter::Candidate;
use crate::model::access_rule::{ADD, BROWSE, COMPARE, DELETE, READ, RENAME, Rights, SEARCH, WRITE};
use crate::model::client_link::ClientLink;
use crate::model::outcome::OperationError;
use crate::read::access_question;
use crate::read::controls::EffectiveRightsAsked;
use crate::snapshot::Snapshot;
use crate::tree::TreeState;

type Result<T> = std::result::Result<T, OperationError>;

/// Whose rights are told with the results of a search, and of what.
#[derive(Debug)]
pub(super) struct EffectiveRights {
    subject: Requester,
    link: Option<ClientLink>,
    /// `None` where the administrator's rights are asked for.
    subject_standing: Option<Arc<Standing>>,
    /// Whoever asks; `None` where that one may ask everywhere.
    asker: Option<Arc<Standing>>,
    /// Types that were named.
    named: Vec<TypeId>,
    /// Whether the attributes of the entry's classes are told of.
    by_class: bool,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Letters,
    Acl { rights: bool, info: bool },
}

impl EffectiveRights {
    /// What a search with the control asks for.
    ///
    /// # Errors
    /// insufficientAccessRights for who may not ask for the rights of that one anywhere; noSuchObject for the rights of
    /// nobody.
    pub(super) fn of(
        snapshot: &Snapshot,
        context: &RequestContext<'_>,
        request: &SearchRequest<'_>,
        asked: &EffectiveRightsAsked,
    ) -> Result<EffectiveRights> {
        let (state, requester, link) = (snapshot.state(), context.requester, context.link);
        let is_administrator = Access::of(requester, state.settings).is_administrator();
        let standing = snapshot.standing(context)?;
        if !is_administrator
            && asked.identity.as_deref().is_some_and(|identity| !is_own(requester, identity))
            && !standing.as_ref().is_some_and(|standing| standing.may_explain_some())
        {
            return Err(denied("you may ask for your own rights, not for those of others"));
        }
        let subject = match &asked.identity {
            Some(identity) => access_question::subject_for(state, requester, identity)?,
            None => requester.clone(),
        };
        let RulesInForce { rules, .. } = RulesInForce::of(state);
        let subject_standing = Standing::under(&rules, state, &subject, link.as_ref())?.map(Arc::new);
        let asker = if is_administrator || same(&subject, requester) { None } else { standing };
        let schema = &state.catalog.schema;
        let (mut named, mut by_class): (Vec<TypeId>, bool) = (Vec::new(), request.attributes.is_empty());
        let (mut rights, mut info) = (false, false);
        for selector in request.attributes.iter().chain(asked.attributes.iter().map(String::as_str)) {
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
        Ok(EffectiveRights { subject, link, subject_standing, asker, named, by_class, form })
    }

    /// Another one for another thread.
    pub(super) fn copy(&self) -> EffectiveRights {
        EffectiveRights {
            subject: self.subject.clone(),
            subject_standing: self.subject_standing.clone(),
            asker: self.asker.clone(),
            named: self.named.clone(),
            ..*self
        }
    }

    /// The attributes that tell of an entry, with their values encoded.
    ///
    /// # Errors
    /// The store failed.
    pub(super) fn attributes(
        &self,
        state: TreeState<'_>,
        candidate: &Candidate<'_>,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        let (id, parent) = (candidate.id, candidate.node.parent);
        let at = |standing: &Standing| standing.at(state, &mut Walk::default(), id, parent);
        if let Some(asker) = &self.asker
            && !at(asker)?.may_explain()
        {
            return Ok(Vec::new());
        }
        let rights = self.subject_standing.as_deref().map(at).transpose()?;
        let rights = rights.as_deref();
        let is_own = self.subject_standing.as_ref().is_some_and(|standing| standing.own() == Some(id));
        let rights = Shown { rights, is_own };
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

    /// The types that are told of, once each, those named first.
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

    /// `aclRightsInfo`: which rule decides each right.
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
            let asked = Asked { word, right, type_id, id, parent, dn: &dn, link: self.link };
            let explanation = explain(state, &self.subject, asked)?;
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

/// Whether an identity is the requester's own, as far as its text tells.
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

/// As 389 DS tells it.
fn letters(state: TreeState<'_>, shown: Shown<'_>, types: &[TypeId]) -> Vec<(String, Vec<u8>)> {
    let may = |may: fn(&EntryRights) -> bool| shown.rights.is_none_or(may);
    let entry: String = [
        ('v', may(EntryRights::may_browse)),
        ('a', may(EntryRights::may_add)),
        ('d', may(EntryRights::may_delete)),
        ('n', may(EntryRights::may_rename)),
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

/// As OpenDJ tells it.
fn acl_rights(state: TreeState<'_>, shown: Shown<'_>, types: &[TypeId]) -> Vec<(String, Vec<u8>)> {
    let may = |may: fn(&EntryRights) -> bool| u8::from(shown.rights.is_none_or(may));
    let entry = format!(
        "add:{},delete:{},read:{},write:{},proxy:{}",
        may(EntryRights::may_add),
        may(EntryRights::may_delete),
        may(EntryRights::may_browse),
        may(EntryRights::may_write_some),
        may(EntryRights::may_proxy),
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

/// The rights that are told of.
#[derive(Clone, Copy)]
struct Shown<'r> {
    /// `None` where everything is allowed.
    rights: Option<&'r EntryRights>,
    /// Whether the entry is that of whose rights they are.
    is_own: bool,
}

impl Shown<'_> {
    /// Whether values of a type may be searched, read, compared, written. To write passwords of others is to reset
    /// them.
    fn of_type(self, state: TreeState<'_>, type_id: TypeId) -> [bool; 4] {
        let Some(rights) = self.rights else { return [true; 4] };
        let is_reset = !self.is_own && is_user_password(&state.catalog.schema, type_id);
        [
            rights.may_search(type_id),
            rights.may_read(type_id),
            rights.may_compare(type_id),
            if is_reset { rights.may_reset() } else { rights.may_write(type_id) },
        ]
    }

    /// Whether the own name may be added to and deleted from values of a type.
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
