//! Rows as a stream of bytes, as used in backups: [`StreamWriter`] accepts the rows of [`copy`](crate::copy()), and
//! [`read_stream`] passes them to any [`RowSink`]. The format depends neither on the engine nor on the order of a
//! program's maps.
//!
//! Items follow each other; all integers are unsigned and big-endian. There is no checksum: the container of a stream
//! has a checksum.
//!
//! ```text
//! 1 map      length (1)  name                 map of the rows that follow
//! 2 row      length of the key (2)  length of the value (4)  key  value
//! 3 ids      length of the key (2)  count (4)  key  ids (8 each)
//! 4 counter  length of the key (2)  count (8, two's complement)  key
//! 5 log      position of the first record that follows (8)
//! 6 record   length (4)  record
//! 7 end      number of items before this one (8)
//! ```

use std::io::{self, Read, Write};

use crate::copy::RowSink;
use crate::maps::{MapId, MapKind, MapSpec};
use crate::{Position, Result, StoreError};

const MAP: u8 = 1;
const ROW: u8 = 2;
const IDS: u8 = 3;
const COUNTER: u8 = 4;
const LOG: u8 = 5;
const RECORD: u8 = 6;
const END: u8 = 7;

const ID_LEN: usize = size_of::<u64>();

/// Reason why a stream cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// The store failed, or does not accept the rows of the stream.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Writing or reading the bytes failed.
    #[error(transparent)]
    Bytes(#[from] io::Error),
    /// The bytes are not a stream, or are incomplete.
    #[error("what is stored is damaged: {0}")]
    Damaged(&'static str),
}

/// Writer of rows. [`finish`](StreamWriter::finish) marks the stream as complete.
pub struct StreamWriter<W> {
    out: W,
    maps: &'static [MapSpec],
    /// Map of the last row.
    map: Option<MapId>,
    items: u64,
}

impl<W: Write> StreamWriter<W> {
    /// Begins a stream of rows of these maps.
    pub fn new(maps: &'static [MapSpec], out: W) -> StreamWriter<W> {
        StreamWriter { out, maps, map: None, items: 0 }
    }

    /// Ends the stream.
    ///
    /// # Errors
    /// The end cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[END])?;
        self.out.write_all(&self.items.to_be_bytes())?;
        Ok(self.out)
    }

    fn item(&mut self, kind: u8, parts: [&[u8]; 4]) -> Result<(), StreamError> {
        self.out.write_all(&[kind])?;
        for part in parts {
            self.out.write_all(part)?;
        }
        self.items += 1;
        Ok(())
    }

    fn in_map(&mut self, map: MapId) -> Result<(), StreamError> {
        if self.map == Some(map) {
            return Ok(());
        }
        self.map = Some(map);
        let name = crate::maps::Map::users(self.maps, map).spec.name.as_bytes();
        self.item(MAP, [&length::<1>(name.len())?, name, &[], &[]])
    }
}

/// Returns a length as `N` bytes.
fn length<const N: usize>(length: usize) -> io::Result<[u8; N]> {
    let bytes = (length as u64).to_be_bytes();
    let (above, bytes) = bytes.split_last_chunk::<N>().ok_or(io::ErrorKind::InvalidInput)?;
    if above.iter().any(|byte| *byte != 0) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    Ok(*bytes)
}

impl<W: Write> RowSink for StreamWriter<W> {
    type Error = StreamError;

    fn row(&mut self, map: MapId, key: &[u8], value: &[u8]) -> Result<(), StreamError> {
        self.in_map(map)?;
        self.item(ROW, [&length::<2>(key.len())?, &length::<4>(value.len())?, key, value])
    }

    fn ids(&mut self, map: MapId, key: &[u8], ids: &[u64]) -> Result<(), StreamError> {
        self.in_map(map)?;
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_be_bytes()).collect();
        self.item(IDS, [&length::<2>(key.len())?, &length::<4>(ids.len())?, key, &bytes])
    }

    fn counter(&mut self, key: &[u8], count: i64) -> Result<(), StreamError> {
        self.item(COUNTER, [&length::<2>(key.len())?, &count.to_be_bytes(), key, &[]])
    }

    fn log_start(&mut self, position: Position) -> Result<(), StreamError> {
        self.item(LOG, [&position.to_be_bytes(), &[], &[], &[]])
    }

    fn record(&mut self, record: &[u8]) -> Result<(), StreamError> {
        self.item(RECORD, [&length::<4>(record.len())?, record, &[], &[]])
    }
}

/// Passes the rows of a stream to `sink`. No byte may follow the end of the stream.
///
/// # Errors
/// The bytes cannot be read, are not a complete stream, or belong to a map that is not among `maps`; or the error of
/// `sink`.
pub fn read_stream<S: RowSink, E: From<StreamError> + From<S::Error>>(
    input: &mut impl Read,
    maps: &'static [MapSpec],
    sink: &mut S,
) -> Result<(), E> {
    let mut reader = Reader { input, key: Vec::new(), value: Vec::new(), ids: Vec::new() };
    let mut map = None;
    let mut items = 0_u64;
    loop {
        match reader.number::<1>()? {
            kind if kind == u64::from(MAP) => map = Some(reader.map(maps)?),
            kind if kind == u64::from(ROW) => {
                let map = map.filter(|(_, kind)| *kind == MapKind::Plain);
                let (key, value) = (reader.number::<2>()?, reader.number::<4>()?);
                reader.take(key, value)?;
                sink.row(map.ok_or(NO_MAP)?.0, &reader.key, &reader.value)?;
            }
            kind if kind == u64::from(IDS) => {
                let map = map.filter(|(_, kind)| *kind == MapKind::IdSet);
                let (key, count) = (reader.number::<2>()?, reader.number::<4>()?);
                reader.take(key, count * ID_LEN as u64)?;
                let ids = reader.value.as_chunks::<ID_LEN>().0;
                reader.ids.clear();
                reader.ids.extend(ids.iter().map(|id| u64::from_be_bytes(*id)));
                sink.ids(map.ok_or(NO_MAP)?.0, &reader.key, &reader.ids)?;
            }
            kind if kind == u64::from(COUNTER) => {
                let (key, count) = (reader.number::<2>()?, reader.number::<8>()?);
                reader.take(key, 0)?;
                sink.counter(&reader.key, count.cast_signed())?;
            }
            kind if kind == u64::from(LOG) => sink.log_start(reader.number::<8>()?)?,
            kind if kind == u64::from(RECORD) => {
                let length = reader.number::<4>()?;
                reader.take(0, length)?;
                sink.record(&reader.value)?;
            }
            kind if kind == u64::from(END) => break,
            _ => return Err(StreamError::Damaged("an item of an unknown kind").into()),
        }
        items += 1;
    }
    if reader.number::<8>()? != items {
        return Err(StreamError::Damaged("items are missing").into());
    }
    match reader.input.read(&mut [0]).map_err(StreamError::from)? {
        0 => Ok(()),
        _ => Err(StreamError::Damaged("something follows the end").into()),
    }
}

const NO_MAP: StreamError = StreamError::Damaged("rows of no map, or of one of another kind");

struct Reader<'r, R> {
    input: &'r mut R,
    key: Vec<u8>,
    value: Vec<u8>,
    ids: Vec<u64>,
}

impl<R: Read> Reader<'_, R> {
    fn number<const N: usize>(&mut self) -> Result<u64, StreamError> {
        let mut bytes = [0; N];
        self.input.read_exact(&mut bytes)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Reads the next key and value, given their lengths. The buffers grow with the bytes that arrive, so a false
    /// length allocates no memory.
    fn take(&mut self, key: u64, value: u64) -> Result<(), StreamError> {
        for (length, into) in [(key, &mut self.key), (value, &mut self.value)] {
            into.clear();
            if self.input.by_ref().take(length).read_to_end(into)? as u64 != length {
                return Err(StreamError::Damaged("it ends within an item"));
            }
        }
        Ok(())
    }

    fn map(&mut self, maps: &'static [MapSpec]) -> Result<(MapId, MapKind), StreamError> {
        let length = self.number::<1>()?;
        self.take(0, length)?;
        let known = maps.iter().position(|map| map.name.as_bytes() == self.value);
        let index = known.ok_or(StreamError::Damaged("rows of a map that this program does not know"))?;
        let kind = maps.get(index).map(|map| map.kind).ok_or(NO_MAP)?;
        Ok((MapId::new(index), kind))
    }
}
