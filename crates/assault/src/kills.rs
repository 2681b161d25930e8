//! Kills of the server by SIGKILL at all stages of its life. No acknowledged change may be lost, no change may be
//! applied partially, and the check of all rows must pass.
//!
//! The writers record their acknowledged and outstanding changes; see `support/writers.rs`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use powercut::PowerCut;
use rustix::process::Signal;

use crate::plan::Plan;
use crate::report::{Finding, Report};
use crate::settings_writer::SettingsWriter;
use test_support::pando::{self, Pando, Start};
use test_support::writers::{Writer, plant_suffix};
use test_support::{DEADLINE, Scratch};

const WRITERS: usize = 12;

/// Minimum number of rounds of each attack.
const ROUNDS_MIN: u32 = 3;

/// Maximum number of acknowledgements before the server is killed under load.
const ACKNOWLEDGEMENTS_MAX: u64 = 800;

/// Maximum number of file calls after which a starting server is killed. A start that replays, checkpoints and removes
/// the redo log needs some dozens.
const START_CALLS_MAX: u64 = 40;

/// Maximum number of file calls after which a server under load is killed. Enough for several checkpoints.
const CALLS_MAX: u64 = 4_000;

/// Minimum number of acknowledgements before the server is stopped.
const BEFORE_A_STOP: u64 = 60;

/// Maximum number of microseconds between the stop signal and the kill. A stopping server checkpoints the pending
/// changes.
const STOP_MICROS_MAX: u64 = 30_000;

/// Runs the attacks.
pub(crate) fn run(plan: &Plan, report: &mut Report) {
    report.attack("kills/load", || attack(plan, "load", 8, KillPoint::Load));
    report.attack("kills/start", || attack(plan, "start", 5, KillPoint::Start));
    report.attack("kills/calls", || attack(plan, "calls", 6, KillPoint::Calls));
    report.attack("kills/stop", || attack(plan, "stop", 5, KillPoint::Stop));
    report.attack("kills/settings", || attack(plan, "settings", 8, KillPoint::Settings));
}

/// Moment at which the server is killed.
#[derive(Clone, Copy, PartialEq)]
enum KillPoint {
    /// After a number of acknowledged changes.
    Load,
    /// At a file call while the server starts with pending changes.
    Start,
    /// At a file call under load, in a group or in a checkpoint.
    Calls,
    /// While the server stops, which includes a checkpoint.
    Stop,
    /// While settings and indexes are changed too.
    Settings,
}

/// The server's folder, the writers, and their records.
struct Scene {
    scratch: Scratch,
    writers: Vec<Writer>,
    settings: Option<SettingsWriter>,
    acknowledged: AtomicU64,
    way: KillPoint,
}

fn attack(plan: &Plan, name: &str, hundredths: u32, way: KillPoint) -> Finding {
    let mut random = plan.random(&format!("kills/{name}"));
    let mut scene = Scene::new(name, way, &mut random);
    let started = Instant::now();
    let mut rounds = 0;
    while rounds < ROUNDS_MIN || started.elapsed() < plan.share(hundredths) {
        scene.round(&mut random);
        scene.check(random.bool());
        rounds += 1;
    }
    pando::command(&["verify"], Some(&Pando::data(&scene.scratch))).expect_code(0);
    let when = match way {
        KillPoint::Load => "under load",
        KillPoint::Start => "at a file call of its start on pending changes",
        KillPoint::Calls => "under load at a file call, in groups and checkpoints",
        KillPoint::Stop => "while it stops and checkpoints",
        KillPoint::Settings => "while settings and indexes change under load",
    };
    let acknowledged = scene.acknowledged.load(Ordering::Relaxed);
    Finding::of(format!("{rounds} times kill -9 {when}")).bounded(
        acknowledged > 0,
        format!("{acknowledged} acknowledged changes, 0 lost, 0 by half, verify finds nothing"),
        "0, 0, nothing",
    )
}

impl Scene {
    fn new(name: &str, way: KillPoint, random: &mut fastrand::Rng) -> Scene {
        let scratch = Scratch::new(&format!("assault-kills-{name}"));
        let writers: Vec<Writer> =
            (0..WRITERS).map(|index| Writer::new(&format!("w{index}"), random.u64(..))).collect();
        let pando = Start::new(&scratch).ready();
        let mut admin = pando.administrator();
        plant_suffix(&mut admin);
        writers.iter().for_each(|writer| writer.plant(&mut admin));
        let settings = (way == KillPoint::Settings).then(|| SettingsWriter::new(random.u64(..)));
        // The server is killed for the first time directly after these changes.
        pando.kill();
        Scene { scratch, writers, settings, acknowledged: AtomicU64::new(0), way }
    }

    fn data(&self) -> PathBuf {
        Pando::data(&self.scratch).canonicalize().unwrap()
    }

    fn power(&self) -> PowerCut {
        PowerCut::new(&self.data(), &self.scratch.join("journal"))
    }

    fn round(&mut self, random: &mut fastrand::Rng) {
        match self.way {
            KillPoint::Load | KillPoint::Settings => {
                let pando = Start::new(&self.scratch).ready();
                self.write_and(&pando, random.u64(1..ACKNOWLEDGEMENTS_MAX), kill);
            }
            KillPoint::Start => {
                let pando = Start::new(&self.scratch).ready();
                self.write_and(&pando, random.u64(1..ACKNOWLEDGEMENTS_MAX), kill);
                // Repeats the start, so that a start finds the files that an earlier, killed start has left.
                for _ in 0..3 {
                    let power = self.power().kill_at(random.u64(1..START_CALLS_MAX));
                    // A server that becomes ready is killed when it is dropped.
                    drop(Start::new(&self.scratch).with(&power).ready_or_ended());
                }
            }
            KillPoint::Calls => {
                let power = self.power().kill_at(random.u64(1..CALLS_MAX));
                if let Ok(pando) = Start::new(&self.scratch).with(&power).ready_or_ended() {
                    self.write_and(&pando, u64::MAX, |_| ());
                }
            }
            KillPoint::Stop => {
                let pando = Start::new(&self.scratch).ready();
                let wait = Duration::from_micros(random.u64(..STOP_MICROS_MAX));
                self.write_and(&pando, BEFORE_A_STOP + random.u64(..ACKNOWLEDGEMENTS_MAX), |pando| {
                    pando.signal(Signal::TERM);
                    // The kill may come at any point of the stop, depending on the machine.
                    std::thread::sleep(wait);
                    kill(pando);
                });
            }
        }
    }

    /// Runs all writers. After `acknowledgements` acknowledgements, calls `then` to end the server, and waits until the
    /// writers have noticed the end.
    fn write_and(&mut self, pando: &Pando, acknowledgements: u64, then: impl FnOnce(&Pando)) {
        let address = pando.address();
        let (sender, receiver) = mpsc::channel();
        let (total, way) = (&self.acknowledged, self.way);
        let (writers, settings) = (&mut self.writers, &mut self.settings);
        std::thread::scope(|scope| {
            for writer in writers {
                let sender = sender.clone();
                scope.spawn(move || {
                    let refusal = writer.write_until_refused(address, &sender);
                    assert!(
                        refusal.is_none() || way == KillPoint::Stop,
                        "only one that stops refuses: {refusal:?}"
                    );
                });
            }
            if let Some(settings) = settings {
                let sender = sender.clone();
                scope.spawn(move || settings.write_until_the_end(address, &sender));
            }
            drop(sender);
            let mut then = Some(then);
            for count in 1.. {
                match receiver.recv_timeout(DEADLINE) {
                    Ok(()) => _ = total.fetch_add(1, Ordering::Relaxed),
                    Err(RecvTimeoutError::Disconnected) => break,
                    Err(RecvTimeoutError::Timeout) => {
                        panic!("no change is acknowledged any more\n{}", pando.log())
                    }
                }
                if count == acknowledgements
                    && let Some(then) = then.take()
                {
                    then(pando);
                }
            }
        });
    }

    /// Compares the server's data with the acknowledgements. If `stops` is true, stops the server in the end, so that
    /// the next start has nothing to replay.
    fn check(&mut self, stops: bool) {
        let pando = Start::new(&self.scratch).ready();
        let mut admin = pando.administrator();
        self.writers.iter_mut().for_each(|writer| writer.check(&mut admin));
        if let Some(settings) = &mut self.settings {
            settings.check(&mut admin);
        }
        drop(admin);
        if stops {
            assert!(pando.stop().success());
        }
    }
}

fn kill(pando: &Pando) {
    pando.signal(Signal::KILL);
}
