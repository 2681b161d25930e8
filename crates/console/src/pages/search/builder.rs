//! The filter builder. It makes a filter from the rows of a form, and needs no scripts in the browser. Each row has an
//! attribute, a test and a value.
//!
//! Each row consists of the fields `a` (attribute), `o` (test) and `v` (value). Another field determines whether an
//! entry must match all rows or at least one row.

use ldap::filter_value;
use serde_json::{Value, json};

use crate::fields::Fields;

/// The tests in the order of the form.
const TESTS: [&str; 10] =
    ["is", "begins", "contains", "ends", "at_least", "at_most", "sounds", "present", "is_not", "absent"];

/// Maximum number of rows of a form. Further rows are ignored.
const ROWS_MAX: usize = 16;

/// Number of empty rows that the form shows after the rows with a value.
const ROWS_FREE: usize = 2;

/// A row of the form that has an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    attribute: String,
    test: &'static str,
    value: String,
}

/// The rows of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rows {
    rows: Vec<Row>,
    is_any: bool,
}

impl Rows {
    /// Returns the rows in a query. Rows without an attribute are ignored.
    pub(super) fn of(fields: &Fields) -> Rows {
        let tests: Vec<&str> = fields.all("o").collect();
        let values: Vec<&str> = fields.all("v").collect();
        let row = |(place, attribute): (usize, &str)| {
            let test = tests.get(place).copied().unwrap_or_default();
            let test = TESTS.into_iter().find(|known| *known == test).unwrap_or(TESTS[0]);
            let value = values.get(place).copied().unwrap_or_default().trim().to_owned();
            Row { attribute: attribute.trim().to_owned(), test, value }
        };
        let rows = fields.all("a").take(ROWS_MAX).enumerate().map(row);
        let rows = rows.filter(|row| is_description(&row.attribute)).collect();
        Rows { rows, is_any: fields.text("any") == "1" }
    }

    /// Returns the filter that the rows describe; `None` if there are no rows.
    pub(super) fn filter(&self) -> Option<String> {
        let tests: Vec<String> = self.rows.iter().map(Row::filter).collect();
        match tests.as_slice() {
            [] => None,
            [one] => Some(one.clone()),
            tests => Some(format!("({}{})", if self.is_any { '|' } else { '&' }, tests.concat())),
        }
    }

    /// Returns the model of the form with these rows and additional empty rows.
    pub(super) fn model(&self) -> Value {
        let rows = self.rows.iter().map(|Row { attribute, test, value }| row_model(attribute, test, value));
        let free = ROWS_FREE.min(ROWS_MAX.saturating_sub(self.rows.len()));
        let rows: Vec<Value> = rows.chain((0..free).map(|_| row_model("", TESTS[0], ""))).collect();
        json!({ "rows": rows, "any": self.is_any, "tests": TESTS, "used": !self.rows.is_empty() })
    }

    /// Returns the fields of a query with the same rows.
    pub(super) fn pairs(&self) -> Vec<(&'static str, &str)> {
        let mut pairs = Vec::new();
        for row in &self.rows {
            pairs.extend([("a", row.attribute.as_str()), ("o", row.test), ("v", row.value.as_str())]);
        }
        if self.is_any && !self.rows.is_empty() {
            pairs.push(("any", "1"));
        }
        pairs
    }
}

impl Row {
    fn filter(&self) -> String {
        let Row { attribute, test, value } = self;
        let value = filter_value(value);
        match *test {
            // A row without a value tests whether the attribute is present.
            "present" => format!("({attribute}=*)"),
            "absent" => format!("(!({attribute}=*))"),
            _ if value.is_empty() => format!("({attribute}=*)"),
            "begins" => format!("({attribute}={value}*)"),
            "contains" => format!("({attribute}=*{value}*)"),
            "ends" => format!("({attribute}=*{value})"),
            "at_least" => format!("({attribute}>={value})"),
            "at_most" => format!("({attribute}<={value})"),
            "sounds" => format!("({attribute}~={value})"),
            "is_not" => format!("(!({attribute}={value}))"),
            _ => format!("({attribute}={value})"),
        }
    }
}

fn row_model(attribute: &str, test: &str, value: &str) -> Value {
    json!({ "attribute": attribute, "test": test, "value": value })
}

/// Returns true if a text is an attribute description. An attribute description can be part of a filter without
/// escapes.
pub(super) fn is_description(text: &str) -> bool {
    let is_word = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | ';' | '.' | '_');
    !text.is_empty() && text.chars().all(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(pairs: &[(&str, &str)]) -> Rows {
        Rows::of(&Fields::of(
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
        ))
    }

    #[test]
    fn rows_become_one_filter() {
        let of = |test: &str, value: &str| rows(&[("a", "cn"), ("o", test), ("v", value)]).filter().unwrap();
        assert_eq!(of("is", "A*(b)"), "(cn=A\\2a\\28b\\29)");
        assert_eq!(of("begins", "A"), "(cn=A*)");
        assert_eq!(of("contains", "A"), "(cn=*A*)");
        assert_eq!(of("ends", "A"), "(cn=*A)");
        assert_eq!(of("at_least", "1"), "(cn>=1)");
        assert_eq!(of("at_most", "1"), "(cn<=1)");
        assert_eq!(of("sounds", "A"), "(cn~=A)");
        assert_eq!(of("present", "A"), "(cn=*)");
        assert_eq!(of("is_not", "A"), "(!(cn=A))");
        assert_eq!(of("absent", ""), "(!(cn=*))");
        assert_eq!(of("contains", ""), "(cn=*)");
        assert_eq!(of("no such test", "A"), "(cn=A)");
        let two = [("a", "cn"), ("o", "is"), ("v", "A"), ("a", "mail"), ("o", "absent"), ("v", "")];
        assert_eq!(rows(&two).filter().unwrap(), "(&(cn=A)(!(mail=*)))");
        assert_eq!(rows(&[&two[..], &[("any", "1")]].concat()).filter().unwrap(), "(|(cn=A)(!(mail=*)))");
        assert_eq!(rows(&[("a", ""), ("a", "cn)(x=*")]).filter(), None);
        assert_eq!(rows(&[]).filter(), None);
    }

    /// The server accepts each filter that is made from rows, and the query of a form has the same rows as the form.
    #[test]
    fn rows_with_special_characters_become_valid_filters() {
        for value in ["*", "\\", "(", ")", "\0", "ü", "a*b", "&|!", "=~><", "\r\n"] {
            for test in TESTS {
                let search_rows =
                    rows(&[("a", "cn;lang-de"), ("o", test), ("v", value), ("a", "sn"), ("any", "1")]);
                let filter = search_rows.filter().unwrap();
                assert!(ldap::FilterBuf::parse(&filter).is_ok(), "{filter}");
                assert_eq!(rows(&search_rows.pairs()), search_rows);
            }
        }
    }
}
