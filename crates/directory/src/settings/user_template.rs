//! User templates for `pando user add`. Each template has a name, and lists the attributes of a new user's entry.
//!
//! ```text
//! staff: objectClass=posixAccount, mail={uid}@example.com, homeDirectory='/home/{uid}' in 'ou=staff,dc=example,dc=com'
//! ```

use ldap::Dn;

/// Maximum number of attributes in a template.
const ATTRIBUTES_MAX: usize = 64;

/// Placeholders that values can contain.
const PLACEHOLDERS: [&str; 5] = ["uid", "full_name", "first_name", "last_name", "next"];

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserTemplate {
    /// Name of the template.
    pub name: String,
    /// Attributes with their values. Values can contain placeholders such as `{uid}`.
    pub attributes: Vec<(String, String)>,
    /// DN of the entry below which users are added.
    pub parent: Option<String>,
}

/// Data of a new user.
#[derive(Clone, Copy, Debug)]
pub struct NewUser<'a> {
    /// The user's short name.
    pub uid: &'a str,
    /// The user's full name.
    pub full_name: &'a str,
}

impl UserTemplate {
    /// Parses `NAME: ATTRIBUTE=VALUE, ... [in 'DN']`. Values with a comma, a space or a quote are quoted.
    ///
    /// # Errors
    /// A message that describes the first problem.
    pub fn parse(text: &str) -> Result<UserTemplate, String> {
        let (name, rest) = text.split_once(':').ok_or("write NAME: ATTRIBUTE=VALUE, ...")?;
        let is_fit = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if name.is_empty() || !name.chars().all(is_fit) {
            return Err(format!("{name:?} is no name of a template: use letters, digits, `-` and `_`"));
        }
        let (mut attributes, mut parent) = (Vec::new(), None);
        let mut rest = rest.trim();
        loop {
            let (attribute, after) = rest.split_once('=').ok_or("write ATTRIBUTE=VALUE after a comma")?;
            let attribute = attribute.trim();
            let is_description = |c: char| c.is_ascii_alphanumeric() || "-;.".contains(c);
            if attribute.is_empty() || !attribute.chars().all(is_description) {
                return Err(format!("{attribute:?} is no name of an attribute"));
            }
            if attribute.to_ascii_lowercase().starts_with("userpassword") {
                return Err("a template has no password: `pando user add` makes one for each user".to_owned());
            }
            let (value, after) = value(after)?;
            check_placeholders(&value)?;
            attributes.push((attribute.to_owned(), value));
            rest = after.trim_start();
            if let Some(more) = rest.strip_prefix(',') {
                rest = more.trim_start();
                continue;
            }
            if let Some(base) = rest.strip_prefix("in ") {
                let (dn, end) = value_of_quotes(base.trim_start())?;
                Dn::parse(&dn).map_err(|error| format!("{dn:?} is no DN: {error}"))?;
                (parent, rest) = (Some(dn), end.trim_start());
            }
            break;
        }
        match rest {
            "" if attributes.len() <= ATTRIBUTES_MAX => {
                Ok(UserTemplate { name: name.to_owned(), attributes, parent })
            }
            "" => Err(format!("a template has at most {ATTRIBUTES_MAX} attributes")),
            rest => Err(format!("{rest:?} is neither a comma nor in 'DN'")),
        }
    }

    /// Returns the attributes of a user's entry, with placeholders replaced.
    pub fn attributes_of(&self, user: NewUser<'_>) -> Vec<(String, String)> {
        let NewUser { uid, full_name } = user;
        let (first, last) = full_name.rsplit_once(char::is_whitespace).unwrap_or(("", full_name));
        let value_of = |name: &str| match name {
            "uid" => Some(uid),
            "full_name" => Some(full_name),
            "first_name" => Some(first.trim()),
            "last_name" => Some(last),
            // The server replaces this placeholder, `{next}`.
            _ => None,
        };
        self.attributes.iter().map(|(name, value)| (name.clone(), filled(value, value_of))).collect()
    }
}

/// Replaces the placeholders for which `value_of` returns a value. Placeholders in these values are not replaced.
fn filled<'v>(value: &str, value_of: impl Fn(&str) -> Option<&'v str>) -> String {
    let (mut text, mut rest) = (String::new(), value);
    while let Some((before, after)) = rest.split_once('{') {
        text += before;
        match after.split_once('}').and_then(|(name, more)| Some((value_of(name)?, more))) {
            Some((value, more)) => {
                text += value;
                rest = more;
            }
            None => {
                text.push('{');
                rest = after;
            }
        }
    }
    text + rest
}

/// Splits off a value. A value without quotes ends at the next comma or space. A value in single quotes may contain
/// commas and spaces. Quotes in such a value are doubled.
fn value(text: &str) -> Result<(String, &str), String> {
    if text.starts_with('\'') {
        return value_of_quotes(text);
    }
    let end = text.find([',', ' ', '\'']).unwrap_or(text.len());
    let (value, rest) = text.split_at(end);
    if value.is_empty() { Err("a value is missing".to_owned()) } else { Ok((value.to_owned(), rest)) }
}

fn value_of_quotes(text: &str) -> Result<(String, &str), String> {
    let mut rest = text.strip_prefix('\'').ok_or("put the DN into single quotes")?;
    let mut value = String::new();
    loop {
        let (part, after) = rest.split_once('\'').ok_or("a closing quote is missing")?;
        value += part;
        match after.strip_prefix('\'') {
            Some(more) => (value, rest) = (value + "'", more),
            None => return Ok((value, after)),
        }
    }
}

fn check_placeholders(value: &str) -> Result<(), String> {
    let mut rest = value;
    while let Some((_, after)) = rest.split_once('{') {
        let (name, more) = after.split_once('}').ok_or_else(|| format!("{value:?} has no closing brace"))?;
        if !PLACEHOLDERS.contains(&name) {
            return Err(format!("{{{name}}} is unknown; there are {{{}}}", PLACEHOLDERS.join("}, {")));
        }
        rest = more;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_parsed_and_filled() {
        let text = "staff: objectClass=posixAccount, mail={uid}@example.com, uidNumber={next}, \
                    description='{first_name}''s, of {last_name}', cn={full_name} in 'ou=staff,dc=example,dc=com'";
        let template = UserTemplate::parse(text).unwrap();
        assert_eq!(
            (template.name.as_str(), template.parent.as_deref()),
            ("staff", Some("ou=staff,dc=example,dc=com"))
        );
        let filled = template.attributes_of(NewUser { uid: "anna", full_name: "Anna Maria Huber" });
        let values: Vec<&str> = filled.iter().map(|(_, value)| value.as_str()).collect();
        let expected =
            ["posixAccount", "anna@example.com", "{next}", "Anna Maria's, of Huber", "Anna Maria Huber"];
        assert_eq!(values, expected);
        let one = template.attributes_of(NewUser { uid: "a", full_name: "Anna" });
        assert_eq!(one[3].1, "'s, of Anna");
        let odd = template.attributes_of(NewUser { uid: "a", full_name: "{uid}" });
        assert_eq!(odd[4].1, "{uid}", "a name is not a template");
    }

    #[test]
    fn bad_templates_are_refused() {
        for (text, problem) in [
            ("staff", "write NAME:"),
            ("a b: cn=x", "no name of a template"),
            ("a: cn", "write ATTRIBUTE=VALUE"),
            ("a: c n=x", "no name of an attribute"),
            ("a: cn=", "a value is missing"),
            ("a: cn='x", "closing quote"),
            ("a: cn=x y", "neither a comma"),
            ("a: cn=x in ou=y", "single quotes"),
            ("a: cn=x in 'y'", "is no DN"),
            ("a: cn={name}", "{name} is unknown"),
            ("a: cn={uid", "no closing brace"),
            ("a: userPassword=x", "no password"),
        ] {
            let error = UserTemplate::parse(text).unwrap_err();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
