//! Events of a session's operations for the audit trail and the operation log. Both show the same events.
//!
//! An event is created when its request arrives, and is completed with the answer. The audit trail does not use the
//! event of a successful change. It derives that event from the record of the change, because the record survives a
//! crash (see `workers/audit.rs`). Therefore the record contains the origin of the request.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use audit::{Event, EventWriter, Field, Kind};
use directory::access_question::{self, RefusedRight};
use directory::bind_names::BindName;
use directory::identity::identify;
use directory::origin::Origin;
use directory::search::Search;
use directory::{Outcome, Requester};
use ldap::{Dn, Message, MessageId, PolicyError, ResultCode};

use super::{RequestHead, Session};
use crate::config::SlowRule;
use crate::net::stream::Peer;
use crate::session::context::Context;
use crate::session::forwarded::is_forwarded;
use crate::stamp::now_micros;
use crate::telemetry::counters::Operation;
use crate::telemetry::operation_event::{
    Disclosure, NO_NAME, OperationEvent, TypeNamed, describe, is_dn, kind_of, operation_line,
    operation_line_with, scope_name, session_tracking, target_of,
};
use crate::telemetry::traces::{Stage, TraceFeed, TraceLink, TracedOperation, spans_of};

/// Text in place of a user name in an event if no entry has that name.
const UNKNOWN_NAME: &str = "withheld, no entry has this name";

/// Result of an operation.
#[derive(Clone, Copy, Default)]
pub(super) struct OperationEnd<'a> {
    /// Number of entries that a search sent.
    pub(super) entries: Option<u64>,
    /// Outcome, if it contains more than the result code.
    pub(super) outcome: Option<&'a Outcome>,
    /// Position of the record of a change.
    pub(super) position: Option<u64>,
    /// The search, whose plan is logged if it was slow.
    pub(super) search: Option<&'a Search>,
}

/// Facts that all events of a connection contain.
pub(super) struct ConnectionFacts {
    /// Client's address.
    network: String,
    /// The session's own requester, while a request runs under another identity.
    acts_for: Option<Arc<Requester>>,
}

impl Session {
    /// Stores the client's address, and records in the audit trail that the connection was opened.
    pub(crate) fn now_open(&mut self, context: &Context, peer: &Peer) {
        if context.audit.is_on() {
            self.event_facts = Some(Box::new(ConnectionFacts { network: peer.to_string(), acts_for: None }));
            self.audit_event(context, Kind::Opened, "");
        }
    }

    /// Sets the session's own requester before a request runs under another identity. `None` ends that state.
    pub(super) fn now_acts_for(&mut self, own: Option<&Arc<Requester>>) {
        if let Some(event_facts) = &mut self.event_facts {
            event_facts.acts_for = own.map(Arc::clone);
        }
    }

    /// Returns the client's address and, if the request runs under another identity, the DN of the session's requester.
    fn client_and_user(&self) -> (&str, Option<&str>) {
        let event_facts = self.event_facts.as_deref();
        let acts_for = event_facts.and_then(|event_facts| event_facts.acts_for.as_deref()).map(Requester::dn);
        (event_facts.map_or("", |event_facts| &event_facts.network), acts_for)
    }

    /// Returns a new event for a request, if the request is audited, logged or traced.
    #[inline]
    pub(super) fn begin_event(
        &self,
        context: &Context,
        message: &Message<'_>,
        operation: Operation,
    ) -> Option<Box<OperationEvent>> {
        if context.describes { self.describe(context, message, operation) } else { None }
    }

    #[inline(never)]
    fn describe(
        &self,
        context: &Context,
        message: &Message<'_>,
        operation: Operation,
    ) -> Option<Box<OperationEvent>> {
        let kind = kind_of(operation);
        let (network, acts_for) = self.client_and_user();
        let who = acts_for.unwrap_or(self.requester.dn());
        let is_audited = context.audit.keeps(&context.snapshot, kind, who, target_of(&message.request));
        let traces = context.shared.traces.as_deref();
        let is_sampled = traces.is_some_and(|traces| traces.samples() && traces.has_room());
        // A forwarded operation is sampled by its operation id, which is not assigned yet. Therefore every operation
        // that may be forwarded gets an event.
        let may_be_linked = |traces: &TraceFeed| {
            (traces.forwards && !matches!(kind, Kind::Search | Kind::Compare))
                || is_forwarded(&message.request)
        };
        let is_watched =
            is_sampled || traces.is_some_and(|traces| traces.watches_slow() || may_be_linked(traces));
        if !is_audited && !is_watched && !context.settings.describes_operations() {
            return None;
        }
        let started = Instant::now();
        let snapshot = &context.snapshot;
        let type_named = |name: &str| match snapshot.is_secret_type(name) {
            None => TypeNamed::Unknown,
            Some(false) => TypeNamed::Open,
            Some(true) => TypeNamed::Secret,
        };
        let mut fields = Vec::with_capacity(256);
        let mut event = EventWriter::new(&mut fields);
        event
            .kind(kind)
            .number(Field::Time, context.audit.micros_at(started))
            .number(Field::Connection, self.number)
            .number(Field::MessageId, u64::try_from(message.id.0).unwrap_or(0));
        if operation != Operation::BIND {
            event.text_if_any(Field::Who, who);
        }
        event.text_if_any(Field::Network, network);
        let disclosure = Disclosure { type_named: &type_named, last_base: &context.last_base };
        describe(&message.request, &message.controls, &disclosure, &mut event);
        let (planned, reason, stages, received, forwarded) = Default::default();
        Some(Box::new(OperationEvent {
            started,
            kind,
            requester: Arc::clone(&self.requester),
            fields,
            is_audited,
            is_sampled,
            planned,
            stages,
            received,
            forwarded,
            reason,
        }))
    }

    /// Adds finished stages to the event of an outstanding request.
    pub(super) fn note_stages<'s>(&mut self, ticket: u64, stages: impl Iterator<Item = &'s Stage>) {
        let found = self.outstanding.iter_mut().find(|outstanding| outstanding.ticket == ticket);
        if let Some(event) = found.and_then(|outstanding| outstanding.head.event.as_mut()) {
            event.stages.extend(stages);
        }
    }

    /// Completes the event of a request.
    #[inline]
    pub(super) fn end_event(
        &self,
        context: &Context,
        head: &RequestHead,
        code: ResultCode,
        ending: OperationEnd<'_>,
    ) {
        if let Some(event) = &head.event {
            self.conclude_event(context, event, code, ending);
        }
    }

    #[inline(never)]
    fn conclude_event(
        &self,
        context: &Context,
        event: &OperationEvent,
        code: ResultCode,
        OperationEnd { entries, outcome, position, search }: OperationEnd<'_>,
    ) {
        let took = u64::try_from(event.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut end = Vec::with_capacity(64);
        let mut writer = EventWriter::new(&mut end);
        writer.number(Field::Result, u64::from(code.0)).number(Field::Took, took);
        if let Some(entries) = entries {
            writer.number(Field::Entries, entries);
        }
        if let Some(position) = position {
            writer.number(Field::Position, position);
        }
        if event.kind == Kind::Bind && code == ResultCode::SUCCESS {
            writer.text_if_any(Field::Who, self.requester.dn());
        }
        // The audit trail derives the event of a successful change from its record.
        if event.is_audited && position.is_none() {
            if let Some(outcome) = outcome {
                match &event.reason {
                    Some(why) => writer.text_if_any(Field::Reason, why),
                    None => writer.text_if_any(Field::Reason, &reason(context, event, outcome)),
                };
            }
            if code == ResultCode::INSUFFICIENT_ACCESS_RIGHTS {
                writer.text_if_any(Field::Rule, &self.refusing_rule(context, event).unwrap_or_default());
            }
            context.audit.push(&[&event.fields, &end]);
        }
        if context.settings.log_operations {
            let fields = [event.fields.as_slice(), &end].concat();
            if let Some(event) = Event::parse(&fields) {
                tracing::info!("{}", operation_line(event));
            }
        }
        if let Some(rule) =
            context.settings.slow.filter(|rule| u128::from(took) >= rule.threshold.as_micros())
        {
            let fields = [event.fields.as_slice(), &end].concat();
            report_slow(context, rule, &fields, search);
        }
        if let Some(traces) = &context.shared.traces {
            let is_slow = traces.is_slow(took);
            let link = |operation| TraceLink::of(&context.shared.generation, operation);
            let links = (event.received.map(link), event.forwarded.map(link));
            let is_sampled = links.1.or(links.0).map_or(event.is_sampled, |link| traces.samples_link(&link));
            if (is_slow || is_sampled) && traces.has_room() {
                let fields = [event.fields.as_slice(), &end].concat();
                let operation = traced(context, event, &fields, is_slow, search);
                let (received, forwarded) = links;
                traces.push(TracedOperation { received, forwarded, ..operation });
            }
        }
    }

    /// Returns the access rule that refused a request.
    fn refusing_rule(&self, context: &Context, event: &OperationEvent) -> Option<String> {
        let event_facts = Event::parse(&event.fields)?;
        let word = match event.kind {
            Kind::Compare => "compare",
            Kind::Modify => "write",
            Kind::Add => "add",
            Kind::Delete => "delete",
            Kind::ModifyDn => "rename",
            _ => return None,
        };
        let (entry, attributes) = (event_facts.text(Field::Target)?, event_facts.texts(Field::Attribute));
        let attributes: Vec<_> = attributes.collect();
        let attributes: Vec<_> = attributes.iter().map(|name| &**name).collect();
        let refused = RefusedRight { word, entry: &entry, attributes: &attributes };
        let link = self.client_link(context);
        access_question::refusing_rule(context.snapshot.state(), &event.requester, refused, link)
    }

    /// Adds the entry of a SASL bind with a user name to the event. If no entry has that name, the text is withheld,
    /// because it may be a password that was entered in the wrong field.
    pub(super) fn name_tried(context: &Context, head: &mut RequestHead, name: &str) {
        let Some(event) = &mut head.event else { return };
        let found = identify(&context.snapshot, name).ok().flatten();
        let dn = found.as_ref().map_or(UNKNOWN_NAME, |found| found.requester.dn());
        EventWriter::new(&mut event.fields).text(Field::Target, dn);
    }

    /// Adds the entry of a simple bind to the event, if the client sent a user name instead of a DN. If no entry has
    /// that name, the text is withheld, because it may be a password that was entered in the wrong field.
    pub(super) fn name_found(head: &mut RequestHead, found: &BindName, name: &str) {
        let Some(event) = &mut head.event else { return };
        let dn = match found {
            BindName::Entry(dn) => dn,
            BindName::AsGiven if is_dn(name) => return,
            BindName::AsGiven | BindName::Nobody => NO_NAME,
        };
        EventWriter::new(&mut event.fields).text(Field::Target, dn);
    }

    /// Returns the origin of a change for its record, if there is an audit trail.
    pub(super) fn origin(&self, context: &Context, message: &Message<'_>) -> Option<Box<Origin>> {
        context.audit.is_on().then(|| {
            let (network, acts_for) = self.client_and_user();
            Box::new(Origin {
                acts_for: acts_for.unwrap_or_default().to_owned(),
                network: network.to_owned(),
                connection: Some(self.number),
                message_id: u64::try_from(message.id.0).ok(),
                tracking: session_tracking(&message.controls),
                ..Origin::default()
            })
        })
    }

    /// Audits a request that could not be decoded.
    pub(super) fn audit_undecodable(&self, context: &Context, id: MessageId, operation: Operation) {
        let (kind, (network, _)) = (kind_of(operation), self.client_and_user());
        if !context.audit.keeps(&context.snapshot, kind, self.requester.dn(), "") {
            return;
        }
        let mut fields = Vec::with_capacity(64);
        EventWriter::new(&mut fields)
            .kind(kind)
            .number(Field::Time, context.audit.micros_at(Instant::now()))
            .number(Field::Connection, self.number)
            .number(Field::MessageId, u64::try_from(id.0).unwrap_or(0))
            .text_if_any(Field::Who, self.requester.dn())
            .text_if_any(Field::Network, network)
            .number(Field::Result, u64::from(ResultCode::PROTOCOL_ERROR.0))
            .text(Field::Reason, "the request cannot be read");
        context.audit.push(&[&fields]);
    }

    /// Audits an event of the connection.
    pub(crate) fn audit_event(&self, context: &Context, kind: Kind, method: &str) {
        if context.audit.is_on() {
            let client_and_user = (self.number, self.client_and_user().0, self.requester.dn());
            context.audit.connection_event(&context.snapshot, kind, client_and_user, method);
        }
    }
}

/// Returns the facts about an operation that its trace contains.
#[cold]
fn traced(
    context: &Context,
    event: &OperationEvent,
    fields: &[u8],
    is_slow: bool,
    search: Option<&Search>,
) -> TracedOperation {
    let (parsed, since) = (Event::parse(fields), |then: Instant| {
        u64::try_from(then.saturating_duration_since(event.started).as_micros()).unwrap_or(u64::MAX)
    });
    let number = |field| parsed.and_then(|parsed| parsed.number(field));
    let took_micros = number(Field::Took).unwrap_or(0);
    let mut stages = Vec::new();
    if let Some(planned) = event.planned {
        stages.extend([("plan", 0, since(planned)), ("scan", since(planned), took_micros)]);
    }
    stages.extend(spans_of(event.started, &event.stages));
    let explanation =
        search.filter(|_| is_slow).and_then(|search| search.explanation(&context.snapshot).ok().flatten());
    let target = parsed.and_then(|parsed| parsed.text(Field::Target));
    TracedOperation {
        name: event.kind.name(),
        started_micros: number(Field::Time).unwrap_or(0),
        took_micros,
        code: number(Field::Result).and_then(|code| u32::try_from(code).ok()).unwrap_or(0),
        connection: number(Field::Connection),
        message_id: number(Field::MessageId),
        depth: target
            .filter(|name| is_dn(name))
            .and_then(|name| Some(Dn::parse(&name).ok()?.rdns().count() as u64)),
        entries: number(Field::Entries),
        examined: search.map(Search::entries_examined),
        scope: number(Field::Scope).map(scope_name),
        filter: search.and_then(|search| search.shape(&context.snapshot)).map(|shape| shape.text),
        plan: explanation.map(|explanation| joined_lines(&explanation.to_string())),
        oid: parsed
            .filter(|_| event.kind == Kind::Extended)
            .and_then(|parsed| Some(parsed.text(Field::Name)?.into_owned())),
        method: parsed
            .filter(|_| event.kind == Kind::Bind)
            .and_then(|parsed| Some(parsed.text(Field::Method)?.into_owned())),
        stages,
        is_slow,
        ..TracedOperation::default()
    }
}

/// Joins the lines of a text to one line.
fn joined_lines(text: &str) -> String {
    let steps: Vec<&str> = text.lines().map(str::trim).collect();
    steps.join("; ")
}

/// Logs a slow operation, with the plan if it is a search.
#[cold]
fn report_slow(context: &Context, rule: SlowRule, fields: &[u8], search: Option<&Search>) {
    let Some(omitted) = context.shared.slow.happened(Instant::now()) else { return };
    let Some(event) = Event::parse(fields) else { return };
    let shape = || search.and_then(|search| search.shape(&context.snapshot)).map(|shape| shape.text);
    let filter = match rule.shows_values {
        true => None,
        false => Some(shape().unwrap_or_else(|| "values are not shown".to_owned())),
    };
    let mut line = operation_line_with(event, filter.as_deref());
    if let Some(who) = event.text(Field::Who) {
        // Writing to a String cannot fail.
        let _ = write!(line, " who={who:?}");
    }
    // The plan never contains values of the filter.
    let explanation = search.and_then(|search| search.explanation(&context.snapshot).ok().flatten());
    if let Some(explanation) = explanation {
        let _ = write!(line, " plan={:?}", joined_lines(&explanation.to_string()));
    }
    if omitted > 0 {
        let _ = write!(line, " omitted={omitted}");
    }
    tracing::warn!("slow: {line}");
}

/// Returns the reason for a failed operation. The diagnostic message is omitted if it may quote text of the client,
/// because that text may be a password in the wrong field.
fn reason(context: &Context, event: &OperationEvent, outcome: &Outcome) -> String {
    match (event.kind, outcome.code) {
        (_, ResultCode::SUCCESS | ResultCode::SASL_BIND_IN_PROGRESS) => String::new(),
        (Kind::Bind, code) => bind_reason(context, event, code, outcome.policy).to_owned(),
        (_, ResultCode::INSUFFICIENT_ACCESS_RIGHTS) => outcome.diagnostic.clone(),
        (_, ResultCode::BUSY) => "the server was busy".to_owned(),
        _ => String::new(),
    }
}

/// Returns the reason for a failed bind. The client never receives this reason.
fn bind_reason(
    context: &Context,
    event: &OperationEvent,
    code: ResultCode,
    policy: Option<PolicyError>,
) -> &'static str {
    match (policy, code) {
        (Some(PolicyError::PasswordExpired), _) => "the password has expired",
        (Some(PolicyError::AccountLocked), _) => "the account is locked",
        (Some(PolicyError::ChangeAfterReset), _) => "the password was reset and has to be changed",
        (_, ResultCode::INVALID_CREDENTIALS) => {
            let now = i64::try_from(now_micros()).unwrap_or(i64::MAX);
            let event = Event::parse(&event.fields);
            let name = event.and_then(|event| event.text(Field::Target)).unwrap_or_default();
            let is_simple =
                event.and_then(|event| event.text(Field::Method)).is_some_and(|method| method == "simple");
            match is_simple {
                // The reason is looked up for every failed bind, so that timing reveals nothing.
                true => directory::bind::bind_failure(&context.snapshot, &name, now).text(),
                false if name == UNKNOWN_NAME => "no such name",
                false => "wrong proof or password, or an identity that is not given",
            }
        }
        (_, ResultCode::INVALID_DN_SYNTAX) => "the name is no DN",
        (_, ResultCode::UNWILLING_TO_PERFORM) => "a name without a password",
        (_, ResultCode::AUTH_METHOD_NOT_SUPPORTED) => "the method is not offered here",
        (_, ResultCode::CONFIDENTIALITY_REQUIRED) => "a password in the clear, without TLS",
        (_, ResultCode::INAPPROPRIATE_AUTHENTICATION) => "the system does not say who is connected",
        (_, ResultCode::BUSY) => "too many wrong passwords for this name, or too many hashes at a time",
        _ => "",
    }
}
