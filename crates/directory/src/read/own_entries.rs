//! Virtual entries that the server computes on request: the root DSE, the subschema subentry, and the monitor and
//! configuration entries.
//!
//! These entries are searched in memory with the same filters and selections as other entries. The root DSE lists only
//! supported features (RFC 4512 section 5.1). Its list of controls comes from the table that also decodes requests.

use ldap::oids;
use schema::Schema;

use crate::access::OfferedBinds;
use crate::catalog::Catalog;
use crate::model::schema_times::SchemaTimes;
use crate::model::virtual_entries::{SUBSCHEMA_DN, SUPPORTED_EXTENSIONS, SUPPORTED_FEATURES, VirtualEntry};
use crate::read::controls::SUPPORTED_CONTROLS;
use crate::settings::DirectorySettings;
use crate::snapshot::Snapshot;

/// Builds the root DSE (RFC 4512 section 5.1). All its attributes except objectClass are operational, so a client
/// must request them by name or `+`.
pub(crate) fn root_dse(snapshot: &Snapshot, offered: OfferedBinds) -> VirtualEntry {
    let suffixes = snapshot.state().catalog.suffixes.iter().map(|suffix| suffix.dn.as_str());
    let position = snapshot.position().ok().map(|position| position.to_string());
    let keeps_deleted = snapshot.state().settings.general.keep_deleted_seconds > 0;
    let controls =
        SUPPORTED_CONTROLS.iter().filter(|control| keeps_deleted || control.oid != oids::SHOW_DELETED);
    let entry = VirtualEntry::new("")
        .with("objectClass", ["top", "extensibleObject"])
        .with("namingContexts", suffixes.clone())
        .with("defaultNamingContext", suffixes.take(1))
        .with("lastUSN", position)
        .with("supportedLDAPVersion", ["3"])
        .with("supportedControl", controls.map(|control| control.oid))
        .with("supportedExtension", SUPPORTED_EXTENSIONS.iter().map(|(oid, _)| *oid))
        .with("supportedFeatures", SUPPORTED_FEATURES.iter().map(|(oid, _)| *oid))
        .with("supportedCapabilities", snapshot.state().settings.general.supported_capabilities.clone())
        .with("dynamicSubtrees", snapshot.state().settings.general.dynamic_subtrees.clone())
        .with("supportedSASLMechanisms", offered.mechanisms(&snapshot.state().settings.general))
        .with("vendorName", ["Pando"])
        .with("vendorVersion", [snapshot.directory().vendor_version.as_str()]);
    let own = snapshot.directory().monitor.root_dse();
    own.into_iter().fold(entry, |entry, (name, values)| entry.with(name, values)).with_operational()
}

/// Builds the subschema subentry (RFC 4512 section 4.2). The definitions are values of operational attributes.
pub(crate) fn subschema(schema: &Schema, times: Option<&SchemaTimes>) -> VirtualEntry {
    let publication = schema.publish();
    VirtualEntry::new(SUBSCHEMA_DN)
        .with("objectClass", ["top", "subentry", "subschema", "extensibleObject"])
        .with("cn", ["subschema"])
        .with("subtreeSpecification", ["{}"])
        .with("structuralObjectClass", ["subentry"])
        .with("createTimestamp", times.map(SchemaTimes::create_timestamp))
        .with("modifyTimestamp", times.map(SchemaTimes::modify_timestamp))
        .with("ldapSyntaxes", publication.ldap_syntaxes)
        .with("matchingRules", publication.matching_rules)
        .with("matchingRuleUse", publication.matching_rule_use)
        .with("attributeTypes", publication.attribute_types)
        .with("objectClasses", publication.object_classes)
        .with("dITContentRules", publication.dit_content_rules)
        .with("dITStructureRules", publication.dit_structure_rules)
        .with("nameForms", publication.name_forms)
        .with_operational()
}

/// Builds the entries at and below `cn=monitor`.
pub(crate) fn monitor(snapshot: &Snapshot) -> Vec<VirtualEntry> {
    let entries = snapshot.directory().monitor.entries();
    entries.into_iter().map(VirtualEntry::with_operational).collect()
}

/// Builds the entries at and below `cn=config`: see [`crate::settings::entries`].
pub(crate) fn config(catalog: &Catalog) -> Vec<VirtualEntry> {
    let entries = crate::settings::entries::entries(&DirectorySettings::of(catalog));
    entries.into_iter().map(|(_, entry)| entry.with_operational()).collect()
}
