//! LDAP schema: the meaning of attribute types, and the comparison of their values.
//!
//! The crate answers three questions for the directory. *What is this name?* [`Schema`] resolves names and OIDs, in any
//! case, to [`AttributeType`]s and [`ObjectClassDef`]s, and attribute descriptions with options to
//! [`AttributeDescription`]s. *Is this value allowed?* [`Schema::validate_value`] checks the syntaxes of RFC 4517 and
//! reports the fault. *Are these two values the same?* [`MatchingRule::normalize`] turns a value into a **key**: two
//! values match exactly when their keys are equal as bytes, and if the rule has an ordering, keys sort as values do. So
//! an index needs no knowledge of LDAP: it stores keys.
//!
//! Definitions come from text ([`SchemaBuilder`]): the files in `crates/schema/files`, which are compiled in and
//! available as [`Schema::shipped`], and the files of an operator. The notation is that of RFC 4512 section 4.1, in the
//! layout of OpenLDAP or of 389 Directory Server. A schema is immutable: a change of the definitions builds a new
//! schema. [`changed_types`] lists the differences between two schemas that affect stored values.
//!
//! Out of scope: this crate reads no files, does not know entries or indexes, and does not check entries against their
//! classes (the directory does). Keys are stored on disk. A change of the program that changes any key must therefore
//! raise [`NORMALISATION_VERSION`].
#![forbid(unsafe_code)]
// Most of this crate processes octets that peers sent, so no cast may lose bits and no index may panic.
#![cfg_attr(not(test), warn(clippy::cast_possible_truncation, clippy::indexing_slicing))]
#![cfg_attr(not(test), warn(clippy::string_slice, clippy::expect_used))]

mod attribute_type;
mod builder;
mod certificate;
mod compare;
mod comparison;
mod definition;
mod description;
mod effect;
mod error;
mod form;
mod gser;
mod integer;
mod key;
mod name_key;
mod name_text;
mod names;
mod object_class;
mod oid;
mod plain;
mod prepare;
mod publish;
mod rule;
mod rule_assertion;
mod rule_table;
mod schema;
mod schema_file;
mod secret;
mod sounds;
mod structure;
mod substring;
mod subtree;
mod syntax;
mod syntax_check;
mod syntax_guide;
mod syntax_text;
mod time;
mod type_key;

pub use attribute_type::{AttributeType, AttributeUsage, TypeId};
pub use builder::{SchemaBuilder, named_files};
pub use certificate::{CertificateFacts, certificate_facts};
pub use compare::{TypeChange, changed_types};
pub use comparison::{Comparison, Correction, EntryValues};
pub use description::AttributeDescription;
pub use effect::WithoutEffect;
pub use error::{
    DescriptionError, Fault, NameError, SchemaError, SchemaErrorKind, SchemaErrors, SyntaxError, ValueError,
};
pub use integer::small_number as integer_of_key;
pub use object_class::{ClassId, ClassKind, ObjectClassDef};
pub use publish::Publication;
pub use rule::MatchingRule;
pub use rule_assertion::RuleAssertion;
pub use rule_table::RuleUse;
pub use schema::Schema;
pub use schema_file::{DefinitionRef, DefinitionSet, leave_out};
pub use secret::{Secrecy, Secrets, USER_PASSWORD};
pub use sounds::sound_codes;
pub use structure::{ContentRule, NameForm, StructureRule};
pub use substring::{SubstringAssertion, SubstringPiece};
pub use subtree::{Refinement, SpecificExclusion, SubtreeSpecification};
pub use syntax::{NameSyntax, Syntax, SyntaxId};
pub use syntax_text::split_name_and_uid;
pub use time::generalized_micros;

/// Version of the keys that this crate produces. The version is stored with the data. A store with another version must
/// be reindexed before use. Raise the version if the key of any value changes, for example because the Unicode tables
/// change.
pub const NORMALISATION_VERSION: u32 = 1;
