//! Guide and Enhanced Guide (RFC 4517 sections 3.3.10 and 3.3.14): search criteria as text.

use crate::syntax_text::text;
use crate::{Fault, oid};

/// Maximum nesting depth of parentheses and exclamation marks.
const DEPTH_MAX: u32 = 32;

pub(crate) fn enhanced_guide(value: &[u8]) -> Result<(), Fault> {
    let value = text(value)?;
    let parts: Vec<&str> = value.split('#').collect();
    let [class, criteria, subset] = parts[..] else {
        return Err(Fault::Expected { offset: value.len(), what: "class # criteria # subset" });
    };
    object_class(class)?;
    if !["baseobject", "oneLevel", "wholeSubtree"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(subset.trim()))
    {
        let offset = value.len() - subset.len();
        return Err(Fault::Expected { offset, what: "baseobject, oneLevel or wholeSubtree" });
    }
    Parser { text: criteria, offset: 0, base: class.len() + 1 }.whole()
}

pub(crate) fn guide(value: &[u8]) -> Result<(), Fault> {
    let value = text(value)?;
    match value.split_once('#') {
        Some((class, criteria)) => {
            object_class(class)?;
            Parser { text: criteria, offset: 0, base: class.len() + 1 }.whole()
        }
        None => Parser { text: value, offset: 0, base: 0 }.whole(),
    }
}

fn object_class(class: &str) -> Result<(), Fault> {
    let name = class.trim();
    if oid::is_descriptor(name) || oid::is_numeric_oid(name) {
        return Ok(());
    }
    Err(Fault::Expected { offset: 0, what: "an object class" })
}

/// Recursive descent parser of `criteria`.
struct Parser<'a> {
    text: &'a str,
    offset: usize,
    /// Number of octets of the value before `text`.
    base: usize,
}

impl Parser<'_> {
    fn whole(mut self) -> Result<(), Fault> {
        self.spaces();
        self.criteria(0)?;
        self.spaces();
        if self.offset == self.text.len() { Ok(()) } else { Err(self.expected("'|', '&' or the end")) }
    }

    fn expected(&self, what: &'static str) -> Fault {
        Fault::Expected { offset: self.base + self.offset, what }
    }

    fn rest(&self) -> &str {
        self.text.get(self.offset..).unwrap_or_default()
    }

    fn spaces(&mut self) {
        self.offset += self.rest().len() - self.rest().trim_start_matches(' ').len();
    }

    fn take(&mut self, token: &str) -> bool {
        let head = self.rest().get(..token.len());
        let found = head.is_some_and(|head| head.eq_ignore_ascii_case(token));
        self.offset += if found { token.len() } else { 0 };
        found
    }

    fn criteria(&mut self, depth: u32) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::OutOfRange { what: "the nesting of the criteria" });
        }
        loop {
            self.term(depth)?;
            if !self.take("|") && !self.take("&") {
                return Ok(());
            }
        }
    }

    fn term(&mut self, depth: u32) -> Result<(), Fault> {
        while self.take("!") {}
        if self.take("(") {
            self.criteria(depth + 1)?;
            return if self.take(")") { Ok(()) } else { Err(self.expected("')'")) };
        }
        if self.take("?true") || self.take("?false") {
            return Ok(());
        }
        let name = self.rest().split('$').next().unwrap_or_default();
        if !oid::is_descriptor(name) && !oid::is_numeric_oid(name) {
            return Err(self.expected("an attribute type"));
        }
        self.offset += name.len();
        if !self.take("$") {
            return Err(self.expected("'$'"));
        }
        // APPROX is first, because no other term begins with its letters.
        if ["APPROX", "SUBSTR", "EQ", "GE", "LE"].iter().any(|kind| self.take(kind)) {
            return Ok(());
        }
        Err(self.expected("EQ, SUBSTR, GE, LE or APPROX"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guides_are_valid_or_refused() {
        for (value, good) in [
            ("person#(sn$EQ)#oneLevel", true),
            (" person # sn$SUBSTR&!(cn$GE|?true) # wholeSubtree", true),
            ("2.5.6.6#?false#baseobject", true),
            ("person#sn$EQ", false),
            ("person#sn#oneLevel", false),
            ("person#sn$LIKE#oneLevel", false),
            ("person#(sn$EQ#oneLevel", false),
            ("#sn$EQ#oneLevel", false),
        ] {
            assert_eq!(enhanced_guide(value.as_bytes()).is_ok(), good, "{value}");
        }
        for (value, good) in [("sn$EQ", true), ("person#sn$EQ|cn$LE", true), ("", false), ("sn", false)] {
            assert_eq!(guide(value.as_bytes()).is_ok(), good, "{value}");
        }
        let deep = "(".repeat(100_000);
        assert_eq!(guide(deep.as_bytes()), Err(Fault::OutOfRange { what: "the nesting of the criteria" }));
    }
}
