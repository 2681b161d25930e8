//! The outstanding requests of a session, and the memory that they occupy.

use std::sync::Arc;
use std::time::{Duration, Instant};

use directory::controls::{ControlContext, failed_controls};
use directory::search::Search;
use directory::{Outcome, Requester};
use ldap::oids::{
    AUTHORIZATION_IDENTITY_REQUEST, AUTHORIZATION_IDENTITY_RESPONSE, PASSWORD_EXPIRED, PASSWORD_EXPIRING,
    PASSWORD_POLICY, POSITION, REFRESH, WHAT_FAILED,
};
use ldap::{
    Control, ControlsBuf, Message, MessageId, PolicyError, PolicyResponse, PolicyWarning, PositionToken,
    Request, ResultCode,
};

use replication::OperationId;

use super::password_answer::PasswordAnswer;
use super::proof::{DecidedAttempt, Proof};
use super::shared_rest::SharedRest;
use crate::limits::{OUTSTANDING_BYTES_MAX, OUTSTANDING_SEARCH_BYTES_MAX};
use crate::net::listening_places::ListeningPlace;
use crate::telemetry::counters::Operation;
use crate::telemetry::operation_event::OperationEvent;
use crate::workers::hash_pool::HashClaim;
use crate::workers::scan_shares::ScanAccount;

/// Facts about a request that are needed for its response.
pub(super) struct RequestHead {
    pub(super) id: MessageId,
    pub(super) operation: Operation,
    /// Start of the pass in which the request arrived; `None` if the client decides how long the request runs, as in
    /// the second phase of a persistent search.
    began: Option<Instant>,
    /// Event of the request for the audit trail and the operation log.
    pub(super) event: Option<Box<OperationEvent>>,
    /// Whether the client asked for the password policy response control.
    wants_policy: bool,
    /// Whether the client asked for the position from which the request is answered.
    pub(super) wants_position: bool,
    /// Whether the request is a Verify Credentials request. Its answer contains the outcome of a bind, and the session
    /// keeps its identity.
    pub(super) verifies_credentials: bool,
    /// Number of the SASL exchange in a Verify Credentials request.
    pub(super) exchange: u64,
    /// Whether the credentials in a Verify Credentials request have the password policy control.
    pub(super) wants_policy_of_credentials: bool,
    /// Position to report in the answer. `None` for the position of the event loop's snapshot.
    pub(super) shown: Option<PositionToken>,
    /// Whether the request is a Refresh. Its response contains the name of the request (RFC 2589 section 4.2).
    pub(super) is_refresh: bool,
    /// Whether the client asked for the authorization identity in the bind response (RFC 3829).
    wants_identity: bool,
    /// SASL credentials of the server in the response, unless the bind fails.
    pub(super) sasl_credentials: Option<Vec<u8>>,
    /// SASL credentials of the server in the response if the bind fails.
    pub(super) sasl_error: Option<&'static str>,
    /// Warning to the user from the password policy.
    pub(super) warning: Option<PolicyWarning>,
    /// Value of the What Failed response control (draft-masarati-ldap-whatfailed), which lists the refused critical
    /// controls. `None` if the client did not request this control.
    failed_controls: Option<Box<[u8]>>,
}

impl RequestHead {
    pub(super) fn of(
        message: &Message<'_>,
        operation: Operation,
        event: Option<Box<OperationEvent>>,
        began: Instant,
    ) -> RequestHead {
        let wants = |oid| message.controls.iter().any(|control| control.oid == oid);
        RequestHead {
            id: message.id,
            operation,
            event,
            began: Some(began),
            wants_policy: wants(PASSWORD_POLICY),
            wants_position: wants(POSITION),
            verifies_credentials: false,
            exchange: 0,
            wants_policy_of_credentials: false,
            shown: None,
            is_refresh: matches!(&message.request, Request::Extended(request) if request.name == REFRESH),
            wants_identity: operation == Operation::BIND && wants(AUTHORIZATION_IDENTITY_REQUEST),
            sasl_credentials: None,
            sasl_error: None,
            warning: None,
            failed_controls: match wants(WHAT_FAILED) {
                true => failed_controls(&message.controls, ControlContext::of(&message.request))
                    .map(Vec::into_boxed_slice),
                false => None,
            },
        }
    }

    /// Returns how long the request has been outstanding at `now`. Zero if the client decides how long it runs.
    pub(super) fn waited(&self, now: Instant) -> Duration {
        self.began.map_or(Duration::ZERO, |began| now.saturating_duration_since(began))
    }

    /// Excludes the request from latency statistics, because the client decides how long it runs.
    pub(super) fn is_not_timed(&mut self) {
        self.began = None;
    }

    /// Returns the controls of the answer. `requester` is the session's requester after the operation.
    pub(super) fn response_controls(&self, outcome: &Outcome, requester: &Requester) -> ControlsBuf {
        let mut controls = self.policy_controls(outcome.policy);
        if let Some(value) = &self.failed_controls
            && outcome.code == ResultCode::UNAVAILABLE_CRITICAL_EXTENSION
        {
            controls.push(Control { oid: WHAT_FAILED, critical: false, value: Some(value) });
        }
        // Only a successful bind returns the identity (RFC 3829 section 4).
        if self.wants_identity && outcome.code == ResultCode::SUCCESS {
            let identity = requester.authorization_id();
            let value = Some(identity.as_bytes());
            controls.push(Control { oid: AUTHORIZATION_IDENTITY_RESPONSE, critical: false, value });
        }
        controls
    }

    /// Returns the password policy controls if there is a warning or an error. The control of
    /// draft-behera-ldap-password-policy is returned if the client asked for it. The controls of
    /// draft-vchu-ldap-pwd-policy are returned with bind responses.
    fn policy_controls(&self, error: Option<PolicyError>) -> ControlsBuf {
        let mut controls = ControlsBuf::new();
        let policy = PolicyResponse { warning: self.warning, error };
        if policy == PolicyResponse::default() {
            return controls;
        }
        let mut push =
            |oid, value: &[u8]| controls.push(Control { oid, critical: false, value: Some(value) });
        if self.wants_policy {
            push(PASSWORD_POLICY, &policy.encode());
        }
        if self.operation == Operation::BIND {
            match (policy.warning, policy.error) {
                (Some(PolicyWarning::GraceLeft(_)), _)
                | (_, Some(PolicyError::PasswordExpired | PolicyError::ChangeAfterReset)) => {
                    push(PASSWORD_EXPIRED, b"0");
                }
                (Some(PolicyWarning::TimeBeforeExpiration(seconds)), _) => {
                    push(PASSWORD_EXPIRING, seconds.to_string().as_bytes());
                }
                _ => {}
            }
        }
        controls
    }
}

/// Data of a change that the session needs to complete the change's event after its transaction.
pub(super) struct SettledChange {
    pub(super) head: RequestHead,
    /// Content of the answer, if the change was a Password Modify request.
    pub(super) password: Option<PasswordAnswer>,
}

/// A request without a final response.
pub(super) struct Outstanding {
    pub(super) ticket: u64,
    pub(super) head: RequestHead,
    /// Whether the client abandoned the operation. Its response is then dropped.
    pub(super) abandoned: bool,
    pub(super) work: Work,
    /// Claim on the result of the hash pool. Dropping it makes the pool skip the job.
    _claim: Option<HashClaim>,
    /// Bytes of memory that the request occupies.
    bytes: usize,
}

/// Event that an outstanding operation waits for.
pub(super) enum Work {
    /// The search's next turn for a slice, or results of the scan threads in `rest`. If `follows` is set, the search
    /// waits for the next commit.
    Search {
        search: Box<Search>,
        deadline: Option<Instant>,
        rest: Option<SharedRest>,
        /// Account of the search's processor time, if the search is costly.
        account: Option<Arc<ScanAccount>>,
        follows: bool,
        /// Permission for a persistent search. Dropping it makes room for another search of the client.
        _place: Option<Box<ListeningPlace>>,
    },
    /// The writer, or another thread that carries out an extended operation.
    Change,
    /// The writer, which makes a change that a replica forwarded.
    Forwarded(OperationId),
    /// The writer, which makes a change whose answer may contain a generated password.
    PasswordModify(PasswordAnswer),
    /// The writer, which makes the changes of a transaction.
    Transaction(Vec<SettledChange>),
    /// The hash pool, which verifies a password.
    Verify(Proof),
    /// The hash pool, which handles a client's message in a Kerberos exchange.
    Kerberos,
    /// The writer, which records an attempt whose outcome is known.
    Decided(Box<DecidedAttempt>),
    /// The end of the delay of the answer.
    Delayed(Box<DecidedAttempt>),
}

impl Outstanding {
    /// Creates an outstanding request. `bytes` is its memory in addition to this struct and the search.
    pub(super) fn new(
        ticket: u64,
        head: RequestHead,
        work: Work,
        bytes: usize,
        claim: Option<HashClaim>,
    ) -> Outstanding {
        let mut new = Outstanding { ticket, head, abandoned: false, work, _claim: claim, bytes };
        new.bytes += size_of::<Outstanding>() + new.search_bytes();
        new
    }

    /// Returns true if the request is a bind.
    pub(super) fn is_bind(&self) -> bool {
        if self.head.verifies_credentials {
            return false;
        }
        match &self.work {
            Work::Verify(proof) => proof.requester.is_some(),
            Work::Kerberos => true,
            Work::Decided(decided) | Work::Delayed(decided) => decided.requester.is_some(),
            Work::Search { .. }
            | Work::Change
            | Work::Forwarded(_)
            | Work::PasswordModify(_)
            | Work::Transaction(_) => false,
        }
    }

    /// Returns true if the request has this message id and is not abandoned.
    pub(super) fn has_id(&self, id: MessageId) -> bool {
        self.head.id == id && !self.abandoned
    }

    /// Returns the number of bytes that the search occupies; 0 if the request is not a search.
    fn search_bytes(&mut self) -> usize {
        let Work::Search { search, rest, .. } = &mut self.work else { return 0 };
        let parts = rest.as_ref().map_or(0, |rest| rest.scanners() * search.part_bytes());
        search.memory_bytes() + parts
    }

    /// Returns true if the writer, or a thread that carries out an extended operation, will soon report an outcome.
    pub(super) fn waits_for_writer(&self) -> bool {
        match self.work {
            // Otherwise the client decides how long the request waits.
            Work::Change => self.head.began.is_some(),
            Work::Forwarded(_) | Work::PasswordModify(_) | Work::Transaction(_) => true,
            Work::Search { .. } | Work::Verify(_) | Work::Kerberos | Work::Decided(_) | Work::Delayed(_) => {
                false
            }
        }
    }

    pub(super) fn is_search(&self) -> bool {
        matches!(self.work, Work::Search { .. })
    }

    pub(super) fn wants_slice(&self) -> bool {
        let Work::Search { search, rest, follows, .. } = &self.work else { return false };
        !follows && (search.is_streaming() || rest.as_ref().is_none_or(SharedRest::is_ready))
    }

    /// Returns true if the request is a persistent search in its second phase: all existing entries are sent, and only
    /// changes follow.
    pub(super) fn is_listening(&self) -> bool {
        matches!(&self.work, Work::Search { search, .. } if search.is_listening())
    }

    pub(super) fn is_mid_message(&self) -> bool {
        matches!(&self.work, Work::Search { search, .. } if search.is_mid_message())
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        if let Work::Search { deadline, .. } = self.work { deadline } else { None }
    }
}

/// Maximum capacity for outstanding requests that an idle session keeps allocated.
const KEPT_CAPACITY_MAX: usize = 4;

/// The outstanding requests of a session, in the order received.
#[derive(Default)]
pub(super) struct OutstandingRequests {
    list: Vec<Outstanding>,
    /// Bytes of memory that all requests occupy.
    bytes: usize,
    /// Bytes of memory that the searches occupy, included in `bytes`.
    search_bytes: usize,
}

impl std::ops::Deref for OutstandingRequests {
    type Target = [Outstanding];

    fn deref(&self) -> &[Outstanding] {
        &self.list
    }
}

impl std::ops::DerefMut for OutstandingRequests {
    fn deref_mut(&mut self) -> &mut [Outstanding] {
        &mut self.list
    }
}

impl OutstandingRequests {
    /// Returns the number of bytes of memory that all requests occupy.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if the requests occupy so much memory that the session accepts no more.
    pub(super) fn is_full(&self) -> bool {
        self.bytes >= OUTSTANDING_BYTES_MAX || self.has_full_searches()
    }

    /// Returns true if the searches occupy so much memory that only the oldest search may run.
    pub(super) fn has_full_searches(&self) -> bool {
        self.search_bytes >= OUTSTANDING_SEARCH_BYTES_MAX
    }

    pub(super) fn push(&mut self, new: Outstanding) {
        self.add(new.is_search(), new.bytes);
        self.list.push(new);
    }

    /// Removes the request at `index`, which must exist.
    pub(super) fn remove(&mut self, index: usize) -> Outstanding {
        let old = self.list.remove(index);
        self.subtract(old.is_search(), old.bytes);
        // An idle session frees the memory that a burst of requests has taken.
        if self.list.is_empty() && self.list.capacity() > KEPT_CAPACITY_MAX {
            self.list = Vec::new();
        }
        old
    }

    /// Updates the memory count of the search at `index`, which changes with each slice.
    pub(super) fn recount(&mut self, index: usize) {
        let Some(search) = self.list.get_mut(index) else { return };
        let bytes = size_of::<Outstanding>() + search.search_bytes();
        let (is_search, before) = (search.is_search(), std::mem::replace(&mut search.bytes, bytes));
        self.subtract(is_search, before);
        self.add(is_search, bytes);
    }

    fn add(&mut self, is_search: bool, bytes: usize) {
        self.bytes += bytes;
        self.search_bytes += if is_search { bytes } else { 0 };
    }

    fn subtract(&mut self, is_search: bool, bytes: usize) {
        self.bytes -= bytes;
        self.search_bytes -= if is_search { bytes } else { 0 };
    }
}
