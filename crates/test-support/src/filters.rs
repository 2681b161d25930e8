//! Random filters for the tree in `differential/01-tree.ops`.

use super::SUFFIX;

/// Attribute types, with values from which filters are made: existing values, missing ones, and invalid ones.
///
/// The filters do not contain types for which slapd's answers differ for reasons given in `differential/02-filters.ops`
/// (userPassword, structuralObjectClass, subschemaSubentry). They do not contain approximate matches, which each server
/// defines differently. They do not contain spaces at the ends of substrings, which slapd removes and Pando prepares
/// according to RFC 4518 section 2.6.1.
const TYPES: &[(&str, &[&str])] = &[
    ("uid", &["anna", "BERT", "carla", "hans", "nobody", "a", ""]),
    ("cn", &["Anna Berg", "anna  berg", "Gus", "Émil Ångström", "all", "printer", "x"]),
    ("cn;lang-da", &["Karla Dahl", "karla dahl", "x"]),
    ("sn", &["Berg", "García", "garcía", "holm", "ÅNGSTRÖM"]),
    ("name", &["Berg", "people", "Berlin", "sales", "Anna Berg"]),
    ("mail", &["anna@example.com", "FANNY@example.com", "é", "x"]),
    ("telephoneNumber", &["+49 30 1234", "030555", "+4512345678", "1234"]),
    ("uidNumber", &["99", "1000", "1001", "20000", "-1", "01", "one", ""]),
    ("gidNumber", &["5", "100", "x"]),
    ("homeDirectory", &["/home/carla", "/home/Carla", "/"]),
    ("objectClass", &["person", "top", "inetOrgPerson", "2.5.6.6", "posixAccount", "alias", "noSuchClass"]),
    ("member", &["uid=anna,ou=people,%", "UID=Carla, ou=people,%", "uid=nobody,%", "junk"]),
    ("seeAlso", &["uid=anna,ou=people,%", "uid=nobody,ou=people,%"]),
    ("manager", &["uid=anna,ou=people,%", "uid=bert,ou=people,%"]),
    ("uniqueMember", &["uid=gus,ou=sales,ou=people,%", "uid=dirk,ou=people,%#'0101'B", "x"]),
    ("distinguishedName", &["uid=anna,ou=people,%", "uid=gus,ou=sales,ou=people,%"]),
    ("ou", &["people", "Sales", "Verkauf", "Research + Development", "x"]),
    ("description", &["Everybody", "colour", "likes (brackets) and *stars*", "x"]),
    ("l", &["Berlin", "rome"]),
    ("jpegPhoto", &["x"]),
    ("x121Address", &["123456", "12 34 56"]),
    ("x500UniqueIdentifier", &["'0101'B", "'1'B"]),
    ("postalAddress", &["1 main street", "x"]),
    ("serialNumber", &["a-42", "A-43"]),
    ("dc", &["deep", "EXAMPLE", "x"]),
    ("c", &["de"]),
    ("entryDN", &["uid=anna,ou=people,%", "x"]),
    ("creatorsName", &["cn=admin,%"]),
    ("createTimestamp", &["20200101000000Z", "20990101000000Z", "x"]),
    ("noSuchAttribute", &["x", "1"]),
];

/// Names of matching rules that compare the positions of DNs in the tree.
const NAME_RULES: [&str; 4] = ["dnSubtreeMatch", "dnOneLevelMatch", "dnSubordinateMatch", "dnSuperiorMatch"];

/// Generator of random filters.
pub struct FilterMaker {
    random: fastrand::Rng,
}

impl FilterMaker {
    /// Returns a generator. The same seed gives the same filters.
    pub fn new(seed: u64) -> FilterMaker {
        FilterMaker { random: fastrand::Rng::with_seed(seed) }
    }

    /// Returns a filter with at most this nesting depth.
    pub fn make(&mut self, depth_max: u32) -> String {
        if depth_max == 0 {
            return self.item();
        }
        match self.random.u8(..8) {
            0 | 1 => format!("(&{})", self.list(depth_max)),
            2 | 3 => format!("(|{})", self.list(depth_max)),
            4 => format!("(!{})", self.make(depth_max - 1)),
            _ => self.item(),
        }
    }

    fn list(&mut self, depth_max: u32) -> String {
        (0..self.random.u8(..4)).map(|_| self.make(depth_max - 1)).collect()
    }

    fn item(&mut self) -> String {
        let (name, values) = TYPES[self.random.usize(..TYPES.len())];
        let value = values[self.random.usize(..values.len())].replace('%', SUFFIX);
        let escaped = escape(&value);
        match self.random.u8(..16) {
            0 | 1 => format!("({name}=*)"),
            2 => format!("({name}>={escaped})"),
            3 => format!("({name}<={escaped})"),
            4..=6 => self.substrings(name, &value),
            7 => format!("({name}:={escaped})"),
            8 => format!("({name}:dn:={escaped})"),
            9 => {
                let rule = NAME_RULES[self.random.usize(..NAME_RULES.len())];
                format!("({name}:{rule}:={escaped})")
            }
            _ => format!("({name}={escaped})"),
        }
    }

    /// Returns a substring filter: pieces of the value in order, with stars between them, and possibly a star at the
    /// beginning and at the end.
    fn substrings(&mut self, name: &str, value: &str) -> String {
        let mut cuts: Vec<usize> =
            (0..self.random.usize(1..4)).map(|_| self.random.usize(..=value.len())).collect();
        cuts.retain(|cut| value.is_char_boundary(*cut));
        cuts.sort_unstable();
        cuts.dedup();
        let mut pieces = Vec::new();
        let mut start = 0;
        for cut in cuts.into_iter().chain([value.len()]) {
            let piece = value[start..cut].trim();
            if !piece.is_empty() {
                pieces.push(escape(piece));
            }
            start = cut;
        }
        if pieces.is_empty() {
            return format!("({name}=*)");
        }
        // A star at an end means that the first or last piece may match in the middle of a value.
        let (before, after) = (self.random.bool(), self.random.bool() || pieces.len() == 1);
        let star = |wanted: bool| if wanted { "*" } else { "" };
        format!("({name}={}{}{})", star(before), pieces.join("*"), star(after))
    }
}

/// Escapes an assertion value (RFC 4515 section 3).
fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for octet in value.bytes() {
        match octet {
            b'*' | b'(' | b')' | b'\\' | 0 | 0x80.. => out += &format!("\\{octet:02x}"),
            _ => out.push(octet as char),
        }
    }
    out
}
