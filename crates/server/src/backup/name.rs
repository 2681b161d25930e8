//! Names of backup files.

/// End of the name of a backup file that is not encrypted.
const ENDING: &str = ".pando";
/// Additional suffix of the name of an encrypted file.
const ENCRYPTED: &str = ".age";
/// Additional suffix of the name of the checksum file of an encrypted file.
const CHECKSUM: &str = ".sha256";
/// Additional suffix of the name of a file that is being written.
pub(crate) const PARTIAL: &str = ".partial";

/// Kind of content of a backup file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// All rows, read at one position.
    Rows,
    /// The records in a range of positions.
    Changes,
}

impl Kind {
    const ALL: [(Kind, &'static str); 2] = [(Kind::Rows, "rows"), (Kind::Changes, "changes")];

    pub(crate) fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(kind, _)| *kind == self).map_or("", |(_, name)| name)
    }

    pub(crate) fn named(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }
}

/// The properties of a backup file that its name contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Sequence number of the file within its backup.
    pub(crate) sequence: u64,
    /// Time at which the data was read, in seconds since 1970.
    pub(crate) seconds: u64,
    pub(crate) kind: Kind,
    /// Position of the last record that the file contains.
    pub(crate) position: u64,
    pub(crate) is_encrypted: bool,
}

impl Part {
    /// Returns the name of the file. The time in it has the format of ISO 8601 without separators.
    pub(crate) fn file_name(&self) -> String {
        let Part { sequence, seconds, kind, position, is_encrypted } = self;
        let mut time = directory::csn::generalized_time(*seconds);
        time.insert(8.min(time.len()), 'T');
        let encrypted = if *is_encrypted { ENCRYPTED } else { "" };
        format!("{sequence:08}-{time}-{}-{position}{ENDING}{encrypted}", kind.name())
    }

    /// Returns the name of the checksum file. Only an encrypted file has a checksum file.
    pub(crate) fn checksum_name(&self) -> String {
        self.file_name() + CHECKSUM
    }

    /// Parses the name of a backup file. Returns `None` for any other name.
    pub(crate) fn of_name(name: &str) -> Option<Part> {
        let plain = name.strip_suffix(ENCRYPTED);
        let is_encrypted = plain.is_some();
        let mut words = plain.unwrap_or(name).strip_suffix(ENDING)?.split('-');
        let (sequence, time, kind, position) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let (date, clock) = time.split_once('T')?;
        let time = directory::csn::unix_seconds(&[date, clock].concat())?;
        let part = Part {
            sequence: sequence.parse().ok()?,
            seconds: time,
            kind: Kind::named(kind)?,
            position: position.parse().ok()?,
            is_encrypted,
        };
        // Only the one name that `file_name` returns is valid.
        (part.file_name() == name).then_some(part)
    }
}

/// Returns the name of the backup file to which a checksum file belongs. Returns `None` if `name` is not the name of a
/// checksum file.
pub(crate) fn checked_by(name: &str) -> Option<&str> {
    name.strip_suffix(CHECKSUM).filter(|name| Part::of_name(name).is_some_and(|part| part.is_encrypted))
}

/// Returns true if `name` is the name of a partial file, which an interrupted run has left.
pub(crate) fn is_left_over(name: &str) -> bool {
    name.strip_suffix(PARTIAL).is_some_and(|name| Part::of_name(name).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_determine_the_kind_of_a_file() {
        let part = Part {
            sequence: 17,
            seconds: 1_795_616_103,
            kind: Kind::Changes,
            position: 1_310,
            is_encrypted: false,
        };
        let name = part.file_name();
        assert_eq!(name, "00000017-20261125T141503Z-changes-1310.pando");
        assert_eq!(Part::of_name(&name).as_ref(), Some(&part));
        assert_eq!(checked_by(&part.checksum_name()), None);
        let encrypted = Part { is_encrypted: true, ..part };
        let name = encrypted.file_name();
        assert_eq!(name, "00000017-20261125T141503Z-changes-1310.pando.age");
        assert_eq!(checked_by(&encrypted.checksum_name()), Some(&name[..]));
        assert_eq!(Part::of_name(&encrypted.checksum_name()), None);
        assert_eq!(Part::of_name(&name), Some(encrypted));
        for other in [
            "17-20261125T141503Z-changes-1310.pando",
            "00000017-20261125T141503Z-changes-1310.pando.partial",
            "00000017-20261125T141503Z-changes-1310.age",
            "00000017-20261125141503Z-changes-1310.pando",
            "00000017-20261325T141503Z-changes-1310.pando",
            "00000017-20261125T141503Z-change-1310.pando",
            "00000017-20261125T141503Z-changes-01310.pando",
            "00000017-20261125T141503Z-changes-1310-2.pando",
            "lock",
            "",
        ] {
            assert_eq!(Part::of_name(other), None, "{other}");
            assert_eq!(is_left_over(other), other.ends_with(PARTIAL), "{other}");
        }
    }
}
