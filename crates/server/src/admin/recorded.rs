//! Operations of an audit trail, as access rules are asked about them: who asked for what, and how they were connected.
//!
//! An event does not say how its connection came about: other events of the trail do, by which connections are
//! followed. Those of one connection stand in order, but for changes, which the directory's log tells: they may come a
//! little before the bind that they followed, and behind the end of their connection. So they are kept back a little.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::path::Path;

use audit::{AuditError, Event, Events, Field, Item, Kind, Walk};
use directory::rehearse::{Act, Recorded};
use directory::{BindMethod, ClientLink, WeekTime};
use ldap::{DecodeLimits, Filter, ResultCode, Scope, SelectionBuf};

/// Connections that are followed at a time.
const CONNECTIONS_MAX: usize = 100_000;

/// Binds and beginnings of TLS of each that are known.
const TURNS_MAX: usize = 8;

/// How long changes are kept back: longer than other events wait to be written.
const KEPT_BACK_MICROS: u64 = 2_000_000;

/// Octets of changes that are kept back.
const KEPT_BACK_BYTES: usize = 8 << 20;

/// How names and filters begin that the trail does not tell.
const WITHHELD: &str = "withheld, ";

/// What became of a connection.
#[derive(Clone, Copy)]
struct Turn {
    micros: u64,
    has_tls: bool,
    method: Option<BindMethod>,
}

/// What a trail told of connections.
#[derive(Default)]
struct Connections {
    known: HashMap<u64, Vec<Turn>>,
    order: VecDeque<u64>,
}

impl Connections {
    fn note(&mut self, event: Event<'_>) {
        let micros = event.number(Field::Time).unwrap_or(0);
        let turn = match event.kind() {
            // Numbers of connections begin anew.
            Some(Kind::Started) => return *self = Connections::default(),
            Some(Kind::Opened) => Turn { micros, has_tls: false, method: Some(BindMethod::None) },
            Some(Kind::Tls) => Turn { micros, has_tls: true, method: Some(BindMethod::None) },
            Some(Kind::Bind) if event.number(Field::Result) == Some(u64::from(ResultCode::SUCCESS.0)) => {
                let has_tls = self.last(event).is_some_and(|last| last.has_tls);
                let method = event.text(Field::Method).unwrap_or_default();
                let method = match &*method {
                    "simple" => Some(BindMethod::Simple),
                    "none" => Some(BindMethod::None),
                    name => Some(BindMethod::of_mechanism(name)).filter(|known| *known != BindMethod::None),
                };
                Turn { micros, has_tls, method }
            }
            _ => return,
        };
        let Some(connection) = event.number(Field::Connection) else { return };
        // What began before the trail did is not known by its binds.
        if turn.method != Some(BindMethod::None) && !self.known.contains_key(&connection) {
            return;
        }
        let turns = self.known.entry(connection).or_insert_with(|| {
            self.order.push_back(connection);
            Vec::new()
        });
        if turns.len() == TURNS_MAX {
            turns.remove(0);
        }
        turns.push(turn);
        if self.order.len() > CONNECTIONS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn last(&self, event: Event<'_>) -> Option<Turn> {
        let micros = event.number(Field::Time).unwrap_or(0);
        let turns = self.known.get(&event.number(Field::Connection)?)?;
        turns.iter().rev().find(|turn| turn.micros <= micros).copied()
    }

    /// How the client of an event was connected, and whether the trail tells.
    fn link(&self, event: Event<'_>) -> (ClientLink, bool) {
        let last = self.last(event);
        let network = event.text(Field::Network).unwrap_or_default();
        let address = network.split(' ').next().and_then(|text| text.parse::<SocketAddr>().ok());
        let is_anonymous = event.bytes(Field::Who).is_none_or(<[u8]>::is_empty);
        let link = ClientLink {
            address: address.map(|address| address.ip()),
            is_protected: address.is_none() || last.is_some_and(|last| last.has_tls),
            method: if is_anonymous { Some(BindMethod::None) } else { last.and_then(|last| last.method) },
            at: event.number(Field::Time).map(WeekTime::of_micros),
        };
        (link, last.is_some_and(|last| last.method.is_some()))
    }
}

/// What an event of an operation is to access rules.
pub(crate) enum Reading {
    /// They are not asked about it.
    Nothing,
    /// They are, and the trail does not say enough of it.
    Withheld,
    /// It was handed over; whether the trail tells how the client was connected.
    Read { has_link: bool },
}

/// Reads operations.
#[derive(Default)]
pub(crate) struct RecordedReader {
    connections: Connections,
    kept_back: VecDeque<(u64, Box<[u8]>)>,
    kept_back_bytes: usize,
}

/// What goes wrong beside the trail.
pub(crate) type Taken<E> = std::result::Result<(), E>;

impl RecordedReader {
    /// Goes through a trail and gives each event in an order in which what is known of its connection is known; damage
    /// is passed to `each_damage`.
    ///
    /// # Errors
    /// The trail cannot be read; what `each` returns.
    pub(crate) fn read<E: From<AuditError>>(
        &mut self,
        folder: &Path,
        each: &mut dyn FnMut(&RecordedReader, Event<'_>) -> Taken<E>,
        each_damage: &mut dyn FnMut(String),
    ) -> Taken<E> {
        for item in Walk::begin(folder)? {
            match item? {
                Item::Damage(place, damage) => each_damage(format!("{place}: {damage}")),
                Item::Torn(_) => {}
                Item::Block(block) => {
                    self.let_go(block.written_micros.saturating_sub(KEPT_BACK_MICROS), each)?;
                    for event in Events::of(&block.events).filter_map(Result::ok) {
                        self.take(event, block.written_micros, each)?;
                    }
                }
            }
        }
        self.let_go(u64::MAX, each)
    }

    fn take<E>(
        &mut self,
        event: Event<'_>,
        written_micros: u64,
        each: &mut dyn FnMut(&RecordedReader, Event<'_>) -> Taken<E>,
    ) -> Taken<E> {
        if event.number(Field::Position).is_some() {
            self.kept_back_bytes += event.as_bytes().len();
            self.kept_back.push_back((written_micros, event.as_bytes().into()));
            if self.kept_back_bytes > KEPT_BACK_BYTES {
                self.let_go_of_first(each)?;
            }
            return Ok(());
        }
        if event.kind() == Some(Kind::Started) {
            self.let_go(u64::MAX, each)?;
        }
        self.connections.note(event);
        each(self, event)
    }

    /// Gives what was kept back and written by then.
    fn let_go<E>(
        &mut self,
        until: u64,
        each: &mut dyn FnMut(&RecordedReader, Event<'_>) -> Taken<E>,
    ) -> Taken<E> {
        while self.kept_back.front().is_some_and(|(written, _)| *written <= until) {
            self.let_go_of_first(each)?;
        }
        Ok(())
    }

    fn let_go_of_first<E>(
        &mut self,
        each: &mut dyn FnMut(&RecordedReader, Event<'_>) -> Taken<E>,
    ) -> Taken<E> {
        let Some((_, bytes)) = self.kept_back.pop_front() else { return Ok(()) };
        self.kept_back_bytes -= bytes.len();
        match Event::parse(&bytes) {
            Some(event) => each(self, event),
            None => Ok(()),
        }
    }

    /// Hands the operation of an event over, if access rules decide about it.
    ///
    /// # Errors
    /// What `each` returns.
    pub(crate) fn recorded<E>(
        &self,
        event: Event<'_>,
        each: &mut dyn FnMut(&Recorded<'_>) -> Taken<E>,
    ) -> std::result::Result<Reading, E> {
        let Some(kind) = event.kind().filter(|kind| is_decided(*kind)) else { return Ok(Reading::Nothing) };
        if event.number(Field::Result) == Some(u64::from(ResultCode::PROTOCOL_ERROR.0)) {
            return Ok(Reading::Nothing);
        }
        let text = |field| event.text(field).unwrap_or_default();
        let (who, target, acts_as) = (text(Field::Who), text(Field::Target), event.text(Field::ActsAs));
        let (rdn, superior) = (text(Field::Name), event.text(Field::Superior));
        let names: Vec<_> =
            event.texts(Field::Attribute).filter(|name| !name.starts_with(WITHHELD)).collect();
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        // Of attributes that the schema does not know none is returned, which is not the same as all.
        let asks_nothing = names.is_empty() && event.bytes(Field::Attribute).is_some();
        let none = asks_nothing.then_some("1.1");
        let selection: SelectionBuf = names.iter().copied().chain(none).collect();
        let act = match kind {
            Kind::Search => {
                let filter = event.bytes(Field::Filter);
                let filter =
                    filter.and_then(|bytes| Filter::from_bytes(bytes, &DecodeLimits::AUTHENTICATED).ok());
                let Some(filter) = filter else { return Ok(Reading::Withheld) };
                Act::Search { scope: scope_of(event), filter, attributes: selection.as_selection() }
            }
            Kind::Compare => match names.first() {
                Some(name) => Act::Compare(name),
                None => return Ok(Reading::Withheld),
            },
            Kind::Modify => Act::Modify(&names),
            Kind::Add => Act::Add,
            Kind::Delete => Act::Delete,
            _ => Act::Rename { rdn: &rdn, superior: superior.as_deref() },
        };
        if target.starts_with(WITHHELD) || rdn.starts_with(WITHHELD) {
            return Ok(Reading::Withheld);
        }
        let (link, has_link) = self.connections.link(event);
        let micros = event.number(Field::Time).unwrap_or(0);
        each(&Recorded { who: &who, acts_as: acts_as.as_deref(), link, micros, target: &target, act })?;
        Ok(Reading::Read { has_link })
    }
}

fn is_decided(kind: Kind) -> bool {
    let decided = [Kind::Search, Kind::Compare, Kind::Modify, Kind::Add, Kind::Delete, Kind::ModifyDn];
    decided.contains(&kind)
}

fn scope_of(event: Event<'_>) -> Scope {
    match event.number(Field::Scope) {
        Some(0) => Scope::BaseObject,
        Some(1) => Scope::SingleLevel,
        Some(3) => Scope::Subordinate,
        _ => Scope::WholeSubtree,
    }
}
