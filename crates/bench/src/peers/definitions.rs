//! Conversion of schema definitions from OpenLDAP's form to the form of servers that read definitions as values of a
//! schema entry.

/// Converts `attributetype ( ... )` and `objectclass ( ... )` to lines `attributeTypes: ( ... )` and `objectClasses: (
/// ... )`. Attribute types come first, comments are removed, and each definition is one line.
pub(super) fn as_values(schema: &str) -> Vec<(&'static str, String)> {
    let mut values: Vec<(&'static str, String)> = Vec::new();
    for line in schema.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let lower = line.to_ascii_lowercase();
        let begins = [("attributetype ", "attributeTypes"), ("objectclass ", "objectClasses")];
        match begins.into_iter().find(|(word, _)| lower.starts_with(word)) {
            Some((word, name)) => values.push((name, line[word.len()..].trim().to_owned())),
            None => {
                if let Some((_, value)) = values.last_mut() {
                    value.push(' ');
                    value.push_str(line);
                }
            }
        }
    }
    values.sort_by_key(|(name, _)| *name);
    values
}

/// Returns the LDIF of a schema entry with these definitions, as in the schema files of 389 DS and OpenDJ.
pub(super) fn as_ldif(schema: &str) -> String {
    let mut text =
        "dn: cn=schema\nobjectClass: top\nobjectClass: ldapSubentry\nobjectClass: subschema\ncn: schema\n"
            .to_owned();
    for (name, value) in as_values(schema) {
        text.push_str(&format!("{name}: {value}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_one_per_line_with_attribute_types_first() {
        let schema = "# vendor\nobjectclass ( 2 NAME 'c' SUP top\n    MAY a )\n\n\
            attributetype ( 1 NAME 'a'\n  SYNTAX x )\n";
        let values = as_values(schema);
        assert_eq!(
            values,
            [
                ("attributeTypes", "( 1 NAME 'a' SYNTAX x )".to_owned()),
                ("objectClasses", "( 2 NAME 'c' SUP top MAY a )".to_owned()),
            ]
        );
        assert!(as_ldif(schema).ends_with(
            "cn: schema\nattributeTypes: ( 1 NAME 'a' SYNTAX x )\n\
            objectClasses: ( 2 NAME 'c' SUP top MAY a )\n"
        ));
    }
}
