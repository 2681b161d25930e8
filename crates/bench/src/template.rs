//! LDIF of any size from a template, in the template language of SLAMD's MakeLDIF, which OpenDJ's and UnboundID's
//! make-ldif also use. `docs/how-to/generate.md` describes the language and how Pando's version of it differs.
//!
//! A [`Template`] is read once: `source` splits files into lines, `parse` makes blocks of the lines, `tag` splits
//! values into parts, and `plan` resolves names and counts. The data of a template can then be generated any number of
//! times: `entry` makes one entry, and `generate` makes all entries, with several threads. Every entry depends only on
//! the seed and the number of the entry. Therefore the same seed gives the same octets for any number of threads, and
//! written entries and members of groups need not be stored. The members of a group are written one after the other, so
//! the use of memory does not grow with the size of a group.
//!
//! Templates are not checked against a schema, but a test checks the shipped templates against Pando's schema.

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

/// Parameters that the caller and not the template determines.
#[derive(Clone, Debug, Default)]
pub struct Parameters {
    /// Values for constants of the template. They replace the template's own values. The template must define these
    /// constants. Names may be in any case.
    pub constants: BTreeMap<String, String>,
    /// The number of main entries. The number replaces the value of the constant `entries`, or of `numusers` if the
    /// template has no `entries`.
    pub entries: Option<u64>,
}

/// A template that was read and checked.
pub struct Template {
    plan: plan::Plan,
}

impl Template {
    /// Reads a shipped template by its name, or a file by its path. Also reads the files that the template includes or
    /// chooses values from.
    ///
    /// # Errors
    /// The first error found, with its file and line.
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

    /// Returns the number of entries that the template generates.
    pub fn entry_count(&self) -> u64 {
        self.plan.entry_count()
    }

    /// Writes all entries as LDIF (RFC 2849), superiors first, without a version line, so that documents can be
    /// concatenated. Returns the number of octets. The use of memory does not grow with the number of entries.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn generate(&self, seed: u64, threads: NonZeroUsize, out: &mut impl Write) -> io::Result<u64> {
        generate::generate(&self.plan, seed, threads, out)
    }
}
