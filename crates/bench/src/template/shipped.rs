//! The templates that come with Pando. They generate the data of published benchmarks and of Pando's own benchmarks.

/// A template that comes with Pando.
#[derive(Clone, Copy, Debug)]
pub struct ShippedTemplate {
    /// Name on the command line.
    pub name: &'static str,
    /// Description of the entries in one line.
    pub description: &'static str,
    /// Text of the template.
    pub text: &'static str,
    /// Schema definitions in OpenLDAP's form that the entries need in addition to the schema of Pando.
    pub schema: Option<&'static str>,
}

macro_rules! template {
    ($name:literal, $description:literal $(, $schema:literal)?) => {
        ShippedTemplate {
            name: $name,
            description: $description,
            text: include_str!(concat!("../../templates/", $name, ".template")),
            schema: [$(Some(include_str!(concat!("../../templates/", $schema))),)? None][0],
        }
    };
}

/// All shipped templates.
pub const SHIPPED: &[ShippedTemplate] = &[
    template!("oid", "Oracle Internet Directory 2010: 2.8 KB users, 50 groups with every user in one"),
    template!("directorymark", "DirectoryMark 2002: organizationalPerson under ten units of o=Salford,c=GB"),
    template!("m-vault", "Isode M-Vault 2011: four short attributes, flat"),
    template!("edirectory", "Novell eDirectory 2009: inetOrgPerson with a vendor class", "edirectory.schema"),
    template!(
        "people",
        "inetOrgPerson of 19 attributes, 741 octets each: what directory servers are compared with"
    ),
    template!("sun", "Sun Directory Server 2009: subscribers of 2,302 octets each"),
    template!(
        "prescriptions",
        "University of Salford 2002: prescriptions as X.509 attribute certificates",
        "prescriptions.schema"
    ),
];

/// Returns a shipped template by its name.
pub fn find(name: &str) -> Option<&'static ShippedTemplate> {
    SHIPPED.iter().find(|template| template.name == name)
}
