//! Generation of entries, each independent of all others.
//!
//! Every line of every entry has its own random stream. The stream depends only on the seed, the number of the entry
//! and the number of the line. So the DN of an entry can be generated without the other lines, with the same result.

use std::io::Write as _;
use std::ops::{Range, RangeInclusive};
use std::sync::LazyLock;

use ldap::ldif::put_ldif_line;

use super::certificate;
use super::lists::{FIRST_NAMES, LAST_NAMES};
use super::parse::Line;
use super::plan::{Location, Node, Plan, Step};
use super::random::{self, DIGIT};
use super::tag::{Attribute, Part};
use crate::Seeded;

/// Generator of the entries of a plan for one seed. Each thread has its own generator.
pub(super) struct Renderer<'p> {
    plan: &'p Plan,
    /// The current entry.
    here: Entry<'p>,
    /// Another entry, to which the current entry refers.
    other: Entry<'p>,
}

impl<'p> Renderer<'p> {
    pub(super) fn new(plan: &'p Plan, seed: u64) -> Renderer<'p> {
        let base = Seeded::new(seed).next_u64();
        Renderer { plan, here: Entry::new(plan, base), other: Entry::new(plan, base) }
    }

    /// Writes the entries of a range of the document.
    pub(super) fn entries(&mut self, range: Range<u64>, out: &mut Vec<u8>) {
        let mut is_placed = false;
        for index in range {
            if !(is_placed && self.here.location.step()) {
                self.plan.locate(self.plan.all(), index, &mut self.here.location);
                is_placed = true;
            }
            self.evaluate();
            let lines = 0..self.node().lines.len();
            self.lines(lines, out);
            out.push(b'\n');
        }
    }

    /// Writes a range of the lines of one entry. The DN is written with the first line.
    pub(super) fn part(&mut self, index: u64, lines: Range<usize>, out: &mut Vec<u8>) {
        self.plan.locate(self.plan.all(), index, &mut self.here.location);
        self.evaluate();
        let is_last = lines.end == self.node().lines.len();
        self.lines(lines, out);
        if is_last {
            out.push(b'\n');
        }
    }

    /// Writes the members of a group with these ordinals, one value per member.
    pub(super) fn members(&mut self, label: &str, target: usize, ordinals: Range<u64>, out: &mut Vec<u8>) {
        let mut is_placed = false;
        for ordinal in ordinals {
            if !(is_placed && self.other.location.step()) {
                self.plan.locate(target, ordinal, &mut self.other.location);
                is_placed = true;
            }
            self.other.name();
            put_ldif_line(out, label, self.other.dn.as_bytes());
        }
    }

    fn node(&self) -> &'p Node {
        &self.plan.nodes[self.here.step().node]
    }

    fn evaluate(&mut self) {
        self.here.name();
        let node = self.node();
        for &line in &node.order[node.naming_len..] {
            self.here.evaluate(line, Some(&mut self.other));
        }
    }

    fn lines(&mut self, lines: Range<usize>, out: &mut Vec<u8>) {
        if lines.start == 0 {
            put_ldif_line(out, "dn", self.here.dn.as_bytes());
        }
        let step = self.here.step();
        for at in lines {
            let line = &self.node().lines[at];
            if let Some(target) = line.members() {
                self.members(&line.label, target, self.plan.members(step, target), out);
            } else if let Some(fixed) = &line.fixed {
                // A fixed line is the same in every entry, so it is encoded only once.
                out.extend_from_slice(fixed);
            } else if let Some(value) = self.here.value(at) {
                put_ldif_line(out, &line.label, value);
            }
        }
    }
}

/// Location, name and values of an entry.
struct Entry<'p> {
    plan: &'p Plan,
    base: u64,
    location: Location,
    /// The number of the entry whose DN is in `parent_dn`.
    parent: Option<u64>,
    parent_dn: String,
    dn: String,
    /// Length of the RDN in `dn`.
    rdn_len: usize,
    /// All values, one after the other. The next field has the range of each line's value.
    text: Vec<u8>,
    values: Vec<Option<Range<usize>>>,
}

impl<'p> Entry<'p> {
    fn new(plan: &'p Plan, base: u64) -> Entry<'p> {
        Entry {
            plan,
            base,
            location: Location::default(),
            parent: None,
            parent_dn: String::new(),
            dn: String::new(),
            rdn_len: 0,
            text: Vec::new(),
            values: Vec::new(),
        }
    }

    fn step(&self) -> Step {
        // After a lookup the location has a path. Before the first lookup, this returns the first entry.
        self.location.path.last().copied().unwrap_or(Step { node: 0, index: 0, ordinal: 0, in_parent: 0 })
    }

    fn value(&self, line: usize) -> Option<&[u8]> {
        self.values.get(line)?.clone().map(|range| &self.text[range])
    }

    /// Computes the DN of the entry at `location`, and the values that the DN contains.
    fn name(&mut self) {
        let depth = self.location.path.len();
        let parent = depth.checked_sub(2).and_then(|at| self.location.path.get(at)).map(|step| step.index);
        if parent.is_none() || parent != self.parent {
            self.parent_dn.clear();
            for at in 0..depth.saturating_sub(1) {
                let step = self.location.path[at];
                self.name_step(step);
                std::mem::swap(&mut self.parent_dn, &mut self.dn);
            }
            self.parent = parent;
        }
        self.name_step(self.step());
    }

    /// Computes the DN of an entry below `parent_dn`.
    fn name_step(&mut self, step: Step) {
        let node = &self.plan.nodes[step.node];
        self.text.clear();
        self.values.clear();
        self.values.resize(node.lines.len(), None);
        self.dn.clear();
        if let Some(dn) = &node.fixed_dn {
            self.dn.push_str(dn);
            let parsed = ldap::Dn::parse(dn).ok();
            self.rdn_len = parsed.and_then(|dn| dn.rdn().map(|rdn| rdn.text.len())).unwrap_or(dn.len());
            self.parent_dn.clear();
            self.parent_dn.push_str(dn.get(self.rdn_len..).unwrap_or("").trim_start_matches([',', ';', ' ']));
            self.parent = None;
            return;
        }
        for &line in &node.order[..node.naming_len] {
            self.evaluate_of(step, line, None);
        }
        for (number, &line) in node.naming.iter().enumerate() {
            if number > 0 {
                self.dn.push('+');
            }
            self.dn.push_str(node.lines[line].description());
            self.dn.push('=');
            let value = self.values[line].clone().map_or(&[][..], |range| &self.text[range]);
            put_escaped(value, &mut self.dn);
        }
        self.rdn_len = self.dn.len();
        self.dn.push(',');
        self.dn.push_str(&self.parent_dn);
    }

    fn evaluate(&mut self, line: usize, other: Option<&mut Entry<'p>>) {
        self.evaluate_of(self.step(), line, other);
    }

    /// Computes the value of one line, if the entry has that value.
    fn evaluate_of(&mut self, step: Step, at: usize, mut other: Option<&mut Entry<'p>>) {
        let line: &'p Line = &self.plan.nodes[step.node].lines[at];
        let start = self.text.len();
        if let [Part::Text(text)] = line.parts.as_slice() {
            self.text.extend_from_slice(text);
            self.values[at] = Some(start..self.text.len());
            return;
        }
        let key = Seeded::new(self.base ^ step.index).next_u64();
        let mut seeded = Seeded::new(Seeded::new(key.wrapping_add(at as u64)).next_u64());
        for part in &line.parts {
            let is_wanted = match (part, &mut other) {
                (Part::DnOf(target), Some(other)) => {
                    let count = self.plan.count(target.node);
                    let ordinal = seeded.below(usize::try_from(count).unwrap_or(usize::MAX)) as u64;
                    if ordinal < count {
                        self.plan.locate(target.node, ordinal, &mut other.location);
                        other.name();
                        self.text.extend_from_slice(other.dn.as_bytes());
                    }
                    ordinal < count
                }
                _ => self.put(part, step, &mut seeded),
            };
            if !is_wanted {
                self.text.truncate(start);
                return;
            }
        }
        if self.text.len() > start {
            self.values[at] = Some(start..self.text.len());
        }
    }

    /// Appends a part of a value. Returns false if the entry does not have the attribute.
    fn put(&mut self, part: &Part, step: Step, seeded: &mut Seeded) -> bool {
        let out = &mut self.text;
        match part {
            Part::Text(text) => out.extend_from_slice(text),
            Part::Characters(alphabet, lengths) => {
                let count = random_length(seeded, lengths);
                alphabet.put(seeded, count, out);
            }
            Part::Base64(lengths) => {
                let count = random_length(seeded, lengths);
                random::put_base64(seeded, count, out);
            }
            Part::Number { min, max, format } => format.put(between(seeded, *min, *max), out),
            Part::Telephone => put_telephone(seeded, out),
            Part::Month { len_max } => {
                let month = MONTHS.split(' ').nth(seeded.below(12)).unwrap_or_default();
                out.extend_from_slice(&month.as_bytes()[..month.len().min(*len_max)]);
            }
            Part::Sequential { start, starts_over } => {
                let number = if *starts_over { step.in_parent } else { step.ordinal };
                random::put_decimal(start.saturating_add(number as i64), out);
            }
            Part::List(list) => out.extend_from_slice(list.value(seeded.below(list.total())).as_bytes()),
            Part::Presence(millionths) => return seeded.below(1_000_000) < *millionths,
            Part::First | Part::Last => put_name(matches!(part, Part::First), self.base, step.index, out),
            Part::File { lines, is_sequential } => {
                let at = match is_sequential {
                    true => (step.ordinal % lines.len() as u64) as usize,
                    false => seeded.below(lines.len()),
                };
                out.extend_from_slice(lines[at].as_bytes());
            }
            Part::Guid => put_guid(seeded, out),
            Part::Condition { is_present, attribute, value } => {
                return self.has(attribute, value.as_deref()) == *is_present;
            }
            Part::Copy { attribute, len_max } => self.copy(attribute, *len_max),
            Part::Dn { rdn_count, has_underscores } => {
                put_dn(&self.dn, *rdn_count, *has_underscores, out);
            }
            Part::Rdn => out.extend_from_slice(&self.dn.as_bytes()[..self.rdn_len]),
            Part::ParentDn { has_underscores } => put_dn(&self.parent_dn, None, *has_underscores, out),
            Part::AttributeCertificate => certificate::put_attribute_certificate(step.index, seeded, out),
            // These parts are handled elsewhere: members are written together with their line, and the DN of another
            // entry needs a second [`Entry`].
            Part::Members(_) | Part::DnOf(_) => return false,
        }
        true
    }

    fn has(&self, attribute: &Attribute, wanted: Option<&str>) -> bool {
        attribute
            .lines
            .iter()
            .filter_map(|line| self.value(*line))
            .any(|value| wanted.is_none_or(|wanted| value.eq_ignore_ascii_case(wanted.as_bytes())))
    }

    /// Appends the first value of another attribute, if that attribute has a value.
    fn copy(&mut self, attribute: &Attribute, len_max: Option<usize>) {
        let Some(mut range) = attribute.lines.iter().find_map(|line| self.values[*line].clone()) else {
            return;
        };
        if let Some(len_max) = len_max {
            let value = &self.text[range.clone()];
            let is_start = |octet: &u8| octet & 0xc0 != 0x80;
            let end = value.iter().enumerate().filter(|(_, octet)| is_start(octet)).nth(len_max);
            range.end = end.map_or(range.end, |(end, _)| range.start + end);
        }
        self.text.extend_from_within(range);
    }
}

const MONTHS: &str = "January February March April May June July August September October November December";

fn random_length(seeded: &mut Seeded, lengths: &RangeInclusive<usize>) -> usize {
    let (min, max) = (*lengths.start(), *lengths.end());
    if min == max { min } else { min + seeded.below(max - min + 1) }
}

/// Returns a random number in a range that includes both ends.
fn between(seeded: &mut Seeded, min: i64, max: i64) -> i64 {
    let size = (i128::from(max) - i128::from(min) + 1) as u128;
    let offset = (u128::from(seeded.next_u64()) * size) >> 64;
    (i128::from(min) + offset as i128) as i64
}

/// Appends a telephone number in OpenDJ's form, which conforms to E.123 (RFC 4517 section 3.3.31).
fn put_telephone(seeded: &mut Seeded, out: &mut Vec<u8>) {
    out.extend_from_slice(b"+1");
    for count in [3, 3, 4] {
        out.push(b' ');
        DIGIT.put(seeded, count, out);
    }
}

/// Appends the given name or surname of an entry. When all pairs of names have been used, the surname ends in a number,
/// so that no two entries have the same pair.
fn put_name(is_first: bool, base: u64, index: u64, out: &mut Vec<u8>) {
    // A step that is coprime to the number of pairs visits all pairs, in an order that looks random.
    static STEP: LazyLock<u64> = LazyLock::new(|| {
        let size = (FIRST_NAMES.len() * LAST_NAMES.len()) as u64;
        (size * 618 / 1000..).find(|step| common_divisor(*step, size) == 1).unwrap_or(1)
    });
    let (first, last) = (&**FIRST_NAMES, &**LAST_NAMES);
    let size = (first.len() * last.len()) as u64;
    let pair = ((index % size) * *STEP + base % size) % size;
    if is_first {
        out.extend_from_slice(first[(pair / last.len() as u64) as usize].as_bytes());
        return;
    }
    out.extend_from_slice(last[(pair % last.len() as u64) as usize].as_bytes());
    if index >= size {
        random::put_decimal((index / size) as i64, out);
    }
}

fn common_divisor(left: u64, right: u64) -> u64 {
    if right == 0 { left } else { common_divisor(right, left % right) }
}

/// Appends a random UUID (RFC 9562 section 5.4).
fn put_guid(seeded: &mut Seeded, out: &mut Vec<u8>) {
    let (high, low) = (u128::from(seeded.next_u64()), u128::from(seeded.next_u64()));
    let uuid = uuid::Builder::from_random_bytes((high << 64 | low).to_be_bytes()).into_uuid();
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{uuid}");
}

/// Appends a DN, or only its first or its last RDNs. If `has_underscores`, underscores replace the commas between RDNs.
fn put_dn(dn: &str, rdn_count: Option<i64>, has_underscores: bool, out: &mut Vec<u8>) {
    if rdn_count.is_none() && !has_underscores {
        out.extend_from_slice(dn.as_bytes());
        return;
    }
    let Ok(parsed) = ldap::Dn::parse(dn) else { return };
    let total = parsed.rdns().count();
    let wanted = match rdn_count {
        None => 0..total,
        Some(count) => {
            let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX).min(total);
            if count < 0 { total - size..total } else { 0..size }
        }
    };
    for (number, rdn) in parsed.rdns().skip(wanted.start).take(wanted.len()).enumerate() {
        if number > 0 {
            out.push(if has_underscores { b'_' } else { b',' });
        }
        out.extend_from_slice(rdn.text.as_bytes());
    }
}

/// Appends the value in an RDN, with the necessary escapes (RFC 4514 section 2.4).
fn put_escaped(value: &[u8], out: &mut String) {
    let is_plain = |octet: &u8| octet.is_ascii_alphanumeric() || matches!(octet, b'.' | b'-' | b'_' | b'@');
    match std::str::from_utf8(value) {
        Ok(text) if value.iter().all(is_plain) => out.push_str(text),
        _ => ldap::escape_value(value, out),
    }
}
