//! LDIF of any size from a template, in the language of SLAMD's MakeLDIF, and of OpenDJ's and UnboundID's make-ldif.
//! `docs/how-to/generate.md` describes it, and Pando's differences.
//!
//! A [`Template`] is read once (`source` makes lines of files, `parse` blocks of lines, `tag` parts of values, `plan`
//! resolves names and counts) and then generated as often as wanted (`entry` makes one entry, `generate` all, by
//! several threads). Every entry follows from the seed and its number alone, so the same seed gives the same octets
//! whatever the number of threads, and nothing that was written is stored, neither entries nor the members of a group.
//! Only single values, except a group's members, are in memory as a whole.
//!
//! Templates are not checked against a schema; a test checks the shipped ones against Pando's.

mod certificate;
mod entry;
mod error;
mod generate;
mod lists;
mod parse;
mod plan;
mod random;
mod shipped;
mod source;
mod tag;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

pub use error::{TemplateError, TemplateFault, TemplateLine};
pub use shipped::{SHIPPED, ShippedTemplate, find as shipped};

/// Maximum nesting depth of included files.
pub const INCLUDE_DEPTH_MAX: u32 = 16;

/// Parameters from outside the template.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    /// Constants that replace those of the template, which must define them. Names in any case.
    pub constants: BTreeMap<String, String>,
    /// The number of main entries: the constant `entries`, or `numusers` if there is none.
    pub entries: Option<u64>,
}

/// A template that was read and checked.
pub struct Template {
    plan: plan::Plan,
}

impl Template {
    /// Reads a shipped template by its name, or else a file by its path, with the files that it includes and chooses
    /// from.
    ///
    /// # Errors
    /// The first error, with file and line.
    pub fn read(name_or_path: &str, parameters: &Parameters) -> Result<Template, TemplateError> {
        if let Some(shipped) = shipped::find(name_or_path) {
            return Template::of_text(name_or_path, shipped.text, None, parameters);
        }
        let (path, whole) = (Path::new(name_or_path), TemplateLine { file: name_or_path.into(), line: 0 });
        let text = source::read_file(path, &whole)?;
        Template::of_text(name_or_path, &text, Some(source::folder_of(path)), parameters)
    }

    fn of_text(
        name: &str,
        text: &str,
        folder: Option<Arc<Path>>,
        parameters: &Parameters,
    ) -> Result<Template, TemplateError> {
        let constants = parameters.constants.iter();
        let constants = constants.map(|(name, value)| (name.to_ascii_lowercase(), value.clone())).collect();
        let source = source::Source::read(name, text, folder, &constants, parameters.entries)?;
        let blocks = parse::blocks(&source.lines)?;
        let whole = TemplateLine { file: name.into(), line: 0 };
        Ok(Template { plan: plan::Plan::new(blocks, &whole)? })
    }

    /// Returns the number of entries that it generates.
    pub fn entry_count(&self) -> u64 {
        self.plan.entry_count()
    }

    /// Writes all entries as LDIF (RFC 2849), superiors first, without a version line, so that documents can be
    /// concatenated. Returns the number of octets. Memory does not grow with the document.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn generate(&self, seed: u64, threads: NonZeroUsize, out: &mut impl Write) -> io::Result<u64> {
        generate::generate(&self.plan, seed, threads, out)
    }
}
