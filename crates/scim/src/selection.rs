//! The parameters `attributes` and `excludedAttributes` (RFC 7644 section 3.9).

use serde_json::{Map, Value};

use crate::attribute::Attribute;
use crate::error::{Result, ScimError};
use crate::limits::{FILTER_SIZE_MAX, SELECTED_MAX};
use crate::model::ResourceType;
use crate::path::AttributePath;

/// Attributes that every answer contains (RFC 7643 section 3.1).
const ALWAYS: [&str; 2] = ["id", "schemas"];

/// The content of the parameters `attributes` and `excludedAttributes`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    included: Option<Vec<AttributePath>>,
    excluded: Vec<AttributePath>,
}

impl Selection {
    /// Parses the names in the two parameters.
    ///
    /// # Errors
    /// invalidValue if the request contains both parameters, or a name is not a path.
    pub(crate) fn parse(included: Option<Vec<String>>, excluded: Option<Vec<String>>) -> Result<Selection> {
        if included.is_some() && excluded.is_some() {
            return Err(ScimError::value("attributes and excludedAttributes cannot be given together"));
        }
        let included = included.as_deref().map(paths).transpose()?;
        Ok(Selection { included, excluded: excluded.as_deref().map(paths).transpose()?.unwrap_or_default() })
    }

    /// Returns true if the request contains one of the parameters.
    pub(crate) fn is_stated(&self) -> bool {
        self.included.is_some() || !self.excluded.is_empty()
    }

    /// Returns true if the answer must contain the attribute or a part of it.
    pub(crate) fn wants(&self, resource: &ResourceType, attribute: &Attribute, is_extension: bool) -> bool {
        let named = |path: &AttributePath| names(resource, path, attribute.name, is_extension);
        match &self.included {
            Some(included) => included.iter().any(named),
            None => !self.excluded.iter().any(|path| path.part.is_none() && named(path)),
        }
    }

    /// Removes from a complete resource the attributes that are not selected.
    pub(crate) fn prune(&self, resource: &ResourceType, object: &mut Map<String, Value>) {
        if !self.is_stated() {
            return;
        }
        if let Some(schema) = resource.extension.as_ref().map(|extension| extension.schema) {
            let is_empty = match object.get_mut(schema) {
                Some(Value::Object(extended)) => {
                    self.prune_level(resource, extended, true);
                    extended.is_empty()
                }
                _ => false,
            };
            if is_empty {
                object.remove(schema);
            }
        }
        self.prune_level(resource, object, false);
    }

    fn prune_level(&self, resource: &ResourceType, object: &mut Map<String, Value>, is_extension: bool) {
        object.retain(|name, value| {
            let is_kept = !is_extension && (ALWAYS.contains(&name.as_str()) || name.starts_with("urn:"));
            if is_kept {
                return true;
            }
            let named = |path: &&AttributePath| names(resource, path, name, is_extension);
            match &self.included {
                Some(included) => {
                    let paths: Vec<_> = included.iter().filter(named).collect();
                    if paths.iter().all(|path| path.part.is_some()) {
                        retain_parts(value, &|part| paths.iter().any(|path| is_part(path, part)));
                    }
                    !paths.is_empty()
                }
                None => {
                    let paths: Vec<_> = self.excluded.iter().filter(named).collect();
                    retain_parts(value, &|part| !paths.iter().any(|path| is_part(path, part)));
                    paths.iter().all(|path| path.part.is_some())
                }
            }
        });
    }
}

fn paths(names: &[String]) -> Result<Vec<AttributePath>> {
    if names.iter().map(String::len).sum::<usize>() > FILTER_SIZE_MAX {
        return Err(ScimError::value(format!("names of attributes have at most {FILTER_SIZE_MAX} octets")));
    }
    let parse = |name: &String| {
        AttributePath::parse(name)
            .ok_or_else(|| ScimError::value(format!("{:?} names no attribute", ldap::Excerpt(name))))
    };
    let names = || names.iter().filter(|name| !name.is_empty());
    if names().count() > SELECTED_MAX {
        return Err(ScimError::value(format!("at most {SELECTED_MAX} names of attributes can be selected")));
    }
    names().map(parse).collect()
}

/// Returns true if `path` refers to the attribute `name` of the core schema or of the extension. Also returns true if
/// `path` refers to the whole schema.
fn names(resource: &ResourceType, path: &AttributePath, name: &str, is_extension: bool) -> bool {
    let schema = match &resource.extension {
        Some(extension) if is_extension => extension.schema,
        _ => resource.schema,
    };
    // If the text is the URN of a schema, the parser has taken the last part of the URN as the name of an attribute.
    if path.to_string().eq_ignore_ascii_case(schema) {
        return true;
    }
    let is_schema = match &path.schema {
        Some(stated) => stated.eq_ignore_ascii_case(schema),
        None => !is_extension,
    };
    is_schema && path.name.eq_ignore_ascii_case(name)
}

fn is_part(path: &AttributePath, part: &str) -> bool {
    path.part.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(part))
}

fn retain_parts(value: &mut Value, keep: &dyn Fn(&str) -> bool) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| retain_parts(value, keep)),
        Value::Object(parts) => parts.retain(|name, _| keep(name)),
        _ => {}
    }
}
