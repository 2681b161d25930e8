//! [`Fault`]: a rule by which system calls fail or are delayed.

use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::library;

/// Kind of system call that can be made to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultCall {
    /// Opening or creating a file.
    Open,
    /// Writing, truncating, allocating.
    Write,
    /// Syncing a file, or writing through a descriptor opened with `O_DSYNC`.
    Sync,
    /// Renaming a file. The rule's path pattern applies to the new path.
    Rename,
    /// Mapping memory, with or without a file.
    Mmap,
    /// Accepting a connection.
    Accept,
    /// Creating a thread. The rule's thread pattern applies to the creating thread.
    Thread,
    /// Reading random numbers.
    Random,
    /// Waiting for events. The call blocks while the rule matches, and then fails.
    Wait,
    /// Reading the monotonic clock, which cannot fail: see [`Fault::clock_ahead`].
    Clock,
}

/// Effect of a rule.
#[derive(Debug, Clone, Copy)]
enum Effect {
    /// The call does nothing, and returns this system error number.
    Error(i32),
    /// The call waits for this time before it is executed.
    Delay(Duration),
    /// The clock is ahead by this number of seconds.
    Ahead(u32),
}

/// Rule that determines which calls fail, and how. Without further conditions it applies to all calls of its kind.
#[derive(Debug, Clone)]
pub struct Fault {
    call: FaultCall,
    effect: Effect,
    thread: Option<String>,
    path: Option<String>,
    from: Option<u64>,
    times: Option<u64>,
    only_while: Option<PathBuf>,
}

impl Fault {
    /// Creates a rule by which every call of a kind fails with a system error number.
    pub fn new(call: FaultCall, errno: i32) -> Fault {
        Fault::with(call, Effect::Error(errno))
    }

    /// Creates a rule by which every call of a kind is delayed, by whole milliseconds.
    pub fn delay(call: FaultCall, delay: Duration) -> Fault {
        Fault::with(call, Effect::Delay(delay))
    }

    /// Creates a rule by which the monotonic clock is ahead by `seconds`.
    pub fn clock_ahead(seconds: u32) -> Fault {
        Fault::with(FaultCall::Clock, Effect::Ahead(seconds))
    }

    fn with(call: FaultCall, effect: Effect) -> Fault {
        Fault { call, effect, thread: None, path: None, from: None, times: None, only_while: None }
    }

    /// Limits the rule to threads whose name matches a pattern.
    pub fn thread(mut self, pattern: &str) -> Fault {
        self.thread = Some(pattern.to_owned());
        self
    }

    /// Limits the rule to files whose path matches a pattern.
    pub fn path(mut self, pattern: &str) -> Fault {
        self.path = Some(pattern.to_owned());
        self
    }

    /// Lets the first `call` - 1 matching calls succeed.
    pub fn from(mut self, call: u64) -> Fault {
        self.from = Some(call);
        self
    }

    /// Limits the rule to the first `times` calls that would fail; at least 1.
    pub fn times(mut self, times: u64) -> Fault {
        self.times = Some(times);
        self
    }

    /// Limits the rule to the time while `file` exists. Calls at other times are not counted.
    pub fn only_while(mut self, file: &Path) -> Fault {
        self.only_while = Some(file.to_owned());
        self
    }
}

impl Display for Fault {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let call = match self.call {
            FaultCall::Open => "open",
            FaultCall::Write => "write",
            FaultCall::Sync => "sync",
            FaultCall::Rename => "rename",
            FaultCall::Mmap => "mmap",
            FaultCall::Accept => "accept",
            FaultCall::Thread => "thread",
            FaultCall::Random => "random",
            FaultCall::Wait => "wait",
            FaultCall::Clock => "clock",
        };
        match self.effect {
            Effect::Error(errno) => write!(out, "call={call},errno={errno}")?,
            Effect::Delay(delay) => write!(out, "call={call},delay={}", delay.as_millis())?,
            Effect::Ahead(seconds) => write!(out, "call={call},ahead={seconds}")?,
        }
        for (name, value) in [("thread", &self.thread), ("path", &self.path)] {
            if let Some(value) = value {
                write!(out, ",{name}={value}")?;
            }
        }
        for (name, value) in [("from", self.from), ("times", self.times)] {
            if let Some(value) = value {
                write!(out, ",{name}={value}")?;
            }
        }
        match &self.only_while {
            Some(file) => write!(out, ",while={}", file.display()),
            None => Ok(()),
        }
    }
}

/// Sets the environment of a process to be started, so that its calls fail as these rules specify.
pub fn inject(command: &mut Command, faults: &[Fault]) {
    let rules: Vec<String> = faults.iter().map(ToString::to_string).collect();
    command.env("LD_PRELOAD", library()).env("POWERCUT_FAULTS", OsString::from(rules.join(";")));
}

/// Does the same as [`inject`]. In addition, each fault appends a line to `log`.
pub fn inject_logged(command: &mut Command, faults: &[Fault], log: &Path) {
    inject(command, faults);
    command.env("POWERCUT_FAULTS_LOG", log);
}
