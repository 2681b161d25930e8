//! The LDAP connection of one request: binds, searches that follow references, and changes.

use std::time::Instant;

use client::{ClientError, Connection, Entry, Received};
use ldap::{
    AddRequest, AttributesBuf, Authentication, BindRequest, ChangesBuf, Control, Controls, ControlsBuf,
    DeleteRequest, DereferenceSpec, Dereferenced, EndTransaction, ExtendedRequest, FilterBuf,
    ModifyDnRequest, ModifyRequest, PagedResults, Request, Response, ResultCode, Scope, SearchRequest,
    SelectionBuf, SortKey, oids,
};
use sasl::oauth::Bearer;

use crate::answer_memory::AnswerShare;
use crate::credentials::Credentials;
use crate::error::{Result, ScimError};
use crate::limits::{ANSWER_SIZE_MAX, WORK_TIME};
use crate::model::{ENTRY_UUID, OBJECT_CLASS};

/// A connection to the directory that is bound.
pub(crate) struct Session {
    connection: Connection,
    /// The memory that the largest answer so far occupies.
    share: AnswerShare,
    /// Time after which no further LDAP operation begins.
    end: Instant,
}

/// An entry, with the ids of the other entries to which it refers.
#[derive(Debug)]
pub(crate) struct FoundEntry {
    pub(crate) entry: Entry,
    pub(crate) links: Vec<Link>,
}

/// A reference to another entry. The requester can see that entry.
#[derive(Debug)]
pub(crate) struct Link {
    /// Attribute that contains the reference.
    pub(crate) attribute: String,
    /// DN in the reference.
    pub(crate) dn: String,
    pub(crate) id: String,
    pub(crate) classes: Vec<String>,
}

/// The parameters of a search.
pub(crate) struct Query<'a> {
    pub(crate) base: &'a str,
    pub(crate) filter: &'a str,
    pub(crate) attributes: &'a [String],
    /// Attributes that contain references. The search also returns the entries to which these attributes refer.
    pub(crate) links: &'a [String],
    /// Attribute by which the result is sorted. The boolean is true for descending order.
    pub(crate) sort: Option<(&'a str, bool)>,
}

/// A page of entries, and the cookie for the next page. On the last page the cookie is empty.
pub(crate) struct Page {
    pub(crate) found: Vec<FoundEntry>,
    pub(crate) cookie: Vec<u8>,
}

impl Session {
    /// Binds with the credentials of the request.
    ///
    /// # Errors
    /// 401 if the credentials are wrong, 503 if the directory does not answer.
    pub(crate) fn bind(
        mut connection: Connection,
        credentials: &Credentials,
        share: AnswerShare,
    ) -> Result<Session> {
        connection.set_message_size_max(ANSWER_SIZE_MAX);
        let outcome = match credentials {
            Credentials::Dn { name, password } => connection.bind(name, password)?,
            Credentials::User { name, password } => {
                let message = format!("\0{name}\0{password}");
                bind_sasl(&mut connection, "PLAIN", message.as_bytes())?
            }
            Credentials::Token(token) => {
                let outcome = bind_sasl(&mut connection, "OAUTHBEARER", Bearer::message(token).as_bytes())?;
                if outcome.code == ResultCode::SASL_BIND_IN_PROGRESS {
                    // The client must acknowledge the refusal of a token (RFC 7628 section 3.2.3).
                    bind_sasl(&mut connection, "OAUTHBEARER", b"\x01")?
                } else {
                    outcome
                }
            }
        };
        if outcome.is_success() {
            Ok(Session { connection, share, end: Instant::now() + WORK_TIME })
        } else {
            Err(ScimError::of_bind(&outcome))
        }
    }

    /// Ends the session. Returns the share of memory for an answer whose body has `octets`.
    ///
    /// # Errors
    /// 503 if there is not enough room because of other answers.
    pub(crate) fn into_share(mut self, octets: usize) -> Result<AnswerShare> {
        self.share.reach(octets)?;
        Ok(self.share)
    }

    /// Returns the entry that matches the query. Returns `None` if no entry or several entries match it.
    pub(crate) fn only(&mut self, query: &Query<'_>) -> Result<Option<FoundEntry>> {
        let mut found = self.search(query, Scope::WholeSubtree, &mut ControlsBuf::new())?.0;
        Ok(if found.len() == 1 { found.pop() } else { None })
    }

    /// Returns the entry with this DN. Returns `None` if it does not exist.
    pub(crate) fn at(&mut self, dn: &str, query: &Query<'_>) -> Result<Option<FoundEntry>> {
        let query = Query { base: dn, ..*query };
        match self.search(&query, Scope::BaseObject, &mut ControlsBuf::new()) {
            Ok((mut found, _)) => Ok(found.pop()),
            Err(error) if error.status == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns all entries that match the query. The caller must ensure that there are not too many.
    pub(crate) fn all(&mut self, query: &Query<'_>) -> Result<Vec<FoundEntry>> {
        Ok(self.search(query, Scope::WholeSubtree, &mut ControlsBuf::new())?.0)
    }

    /// Returns a page of at most `size` entries that match the query.
    pub(crate) fn page(&mut self, query: &Query<'_>, size: usize, cookie: &[u8]) -> Result<Page> {
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let value = PagedResults { size, cookie }.encode();
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: oids::PAGED_RESULTS, critical: true, value: Some(&value) });
        let (found, last) = self.search(query, Scope::WholeSubtree, &mut controls)?;
        let message = last.message();
        let value = message.controls.find(oids::PAGED_RESULTS).and_then(|control| control.value);
        let cookie =
            value.and_then(PagedResults::decode).map(|page| page.cookie.to_vec()).unwrap_or_default();
        Ok(Page { found, cookie })
    }

    /// Returns the number of entries that match the query. Returns `None` if limits of the directory prevent counting
    /// them.
    pub(crate) fn count(&mut self, query: &Query<'_>) -> Result<Option<usize>> {
        let mut controls = ControlsBuf::new();
        controls.push(Control { oid: oids::SEARCH_NO_OP, critical: true, value: None });
        let query = Query { attributes: &["1.1".to_owned()], links: &[], sort: None, ..*query };
        match self.search(&query, Scope::WholeSubtree, &mut controls) {
            Ok((_, last)) => {
                let message = last.message();
                let value = message.controls.find(oids::SEARCH_NO_OP).and_then(|control| control.value);
                let counted = value.and_then(ldap::decode_search_no_op);
                Ok(counted.and_then(|(_, entries, _)| usize::try_from(entries).ok()))
            }
            Err(error) if error.scim_type == Some("tooMany") => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks that there is time left for a further LDAP operation.
    ///
    /// # Errors
    /// 503 if there is no time left.
    fn check_time(&self) -> Result<()> {
        if Instant::now() < self.end {
            return Ok(());
        }
        Err(ScimError::new(
            503,
            "the time for this request is over: send what is not done in further requests",
        ))
    }

    fn search(
        &mut self,
        query: &Query<'_>,
        scope: Scope,
        controls: &mut ControlsBuf,
    ) -> Result<(Vec<FoundEntry>, Received)> {
        self.check_time()?;
        let filter = FilterBuf::parse(query.filter).map_err(ClientError::Filter)?;
        let wanted = vec![ENTRY_UUID, OBJECT_CLASS];
        let specs = query.links.iter();
        let specs: Vec<_> =
            specs.map(|attribute| DereferenceSpec { attribute, wanted: wanted.clone() }).collect();
        if !specs.is_empty() {
            let value = DereferenceSpec::encode_list(&specs);
            controls.push(Control { oid: oids::DEREFERENCE, critical: true, value: Some(&value) });
        }
        if let Some((attribute, reverse)) = query.sort {
            let value = SortKey::encode_list(&[SortKey { attribute, rule: None, reverse }]);
            controls.push(Control { oid: oids::SORT_REQUEST, critical: true, value: Some(&value) });
        }
        let selection = SelectionBuf::from_iter(query.attributes);
        let request = SearchRequest::new(query.base, scope, filter.as_filter(), selection.as_selection());
        let id = self.connection.send(Request::Search(request), controls.as_controls())?;
        let (mut found, mut size) = (Vec::new(), 0);
        loop {
            let received = self.connection.receive(id)?;
            size += received.as_bytes().len();
            if size > ANSWER_SIZE_MAX {
                return Err(ScimError::from(ClientError::TooLarge(ANSWER_SIZE_MAX)));
            }
            self.share.reach(size)?;
            if let Response::SearchEntry(entry) = &received.message().response {
                let links = links_of(received.message().controls);
                found.push(FoundEntry { entry: Entry::from(entry), links });
            }
            match received.outcome() {
                Some(outcome) if outcome.is_success() => return Ok((found, received)),
                Some(outcome) => return Err(ScimError::of_search(&outcome)),
                None => {}
            }
        }
    }

    /// Adds an entry.
    pub(crate) fn add(&mut self, dn: &str, attributes: &AttributesBuf) -> Result<()> {
        let request = Request::Add(AddRequest { entry: dn, attributes: attributes.as_attributes() });
        self.change(request, None, &[])
    }

    /// Returns the entryUUID of the requester's own entry. Returns `None` if the entry does not exist or the requester
    /// cannot see it.
    pub(crate) fn own_id(&mut self) -> Result<Option<String>> {
        let reply = self.connection.extended(oids::WHO_AM_I, None)?;
        done(&reply.outcome)?;
        let identity = String::from_utf8(reply.extended.value.unwrap_or_default()).unwrap_or_default();
        let Some(dn) = identity.strip_prefix("dn:").filter(|dn| !dn.is_empty()) else { return Ok(None) };
        Ok(self.connection.entry(dn, &[ENTRY_UUID])?.and_then(|entry| entry.text(ENTRY_UUID)))
    }

    /// Deletes an entry. Fails if the entry does not match `assertion`.
    pub(crate) fn delete(&mut self, dn: &str, assertion: Option<&FilterBuf>) -> Result<()> {
        self.change(Request::Delete(DeleteRequest { entry: dn }), assertion, &[])
    }

    /// Changes an entry. If both its attributes and its name change, one transaction makes both changes (RFC 5805).
    ///
    /// # Errors
    /// 412 if the entry does not match the assertion.
    pub(crate) fn modify(
        &mut self,
        dn: &str,
        changes: &ChangesBuf,
        renamed: Option<&NewName>,
        assertion: Option<&FilterBuf>,
    ) -> Result<()> {
        let Some(NewName { rdn, dn: new_dn }) = renamed else {
            let request = Request::Modify(ModifyRequest { object: dn, changes: changes.as_changes() });
            return self.change(request, assertion, &[]);
        };
        let rename = ModifyDnRequest { entry: dn, new_rdn: rdn, delete_old_rdn: true, new_superior: None };
        let rename = Request::ModifyDn(rename);
        if changes.as_changes().iter().next().is_none() {
            return self.change(rename, assertion, &[]);
        }
        let started = self.connection.extended(oids::START_TRANSACTION, None)?;
        let identifier = started.extended.value.filter(|_| started.outcome.is_success());
        let identifier = identifier.ok_or_else(|| ScimError::of_change(&started.outcome))?;
        let control =
            Control { oid: oids::TRANSACTION_SPECIFICATION, critical: true, value: Some(&identifier) };
        self.change(rename, assertion, &[control])?;
        let request = Request::Modify(ModifyRequest { object: new_dn, changes: changes.as_changes() });
        self.change(request, None, &[control])?;
        let value = EndTransaction { commits: true, identifier: &identifier }.encode();
        let request = ExtendedRequest { name: oids::END_TRANSACTION, value: Some(&value) };
        let ended = self.connection.request(Request::Extended(request), Controls::NONE)?;
        done(&ended.outcome)
    }

    fn change(
        &mut self,
        request: Request<'_>,
        assertion: Option<&FilterBuf>,
        more: &[Control<'_>],
    ) -> Result<()> {
        let mut controls = ControlsBuf::new();
        let mut value = Vec::new();
        if let Some(assertion) = assertion {
            assertion.as_filter().encode(&mut value);
            controls.push(Control { oid: oids::ASSERTION, critical: true, value: Some(&value) });
        }
        if matches!(request, Request::Modify(_)) {
            controls.push(Control { oid: oids::PERMISSIVE_MODIFY, critical: true, value: None });
        }
        more.iter().for_each(|control| controls.push(*control));
        let reply = self.connection.request(request, controls.as_controls())?;
        done(&reply.outcome)
    }
}

/// The new name of an entry.
#[derive(Debug)]
pub(crate) struct NewName {
    pub(crate) rdn: String,
    pub(crate) dn: String,
}

fn done(outcome: &client::Outcome) -> Result<()> {
    match outcome.code {
        ResultCode::SUCCESS => Ok(()),
        ResultCode::ASSERTION_FAILED => Err(ScimError::version()),
        _ => Err(ScimError::of_change(outcome)),
    }
}

fn bind_sasl(connection: &mut Connection, mechanism: &str, credentials: &[u8]) -> Result<client::Outcome> {
    let authentication = Authentication::Sasl { mechanism, credentials: Some(credentials) };
    let request = Request::Bind(BindRequest { version: 3, name: "", authentication });
    Ok(connection.request(request, Controls::NONE)?.outcome)
}

/// Returns the references in the dereference control of an entry. Omits references to entries that do not exist or that
/// the requester cannot see.
fn links_of(controls: Controls<'_>) -> Vec<Link> {
    let value = controls.find(oids::DEREFERENCE).and_then(|control| control.value);
    let Some(items) = value.and_then(Dereferenced::decode_list) else { return Vec::new() };
    let texts = |item: &Dereferenced<'_>, name: &str| -> Vec<String> {
        let values = item.attributes.iter().filter(|(found, _)| found.eq_ignore_ascii_case(name));
        let values = values.flat_map(|(_, values)| values);
        values.map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    };
    let link = |item: Dereferenced<'_>| {
        let id = texts(&item, ENTRY_UUID).pop()?;
        let dn = String::from_utf8_lossy(item.value).into_owned();
        Some(Link { attribute: item.attribute.to_owned(), dn, id, classes: texts(&item, OBJECT_CLASS) })
    };
    items.into_iter().filter_map(link).collect()
}
