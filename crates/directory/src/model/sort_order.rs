//! State of a sort order in `meta`: its definition, and the progress of building or removing its rows.

use crate::model::codec::{Decoder, put_bytes};
use crate::model::index_definition::Phase;

/// Row of a sort order in `meta`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SortOrderRow {
    /// Definition as written in the settings.
    pub(crate) text: String,
    pub(crate) phase: Phase,
    /// Highest entry id whose rows exist, while the rows are built.
    pub(crate) built_to: u64,
}

/// Version of the row. The version is the first byte of the row.
const ROW_VERSION: u8 = 1;

impl SortOrderRow {
    /// Returns the row of a sort order that enters a phase.
    pub(crate) fn of(text: &str, phase: Phase) -> SortOrderRow {
        SortOrderRow { text: text.to_owned(), phase, built_to: 0 }
    }

    /// Returns true if changes of entries must maintain the rows of the order.
    pub(crate) fn is_maintained(&self) -> bool {
        matches!(self.phase, Phase::Building | Phase::Complete)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![ROW_VERSION, self.phase.number()];
        out.extend_from_slice(&self.built_to.to_be_bytes());
        put_bytes(&mut out, self.text.as_bytes());
        out
    }

    /// Decodes a row; `None` if it is damaged or its version is unknown.
    pub(crate) fn decode(bytes: &[u8]) -> Option<SortOrderRow> {
        let mut decoder = Decoder(bytes);
        if decoder.byte()? != ROW_VERSION {
            return None;
        }
        let phase = Phase::of(decoder.byte()?)?;
        let built_to = u64::from_be_bytes(decoder.take(8)?.try_into().ok()?);
        let text = decoder.string()?;
        decoder.is_empty().then_some(SortOrderRow { text, phase, built_to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_round_trip_and_damage_never_panics() {
        let row = SortOrderRow { built_to: 77, ..SortOrderRow::of("names: sn, givenName", Phase::Building) };
        let bytes = row.encode();
        assert_eq!(SortOrderRow::decode(&bytes), Some(row));
        for end in 0..bytes.len() {
            assert_eq!(SortOrderRow::decode(&bytes[..end]), None);
        }
    }
}
