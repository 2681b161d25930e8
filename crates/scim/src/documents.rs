//! The documents that describe the service (RFC 7643 sections 5 to 7).

use serde_json::{Map, Value, json};

use crate::attribute::{Attribute, Kind, Mutability};
use crate::limits::{BODY_SIZE_MAX, BULK_OPERATIONS_MAX, PAGE_SIZE_DEFAULT, PAGE_SIZE_MAX};
use crate::model::{Model, ResourceType};

const SCHEMA: &str = "urn:ietf:params:scim:schemas:core:2.0:Schema";
const RESOURCE_TYPE: &str = "urn:ietf:params:scim:schemas:core:2.0:ResourceType";
const CONFIG: &str = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig";
const LIST: &str = "urn:ietf:params:scim:api:messages:2.0:ListResponse";

/// Returns the configuration of the service provider (section 5).
pub(crate) fn service_provider_config(url: &str) -> Value {
    let scheme = |kind: &str, name: &str, description: &str, specification: &str, primary: bool| {
        json!({
            "type": kind, "name": name, "description": description, "specUri": specification, "primary": primary
        })
    };
    let token = "A token of the issuer, or base64 of a name, a colon and an application password";
    json!({
        "schemas": [CONFIG],
        "patch": { "supported": true },
        "bulk": {
            "supported": true, "maxOperations": BULK_OPERATIONS_MAX, "maxPayloadSize": BODY_SIZE_MAX
        },
        "filter": { "supported": true, "maxResults": PAGE_SIZE_MAX },
        "changePassword": { "supported": true },
        "sort": { "supported": true },
        "etag": { "supported": true },
        "pagination": {
            "cursor": true, "index": true, "defaultPaginationMethod": "index",
            "defaultPageSize": PAGE_SIZE_DEFAULT, "maxPageSize": PAGE_SIZE_MAX
        },
        "authenticationSchemes": [
            scheme(
                "oauthbearertoken", "Bearer token", token, "https://www.rfc-editor.org/info/rfc6750", true
            ),
            scheme(
                "httpbasic", "HTTP Basic", "A user name or DN, and a password",
                "https://www.rfc-editor.org/info/rfc7617", false
            ),
        ],
        "meta": {
            "resourceType": "ServiceProviderConfig", "location": format!("{url}/ServiceProviderConfig")
        },
    })
}

/// Returns the resource types with their ids.
pub(crate) fn resource_types(model: &Model, url: &str) -> Vec<(String, Value)> {
    let document = |resource: &&ResourceType| {
        let name = resource.name.text();
        let mut document = json!({
            "schemas": [RESOURCE_TYPE],
            "id": name,
            "name": name,
            "description": resource.description,
            "endpoint": format!("/{}", resource.name.endpoint()),
            "schema": resource.schema,
            "meta": { "resourceType": "ResourceType", "location": format!("{url}/ResourceTypes/{name}") },
        });
        if let Some(extension) = &resource.extension {
            document["schemaExtensions"] = json!([{ "schema": extension.schema, "required": false }]);
        }
        (name.to_owned(), document)
    };
    model.both().iter().map(document).collect()
}

/// Returns the schemas with their ids.
pub(crate) fn schemas(model: &Model, url: &str) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    for resource in model.both() {
        all.push(schema(
            resource.schema,
            resource.name.text(),
            resource.description,
            &resource.attributes,
            url,
        ));
        if let Some(extension) = &resource.extension {
            let name = "EnterpriseUser";
            all.push(schema(extension.schema, name, extension.description, &extension.attributes, url));
        }
    }
    all
}

fn schema(id: &str, name: &str, description: &str, attributes: &[Attribute], url: &str) -> (String, Value) {
    let document = json!({
        "schemas": [SCHEMA],
        "id": id,
        "name": name,
        "description": description,
        "attributes": described(attributes),
        "meta": { "resourceType": "Schema", "location": format!("{url}/Schemas/{id}") },
    });
    (id.to_owned(), document)
}

/// Returns the descriptions of those SCIM attributes that are stored in LDAP attributes.
fn described(attributes: &[Attribute]) -> Vec<Value> {
    attributes.iter().filter(|attribute| attribute.is_mapped()).map(attribute).collect()
}

fn attribute(attribute: &Attribute) -> Value {
    let kind = match attribute.kind {
        Kind::Text => "string",
        Kind::Boolean => "boolean",
        Kind::Reference => "reference",
        Kind::Complex => "complex",
    };
    let mutability = match attribute.mutability {
        Mutability::ReadWrite => "readWrite",
        Mutability::ReadOnly => "readOnly",
        Mutability::WriteOnly => "writeOnly",
        Mutability::Immutable => "immutable",
    };
    let mut document = Map::new();
    let mut put = |name: &str, value: Value| document.insert(name.to_owned(), value);
    put("name", attribute.name.into());
    put("type", kind.into());
    put("multiValued", attribute.is_multi_valued.into());
    put("description", attribute.description.into());
    put("required", attribute.is_required.into());
    if !matches!(attribute.kind, Kind::Complex | Kind::Boolean) {
        put("caseExact", attribute.is_case_exact.into());
    }
    put("mutability", mutability.into());
    put("returned", if attribute.mutability == Mutability::WriteOnly { "never" } else { "default" }.into());
    put("uniqueness", if attribute.is_unique { "server" } else { "none" }.into());
    if !attribute.canonical.is_empty() {
        put("canonicalValues", json!(attribute.canonical));
    }
    if !attribute.references.is_empty() {
        put("referenceTypes", json!(attribute.references));
    }
    if attribute.kind == Kind::Complex {
        put("subAttributes", described(&attribute.parts).into());
    }
    document.into()
}

/// Returns a list of documents as one page (RFC 7644 section 4).
pub(crate) fn list(documents: Vec<(String, Value)>) -> Value {
    let documents: Vec<Value> = documents.into_iter().map(|(_, document)| document).collect();
    json!({
        "schemas": [LIST],
        "totalResults": documents.len(),
        "itemsPerPage": documents.len(),
        "startIndex": 1,
        "Resources": documents,
    })
}
