//! The model of groups (RFC 7643 section 4.2).

use super::{GROUP, Names, ResourceName, ResourceType, external_id};
use crate::attribute::{Attribute, Binding, Mutability};
use crate::settings::ScimSettings;

pub(super) fn resource_type(settings: &ScimSettings, names: &mut Names<'_>) -> ResourceType {
    let name = Binding::Text(names.required("displayName", "cn"));
    let members = Binding::Members(names.required("members", "member"));
    let part =
        |name, description| Attribute::text(name, description, Binding::Inner).set_by(Mutability::Immutable);
    let attributes = vec![
        Attribute::text("displayName", "Name of the group", name).required().unique(),
        Attribute::complex(
            "members",
            "Members of the group",
            members,
            vec![
                part("value", "The id of the member").exact(),
                part("$ref", "The URL of the member").refers_to(&["User", "Group"]),
                part("type", "The kind of the member").one_of(vec!["User", "Group"]),
                Attribute::text("display", "", Binding::Unmapped),
            ],
        )
        .many(),
    ];
    let mut found = settings.group_classes[..1].to_vec();
    found.extend(settings.other_group_classes.iter().cloned());
    ResourceType {
        name: ResourceName::Group,
        schema: GROUP,
        description: "Group",
        external_id: external_id(names),
        attributes,
        extension: None,
        base: settings.groups.clone(),
        rdn: settings.group_rdn.clone(),
        classes: settings.group_classes.clone(),
        found,
    }
}
