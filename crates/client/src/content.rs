//! Reads all entries of a server, or those at and below a base, as a stream: ordinary entries first, then subentries.

use ldap::{
    Control, Controls, ControlsBuf, Filter, FilterBuf, ResultCode, Scope, SearchEntry, SearchRequest,
    SelectionBuf, oids,
};

use crate::{ClientError, Connection, Outcome};

/// Selection of entries to read.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// Entry at and below which entries are read; `None` for all naming contexts in the server's root DSE.
    pub base: Option<&'a str>,
    /// Filter that entries must match.
    pub filter: Option<Filter<'a>>,
    /// Attribute selectors, as in a search.
    pub attributes: &'a [&'a str],
}

/// Reason why not all entries were read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentError {
    /// The base entry does not exist, or is not visible to this client.
    #[error("there is no entry {0:?} to begin at, or none that this client may see")]
    NoBase(String),
    /// The server did not respond.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The server ended the search early.
    #[error("the server ended the search after {entries} entries: {}: {}", outcome.code, outcome.diagnostic)]
    Refused {
        /// Result of the search.
        outcome: Box<Outcome>,
        /// Number of entries received before the search ended.
        entries: u64,
    },
}

/// Receives an entry.
type Each<'e, E> = &'e mut dyn FnMut(&SearchEntry<'_>) -> Result<(), E>;

/// An error of reading, or of the caller's function.
enum ReadError<E> {
    Content(ContentError),
    Caller(E),
}

impl<E> From<ClientError> for ReadError<E> {
    fn from(error: ClientError) -> Self {
        ReadError::Content(error.into())
    }
}

impl Content<'_> {
    /// Returns the DNs of the entries at which reading begins, in the server's spelling.
    ///
    /// # Errors
    /// See [`ContentError`].
    pub fn bases(&self, connection: &mut Connection) -> Result<Vec<String>, ContentError> {
        let wanted = match self.base {
            Some(base) => vec![base.to_owned()],
            None => {
                let root = connection.entry("", &["namingContexts"])?;
                root.map(|root| root.texts("namingContexts")).unwrap_or_default()
            }
        };
        let mut found = Vec::new();
        for dn in wanted {
            let mut reply =
                connection.search_managing(&dn, Scope::BaseObject, "(objectClass=*)", &["1.1"])?;
            match reply.entries.pop() {
                Some(entry) => found.push(entry.dn),
                None if !matches!(reply.outcome.code, ResultCode::SUCCESS | ResultCode::NO_SUCH_OBJECT) => {
                    return Err(ContentError::Refused { outcome: Box::new(reply.outcome), entries: 0 });
                }
                None if self.base.is_some() => return Err(ContentError::NoBase(dn)),
                // A naming context that has no entry yet is skipped.
                None => {}
            }
        }
        Ok(found)
    }

    /// Passes each entry at and below the bases to `each`. Stores nothing, and reads nothing while `each` runs.
    ///
    /// # Errors
    /// Errors of `each`, and those of [`ContentError`].
    pub fn read<E: From<ContentError>>(
        &self,
        connection: &mut Connection,
        bases: &[String],
        each: Each<'_, E>,
    ) -> Result<(), E> {
        let mut reading = Reading { content: self, entries: 0, each };
        // One search of all naming contexts returns entries in the server's order. Not every server supports such a
        // search.
        if self.base.is_none() && reading.search(connection, "")? {
            return Ok(());
        }
        bases.iter().try_for_each(|base| reading.search(connection, base).map(drop))
    }
}

struct Reading<'r, 'c, E> {
    content: &'r Content<'c>,
    entries: u64,
    each: Each<'r, E>,
}

impl<E: From<ContentError>> Reading<'_, '_, E> {
    /// Searches below `base`, first for ordinary entries and then, if the server supports the control for subentries,
    /// for subentries. One search returns either only subentries or only ordinary entries (RFC 3672 section 3). Returns
    /// false if the base does not exist.
    fn search(&mut self, connection: &mut Connection, base: &str) -> Result<bool, E> {
        let managing = Control { oid: oids::MANAGE_DSA_IT, critical: true, value: None };
        // Value of the Subentries control: a BER BOOLEAN, TRUE.
        let value: Option<&[u8]> = Some(&[0x01, 0x01, 0xff]);
        let subentries = Control { oid: oids::SUBENTRIES, critical: true, value };
        let ordinary = ControlsBuf::from_iter([managing]);
        if !self.search_with(connection, base, ordinary.as_controls())? {
            return Ok(false);
        }
        let knows_subentries = knows_control(connection, oids::SUBENTRIES).map_err(ContentError::from)?;
        if knows_subentries {
            let both = ControlsBuf::from_iter([managing, subentries]);
            self.search_with(connection, base, both.as_controls())?;
        }
        Ok(true)
    }

    fn search_with(
        &mut self,
        connection: &mut Connection,
        base: &str,
        controls: Controls<'_>,
    ) -> Result<bool, E> {
        let every = FilterBuf::parse("(objectClass=*)").map_err(|error| fault(ClientError::Filter(error)))?;
        let attributes = SelectionBuf::from_iter(self.content.attributes);
        let filter = self.content.filter.unwrap_or(every.as_filter());
        let search = SearchRequest::new(base, Scope::WholeSubtree, filter, attributes.as_selection());
        let last = connection.search_each(search, controls, |entry| {
            // The root DSE is not part of the content.
            if entry.object_name.is_empty() {
                return Ok(());
            }
            self.entries += 1;
            (self.each)(entry).map_err(ReadError::Caller)
        });
        let last = last.map_err(|error| match error {
            ReadError::Content(error) => error.into(),
            ReadError::Caller(error) => error,
        })?;
        let Some(outcome) = last.outcome() else { return Ok(true) };
        match outcome.code {
            ResultCode::SUCCESS => Ok(true),
            ResultCode::NO_SUCH_OBJECT if base.is_empty() => Ok(false),
            _ => Err(ContentError::Refused { outcome: Box::new(outcome), entries: self.entries }.into()),
        }
    }
}

fn fault<E: From<ContentError>>(error: ClientError) -> E {
    ContentError::from(error).into()
}

fn knows_control(connection: &mut Connection, oid: &str) -> Result<bool, ClientError> {
    let root = connection.entry("", &["supportedControl"])?;
    Ok(root.is_some_and(|root| root.texts("supportedControl").iter().any(|known| known == oid)))
}
