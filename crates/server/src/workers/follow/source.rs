//! Connections to the other server, and conversion of its entries.

use client::{ClientError, Connection};
use directory::follow::{SourceAttribute, SourceEntry};
use ldap::{
    Control, ControlsBuf, FilterBuf, MessageId, Request, Scope, SearchEntry, SearchRequest, SelectionBuf,
    SyncRequest, SyncUuid, oids,
};
use schema::Schema;

use super::FollowError;
use crate::config::FollowSettings;
use crate::limits::follow::FOLLOW_CONNECT;
use crate::workers::source_connection;

type Result<T> = std::result::Result<T, FollowError>;

/// Connects and binds with the identity in the settings.
pub(crate) fn connect(settings: &FollowSettings) -> Result<Connection> {
    let FollowSettings { url, authorities, identity, .. } = settings;
    Ok(source_connection::connect("follow", url, authorities.as_ref(), identity, FOLLOW_CONNECT)?)
}

/// Sends the search request for the content. If `persists` is set, it also requests later changes.
pub(crate) fn search(
    settings: &FollowSettings,
    connection: &mut Connection,
    (persists, cookie): (bool, Option<&[u8]>),
) -> Result<MessageId> {
    let sync = SyncRequest { persists, cookie, reload_hint: true }.encode();
    let controls = ControlsBuf::from_iter([
        Control { oid: oids::SYNC_REQUEST, critical: true, value: Some(&sync) },
        Control { oid: oids::MANAGE_DSA_IT, critical: false, value: None },
    ]);
    let filter = FilterBuf::parse(&settings.filter).map_err(ClientError::Filter)?;
    let selection = SelectionBuf::from_iter(["*", "+"]);
    let (base, filter) = (settings.source_base(), filter.as_filter());
    let request = SearchRequest::new(base, Scope::WholeSubtree, filter, selection.as_selection());
    Ok(connection.send(Request::Search(request), controls.as_controls())?)
}

/// Converts an entry that the other server has sent.
pub(crate) fn entry(entry: &SearchEntry<'_>, uuid: SyncUuid) -> SourceEntry {
    let attributes = entry.attributes.iter().map(|attribute| SourceAttribute {
        description: attribute.description.to_owned(),
        values: attribute.values.iter().map(<[u8]>::to_vec).collect(),
    });
    let attributes = attributes.filter(|attribute| !attribute.values.is_empty()).collect();
    SourceEntry { uuid, dn: entry.object_name.to_owned(), attributes }
}

/// Renames an entry and its attributes by the mapping in the settings.
pub(crate) fn map(entry: &mut SourceEntry, schema: &Schema, settings: &FollowSettings) {
    let left_out = entry.map(schema, &settings.mapping, &settings.leave_out);
    if left_out > 0 {
        let dn = &entry.dn;
        tracing::warn!(
            entry = dn,
            values = left_out,
            "values that name entries outside the source's base by names of the copy are left out"
        );
    }
}
