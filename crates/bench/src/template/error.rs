//! Errors of a template, with their lines.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

/// A line of a template file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemplateLine {
    /// The file as it was named, or a shipped template's name.
    pub file: Arc<str>,
    /// From 1; 0 is the file as a whole.
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

/// Error of a line.
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
    /// Files include each other, or more deeply than [`super::INCLUDE_DEPTH_MAX`].
    #[error("files are included more than {} deep", super::INCLUDE_DEPTH_MAX)]
    IncludeDepth,
    /// `include` of a Java class, which is how OpenDJ adds tags.
    #[error("{0} names a Java class with tags of its own, which only OpenDJ can run")]
    JavaClass(String),
    /// Not `define NAME=VALUE`.
    #[error("write define NAME=VALUE")]
    Define,
    /// `[NAME]` without a definition above it.
    #[error("no constant [{0}] is defined above; a bracket that is meant as such is written \\[")]
    UnknownConstant(String),
    /// A constant given from outside that the template does not define.
    #[error("the template defines no constant {0}")]
    UnusedConstant(String),
    /// A bracket without its partner.
    #[error("{0} is not closed; a bracket that is meant as such is written \\{0}")]
    Unclosed(char),
    /// Neither an attribute line nor a keyword.
    #[error("write NAME: VALUE")]
    NotALine,
    /// An attribute line with no block above it to belong to.
    #[error("this line belongs to no branch and no template: an empty line ends one")]
    Stray,
    /// A keyword that a branch does not take.
    #[error("{0} is for templates, not for branches")]
    NotInABranch(&'static str),
    /// Two templates of one name.
    #[error("template {0} is already defined")]
    Duplicate(String),
    /// A reference to a template that does not exist.
    #[error("no template {0}")]
    UnknownTemplate(String),
    /// A template that contains or extends itself.
    #[error("template {0} is below itself")]
    Recursive(String),
    /// A branch without a usable name.
    #[error("{0:?} is no DN of a branch")]
    BranchName(String),
    /// Not NAME:COUNT.
    #[error("write subordinateTemplate: NAME:COUNT, or NAME:COUNT/PARTS")]
    Subordinate,
    /// A count that does not divide evenly.
    #[error("{count} entries cannot be shared out evenly over {parts} parents")]
    Uneven {
        /// The dividend.
        count: u64,
        /// The divisor.
        parts: u64,
    },
    /// More entries than a number holds.
    #[error("more entries than can be counted")]
    TooMany,
    /// No branch, so no entry to generate.
    #[error("the template has no branch, so there is nothing to generate")]
    NoBranch,
    /// A template without `rdnAttr`.
    #[error("template {0} has no rdnAttr")]
    NoRdn(String),
    /// A naming attribute that some entries would not have.
    #[error("the naming attribute {0} must have a plain value on every entry")]
    OptionalRdn(String),
    /// An attribute that the template does not have.
    #[error("the template has no attribute {0}")]
    UnknownAttribute(String),
    /// Values that depend on each other.
    #[error("the value of {0} depends on itself")]
    Cycle(String),
    /// No such tag.
    #[error("no tag <{0}>; a bracket that is meant as such is written \\<")]
    UnknownTag(String),
    /// A tag with the wrong arguments.
    #[error("write <{0}>")]
    Arguments(&'static str),
    /// A file without a line in it.
    #[error("{} has no lines", .0.display())]
    EmptyFile(PathBuf),
    /// `<members>` with something else on the line, or in a branch's name.
    #[error("<members> and <dnof> cannot be part of a DN, and <members> must be alone on its line")]
    Misplaced,
    /// Groups that would have no member.
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
