//! From schema texts to a [`Schema`].

use std::sync::Arc;

use crate::{Schema, SchemaError};

/// Collects schema texts and resolves them into a [`Schema`].
#[derive(Debug, Default)]
pub struct SchemaBuilder {}

impl SchemaBuilder {
    /// An empty builder: not even `top`.
    pub fn new() -> SchemaBuilder {
        SchemaBuilder::default()
    }

    /// A builder that holds the shipped files.
    pub fn shipped() -> SchemaBuilder {
        todo!()
    }

    /// Adds one file's text. `file` is used in errors only. Definitions may refer to later ones and to later files.
    ///
    /// # Errors
    /// The text does not follow the grammar. Names are resolved in [`Self::build`].
    pub fn add_text(&mut self, _file: &str, _text: &str) -> Result<&mut SchemaBuilder, SchemaError> {
        todo!()
    }

    /// Resolves all names.
    ///
    /// # Errors
    /// The first definition, in the order given, that clashes with another or refers to something unknown.
    pub fn build(&self) -> Result<Arc<Schema>, SchemaError> {
        todo!()
    }
}
