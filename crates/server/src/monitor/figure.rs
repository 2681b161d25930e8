//! Groups of figures about the server. `cn=monitor` shows the figures as entries, and the metrics show them as time
//! series.

use std::borrow::Cow;

/// A group of figures. It is a container below `cn=monitor`.
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) figures: Vec<Figure>,
}

/// A number or a text about the server.
pub(super) struct Figure {
    pub(super) name: Cow<'static, str>,
    /// Explanation of the figure for administrators.
    pub(super) help: &'static str,
    pub(super) value: Value,
}

/// Value of a [`Figure`].
pub(super) enum Value {
    /// A number that only grows while the server runs.
    Count(u64),
    /// A number that may rise and fall.
    Level(u64),
    /// A time in seconds since 1970.
    Time(u64),
    /// A boolean.
    Flag(bool),
    /// `Err` contains the description of a fault, and `Ok` the text that is shown if there is no fault.
    Fault(Result<&'static str, String>),
    /// One of a few states: a keyword, and a text for the administrator.
    State(&'static str, String),
    /// One number for each value of a label. The first field is the name of the label. The second is true if the
    /// numbers only grow.
    By(&'static str, bool, Vec<(String, u64)>),
    /// Progress of some work: the number of finished items, and the total number.
    Progress(u64, u64),
    /// A text.
    Text(String),
}

impl Group {
    pub(super) fn new(name: &'static str) -> Group {
        Group { name, figures: Vec::new() }
    }

    pub(super) fn add(&mut self, name: impl Into<Cow<'static, str>>, help: &'static str, value: Value) {
        self.figures.push(Figure { name: name.into(), help, value });
    }

    pub(super) fn count(&mut self, name: &'static str, help: &'static str, count: u64) {
        self.add(name, help, Value::Count(count));
    }

    pub(super) fn level(&mut self, name: &'static str, help: &'static str, level: u64) {
        self.add(name, help, Value::Level(level));
    }

    pub(super) fn time(&mut self, name: &'static str, help: &'static str, unix_seconds: u64) {
        self.add(name, help, Value::Time(unix_seconds));
    }

    pub(super) fn text(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        help: &'static str,
        value: impl ToString,
    ) {
        self.add(name, help, Value::Text(value.to_string()));
    }
}
