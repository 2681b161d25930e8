//! Decoders for the values of request controls, one for each kind of value.

use ber::{Reader, Tag};
use ldap::{
    AtLeast, AttributeSelection, Control, DecodeLimits, DereferenceSpec, EffectiveRightsRequest, Filter,
    FilterBuf, ListViewRequest, ListViewTarget, PagedResults, PersistentSearch, SearchOptions, SortKey,
    SyncRequest, decode_matched_values,
};

use super::{
    AttributeOrigin, CountKind, DereferenceOptions, EffectiveRightsOptions, EntryCopyOptions,
    ListViewOptions, RequestControls, RequestedSortKey, SortOptions, SyncOptions, WindowTarget,
};
use crate::model::limits::{RIGHTS_ATTRIBUTES_MAX, SYNC_COOKIE_MAX};
use crate::read::page_request::PageRequest;

pub(super) fn read_account_usability(
    controls: &mut RequestControls,
    control: &Control<'_>,
) -> Result<(), &'static str> {
    controls.account_usability = true;
    no_value(control)
}

/// Ignores the value of the session tracking control. Only the audit trail records this value. A malformed value is
/// no reason to refuse the request, because intermediaries may have appended to it (draft-wahl-ldap-session sections
/// 2.2 and 2.3).
pub(super) fn read_session_tracking(_: &mut RequestControls, _: &Control<'_>) -> Result<(), &'static str> {
    Ok(())
}

pub(super) fn read_proxied(
    controls: &mut RequestControls,
    control: &Control<'_>,
) -> Result<(), &'static str> {
    if controls.proxied {
        return Err("comes with the other version of it");
    }
    controls.proxied = true;
    if control.value.is_some() { Ok(()) } else { Err("takes an identity as its value") }
}

/// Reads the at least control of Pando: checks only that the value is present and well-formed. The server has already
/// waited for the position in the value.
pub(super) fn read_at_least(_: &mut RequestControls, control: &Control<'_>) -> Result<(), &'static str> {
    match AtLeast::decode(control.value.unwrap_or_default()) {
        Some(_) => Ok(()),
        None => Err("takes a position and milliseconds from 0 to 2147483647 as its value"),
    }
}

pub(super) fn read_effective_rights(
    controls: &mut RequestControls,
    control: &Control<'_>,
) -> Result<(), &'static str> {
    const EXPECTED: &str = "takes an authorization identity, alone or with attributes, as its value";
    let requested = EffectiveRightsRequest::decode(control.value.unwrap_or_default()).ok_or(EXPECTED)?;
    if requested.attributes.len() > RIGHTS_ATTRIBUTES_MAX {
        return Err("names more attributes than are answered for");
    }
    controls.seldom().effective_rights = Some(EffectiveRightsOptions {
        identity: requested.identity.map(str::to_owned),
        attributes: requested.attributes.into_iter().map(str::to_owned).collect(),
    });
    Ok(())
}

pub(super) fn read_subentries(
    controls: &mut RequestControls,
    control: &Control<'_>,
) -> Result<(), &'static str> {
    const EXPECTED: &str = "takes a BOOLEAN as its value";
    if controls.subentries.is_some() {
        return Err("comes with the other version of it");
    }
    let mut reader = Reader::new(control.value.ok_or(EXPECTED)?);
    let visible = reader.element(Tag::BOOLEAN).map_err(|_| EXPECTED)?;
    if visible.len() != 1 || !reader.is_empty() {
        return Err(EXPECTED);
    }
    controls.subentries = Some(visible != [0]);
    Ok(())
}

/// Reads the subentries control of draft-ietf-ldup-subentry section 3. With this control, a search returns only
/// subentries.
pub(super) fn read_subentries_draft(
    controls: &mut RequestControls,
    control: &Control<'_>,
) -> Result<(), &'static str> {
    if controls.subentries.is_some() {
        return Err("comes with the other version of it");
    }
    controls.subentries = Some(true);
    no_value(control)
}

pub(super) fn read_origin(
    controls: &mut RequestControls,
    control: &Control<'_>,
    origin: AttributeOrigin,
) -> Result<(), &'static str> {
    if controls.seldom().origin.replace(origin).is_some() {
        return Err("comes with the one that excludes these attributes");
    }
    no_value(control)
}

pub(super) fn read_count(controls: &mut RequestControls, kind: CountKind) -> Result<(), &'static str> {
    match controls.seldom().count.replace(kind) {
        Some(_) => Err("comes with another control that counts"),
        None => Ok(()),
    }
}

/// Reads the search options control of Active Directory. Its option to include all naming contexts below the base has
/// no effect, because searches always include them.
pub(super) fn read_search_options(
    controls: &mut RequestControls,
    control: &Control<'_>,
) -> Result<(), &'static str> {
    const EXPECTED: &str = "takes a number from 0 to 3 as its value";
    let options = SearchOptions::decode(control.value.unwrap_or_default()).ok_or(EXPECTED)?;
    controls.seldom().domain_scope |= options.domain_scope;
    Ok(())
}

pub(super) fn read_paged_results(
    controls: &mut RequestControls,
    control: &Control<'_>,
) -> Result<(), &'static str> {
    const EXPECTED: &str = "takes a page size from 0 to 2147483647 and a cookie as its value";
    let requested = PagedResults::decode(control.value.ok_or(EXPECTED)?).ok_or(EXPECTED)?;
    controls.seldom().page = Some(PageRequest::of(requested));
    Ok(())
}

pub(super) fn read_assertion(
    controls: &mut RequestControls,
    control: &Control<'_>,
) -> Result<(), &'static str> {
    let filter = Filter::from_bytes(control.value.unwrap_or_default(), &DecodeLimits::default());
    controls.seldom().assertion = Some(filter.map_err(|_| "takes a filter as its value")?.into());
    Ok(())
}

pub(super) fn read_no_operation(
    controls: &mut RequestControls,
    control: &Control<'_>,
) -> Result<(), &'static str> {
    read_flag(&mut controls.seldom().no_operation, control)
}

pub(super) fn read_window(controls: &mut RequestControls, control: &Control<'_>) -> Result<(), &'static str> {
    const EXPECTED: &str = "takes counts before and after a target, and the target, as its value";
    let requested = ListViewRequest::decode(control.value.unwrap_or_default()).ok_or(EXPECTED)?;
    let target = match requested.target {
        ListViewTarget::Offset { offset, count } => WindowTarget::Offset(offset, count),
        ListViewTarget::Value(value) => WindowTarget::Value(value.to_vec()),
    };
    let (before, after, has_context) = (requested.before, requested.after, requested.context.is_some());
    controls.seldom().window = Some(ListViewOptions { before, after, target, has_context });
    Ok(())
}

pub(super) fn read_matched_values(
    controls: &mut RequestControls,
    control: &Control<'_>,
) -> Result<(), &'static str> {
    let items = decode_matched_values(control.value.unwrap_or_default())
        .ok_or("takes a list of 1 to 100 filter items as its value")?;
    controls.seldom().matched_values = items.into_iter().map(FilterBuf::from).collect();
    Ok(())
}

pub(super) fn read_sync(controls: &mut RequestControls, control: &Control<'_>) -> Result<(), &'static str> {
    const EXPECTED: &str = "takes a mode, a cookie of up to 1,000 octets and a hint as its value";
    let requested = SyncRequest::decode(control.value.unwrap_or_default()).ok_or(EXPECTED)?;
    if requested.cookie.is_some_and(|cookie| cookie.len() > SYNC_COOKIE_MAX) {
        return Err(EXPECTED);
    }
    let cookie = requested.cookie.map(<[u8]>::to_vec);
    controls.seldom().sync = Some(SyncOptions { persists: requested.persists, cookie });
    Ok(())
}

pub(super) fn read_persistent(
    controls: &mut RequestControls,
    control: &Control<'_>,
) -> Result<(), &'static str> {
    let requested = PersistentSearch::decode(control.value.unwrap_or_default())
        .ok_or("takes types of changes from 1 to 15 and two BOOLEANs as its value")?;
    controls.seldom().persistent = Some(requested);
    Ok(())
}

pub(super) fn read_copy(control: &Control<'_>) -> Result<EntryCopyOptions, &'static str> {
    let limits = DecodeLimits::default();
    let selection = AttributeSelection::from_bytes(control.value.unwrap_or_default(), &limits);
    let selection = selection.map_err(|_| "takes a list of attributes as its value")?.into();
    Ok(EntryCopyOptions { is_critical: control.critical, selection })
}

pub(super) fn read_dereference(
    controls: &mut RequestControls,
    control: &Control<'_>,
) -> Result<(), &'static str> {
    let specs = DereferenceSpec::decode_list(control.value.unwrap_or_default())
        .ok_or("takes a list of attributes with at most 100 names as its value")?;
    let owned = |spec: DereferenceSpec<'_>| {
        let wanted = spec.wanted.into_iter().map(str::to_owned).collect();
        (spec.attribute.to_owned(), wanted)
    };
    let specs = specs.into_iter().map(owned).collect();
    controls.seldom().dereference = Some(DereferenceOptions { is_critical: control.critical, specs });
    Ok(())
}

pub(super) fn read_sort(controls: &mut RequestControls, control: &Control<'_>) -> Result<(), &'static str> {
    let keys =
        SortKey::decode_list(control.value.unwrap_or_default()).ok_or("takes a list of keys as its value")?;
    let owned = |key: SortKey<'_>| RequestedSortKey {
        attribute: key.attribute.to_owned(),
        rule: key.rule.map(str::to_owned),
        reverse: key.reverse,
    };
    let keys = keys.into_iter().map(owned).collect();
    controls.seldom().sort = Some(SortOptions { is_critical: control.critical, keys });
    Ok(())
}

/// Reads a control that has no value. Sets `flag`.
pub(super) fn read_flag(flag: &mut bool, control: &Control<'_>) -> Result<(), &'static str> {
    *flag = true;
    no_value(control)
}

/// Checks that the value is absent (as in RFC 3296 section 3 and RFC 3829 section 3). An empty value is accepted,
/// because some clients send one.
pub(super) fn no_value(control: &Control<'_>) -> Result<(), &'static str> {
    if control.value.is_some_and(|value| !value.is_empty()) { Err("takes no value") } else { Ok(()) }
}
