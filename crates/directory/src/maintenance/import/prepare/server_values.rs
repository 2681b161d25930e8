//! Operational attributes that an import adds to entries without them: entryUUID, entryCSN, creator, modifier and
//! times.
//!
//! Of the six values, four are equal for all entries whose CSNs are in the same second. These four values are
//! formatted, checked and normalized once per second instead of once per entry. The normal forms of the other two
//! values are computed only if these forms are indexed.

#![expect(clippy::indexing_slicing, reason = "places are those of NAMES, and a UUID has sixteen bytes")]

use std::fmt::Write as _;

use schema::AttributeDescription;
use uuid::Uuid;

use super::{Preparer, RandomSource};
use crate::model::csn::Csn;
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::write::deciding::{change_values, creation_values};
use crate::write::given_values::check_value;

/// Names of the attributes, in the order of [`creation_values`] and [`change_values`].
const NAMES: [&str; 6] =
    ["entryUUID", "creatorsName", "createTimestamp", "entryCSN", "modifiersName", "modifyTimestamp"];

/// Places in `NAMES` of the two attributes whose values differ in every entry.
const UUID_PLACE: usize = 0;
const CSN_PLACE: usize = 3;

/// Values for the current entry.
pub(super) struct ServerValues {
    /// Places of the attributes among known attributes; `None` if the schema does not define an attribute.
    places: [Option<usize>; NAMES.len()],
    values: [Value; NAMES.len()],
    /// The second since 1970 for which the values were formatted.
    second: Option<u64>,
}

#[derive(Default)]
struct Value {
    text: String,
    normal: Vec<u8>,
}

impl Preparer<'_> {
    /// Adds to the draft the operational attributes that the text lacks.
    pub(super) fn complete(&mut self, id: EntryId) -> Result<(), OperationError> {
        let mut server_values = match self.server_values.take() {
            Some(server_values) => server_values,
            None => ServerValues::new(self)?,
        };
        let completed = self.complete_from(&mut server_values, id);
        self.server_values = Some(server_values);
        completed
    }

    fn complete_from(&mut self, server_values: &mut ServerValues, id: EntryId) -> Result<(), OperationError> {
        let brought =
            server_values.places.map(|place| place.filter(|place| self.draft.find(*place).is_some()));
        if let Some(place) = brought[UUID_PLACE] {
            self.note_uuid(place, id)?;
        }
        if brought != server_values.places {
            let csn = self.job.csn(id);
            server_values.make(self, csn)?;
            for ((value, place), brought) in
                server_values.values.iter().zip(server_values.places).zip(brought)
            {
                let Some(place) = place.filter(|_| brought.is_none()) else { continue };
                let number = self.draft.attribute(place);
                if self.resolved.at(place).spares_normals() {
                    self.draft.add_alone(number, value.text.as_bytes());
                    continue;
                }
                self.draft.add(number, value.text.as_bytes(), |_, normal| {
                    normal.extend_from_slice(&value.normal);
                    Ok::<(), OperationError>(())
                })?;
            }
            if brought[CSN_PLACE].is_none() {
                self.latest_csn = self.latest_csn.max(csn);
            }
        }
        let brought = brought[CSN_PLACE].and_then(|place| self.draft.find(place));
        for (value, _) in brought.iter().flat_map(|attribute| self.draft.values(attribute)) {
            let csn = std::str::from_utf8(value).ok().and_then(Csn::parse).unwrap_or_default();
            self.latest_csn = self.latest_csn.max(csn);
        }
        Ok(())
    }
}

impl Preparer<'_> {
    /// Adds to the sorter of names the entryUUID that the text contains for an entry. `place` is the index of the
    /// attribute among known attributes.
    fn note_uuid(&mut self, place: usize, id: EntryId) -> Result<(), OperationError> {
        let Some(attribute) = self.draft.find(place) else { return Ok(()) };
        let uuid =
            self.draft.values(attribute).next().and_then(|(value, _)| Uuid::try_parse_ascii(value).ok());
        let noted = uuid.map_or(Ok(()), |uuid| self.sorters.names.uuid(uuid, id));
        noted.map_err(|error| OperationError::Damaged(error.to_string()))
    }
}

impl ServerValues {
    fn new(preparer: &mut Preparer<'_>) -> Result<ServerValues, OperationError> {
        let mut places = [None; NAMES.len()];
        for (place, name) in places.iter_mut().zip(NAMES) {
            if let Some(attribute_type) = preparer.job.schema.attribute_type(name) {
                let description = AttributeDescription::of(attribute_type.id);
                *place = Some(preparer.resolved.place(preparer.job, &description)?);
            }
        }
        Ok(ServerValues { places, values: Default::default(), second: None })
    }

    /// Formats the values for an entry.
    fn make(&mut self, preparer: &mut Preparer<'_>, csn: Csn) -> Result<(), OperationError> {
        let uuid = Uuid::from_bytes(version_4(random(&mut preparer.random)?));
        let second = csn.micros / 1_000_000;
        if self.second != Some(second) {
            self.second = None;
            let creator = &preparer.job.creator;
            let server_values = creation_values(uuid.to_string(), creator, csn);
            for (place, (name, text)) in
                server_values.into_iter().chain(change_values(creator, csn)).enumerate()
            {
                debug_assert_eq!(name, NAMES[place]);
                self.values[place].text = text;
                self.check(preparer, place)?;
            }
            self.second = Some(second);
            return Ok(());
        }
        let text = &mut self.values[UUID_PLACE].text;
        text.clear();
        text.push_str(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
        let text = &mut self.values[CSN_PLACE].text;
        text.clear();
        let _ = write!(text, "{csn}");
        for place in [UUID_PLACE, CSN_PLACE] {
            if !self.places[place].is_some_and(|resolved| preparer.resolved.at(resolved).spares_normals()) {
                self.check(preparer, place)?;
            }
        }
        Ok(())
    }

    /// Checks a value and computes its normal form.
    fn check(&mut self, preparer: &Preparer<'_>, place: usize) -> Result<(), OperationError> {
        let Some(resolved) = self.places[place] else { return Ok(()) };
        let description = &preparer.resolved.at(resolved).def.description;
        let Value { text, normal } = &mut self.values[place];
        normal.clear();
        check_value(&preparer.job.schema, description, 1, text.as_bytes(), normal)
    }
}

/// Returns sixteen random bytes.
pub(super) fn random(source: &mut RandomSource) -> Result<[u8; 16], OperationError> {
    source().map_err(|reason| OperationError::Damaged(format!("no random numbers: {reason}")))
}

/// Converts random bytes to a UUID of version 4 (RFC 9562 section 5.4).
fn version_4(mut bytes: [u8; 16]) -> [u8; 16] {
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}
