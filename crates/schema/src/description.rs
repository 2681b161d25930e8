//! Attribute descriptions: a type with options (RFC 4512 section 2.5).

use std::borrow::Cow;

use crate::{DescriptionError, Fault, Schema, TypeId, oid};

/// An attribute description resolved against a schema. Values are stored under `(type_id, options)`.
///
/// The `binary` option (RFC 4522) affects only the transfer of values, so it has a field of its own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AttributeDescription {
    /// The attribute type.
    pub type_id: TypeId,
    /// Options without `binary`: lower case, sorted, without duplicates, joined by `;`. Empty if there are none.
    pub options: Box<str>,
    /// Whether `;binary` was given. Only valid for types whose syntax allows binary transfer.
    pub binary: bool,
}

impl AttributeDescription {
    /// Returns the description of a type without options.
    pub fn of(type_id: TypeId) -> AttributeDescription {
        AttributeDescription { type_id, options: Box::default(), binary: false }
    }

    /// Returns the name under which values are returned: the schema's spelling, `;binary` if the syntax requires it,
    /// and the options. The result is borrowed if there are no options.
    pub fn returned_name<'s>(&self, schema: &'s Schema) -> Cow<'s, str> {
        let name = schema.type_by_id(self.type_id).returned_name();
        if self.options.is_empty() {
            Cow::Borrowed(name)
        } else {
            Cow::Owned(format!("{name};{}", self.options))
        }
    }

    /// Returns true if values stored under `self` are returned for `requested`: its type is the requested type or a
    /// subtype, and `self` has all requested options (RFC 4512 section 2.5.2). A requested `lang-en-` is a language
    /// range (RFC 3866 section 3.1): it includes `lang-en` and every tag that begins with `lang-en-`. The range `lang-`
    /// includes every language tag.
    pub fn is_subtype_of(&self, schema: &Schema, requested: &AttributeDescription) -> bool {
        schema.is_subtype(self.type_id, requested.type_id) && self.has_options_of(requested)
    }

    /// Compares only the options; see [`Self::is_subtype_of`].
    pub fn has_options_of(&self, requested: &AttributeDescription) -> bool {
        if requested.options.is_empty() || self.options == requested.options {
            return true;
        }
        let own = |wanted: &str| self.options.split(';').any(|option| satisfies(option, wanted));
        requested.options.split(';').all(own)
    }

    /// Returns true if an option is a language range (`lang-en-`), which is valid in requests and filters, but not in
    /// stored values.
    pub fn has_language_range(&self) -> bool {
        !self.options.is_empty() && self.options.split(';').any(is_language_range)
    }
}

fn is_language_range(option: &str) -> bool {
    option.starts_with("lang-") && option.ends_with('-')
}

fn satisfies(option: &str, wanted: &str) -> bool {
    option == wanted
        || is_language_range(wanted)
            && (option.starts_with(wanted) || wanted.strip_suffix('-') == Some(option))
}

impl Schema {
    /// Resolves `cn;lang-EN` or `userCertificate;binary`. Allocates only if there are options other than `binary`.
    ///
    /// # Errors
    /// [`DescriptionError::BadSyntax`] if the text is not an attribute description, [`DescriptionError::UnknownType`]
    /// if the schema does not define the type, [`DescriptionError::NoBinaryForm`] for `binary` on a type whose syntax
    /// does not allow binary transfer. RFC 4522 section 3 and RFC 4512 section 2.5 treat unknown types and `binary`
    /// without a binary form alike, as unrecognized descriptions.
    pub fn parse_description(&self, description: &str) -> Result<AttributeDescription, DescriptionError> {
        let (name, options) = match description.bytes().position(|byte| byte == b';') {
            Some(place) => (description.get(..place).unwrap_or_default(), description.get(place + 1..)),
            None => (description, None),
        };
        let attribute_type = self.attribute_type(name).ok_or_else(|| unknown_type(description, name))?;
        let mut parsed = AttributeDescription::of(attribute_type.id);
        match options {
            None => {}
            Some(options) if options.eq_ignore_ascii_case("binary") => parsed.binary = true,
            Some(options) => parsed.set_options(description, options)?,
        }
        if parsed.binary && !attribute_type.binary_transfer {
            return Err(DescriptionError::NoBinaryForm(attribute_type.name().to_owned()));
        }
        Ok(parsed)
    }
}

impl AttributeDescription {
    fn set_options(&mut self, description: &str, options: &str) -> Result<(), DescriptionError> {
        let mut offset = description.len() - options.len();
        let mut list: Vec<String> = Vec::new();
        for option in options.split(';') {
            if let Some(fault) = option_fault(option, offset) {
                return Err(DescriptionError::BadSyntax { description: description.to_owned(), fault });
            }
            offset += option.len() + 1;
            list.push(option.to_ascii_lowercase());
        }
        list.retain(|option| option != "binary");
        self.binary = list.len() < options.split(';').count();
        list.sort_unstable();
        list.dedup();
        self.options = list.join(";").into();
        Ok(())
    }
}

/// Returns the fault of an option. An option must consist of one or more letters, digits and hyphens (RFC 4512 section
/// 2.5).
fn option_fault(option: &str, offset: usize) -> Option<Fault> {
    if option.is_empty() {
        return Some(Fault::Expected { offset, what: "an option" });
    }
    let wrong =
        option.char_indices().find(|(_, character)| !character.is_ascii_alphanumeric() && *character != '-');
    wrong.map(|(at, character)| Fault::NotAllowed { offset: offset + at, character })
}

fn unknown_type(description: &str, name: &str) -> DescriptionError {
    let bare = oid::without_oid_prefix(name);
    if oid::is_descriptor(bare) || oid::is_numeric_oid(bare) {
        return DescriptionError::UnknownType(name.to_owned());
    }
    let fault = Fault::Expected { offset: 0, what: "the name or OID of an attribute type" };
    DescriptionError::BadSyntax { description: description.to_owned(), fault }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_parse_and_normalize() {
        let schema = Schema::shipped();
        for (text, returned, options, binary) in [
            ("CN", "cn", "", false),
            ("commonName", "cn", "", false),
            ("2.5.4.3", "cn", "", false),
            ("OID.2.5.4.3;lang-EN", "cn;lang-en", "lang-en", false),
            ("cn;x-b;LANG-en;x-b", "cn;lang-en;x-b", "lang-en;x-b", false),
            ("usercertificate", "userCertificate;binary", "", false),
            ("userCertificate;BINARY", "userCertificate;binary", "", true),
            ("userCertificate;x;binary", "userCertificate;binary;x", "x", true),
        ] {
            let parsed = schema.parse_description(text).unwrap();
            assert_eq!(parsed.returned_name(&schema), returned, "{text}");
            assert_eq!((&*parsed.options, parsed.binary), (options, binary), "{text}");
        }
        assert_eq!(
            schema.parse_description("shoeSize"),
            Err(DescriptionError::UnknownType("shoeSize".into()))
        );
        assert_eq!(schema.parse_description("1.2.3;x"), Err(DescriptionError::UnknownType("1.2.3".into())));
        for (text, name) in [
            ("jpegphoto;binary", "jpegPhoto"),
            ("commonName;BINARY", "cn"),
            ("2.5.4.4;x;binary;lang-en", "sn"),
            ("name;binary", "name"),
        ] {
            assert_eq!(
                schema.parse_description(text),
                Err(DescriptionError::NoBinaryForm(name.into())),
                "{text}"
            );
        }
        for bad in ["", ";x", "c n", "1cn", "cn;", "cn;x;", "cn;;x", "cn;a_b", "cn;é", "*"] {
            assert!(
                matches!(schema.parse_description(bad), Err(DescriptionError::BadSyntax { .. })),
                "{bad}"
            );
        }
    }

    #[test]
    fn a_description_includes_its_subtypes_and_options() {
        let schema = Schema::shipped();
        for (stored, requested, expected) in [
            ("cn", "name", true),
            ("cn", "cn", true),
            ("name", "cn", false),
            ("cn;lang-en", "cn", true),
            ("cn;lang-en", "name;lang-en", true),
            ("cn", "cn;lang-en", false),
            ("cn;lang-en;x-a", "cn;x-a", true),
            ("cn;lang-en-us", "cn;lang-en", false),
            ("cn;lang-en-us", "cn;lang-en-", true),
            ("cn;lang-en", "cn;lang-en-", true),
            ("cn;lang-eng", "cn;lang-en-", false),
            ("cn;lang-de;x-a", "cn;lang-;x-a", true),
            ("cn;x-a", "cn;lang-", false),
            ("userCertificate", "userCertificate;binary", true),
            ("userCertificate;binary", "userCertificate", true),
            ("sn", "cn", false),
        ] {
            let parse = |text| schema.parse_description(text).unwrap();
            assert_eq!(
                parse(stored).is_subtype_of(&schema, &parse(requested)),
                expected,
                "{stored} {requested}"
            );
        }
        assert!(schema.parse_description("cn;lang-en-").unwrap().has_language_range());
        assert!(!schema.parse_description("cn;lang-en").unwrap().has_language_range());
    }
}
