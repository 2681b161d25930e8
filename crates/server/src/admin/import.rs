//! `pando import`: the threads, files and counters around [`directory::import`].
//!
//! ```text
//!   reader --chunks of text--> preparers, one per core --rows--> builder: the new data file
//! ```
//!
//! The reader cuts the text at empty lines and numbers its records. Each preparer converts whole chunks to rows. The
//! builder is the calling thread. It writes entry rows in the order of the text, and then all rows that had to be
//! sorted. Bounded channels connect the threads, so that memory is bounded whichever thread is fastest.
//!
//! A refused record is copied to the rejects file with its original text. The text is read from the input file, or from
//! a temporary copy if the input is a stream.

mod early_sync;
mod pieces;
mod progress;
mod rejects;
mod source;
mod spares;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use directory::DirectorySettings;
use directory::import::{
    Builder, ImportError, ImportOptions, Job, LargeText, PreparedRows, Preparer, ROW_BLOCK_SIZE,
    RandomSource, Refusal, RefusedIds, Resolution, RowBlock, Rows, SortedRows, Sorters, Statistics, Text,
    resolve,
};
use directory::index_build::build_indexes;
use directory::replica::role_in;
use directory::settings::SettingsError;
use store::StoreError;

use crate::admin::ownership::FolderOwner;
use crate::admin::settings::{self, SettingsFile};
use crate::admin::verify::open_read_only;
use crate::config::Config;
use crate::error::ServeError;
use crate::limits::INDEX_BUILD_MEMORY;
use crate::open::Opened;
use crate::stamp::{Random, now_micros};
use early_sync::EarlySync;
use pieces::{PIECE_SIZE, Piece, Pieces};
use progress::{Phase, Progress};
use rejects::Rejects;
use source::Sources;
pub use source::{Input, InputData};
use spares::Spares;

/// Minimum memory of an import, in bytes.
const MEMORY_MIN: usize = 64 << 20;

/// Maximum number of blocks of rows that wait to be written.
const BLOCKS_MAX: usize = 64;

/// Divisor of the memory of an import. The quotient is the maximum memory of the blocks of rows that wait to be
/// written.
const BLOCKS_DIVISOR: usize = 16;

/// Number of blocks of rows, half a megabyte each, from one early sync to the next.
const BLOCKS_PER_SYNC: usize = 64;

/// Number of spare buffers per preparer.
const SPARES_PER_THREAD: usize = 4;

/// Divisor of the memory of an import. The quotient is the maximum size of a record that is read as a whole. A larger
/// record is read in parts.
const LARGE_RECORD_DIVISOR: usize = 32;

/// Default memory of an import, in bytes.
pub const MEMORY_DEFAULT: usize = 512 << 20;

/// Options of an import.
#[derive(Clone, Debug)]
pub struct Importing {
    /// Whether to drop the existing entries below the suffix. If both `replace` and `add` are false, there must be no
    /// entries below it.
    pub replace: bool,
    /// Whether to keep the existing entries below the suffix and add to them.
    pub add: bool,
    /// Whether to store clear passwords without hashing them.
    pub keep_clear_passwords: bool,
    /// New file for the records that are not imported. No file with this path may exist. `None` means a new file in the
    /// data directory.
    pub rejects: Option<PathBuf>,
    /// Attributes and object classes to leave out.
    pub leave_out: Vec<String>,
    /// Old and new names of attributes to rename.
    pub renamed: Vec<(String, String)>,
    /// Whether the settings include the schema of the server from which the data comes. Attributes that this schema
    /// defines for that server's own use are converted or left out in any case.
    pub has_foreign_schema: bool,
    /// Approximate maximum memory in bytes. Rows that do not fit are sorted in temporary files in the data directory.
    pub memory: usize,
}

/// Result of an import.
#[derive(Clone, Debug, Default)]
pub struct Imported {
    /// Counts of the input.
    pub statistics: Statistics,
    /// Number of values that were left out, by attribute or object class.
    pub left_out: BTreeMap<String, u64>,
    /// Number of stored passwords that cannot be verified, by scheme and form.
    pub unverifiable: BTreeMap<String, u64>,
    /// Number of secrets of other protocols by attribute. No bind uses them.
    pub other_secrets: BTreeMap<&'static str, u64>,
    /// Number of imported entries.
    pub entries: u64,
    /// Number of existing entries that were kept: the entries of other suffixes and, if `add` was set, the existing
    /// entries of the imported suffixes.
    pub carried_over: u64,
    /// Number of link values that name no entry.
    pub dangling: u64,
    /// Number of repeated values in very large attributes. Of equal values, only one is stored.
    pub repeated_values: u64,
    /// Number of records that were not imported, by the kind of reason.
    pub rejected: BTreeMap<Refusal, u64>,
    /// Problem with the default password policy in the settings, if the policy is not valid.
    pub policy_fault: Option<String>,
    /// Problems with password policies other than the default policy.
    pub policy_notices: Vec<String>,
    /// Violations of rules for entries and values in the imported data.
    pub violations: Vec<String>,
    /// Error after the new data was in place: of naming the rejects file, of the checks of policies and rules, or of
    /// the sort orders, which the next start builds.
    pub later_fault: Option<String>,
    /// File with the rejected records, if any were rejected.
    pub rejects_file: Option<PathBuf>,
    /// Number of bytes of text read.
    pub bytes: u64,
    /// Duration of the import in microseconds.
    pub micros: u64,
}

impl Imported {
    /// Returns the number of records that were not imported.
    pub fn rejected_count(&self) -> u64 {
        self.rejected.values().sum()
    }
}

/// Imports texts into a data directory that no other process has open, either completely or not at all.
///
/// If the directory does not exist, it is created with `settings` or with the defaults. The import loads the naming
/// contexts of `config`, or the whole directory if `config` names none.
///
/// # Errors
/// The data directory, a text or a setting cannot be used, or the disk is full or fails. In these cases the old data is
/// unchanged. An error after the new data is in place is in [`later_fault`](Imported::later_fault).
pub fn import(
    mut config: Config,
    settings: Option<&SettingsFile>,
    inputs: Vec<Input>,
    how: &Importing,
) -> Result<Imported, ServeError> {
    let _owner = FolderOwner::of(&config.data);
    refuse_replica(&config)?;
    let started = now_micros();
    if let Some(file) = settings {
        settings::begin(&mut config, file)?;
    }
    let (data, creator) = (config.data.clone(), config.admin_dn.as_str().to_owned());
    let suffixes: Vec<String> = config.suffixes.iter().map(|suffix| suffix.as_str().to_owned()).collect();
    let mut random = Random::default();
    let rejects = Rejects::new(how.rejects.clone(), &data)?;
    config.admin_password = None;
    let imported_to = config.clone();
    // This creates the directory and its naming contexts if they do not exist.
    drop(Opened::open_as_is(config)?);
    let failed = |error| ServeError::Import { path: data.clone(), error };
    let builder = Builder::create(&data, &store::Options::default()).map_err(failed)?;
    let options = ImportOptions {
        suffixes,
        replace: how.replace,
        add: how.add,
        keep_clear_passwords: how.keep_clear_passwords,
        creator,
        now_micros: started,
        leave_out: how.leave_out.clone(),
        renamed: how.renamed.clone(),
        has_foreign_schema: how.has_foreign_schema,
    };
    let job = Job::begin(builder.old(), options).map_err(failed)?;
    let sources = Sources::new(inputs, &data)?;
    let generation = random.bytes()?;
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZeroUsize::get);
    let spares = Spares::new(SPARES_PER_THREAD * threads, 2 * PIECE_SIZE);
    let memory = how.memory.max(MEMORY_MIN);
    let run = Run { job: &job, sources: &sources, data: &data, memory, threads, spares: &spares };
    let mut imported = run.run(builder, rejects, generation)?;
    conclude(imported_to, &mut imported);
    imported.micros = now_micros().saturating_sub(started);
    Ok(imported)
}

/// Refuses an import into the data of a replica, or of a writer that another server has replaced. Other problems are
/// reported when the directory is opened.
///
/// # Errors
/// Another server is the writer of the data.
pub fn refuse_replica(config: &Config) -> Result<(), ServeError> {
    let role = role_in(&config.data).ok().flatten();
    if role.is_none_or(|role| role.may_write()) {
        return Ok(());
    }
    Err(ServeError::Import { path: config.data.clone(), error: ImportError::Replica })
}

/// Checks the new data, and builds its sort orders. An error does not undo the import, and is noted in `imported`.
fn conclude(config: Config, imported: &mut Imported) {
    let done = examine_rules(&config, imported).and_then(|has_sort_orders| {
        if has_sort_orders {
            let data = config.data.clone();
            let mut opened = Opened::open_for_reading(config)?;
            build_indexes(opened.writer().0, &data, INDEX_BUILD_MEMORY, |_| ())?;
        }
        Ok(())
    });
    if let Err(error) = done {
        imported.later_fault.get_or_insert(error.to_string());
    }
}

/// Checks the policies in the imported data, and the rules for entries and values. A problem does not undo the import.
/// Returns true if there are sort orders to build.
fn examine_rules(config: &Config, imported: &mut Imported) -> Result<bool, ServeError> {
    let directory = open_read_only(config)?;
    let state = directory.state();
    imported.policy_notices = directory::settings::policy_notices(state)?;
    let settings = DirectorySettings::of(state.catalog);
    imported.violations = directory::violations::violations(state, &settings)?;
    match directory::settings::notes(state, &settings) {
        Ok(notes) => imported.policy_notices.extend(notes),
        Err(SettingsError::Operation(error)) => return Err(error.into()),
        Err(other) => imported.policy_fault = Some(other.to_string()),
    }
    Ok(!settings.general.sort_orders.is_empty())
}

/// An import in progress.
struct Run<'r> {
    job: &'r Job,
    sources: &'r Sources,
    data: &'r PathBuf,
    memory: usize,
    /// Number of preparers.
    threads: usize,
    /// Spare buffers for texts and rows.
    spares: &'r Spares,
}

/// The new data while it is being made.
struct NewData {
    builder: Builder,
    rejects: Rejects,
    imported: Imported,
    progress: Progress,
}

impl<'r> Run<'r> {
    fn failed(&self, error: ImportError) -> ServeError {
        ServeError::Import { path: self.data.clone(), error }
    }

    fn run(&self, builder: Builder, rejects: Rejects, generation: [u8; 16]) -> Result<Imported, ServeError> {
        let early_sync = builder.new_file().and_then(EarlySync::of);
        let early_sync = early_sync.map_err(|error| self.failed(error.into()))?;
        let progress = Progress::new(self.sources.total_bytes());
        let mut making = NewData { builder, rejects, imported: Imported::default(), progress };
        // The preparers get five eighths of the memory. The rest is for chunks of text, for pages, and for the two
        // sorters that are filled while the preparers' sorters are read.
        let mut carried = Sorters::new(self.data, self.memory / 16);
        let carried_over = making.builder.carry_over(self.job, &mut carried);
        making.imported.carried_over = carried_over.map_err(|error| self.failed(error))?;
        let mut sorters = self.prepare(&mut making)?;
        // All entries are written now. A core is idle while names are resolved, so the sync costs no time.
        early_sync.request();
        sorters.push(carried);
        let (mut rows, names): (Vec<Rows>, Vec<_>) =
            sorters.into_iter().map(|sorters| (sorters.rows, sorters.names)).unzip();
        let progress = &mut making.progress;
        progress.begin(Phase::Names, making.imported.statistics.records);
        let mut resolved_rows = Rows::new(self.data, self.memory / 8);
        let outcomes = store::Sorter::new(self.data, self.memory / 16);
        let resolved = std::thread::scope(|scope| {
            let (sender, blocks) = sync_channel(self.blocks_max());
            scope.spawn(move || hand_over(SortedRows::merge_names(names), &sender));
            resolve(self.job, blocks.into_iter(), &mut resolved_rows, outcomes, |count| progress.at(count))
        })
        .map_err(|error| self.failed(error))?;
        making.imported.dangling = resolved.dangling;
        rows.push(resolved_rows);
        std::thread::scope(|scope| {
            // The merge runs while the tree is written. The merge waits when its channel is full.
            let (sender, blocks) = sync_channel(self.blocks_max());
            scope.spawn(move || hand_over(SortedRows::merge(rows), &sender));
            let refused = self.write_tree(&mut making, resolved)?;
            let NewData { builder, imported, progress, .. } = &mut making;
            if imported.entries == 0 {
                return Ok(());
            }
            progress.begin(Phase::Rows, 0);
            early_sync.request();
            let blocks = blocks.into_iter().enumerate().map(|(number, block)| {
                if number % BLOCKS_PER_SYNC == BLOCKS_PER_SYNC - 1 {
                    early_sync.request();
                }
                block
            });
            let written = builder.write_rows(blocks, &refused, |count| progress.at(count));
            imported.repeated_values = written.map_err(|error| self.failed(error))?;
            Ok::<(), ServeError>(())
        })?;
        let NewData { builder, rejects, mut imported, mut progress } = making;
        if imported.entries == 0 {
            let reason = rejects.first_reason().to_owned();
            rejects.keep()?;
            return Err(ServeError::NothingImported { reason, rejects: imported.rejects_file });
        }
        imported.bytes = progress.bytes();
        progress.begin(Phase::Sync, 0);
        drop(early_sync);
        builder.finish(self.job, generation, now_micros()).map_err(|error| self.failed(error))?;
        // The new data is in place from here on.
        imported.later_fault = rejects.keep().err().map(|error| error.to_string());
        progress.end();
        Ok(imported)
    }

    /// Returns the capacity of a channel for blocks of rows.
    fn blocks_max(&self) -> usize {
        (self.memory / BLOCKS_DIVISOR / ROW_BLOCK_SIZE).clamp(2, BLOCKS_MAX)
    }

    /// Writes the tree of entries. Writes records that cannot be part of the tree, for example without a superior, to
    /// the rejects file.
    fn write_tree(&self, making: &mut NewData, resolved: Resolution) -> Result<RefusedIds, ServeError> {
        let NewData { builder, rejects, imported, progress } = making;
        progress.begin(Phase::Tree, imported.statistics.records);
        let mut not_written = None;
        let refused = builder
            .place(resolved, |rejected| {
                *imported.rejected.entry(rejected.refusal).or_default() += 1;
                rejects.add(self.sources, &rejected).map_err(|error| {
                    not_written = Some(error);
                    ImportError::File(std::io::ErrorKind::Other.into())
                })
            })
            .map_err(|error| not_written.take().unwrap_or_else(|| self.failed(error)))?;
        imported.entries = builder.count() - refused.count();
        imported.rejects_file = rejects.finish()?;
        Ok(refused)
    }

    /// Reads all texts and writes all entry rows.
    fn prepare(&self, making: &mut NewData) -> Result<Vec<Sorters>, ServeError> {
        let threads = self.threads;
        let memory = self.memory / 8 * 5 / threads;
        let stopped = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (piece_sender, piece_receiver) = sync_channel(threads);
            let (done_sender, done_receiver) = sync_channel(threads);
            // The channel has room for a chunk per thread, and for finished chunks that wait for an earlier chunk.
            let (ticket_sender, ticket_receiver) = sync_channel(4 * threads);
            let piece_receiver = Arc::new(Mutex::new(piece_receiver));
            let stopped = &stopped;
            let reader = scope.spawn(move || self.read(&piece_sender, &ticket_sender, stopped));
            let preparers: Vec<_> = (0..threads)
                .map(|_| {
                    let (pieces, done) = (Arc::clone(&piece_receiver), done_sender.clone());
                    scope.spawn(move || {
                        let prepared = self.prepare_pieces(memory, &pieces, &done);
                        stopped.fetch_or(prepared.is_err(), Ordering::Relaxed);
                        prepared
                    })
                })
                .collect();
            drop((piece_receiver, done_sender));
            // If writing fails, this call drops the receivers. The threads that send to them then end.
            let written = self.write(making, done_receiver, ticket_receiver);
            let prepared: Vec<_> = preparers.into_iter().map(|thread| joined(thread.join())).collect();
            let read = joined(reader.join());
            // If a preparer fails, the other threads end without an error. Therefore the results of the preparers are
            // checked first.
            let sorters = prepared.into_iter().collect::<Result<Vec<_>, _>>()?;
            read?;
            written?;
            Ok(sorters)
        })
    }

    /// Main function of the reader's thread.
    fn read(
        &self,
        pieces: &SyncSender<Piece<'r>>,
        tickets: &SyncSender<()>,
        stopped: &AtomicBool,
    ) -> Result<(), ServeError> {
        let mut next_id = self.job.first_id();
        let mut sequence = 0;
        for source in self.sources.iter() {
            let mut text = Pieces::new(source, self.spares, self.memory / LARGE_RECORD_DIVISOR);
            while let Some(mut piece) = text.next()? {
                piece.sequence = sequence;
                piece.first_id = next_id;
                sequence += 1;
                next_id += piece.record_count;
                let is_over = stopped.load(Ordering::Relaxed);
                if is_over || tickets.send(()).is_err() || pieces.send(piece).is_err() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Main function of a preparer's thread.
    fn prepare_pieces(
        &self,
        memory: usize,
        pieces: &Mutex<Receiver<Piece<'r>>>,
        done: &SyncSender<(Piece<'r>, PreparedRows)>,
    ) -> Result<Sorters, ServeError> {
        let failed = |error| self.failed(error);
        let mut preparer = Preparer::new(self.job, self.data, memory, random_source()).map_err(failed)?;
        loop {
            let piece = pieces.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(mut piece) = piece else { break };
            let Piece { offset, line, length, source, first_id, .. } = piece;
            let prepared = if piece.bytes.is_empty() {
                let open = || source.range(offset, length);
                let text =
                    LargeText { source: source.number, offset, length, line, id: first_id, open: &open };
                preparer.prepare_large(&text).map_err(failed)?
            } else {
                preparer.reuse_buffer(self.spares.take());
                let text = Text { source: source.number, offset, line, first_id, bytes: &piece.bytes };
                preparer.prepare(&text).map_err(failed)?
            };
            self.spares.give(std::mem::take(&mut piece.bytes));
            if done.send((piece, prepared)).is_err() {
                break;
            }
        }
        preparer.into_sorters().map_err(failed)
    }

    /// Writes entry rows in the order of the text.
    fn write(
        &self,
        NewData { builder, rejects, imported, progress }: &mut NewData,
        done: Receiver<(Piece<'_>, PreparedRows)>,
        tickets: Receiver<()>,
    ) -> Result<(), ServeError> {
        let mut early = BTreeMap::new();
        let mut next = 0;
        for (piece, prepared) in done {
            early.insert(piece.sequence, (piece, prepared));
            while let Some((piece, prepared)) = early.remove(&next) {
                next += 1;
                // This call does not wait, because the reader has sent the ticket before the chunk.
                let _ = tickets.recv();
                builder.take(&prepared).map_err(|error| self.failed(error))?;
                for rejected in &prepared.rejected {
                    *imported.rejected.entry(rejected.refusal).or_default() += 1;
                    rejects.add(self.sources, rejected)?;
                }
                imported.statistics.add(&prepared.statistics);
                for (form, count) in &prepared.unverifiable {
                    *imported.unverifiable.entry(form.clone()).or_default() += count;
                }
                for (name, count) in &prepared.other_secrets {
                    *imported.other_secrets.entry(name).or_default() += count;
                }
                for (place, count) in &prepared.left_out {
                    let name = self.job.left_out_name(*place).to_owned();
                    *imported.left_out.entry(name).or_default() += count;
                }
                progress.read(imported.statistics.records, piece.length);
                self.spares.give(prepared.into_buffer());
            }
        }
        Ok(())
    }
}

/// Merges rows and sends them until the receiver is dropped. If the merge fails, sends the error.
fn hand_over(sorted: Result<SortedRows, StoreError>, blocks: &SyncSender<Result<RowBlock, ImportError>>) {
    let merged = sorted.map_err(ImportError::from).and_then(|mut sorted| {
        while let Some(block) = sorted.next_block()? {
            if blocks.send(Ok(block)).is_err() {
                break;
            }
        }
        Ok(())
    });
    if let Err(error) = merged {
        // Sending fails if the receiver was dropped. In that case the receiving thread has another error.
        let _ = blocks.send(Err(error));
    }
}

/// Returns the result of a thread. A panic becomes an error.
fn joined<T>(result: std::thread::Result<Result<T, ServeError>>) -> Result<T, ServeError> {
    result.unwrap_or_else(|_| Err(ServeError::Panicked("import".to_owned())))
}

fn random_source() -> RandomSource {
    let mut random = Random::default();
    Box::new(move || random.bytes().map_err(|error| error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: such an error was reported as that of an import that had changed nothing.
    #[test]
    fn an_error_after_the_data_is_in_place_is_a_part_of_the_result() {
        let mut imported = Imported { entries: 1, ..Imported::default() };
        conclude(Config::new("/nonexistent/pando"), &mut imported);
        assert!(imported.later_fault.unwrap().contains("/nonexistent/pando"));
        assert_eq!(imported.entries, 1);
    }
}
