//! The schema in force: the shipped schema and the schema texts of the settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use schema::{Schema, SchemaBuilder, SchemaError, WithoutEffect};

use crate::model::settings::{SettingPath, SettingsProblem};

/// Returns the shipped schema with these texts added.
///
/// # Errors
/// A problem for each definition that cannot be used.
pub(crate) fn schema_of(texts: &BTreeMap<String, String>) -> Result<Arc<Schema>, Vec<SettingsProblem>> {
    if texts.is_empty() {
        return Ok(Schema::shipped());
    }
    builder_of(texts).build().map_err(|errors| errors.all().iter().map(schema_problem).collect())
}

/// Converts an error in a schema text to a problem of the settings.
pub(crate) fn schema_problem(error: &SchemaError) -> SettingsProblem {
    let place = match error.file.starts_with("schema.") {
        true => SettingPath::Line(error.file.clone(), error.line),
        false => SettingPath::Key("schema".to_owned()),
    };
    SettingsProblem::new(place, error.kind.to_string())
}

fn builder_of(texts: &BTreeMap<String, String>) -> SchemaBuilder {
    let mut builder = SchemaBuilder::shipped();
    for (name, text) in texts {
        builder.add_text(&format!("schema.{name}"), text);
    }
    builder
}

/// Returns the parts of these schema texts that have no effect.
pub(crate) fn without_effect(texts: &BTreeMap<String, String>) -> Vec<SettingsProblem> {
    if texts.is_empty() {
        return Vec::new();
    }
    let problem = |one: WithoutEffect| SettingsProblem::new(SettingPath::Line(one.file, one.line), one.text);
    builder_of(texts).without_effect().into_iter().map(problem).collect()
}
