//! Errors of a template, with their lines.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// Location of a line in a template file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateLine {
    /// Name of the file as it was given, or name of a shipped template.
    pub file: Arc<str>,
    /// Number of the line, from 1. 0 stands for the whole file.
    pub line: u32,
}

impl std::fmt::Display for TemplateLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.file),
            line => write!(f, "{}:{line}", self.file),
        }
    }
}

impl TemplateLine {
    pub(super) fn fault(&self, fault: TemplateFault) -> TemplateError {
        TemplateError { place: self.clone(), fault }
    }
}

/// Error of a template, with its line.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct TemplateError {
    /// The line.
    pub place: TemplateLine,
    /// The error.
    pub fault: TemplateFault,
}

/// Kind of an error in a template.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateFault {
    /// A template, an included file or a file of values cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// Files include each other, or are nested more deeply than [`super::INCLUDE_DEPTH_MAX`].
    #[error("files are included more than {} deep", super::INCLUDE_DEPTH_MAX)]
    IncludeDepth,
    /// A line includes a Java class, which is OpenDJ's way to add tags.
    #[error("{0} names a Java class with tags of its own, which only OpenDJ can run")]
    JavaClass(String),
    /// A `define` line does not have the form `define NAME=VALUE`.
    #[error("write define NAME=VALUE")]
    Define,
    /// `[NAME]` occurs before any definition of the constant.
    #[error("no constant [{0}] is defined above; a bracket that is meant as such is written \\[")]
    UnknownConstant(String),
    /// The parameters give a value for a constant that the template does not define.
    #[error("the template defines no constant {0}")]
    UnusedConstant(String),
    /// A bracket is not closed.
    #[error("{0} is not closed; a bracket that is meant as such is written \\{0}")]
    Unclosed(char),
    /// A line is not an attribute line, and does not begin with a keyword.
    #[error("write NAME: VALUE")]
    NotALine,
    /// An attribute line is not in a block.
    #[error("this line belongs to no branch and no template: an empty line ends one")]
    Stray,
    /// A branch contains a keyword that is not allowed in branches.
    #[error("{0} is for templates, not for branches")]
    NotInABranch(&'static str),
    /// Two templates have the same name.
    #[error("template {0} is already defined")]
    Duplicate(String),
    /// A line refers to a template that does not exist.
    #[error("no template {0}")]
    UnknownTemplate(String),
    /// A template contains or extends itself.
    #[error("template {0} is below itself")]
    Recursive(String),
    /// The name of a branch is not a DN.
    #[error("{0:?} is no DN of a branch")]
    BranchName(String),
    /// The line does not have the form `NAME:COUNT`.
    #[error("write subordinateTemplate: NAME:COUNT, or NAME:COUNT/PARTS")]
    Subordinate,
    /// A number of entries is not divisible by the number of superiors.
    #[error("{count} entries cannot be shared out evenly over {parts} parents")]
    Uneven {
        /// The dividend.
        count: u64,
        /// The divisor.
        parts: u64,
    },
    /// The number of entries exceeds 64 bits.
    #[error("more entries than can be counted")]
    TooMany,
    /// The template has no branch, so there are no entries to generate.
    #[error("the template has no branch, so there is nothing to generate")]
    NoBranch,
    /// A template has no `rdnAttr`.
    #[error("template {0} has no rdnAttr")]
    NoRdn(String),
    /// Some entries would lack a naming attribute.
    #[error("the naming attribute {0} must have a plain value on every entry")]
    OptionalRdn(String),
    /// A line refers to an attribute that the template does not have.
    #[error("the template has no attribute {0}")]
    UnknownAttribute(String),
    /// Values depend on each other in a cycle.
    #[error("the value of {0} depends on itself")]
    Cycle(String),
    /// A tag is unknown.
    #[error("no tag <{0}>; a bracket that is meant as such is written \\<")]
    UnknownTag(String),
    /// A tag has the wrong arguments.
    #[error("write <{0}>")]
    Arguments(&'static str),
    /// A file of values has no lines.
    #[error("{} has no lines", .0.display())]
    EmptyFile(PathBuf),
    /// `<members>` occurs in the name of a branch, or is not alone on its line.
    #[error("<members> and <dnof> cannot be part of a DN, and <members> must be alone on its line")]
    Misplaced,
    /// Some groups would have no member.
    #[error("{members} entries of {template} cannot be shared out over {groups} groups")]
    TooFewMembers {
        /// Template of the members.
        template: String,
        /// Number of members.
        members: u64,
        /// Number of groups, which need at least one member each.
        groups: u64,
    },
}
