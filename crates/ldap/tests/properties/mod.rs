//! Properties that hold for any octets. The fuzz targets and the replay of their corpora both check them.
//!
//! Each target has one function here; a user of this module uses one of them or all.
#![allow(dead_code)]

use ldap::ldif::{LdifBody, LdifReader, LdifRecord, LdifWriter};
use ldap::{
    AccessQuestion, AccountUsability, AttributeSelection, Attributes, Control, Controls, DecodeLimits,
    DereferenceSpec, Dereferenced, Dn, EffectiveRightsRequest, Filter, FilterBuf, FilterKind, LdapUrl,
    ListViewRequest, ListViewResult, Message, PasswordModify, PolicyResponse, Request, Response,
    ResponseMessage, SelectionBuf, SortKey, SortResult, StateRequest, encode_password_state,
};

/// Limits that are low enough for short inputs to reach them.
const LIMITS: DecodeLimits = DecodeLimits {
    message_size_max: 4096,
    filter_depth_max: 8,
    filter_terms_max: 32,
    element_count_max: 16,
    value_count_max: 32,
    control_count_max: 4,
};

/// Values of extended operations and controls: a decoded value can be encoded, decoding the encoded value returns the
/// same result, and the size of the encoded value is bounded.
pub(crate) fn operation_values(bytes: &[u8]) {
    if let Some(request) = StateRequest::decode(Some(bytes)) {
        assert!(request.operations.len() <= 128);
        let again = encode_password_state(request.user, &request.operations);
        assert_eq!(StateRequest::decode(Some(&again)), Some(request));
    }
    if let Some(usability) = AccountUsability::decode(bytes) {
        assert_eq!(AccountUsability::decode(&usability.encode()), Some(usability));
    }
    if let Some(response) = PolicyResponse::decode(bytes) {
        assert_eq!(PolicyResponse::decode(&response.encode()), Some(response));
    }
    if let Some(asked) = PasswordModify::decode(Some(bytes)) {
        assert!(PasswordModify::decode(Some(&asked.encode())) == Some(asked));
    }
    if let Some(specs) = DereferenceSpec::decode_list(bytes) {
        assert!(specs.iter().map(|spec| 1 + spec.wanted.len()).sum::<usize>() <= ldap::DEREFERENCED_MAX);
        assert_eq!(DereferenceSpec::decode_list(&DereferenceSpec::encode_list(&specs)), Some(specs));
    }
    if let Some(all) = Dereferenced::decode_list(bytes) {
        assert!(all.iter().all(|one| one.attribute.len() + one.value.len() < bytes.len()));
    }
    if let Some(keys) = SortKey::decode_list(bytes) {
        assert!(keys.len() <= ldap::SORT_KEYS_MAX + 1);
        assert_eq!(SortKey::decode_list(&SortKey::encode_list(&keys)), Some(keys));
    }
    if let Ok(selection) = AttributeSelection::from_bytes(bytes, &LIMITS) {
        assert!(selection.iter().count() <= LIMITS.element_count_max);
        let again: SelectionBuf = selection.iter().collect();
        assert!(again.as_selection().iter().eq(selection.iter()));
    }
    if let Some(controls) = Controls::from_bytes(bytes) {
        assert_eq!(controls.iter().next().is_none(), controls.is_empty());
        walk_controls(controls.iter().take(LIMITS.control_count_max));
    }
    if let Some(request) = ListViewRequest::decode(bytes) {
        assert_eq!(ListViewRequest::decode(&request.encode()), Some(request));
    }
    if let Some(result) = ListViewResult::decode(bytes) {
        assert_eq!(ListViewResult::decode(&result.encode()), Some(result));
    }
    if let Some(request) = ldap::SyncRequest::decode(bytes) {
        assert_eq!(ldap::SyncRequest::decode(&request.encode()), Some(request));
    }
    if let Some(state) = ldap::SyncStateValue::decode(bytes) {
        assert_eq!(ldap::SyncStateValue::decode(&state.encode()), Some(state));
    }
    if let Some(done) = ldap::SyncDone::decode(bytes) {
        assert_eq!(ldap::SyncDone::decode(&done.encode()), Some(done));
    }
    if let Some(info) = ldap::SyncInfo::decode(bytes) {
        assert_eq!(ldap::SyncInfo::decode(&info.encode()), Some(info));
    }
    if let Some(search) = ldap::PersistentSearch::decode(bytes) {
        assert_eq!(ldap::PersistentSearch::decode(&search.encode()), Some(search));
    }
    if let Some(change) = ldap::EntryChange::decode(bytes) {
        assert_eq!(ldap::EntryChange::decode(&change.encode()), Some(change));
    }
    if let Some(items) = ldap::decode_matched_values(bytes) {
        assert!(!items.is_empty() && items.len() <= ldap::MATCHED_ITEMS_MAX);
        items.iter().for_each(|item| walk_filter(*item, 1));
        let again = ldap::encode_matched_values(items.iter().copied());
        assert_eq!(ldap::decode_matched_values(&again), Some(items));
    }
    if let Some(id) = ldap::decode_cancel(Some(bytes)) {
        assert_eq!(ldap::decode_cancel(Some(&ldap::encode_cancel(id))), Some(id));
    }
    if let Some(options) = ldap::SearchOptions::decode(bytes) {
        assert_eq!(ldap::SearchOptions::decode(&options.encode()), Some(options));
    }
    if let Some(result) = SortResult::decode(bytes) {
        assert_eq!(SortResult::decode(&result.encode()), Some(result));
    }
    transaction_values(bytes);
    credentials(bytes);
}

fn credentials(bytes: &[u8]) {
    if let Some(asked) = ldap::VerifyCredentials::decode(Some(bytes)) {
        walk_controls(asked.controls.iter());
        if let (ldap::Authentication::Simple(password), None) = (asked.bind.authentication, asked.cookie) {
            let (bind, controls) = (asked.bind, asked.controls);
            let again = ldap::VerifyCredentials::encode_simple(bind.name, password, controls);
            assert_eq!(ldap::VerifyCredentials::decode(Some(&again)), Some(asked));
        }
    }
    if let Some(verified) = ldap::VerifiedCredentials::decode(bytes) {
        walk_controls(verified.controls.iter());
        assert_eq!(ldap::VerifiedCredentials::decode(&verified.encode()), Some(verified));
    }
}

fn transaction_values(bytes: &[u8]) {
    if let Some(end) = ldap::EndTransaction::decode(Some(bytes)) {
        assert_eq!(ldap::EndTransaction::decode(Some(&end.encode())), Some(end));
    }
    if let Some(result) = ldap::EndTransactionResult::decode(bytes)
        && let Some(again) = result.encode()
    {
        result.controls.iter().for_each(|(_, controls)| walk_controls(controls.iter()));
        assert_eq!(ldap::EndTransactionResult::decode(&again), Some(result));
    }
}

/// Decoding never panics. A decoded request can be iterated, and decoding its encoded form returns the same request. An
/// error in the operation has the message id.
pub(crate) fn message(bytes: &[u8]) {
    match Message::decode(bytes, &LIMITS) {
        Ok(message) => {
            walk_request(&message.request);
            walk_controls(message.controls.iter());
            let mut encoded = Vec::new();
            message.encode(&mut encoded);
            assert!(encoded.len() <= bytes.len() + MESSAGE_GROWTH_MAX);
            assert_eq!(ldap::frame_len(&encoded), Ok(Some(encoded.len())));
            let limits = DecodeLimits { message_size_max: encoded.len(), ..LIMITS };
            assert_eq!(Message::decode(&encoded, &limits), Ok(message));
        }
        Err(error) => {
            let _ = error.to_string();
            assert!(error.id.is_some() || !error.component.starts_with("SearchRequest"));
        }
    }
    if let Ok(message) = ResponseMessage::decode(bytes, &LIMITS) {
        walk_controls(message.controls.iter());
        match message.response {
            Response::SearchEntry(entry) => walk_attributes(entry.attributes),
            Response::SearchReference(uris) => assert_eq!(uris.iter().next().is_none(), uris.is_empty()),
            _ => {}
        }
        let _ = format!("{message:?}");
    }
}

/// Maximum growth in octets of a message that is decoded and encoded again. A message never grows, because the encoder
/// uses the shortest form of each length and integer.
const MESSAGE_GROWTH_MAX: usize = 0;

fn walk_request(request: &Request<'_>) {
    match request {
        Request::Search(search) => {
            walk_filter(search.filter, LIMITS.filter_depth_max);
            let _ = search.filter.to_string();
            assert_eq!(FilterBuf::from(search.filter).as_filter(), search.filter);
            assert_eq!(search.attributes.iter().next().is_none(), search.attributes.is_empty());
        }
        Request::Add(add) => walk_attributes(add.attributes),
        Request::Modify(modify) => {
            let change_count = modify.changes.iter().count();
            assert!(change_count <= LIMITS.element_count_max);
            assert_eq!(change_count == 0, modify.changes.is_empty());
        }
        _ => {}
    }
    let _ = format!("{request:?}");
}

fn walk_attributes(attributes: Attributes<'_>) {
    let value_count: usize = attributes.iter().map(|attribute| attribute.values.len()).sum();
    assert!(value_count <= LIMITS.value_count_max);
    assert_eq!(attributes.iter().next().is_none(), attributes.is_empty());
}

fn walk_controls<'a>(controls: impl Iterator<Item = Control<'a>>) {
    assert!(controls.count() <= LIMITS.control_count_max);
}

fn walk_filter(filter: Filter<'_>, depth_left: usize) {
    assert!(depth_left > 0, "deeper than allowed");
    match filter.kind() {
        FilterKind::And(members) | FilterKind::Or(members) => {
            assert_eq!(members.iter().next().is_none(), members.is_empty());
            members.iter().for_each(|member| walk_filter(member, depth_left - 1));
        }
        FilterKind::Not(member) => walk_filter(member, depth_left - 1),
        FilterKind::Substrings(item) => {
            assert!(item.initial.is_some() || item.final_.is_some() || item.any.iter().next().is_some());
        }
        FilterKind::ExtensibleMatch(item) => assert!(item.rule.is_some() || item.description.is_some()),
        _ => {}
    }
}

/// The BER encoding of a parsed text decodes to the same filter, and the text form of that filter parses to the same
/// filter. Any encoded filter has a text form.
pub(crate) fn filter_text(bytes: &[u8]) {
    if let Ok(filter) = Filter::from_bytes(bytes, &LIMITS) {
        let _ = filter.to_string();
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match FilterBuf::parse(text) {
        Ok(filter) => {
            let mut encoded = Vec::new();
            filter.as_filter().encode(&mut encoded);
            assert_eq!(Filter::from_bytes(&encoded, &DecodeLimits::default()), Ok(filter.as_filter()));
            let rendered = filter.to_string();
            assert_eq!(FilterBuf::parse(&rendered).as_ref(), Ok(&filter), "{rendered}");
        }
        Err(error) => assert!(error.offset <= text.len()),
    }
}

/// The text form of a parsed DN has the same names and values, and the parts of the text are at the
/// recorded offsets.
pub(crate) fn dn(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let dn = match Dn::parse(text) {
        Ok(dn) => dn,
        Err(error) => return assert!(error.offset <= text.len()),
    };
    let rendered = dn.to_string();
    let again = Dn::parse(&rendered).expect("the rendered DN parses");
    assert_eq!(again.len(), dn.len());
    assert!(again.rdns().zip(dn.rdns()).all(|(left, right)| left.avas == right.avas), "{rendered}");
    assert_eq!(again.to_string(), rendered);
    let normal = dn.normal_text(|attribute| attribute);
    let again = Dn::parse(&normal).expect("the normal form parses");
    assert!(
        again.len() == dn.len() && again.rdns().zip(dn.rdns()).all(|(left, right)| left.avas == right.avas)
    );
    assert_eq!(again.normal_text(|attribute| attribute), normal);
    assert!(!ldap::is_plain_dn_text(bytes) || normal == text, "{text}");
    for (index, rdn) in dn.rdns().enumerate() {
        let alone = Dn::parse_rdn(rdn.text).expect("the text of an RDN parses");
        assert_eq!(alone.rdn().map(|alone| alone.avas), Some(rdn.avas));
        let ancestor = dn.ancestor(index);
        assert_eq!(ancestor.rdn().map(|first| first.text), Some(rdn.text));
        let parsed = Dn::parse(dn.text_from(index)).expect("the remaining RDNs are a DN");
        assert_eq!(parsed.to_string(), ancestor.to_string());
    }
    assert_eq!(dn.parent().is_none(), dn.is_empty());
}

/// The text form of a parsed URL parses to the same URL.
pub(crate) fn url(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match LdapUrl::parse(text) {
        Ok(url) => {
            let rendered = url.to_string();
            assert_eq!(LdapUrl::parse(&rendered).as_ref(), Ok(&url), "{rendered}");
        }
        Err(error) => assert!(error.offset <= text.len()),
    }
}

/// A record that is read, written and read again is the same.
pub(crate) fn ldif(bytes: &[u8]) {
    let mut reader = LdifReader::with_record_size_max(bytes, 4096);
    let mut last_line = 0;
    // Each call consumes at least one line, so the loop ends.
    for _ in 0..=bytes.len() {
        match reader.next_record() {
            Ok(None) => return,
            Err(_) => {}
            Ok(Some(record)) => {
                assert!(record.line > last_line);
                last_line = record.line;
                let mut written = Vec::new();
                write(&record, &mut LdifWriter::new(&mut written)).expect("writing to memory succeeds");
                let mut again = LdifReader::new(&written[..]);
                match again.next_record() {
                    Ok(Some(again)) => assert_eq!(shape(&again), shape(&record)),
                    other => panic!("{other:?} from {}", String::from_utf8_lossy(&written)),
                }
                assert!(matches!(again.next_record(), Ok(None)));
            }
        }
    }
    panic!("records without end");
}

fn write(record: &LdifRecord<'_>, writer: &mut LdifWriter<&mut Vec<u8>>) -> std::io::Result<()> {
    let dn = record.dn;
    let controls: Vec<_> = record.controls.iter().collect();
    match record.body {
        LdifBody::Entry(values) => {
            writer.entry(dn, values.iter().map(|value| (value.description, value.value)))
        }
        LdifBody::Add(values) => {
            writer.add(dn, &controls, values.iter().map(|value| (value.description, value.value)))
        }
        LdifBody::Delete => writer.delete(dn, &controls),
        LdifBody::Modify(changes) => {
            let changes = changes.iter().map(|change| {
                (change.operation, change.description, change.values.iter().map(|value| value.value))
            });
            writer.modify(dn, &controls, changes)
        }
        LdifBody::ModifyDn { new_rdn, delete_old_rdn, new_superior } => {
            writer.modify_dn(dn, &controls, new_rdn, delete_old_rdn, new_superior)
        }
    }
}

/// Returns a record without its line numbers.
fn shape(record: &LdifRecord<'_>) -> String {
    use std::fmt::Write;
    let mut shape = format!("{:?}", record.dn);
    for control in record.controls.iter() {
        let _ = write!(shape, " {} {} {:?}", control.oid, control.critical, control.value);
    }
    match record.body {
        LdifBody::Entry(values) | LdifBody::Add(values) => {
            let kind = if matches!(record.body, LdifBody::Add(_)) { "add" } else { "entry" };
            let _ = write!(shape, " {kind}");
            for value in values.iter() {
                let _ = write!(shape, " {}={:?}", value.description, value.value);
            }
        }
        LdifBody::Modify(changes) => {
            for change in changes.iter() {
                let values: Vec<_> = change.values.iter().map(|value| value.value).collect();
                let _ = write!(shape, " {:?} {:?} {values:?}", change.operation, change.description);
            }
        }
        body => {
            let _ = write!(shape, " {body:?}");
        }
    }
    shape
}

/// Decoding never panics, the result is no larger than the input, and decoding the encoded form of a decoded question
/// returns the same question.
pub(crate) fn access_values(bytes: &[u8]) {
    if let Some(asked) = EffectiveRightsRequest::decode(bytes) {
        assert!(asked.attributes.len() <= bytes.len() / 2);
    }
    if let Some(question) = AccessQuestion::decode(bytes) {
        assert_eq!(AccessQuestion::decode(&question.encode()), Some(question));
    }
}
