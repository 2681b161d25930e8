//! The value of an attribute line: plain text, `{attribute}` and `<tags>`.
//!
//! Names of tags may be in any case. Names of attributes and templates are resolved later, by [`super::plan`].

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use super::error::{TemplateError, TemplateFault, TemplateLine};
use super::lists;
use super::random::{ALPHA, ALPHANUMERIC, Alphabet, DIGITS, HEX, NumberFormat};

/// A part of a value.
#[derive(Clone)]
pub(super) enum Part {
    Text(Vec<u8>),
    Characters(Arc<Alphabet>, RangeInclusive<usize>),
    Base64(RangeInclusive<usize>),
    Number {
        min: i64,
        max: i64,
        format: NumberFormat,
    },
    Telephone,
    Month {
        len_max: usize,
    },
    Sequential {
        start: i64,
        starts_over: bool,
    },
    List(Arc<WeightedList>),
    /// The share of entries that have the attribute, in millionths.
    Presence(usize),
    First,
    Last,
    File {
        lines: Arc<[String]>,
        is_sequential: bool,
    },
    Guid,
    /// Ends the value unless a condition holds: the attribute is present or absent, or it has a given value.
    Condition {
        is_present: bool,
        attribute: Attribute,
        value: Option<String>,
    },
    /// The first value of another attribute, or its first characters.
    Copy {
        attribute: Attribute,
        len_max: Option<usize>,
    },
    /// The entry's DN. With a positive `rdn_count`, the DN has only that many of the first RDNs; with a negative
    /// number, only that many of the last RDNs.
    Dn {
        rdn_count: Option<i64>,
        has_underscores: bool,
    },
    Rdn,
    ParentDn {
        has_underscores: bool,
    },
    /// The DN of a random entry of a template.
    DnOf(Target),
    /// The members of this group: the DNs of entries of a template, one value for each entry.
    Members(Target),
    AttributeCertificate,
}

/// Another attribute of the same entry, and the lines of the template that may contain it, in order of precedence.
#[derive(Clone)]
pub(super) struct Attribute {
    pub(super) name: String,
    pub(super) lines: Vec<usize>,
}

/// A template to which a part refers, and its node when it is resolved.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) template: String,
    pub(super) node: usize,
}

/// Choices, each with its weight.
pub(super) struct WeightedList {
    values: Vec<String>,
    /// For each choice, the sum of the weights up to and including its own weight.
    sums: Vec<usize>,
}

impl WeightedList {
    pub(super) fn total(&self) -> usize {
        self.sums.last().copied().unwrap_or(0)
    }

    /// Returns the choice for a number below the sum of all weights.
    pub(super) fn value(&self, number: usize) -> &str {
        let index = self.sums.partition_point(|sum| *sum <= number);
        self.values.get(index).map_or("", String::as_str)
    }
}

/// Splits a value into its parts.
pub(super) fn parts(
    text: &str,
    folder: Option<&Path>,
    place: &TemplateLine,
) -> Result<Vec<Part>, TemplateError> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut rest = text.chars();
    while let Some(character) = rest.next() {
        let closing = match character {
            '\\' => {
                plain.extend(rest.next());
                continue;
            }
            '<' => '>',
            '{' => '}',
            _ => {
                plain.push(character);
                continue;
            }
        };
        let content =
            enclosed(&mut rest, closing).ok_or_else(|| place.fault(TemplateFault::Unclosed(character)))?;
        if !plain.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut plain).into_bytes()));
        }
        parts.push(if closing == '}' { copy(&content, place)? } else { tag(&content, folder, place)? });
    }
    if !plain.is_empty() {
        parts.push(Part::Text(plain.into_bytes()));
    }
    Ok(parts)
}

/// Removes from `rest` the text up to the closing bracket, including the bracket. Returns the text without the bracket.
fn enclosed(rest: &mut std::str::Chars<'_>, closing: char) -> Option<String> {
    let mut content = String::new();
    loop {
        match rest.next()? {
            '\\' => content.push(rest.next()?),
            character if character == closing => return Some(content),
            character => content.push(character),
        }
    }
}

/// Parses `{name}` and `{name:LENGTH}`.
fn copy(content: &str, place: &TemplateLine) -> Result<Part, TemplateError> {
    let (name, len_max) = match content.split_once(':') {
        None => (content, None),
        Some((name, length)) => match length.trim().parse() {
            Ok(length) => (name, Some(length)),
            Err(_) => return Err(place.fault(TemplateFault::Arguments("{attribute:LENGTH}"))),
        },
    };
    Ok(Part::Copy { attribute: attribute(name), len_max })
}

fn attribute(name: &str) -> Attribute {
    Attribute { name: name.trim().to_owned(), lines: Vec::new() }
}

fn tag(content: &str, folder: Option<&Path>, place: &TemplateLine) -> Result<Part, TemplateError> {
    let wrong = |usage| place.fault(TemplateFault::Arguments(usage));
    let (name, rest) = content.split_once(':').map_or((content, None), |(name, rest)| (name, Some(rest)));
    let arguments: Vec<&str> = rest.map_or_else(Vec::new, |rest| rest.split(':').collect());
    let name = name.trim().to_ascii_lowercase();
    let part = match (name.as_str(), arguments.as_slice()) {
        ("random", [kind, arguments @ ..]) => random(kind, arguments, place)?,
        ("random", []) => return Err(wrong("random:KIND:...")),
        ("sequential", arguments) => {
            sequential(arguments).ok_or_else(|| wrong("sequential:START:true or false"))?
        }
        ("list", [_, ..]) => Part::List(Arc::new(
            list(rest.unwrap_or_default()).ok_or_else(|| wrong("list:A;WEIGHT:B;WEIGHT"))?,
        )),
        ("presence", [percent]) => presence(percent).ok_or_else(|| wrong("presence:PERCENT"))?,
        ("first", []) => Part::First,
        ("last", []) => Part::Last,
        ("file", [file, order @ ..]) => {
            let is_sequential = match order {
                [] => false,
                [order] if order.eq_ignore_ascii_case("random") => false,
                [order] if order.eq_ignore_ascii_case("sequential") => true,
                _ => return Err(wrong("file:NAME:random or sequential")),
            };
            Part::File { lines: lists::lines(file, folder, place)?, is_sequential }
        }
        ("guid", []) => Part::Guid,
        ("ifpresent" | "ifabsent", [other, value @ ..]) if !other.is_empty() => {
            let value = (!value.is_empty()).then(|| value.join(":"));
            Part::Condition { is_present: name == "ifpresent", attribute: attribute(other), value }
        }
        ("dn" | "_dn" | "_dn_", count) => {
            let rdn_count = match count {
                [] => None,
                [count] => Some(count.trim().parse().map_err(|_| wrong("dn:COUNT"))?),
                _ => return Err(wrong("dn:COUNT")),
            };
            Part::Dn { rdn_count, has_underscores: name.starts_with('_') }
        }
        ("rdn", []) => Part::Rdn,
        ("parentdn" | "_parentdn" | "_parentdn_", []) => {
            Part::ParentDn { has_underscores: name.starts_with('_') }
        }
        ("dnof", [template]) => Part::DnOf(target(template)),
        ("members", [template]) => Part::Members(target(template)),
        ("attributecertificate", []) => Part::AttributeCertificate,
        (name, _) => {
            return Err(
                usage(name).map_or_else(|| place.fault(TemplateFault::UnknownTag(content.to_owned())), wrong)
            );
        }
    };
    Ok(part)
}

/// Returns the correct form of a known tag, for the message about wrong arguments.
fn usage(name: &str) -> Option<&'static str> {
    [
        "list:A;WEIGHT:B;WEIGHT",
        "presence:PERCENT",
        "first",
        "last",
        "file:NAME",
        "guid",
        "ifpresent:ATTRIBUTE",
        "ifabsent:ATTRIBUTE",
        "rdn",
        "parentdn",
        "_parentdn",
        "dnof:TEMPLATE",
        "members:TEMPLATE",
        "attributecertificate",
    ]
    .into_iter()
    .find(|usage| usage.split(':').next() == Some(name))
}

fn target(template: &str) -> Target {
    Target { template: template.trim().to_owned(), node: usize::MAX }
}

fn random(kind: &str, arguments: &[&str], place: &TemplateLine) -> Result<Part, TemplateError> {
    const NUMERIC: &str = "random:numeric:LENGTH, random:numeric:MIN:MAX or random:numeric:MIN:MAX:FORMAT";
    const CHARS: &str = "random:chars:CHARACTERS:LENGTH or random:chars:CHARACTERS:MIN:MAX";
    const MONTH: &str = "random:month:LENGTH";
    let (part, usage) = match (kind.trim().to_ascii_lowercase().as_str(), arguments) {
        ("alpha", _) => (characters(ALPHA, arguments), "random:alpha:LENGTH or random:alpha:MIN:MAX"),
        ("alphanumeric", _) => {
            (characters(ALPHANUMERIC, arguments), "random:alphanumeric:LENGTH or random:alphanumeric:MIN:MAX")
        }
        ("hex", _) => (characters(HEX, arguments), "random:hex:LENGTH or random:hex:MIN:MAX"),
        ("base64", _) => {
            (lengths(arguments).map(Part::Base64), "random:base64:LENGTH or random:base64:MIN:MAX")
        }
        ("numeric", [_]) => (characters(DIGITS, arguments), NUMERIC),
        ("numeric", _) => (number(arguments), NUMERIC),
        ("chars", [set, arguments @ ..]) => (characters(set.as_bytes(), arguments), CHARS),
        ("chars", []) => (None, CHARS),
        ("telephone", []) => (Some(Part::Telephone), ""),
        ("month", []) => (Some(Part::Month { len_max: usize::MAX }), MONTH),
        ("month", [length]) => (length.trim().parse().ok().map(|len_max| Part::Month { len_max }), MONTH),
        ("month", _) => (None, MONTH),
        _ => (None, "random:alpha, alphanumeric, numeric, hex, base64, chars, month or telephone"),
    };
    part.ok_or_else(|| place.fault(TemplateFault::Arguments(usage)))
}

fn characters(set: &[u8], arguments: &[&str]) -> Option<Part> {
    Some(Part::Characters(Arc::new(Alphabet::new(set)?), lengths(arguments)?))
}

/// Maximum length of a random value. The length is limited because a value is in memory as a whole.
const RANDOM_LEN_MAX: usize = 64 << 20;

fn lengths(arguments: &[&str]) -> Option<RangeInclusive<usize>> {
    let (min, max) = match arguments {
        [length] => (length.trim().parse().ok()?, length.trim().parse().ok()?),
        [min, max] => (min.trim().parse().ok()?, max.trim().parse().ok()?),
        _ => return None,
    };
    (min <= max && max <= RANDOM_LEN_MAX).then_some(min..=max)
}

fn number(arguments: &[&str]) -> Option<Part> {
    let (min, max, format) = match arguments {
        [min, max] => (min, max, NumberFormat::plain()),
        // In SLAMD, the format is a number of digits. In OpenDJ, it is a pattern.
        [min, max, format] => (min, max, NumberFormat::parse(format)?),
        _ => return None,
    };
    let (min, max) = (min.trim().parse().ok()?, max.trim().parse().ok()?);
    (min <= max).then_some(Part::Number { min, max, format })
}

fn sequential(arguments: &[&str]) -> Option<Part> {
    let (start, starts_over) = match arguments {
        [] => (0, true),
        [start] => (start.trim().parse().ok()?, true),
        [start, starts_over] => {
            (start.trim().parse().ok()?, starts_over.trim().to_ascii_lowercase().parse().ok()?)
        }
        _ => return None,
    };
    Some(Part::Sequential { start, starts_over })
}

fn presence(percent: &str) -> Option<Part> {
    let percent: f64 = percent.trim().parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(Part::Presence((percent * 10_000.0).round() as usize))
}

/// Parses OpenDJ's `a;2:b;1` and SLAMD's `a:2,b:1`. A list with a comma and without a semicolon is SLAMD's if a number
/// follows every colon.
fn list(text: &str) -> Option<WeightedList> {
    let slamd: Option<Vec<(&str, usize)>> = if text.contains(',') && !text.contains(';') {
        text.split(',')
            .map(|choice| match choice.split_once(':') {
                None => Some((choice, 1)),
                Some((choice, weight)) => Some((choice, weight.trim().parse().ok()?)),
            })
            .collect()
    } else {
        None
    };
    let choices = match slamd {
        Some(choices) => choices,
        None => text
            .split(':')
            .map(|choice| match choice.rsplit_once(';') {
                None => Some((choice, 1)),
                Some((choice, weight)) => Some((choice, weight.trim().parse().ok()?)),
            })
            .collect::<Option<_>>()?,
    };
    let mut total = 0usize;
    let mut list = WeightedList { values: Vec::new(), sums: Vec::new() };
    for (choice, weight) in choices {
        total = total.checked_add(weight)?;
        list.values.push(choice.to_owned());
        list.sums.push(total);
    }
    (total > 0).then_some(list)
}
