//! The model of users (RFC 7643 sections 4.1 and 4.3).

use super::{
    ENTERPRISE, Extension, Names, ResourceName, ResourceType, USER, external_id, text_attribute, text_in,
};
use crate::attribute::{Attribute, Binding, Kind, Mutability, Slot};
use crate::settings::ScimSettings;

pub(super) fn resource_type(settings: &ScimSettings, names: &mut Names<'_>) -> ResourceType {
    let mut attributes = single_valued(names);
    attributes.push(name(names));
    attributes.extend(multi_valued(names));
    ResourceType {
        name: ResourceName::User,
        schema: USER,
        description: "User account",
        external_id: external_id(names),
        attributes,
        extension: Some(enterprise(names)),
        base: settings.users.clone(),
        rdn: settings.user_rdn.clone(),
        classes: settings.user_classes.clone(),
        found: settings.user_classes[..1].to_vec(),
    }
}

/// Returns the attributes with one value (section 4.1.1).
fn single_valued(names: &mut Names<'_>) -> Vec<Attribute> {
    let user_name = Binding::Text(names.required("userName", "uid"));
    let mut text =
        |key, default, description| Attribute::text(key, description, text_in(names.of(key, default)));
    let mut attributes = vec![
        Attribute::text("userName", "Name by which the user signs in", user_name).required().unique(),
        text("displayName", "displayName", "Name to show"),
        text("nickName", "", "Casual name"),
        text("profileUrl", "labeledURI", "URL of a page about the user").refers_to(&["external"]),
        text("title", "title", "Title, such as Vice President"),
        text("userType", "employeeType", "Relation to the organization, such as Contractor"),
        text("preferredLanguage", "preferredLanguage", "Preferred languages, as in Accept-Language"),
        text("locale", "", "Locale for numbers and times"),
        text("timezone", "", "Time zone"),
    ];
    let active = names.of("active", "pwdAccountLockedTime").map_or(Binding::Unmapped, Binding::Active);
    attributes.push(
        Attribute::text("active", "Whether the user may sign in: false is a lock without end", active)
            .kind(Kind::Boolean),
    );
    let password = names.of("password", "userPassword").map_or(Binding::Unmapped, Binding::Password);
    let password = Attribute::text("password", "New password, which the password policy checks", password);
    attributes.push(password.exact().set_by(Mutability::WriteOnly));
    attributes
}

fn name(names: &mut Names<'_>) -> Attribute {
    let mut text = |key, name, default, description| text_attribute(names, (key, default), name, description);
    let parts = vec![
        text("name.formatted", "formatted", "cn", "The full name"),
        text("name.familyName", "familyName", "sn", "The family name"),
        text("name.givenName", "givenName", "givenName", "The given name"),
        text("name.middleName", "middleName", "", "The middle names"),
        text("name.honorificPrefix", "honorificPrefix", "", "Title before the name"),
        text("name.honorificSuffix", "honorificSuffix", "", "Suffix after the name"),
    ];
    container("name", "The parts of the name", parts)
}

/// Returns the attributes with several values (section 4.1.2).
fn multi_valued(names: &mut Names<'_>) -> Vec<Attribute> {
    let emails = slots(
        names,
        &[("emails.work", "work", "mail"), ("emails.home", "home", ""), ("emails.other", "other", "")],
    );
    let phones = slots(
        names,
        &[
            ("phoneNumbers.work", "work", "telephoneNumber"),
            ("phoneNumbers.home", "home", "homePhone"),
            ("phoneNumbers.mobile", "mobile", "mobile"),
            ("phoneNumbers.fax", "fax", "facsimileTelephoneNumber"),
            ("phoneNumbers.pager", "pager", "pager"),
            ("phoneNumbers.other", "other", ""),
        ],
    );
    let mut attributes = vec![
        typed("emails", "Mail addresses", emails),
        typed("phoneNumbers", "Phone numbers", phones),
        address(names),
    ];
    for (key, description) in [
        ("ims", "Addresses for instant messages"),
        ("photos", "URLs of photos"),
        ("entitlements", "Entitlements"),
        ("roles", "Roles"),
        ("x509Certificates", "Certificates"),
    ] {
        let binding = names.of(key, "").map_or(Binding::Unmapped, Binding::Values);
        let unmapped = ["display", "type", "primary", "$ref"];
        let mut parts = vec![Attribute::text("value", "The value", Binding::Inner)];
        parts.extend(unmapped.map(|name| Attribute::text(name, "", Binding::Unmapped)));
        attributes.push(Attribute::complex(key, description, binding, parts).many());
    }
    let groups = names.of("groups", "memberOf").map_or(Binding::Unmapped, Binding::Groups);
    let part =
        |name, description| Attribute::text(name, description, Binding::Inner).set_by(Mutability::ReadOnly);
    let parts = vec![
        part("value", "The id of the group").exact(),
        part("$ref", "The URL of the group").refers_to(&["Group"]),
        Attribute::text("display", "", Binding::Unmapped),
        Attribute::text("type", "", Binding::Unmapped),
    ];
    let groups = Attribute::complex("groups", "The groups of the user", groups, parts);
    attributes.push(groups.many().set_by(Mutability::ReadOnly));
    attributes
}

fn slots(names: &mut Names<'_>, all: &[(&'static str, &'static str, &str)]) -> Vec<Slot> {
    let slot = |&(key, canonical, default): &(&'static str, &'static str, &str)| {
        names.of(key, default).map(|description| Slot { canonical, description })
    };
    all.iter().filter_map(slot).collect()
}

/// Returns an attribute whose values have types. If there is only one type, clients can mark the primary value, which
/// is stored as the first value.
fn typed(name: &'static str, description: &'static str, slots: Vec<Slot>) -> Attribute {
    let types = slots.iter().map(|slot| slot.canonical).collect();
    let primary = if slots.len() == 1 { Binding::Inner } else { Binding::Unmapped };
    let binding = if slots.is_empty() { Binding::Unmapped } else { Binding::Typed(slots) };
    let parts = vec![
        Attribute::text("value", "The value", Binding::Inner),
        Attribute::text("type", "What it is for", Binding::Inner).one_of(types),
        Attribute::text("primary", "Whether it is the preferred value, which is kept as the first", primary)
            .kind(Kind::Boolean),
        Attribute::text("display", "", Binding::Unmapped),
    ];
    Attribute::complex(name, description, binding, parts).many()
}

fn address(names: &mut Names<'_>) -> Attribute {
    let mut text = |key, name, default, description| text_attribute(names, (key, default), name, description);
    let mut parts = vec![
        text("addresses.formatted", "formatted", "postalAddress", "The lines of the address"),
        text("addresses.streetAddress", "streetAddress", "street", "Street and number"),
        text("addresses.locality", "locality", "l", "City"),
        text("addresses.region", "region", "st", "State or region"),
        text("addresses.postalCode", "postalCode", "postalCode", "Postal code"),
        text("addresses.country", "country", "", "Country"),
    ];
    let is_mapped = parts.iter().any(Attribute::is_mapped);
    let kind = Attribute::text("type", "What it is for", Binding::Inner).one_of(vec!["work"]);
    parts.push(kind);
    parts.push(Attribute::text("primary", "", Binding::Unmapped).kind(Kind::Boolean));
    let binding = if is_mapped { Binding::Address } else { Binding::Unmapped };
    Attribute::complex("addresses", "The address at work", binding, parts).many()
}

/// Returns the enterprise extension (section 4.3).
fn enterprise(names: &mut Names<'_>) -> Extension {
    let mut text = |key, name, default, description| text_attribute(names, (key, default), name, description);
    let mut attributes = vec![
        text("enterprise.employeeNumber", "employeeNumber", "employeeNumber", "Number of the employee"),
        text("enterprise.costCenter", "costCenter", "", "Cost center"),
        text("enterprise.organization", "organization", "o", "Organization"),
        text("enterprise.division", "division", "ou", "Division"),
        text("enterprise.department", "department", "departmentNumber", "Department"),
    ];
    let manager = names.of("enterprise.manager", "manager").map_or(Binding::Unmapped, Binding::Link);
    let parts = vec![
        Attribute::text("value", "The id of the manager", Binding::Inner).exact(),
        Attribute::text("$ref", "The URL of the manager", Binding::Inner).refers_to(&["User"]),
        Attribute::text("displayName", "", Binding::Unmapped).set_by(Mutability::ReadOnly),
    ];
    attributes.push(Attribute::complex("manager", "The manager of the user", manager, parts));
    Extension { schema: ENTERPRISE, description: "Enterprise User", attributes }
}

/// Returns an attribute that consists of parts. Each part has its own LDAP attribute.
fn container(name: &'static str, description: &'static str, parts: Vec<Attribute>) -> Attribute {
    let is_mapped = parts.iter().any(Attribute::is_mapped);
    let binding = if is_mapped { Binding::Inner } else { Binding::Unmapped };
    Attribute::complex(name, description, binding, parts)
}
