//! Compiled filters: attribute names are resolved and assertion values normalized once per search, not once per entry.
//!
//! An item that cannot be evaluated becomes Undefined and is never an error (RFC 4511 section 4.5.1.7). This applies to
//! an item with an unknown attribute type, a value that does not conform to the assertion syntax, a type without the
//! matching rule that the item needs, or an attribute that the requester may not read. Tests of object classes become
//! tests of the entry's class set. The node row contains the class set and the place of an entry in the tree; the entry
//! row contains the attributes. Therefore most filters on `objectClass` read no entry row.

mod by_value;
mod chain;
mod compiler;
mod covering;
mod matcher;
mod memberships;
pub(crate) mod prefilter;
mod same;

use ldap::Filter;
use schema::{AttributeDescription, ClassId, MatchingRule, RuleAssertion, Schema, SubstringAssertion};

use crate::catalog::{Catalog, Shown, VirtualAttribute};
use crate::model::attribute_numbers::AttributeNumbers;
use crate::model::name::{NormalName, name_in};
use crate::model::outcome::OperationError;
use crate::model::rows::EntryId;
use crate::password::verify_auth_password;
use crate::tree::TreeState;
pub(crate) use by_value::{ByValue, ValueRule, VisibleTest};
pub(crate) use chain::{ChainLinks, for_each_holder, holders_of_text};
pub(crate) use compiler::{Compiler, Names, matches_by_sound};
pub(crate) use covering::Covering;
pub(crate) use matcher::described;
pub(crate) use matcher::described::{for_each_visible, has_visible_end, is_in_a_group};
pub(crate) use matcher::{Candidate, InMemory, Matcher};
pub(crate) use memberships::{GroupsOf, MemberUse, Memberships};

/// OIDs of generalizedTimeMatch and generalizedTimeOrderingMatch. Filters compare the ends (expiration times) of values
/// with these rules.
const END_EQUALITY: &str = "2.5.13.27";
const END_ORDERING: &str = "2.5.13.28";

/// A value of three-valued logic. The variants are in ascending order, so *and* is the minimum of its terms and *or*
/// is the maximum of its terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Truth {
    False,
    Undefined,
    True,
}

impl From<bool> for Truth {
    fn from(value: bool) -> Truth {
        if value { Truth::True } else { Truth::False }
    }
}

impl std::ops::Not for Truth {
    type Output = Truth;

    fn not(self) -> Truth {
        match self {
            Truth::False => Truth::True,
            Truth::Undefined => Truth::Undefined,
            Truth::True => Truth::False,
        }
    }
}

/// A compiled filter, or a part of one.
#[derive(Clone, Debug)]
pub(crate) enum Term {
    /// A result that is known without reading an entry.
    Constant(Truth),
    And(Vec<Term>),
    Or(Vec<Term>),
    Not(Box<Term>),
    /// The entry has this class or a subclass of it.
    Class(ClassId),
    /// This class is the entry's most derived structural class.
    StructuralClass(ClassId),
    Item(Item),
}

/// A test of the values of some attributes.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Attributes whose values are tested.
    pub(crate) subject: Subject,
    /// Condition that one of the values must meet.
    pub(crate) test: Test,
    /// Whether the item also tests the values in the entry's DN (RFC 4511 section 4.5.1.7.7).
    pub(crate) dn_attributes: bool,
    /// The asserted name and the entry that it denotes, if the asserted value is a name. If [`Target::name`] is `None`,
    /// the key of the test is empty.
    pub(crate) target: Option<Box<Target>>,
    /// Numbers of the attributes that the subject includes. When the catalog allocates further attribute numbers, the
    /// matching numbers are added.
    pub(crate) attributes: AttributeNumbers,
    /// Whether the test also accepts a dynamic group whose URLs find the target. False while the directory has no
    /// dynamic group.
    pub(crate) counts_described: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Subject {
    /// An attribute description. The subject also includes subtypes, and descriptions with further options.
    Attribute(AttributeDescription),
    /// A virtual attribute.
    Virtual(VirtualAttribute),
    /// All stored attributes to which the matching rule applies and which the requester may read.
    Any,
}

/// Condition on a value. A key is the normal form of the asserted value under the rule in the same variant.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Present,
    Equal(MatchingRule, Vec<u8>),
    AtLeast(MatchingRule, Vec<u8>),
    AtMost(MatchingRule, Vec<u8>),
    Substring(MatchingRule, Box<SubstringAssertion>),
    Extensible(MatchingRule, Box<RuleAssertion>),
    /// The value contains, for each of these codes, a word with that code (see [`schema::sound_codes`]).
    Sounds(Vec<String>),
    /// A chain of links (values that name other entries) leads from the tested entry to the entry with this normalized
    /// name.
    InChain(Vec<u8>),
    /// A test of the visible values only. It replaces a test if some values of the attribute are hidden from the
    /// requester.
    Visible(Box<VisibleTest>),
}

#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Asserted value as text.
    text: Box<str>,
    /// Normal form of the name. `None` if the text was found in the cache as a DN of `entry` and the test concerns only
    /// links. Links identify the entry by its id, so no normal form is needed.
    pub(crate) name: Option<NormalName>,
    pub(crate) entry: Option<EntryId>,
}

impl Test {
    /// Returns the heap memory that the test uses, in bytes.
    fn heap_bytes(&self) -> usize {
        match self {
            Test::Present => 0,
            Test::Equal(_, key) | Test::AtLeast(_, key) | Test::AtMost(_, key) | Test::InChain(key) => {
                key.capacity()
            }
            Test::Substring(_, assertion) => size_of::<SubstringAssertion>() + assertion.heap_bytes(),
            Test::Extensible(_, assertion) => size_of::<RuleAssertion>() + assertion.heap_bytes(),
            Test::Sounds(codes) => {
                let texts: usize = codes.iter().map(String::capacity).sum();
                codes.capacity() * size_of::<String>() + texts
            }
            Test::Visible(shown) => size_of::<VisibleTest>() + shown.test.heap_bytes(),
        }
    }

    /// Returns true if the test compares times. On a virtual attribute that contains the ends (expiration times) of
    /// links, such a test compares only the time at the beginning of each value.
    fn is_of_times(&self) -> bool {
        self.rule().is_some_and(|rule| [END_EQUALITY, END_ORDERING].contains(&rule.oid()))
    }

    /// Returns the rule whose keys are compared; `None` for presence, sounds, chains and visible values.
    pub(crate) fn rule(&self) -> Option<MatchingRule> {
        match self {
            Test::Present | Test::Sounds(_) | Test::InChain(_) | Test::Visible(_) => None,
            Test::Equal(rule, _)
            | Test::AtLeast(rule, _)
            | Test::AtMost(rule, _)
            | Test::Substring(rule, _)
            | Test::Extensible(rule, _) => Some(*rule),
        }
    }

    /// Returns true if a value meets the condition. `key` is a scratch buffer.
    pub(crate) fn passes(&self, schema: &Schema, value: &[u8], key: &mut Vec<u8>) -> bool {
        if let Test::Sounds(asserted) = self {
            return sounds_like(value, asserted);
        }
        // Tests of visible values and of chains cannot be decided here, because visibility depends on the type of the
        // value, and chains depend on other entries.
        let Some(rule) = self.rule() else { return matches!(self, Test::Present) };
        // Most values can be compared without computing their key.
        let known = match self {
            Test::Substring(_, assertion) => assertion.matches_plain(value),
            Test::Equal(_, asserted) => rule.has_key_plainly(value, asserted),
            _ => None,
        };
        if let Some(passes) = known {
            return passes;
        }
        key.clear();
        if rule.normalize(schema, value, key).is_err() {
            return false;
        }
        match self {
            Test::Present | Test::Sounds(_) | Test::InChain(_) | Test::Visible(_) => true,
            Test::Equal(_, asserted) => key == asserted,
            Test::AtLeast(_, asserted) => *key >= *asserted,
            Test::AtMost(_, asserted) => *key <= *asserted,
            Test::Substring(_, assertion) => assertion.matches(key),
            Test::Extensible(_, assertion) => match assertion.password() {
                Some(password) => verify_auth_password(key, password),
                None => assertion.matches(key),
            },
        }
    }
}

impl Item {
    fn new(subject: Subject, test: Test) -> Item {
        let attributes = AttributeNumbers::default();
        Item { subject, test, dn_attributes: false, target: None, attributes, counts_described: false }
    }
}

impl Target {
    /// Parses an asserted value as a name. Returns `None` if no entry can have this name.
    fn of(schema: &Schema, value: &[u8]) -> Option<Target> {
        let text = std::str::from_utf8(value).ok()?;
        Some(Target { text: text.into(), name: Some(name_in(schema, value)?), entry: None })
    }

    /// Looks up the name and sets the entry that it denotes.
    fn find(&mut self, names: &dyn Names) -> Result<(), OperationError> {
        let Some(name) = &self.name else { return Ok(()) };
        if let Some(id) = names.cached(&self.text)? {
            self.entry = Some(id);
            return Ok(());
        }
        self.entry = names.state().entry_of(name)?;
        if let Some(id) = self.entry {
            names.keep(&self.text, id);
        }
        Ok(())
    }
}

impl Term {
    /// Compiles a filter for a search and resolves the names in it.
    pub(crate) fn prepared(
        names: &dyn Names,
        shown: Shown,
        filter: Filter<'_>,
    ) -> Result<Term, OperationError> {
        let compiler = Compiler { catalog: names.state().catalog, shown, known: Some(names) };
        let mut term = compiler.compile(filter);
        term.find_targets(names)?;
        Ok(term)
    }

    /// Adds the missing normal forms of DNs, so that the filter can also be evaluated on virtual entries. A DN that was
    /// found in the cache by its spelling has no normal form.
    pub(crate) fn complete_names(&mut self, schema: &Schema) {
        let complete = &mut |item: &mut Item| {
            if let (Test::Equal(rule, key), Some(target)) = (&mut item.test, &mut item.target)
                && target.name.is_none()
            {
                target.name = name_in(schema, target.text.as_bytes());
                key.clear();
                // The text is a DN of an entry and conforms to the syntax, so this cannot fail.
                let _ = rule.normalize_assertion(schema, target.text.as_bytes(), key);
            }
            Ok(())
        };
        let _: Result<(), OperationError> = self.for_each_item(complete);
    }

    /// Resolves the names in the filter to entries. Call it once before the filter is used, with the snapshot for which
    /// the filter was compiled.
    pub(crate) fn find_targets(&mut self, names: &dyn Names) -> Result<(), OperationError> {
        self.for_each_item(&mut |item| item.target.as_mut().map_or(Ok(()), |target| target.find(names)))
    }

    /// Resolves the names again, on a newer snapshot.
    pub(crate) fn find_targets_anew(&mut self, names: &dyn Names) -> Result<(), OperationError> {
        let schema = &names.state().catalog.schema;
        self.for_each_item(&mut |item| {
            item.compute_name(schema);
            item.target.as_mut().map_or(Ok(()), |target| target.find(names))
        })
    }

    /// Resolves the names again, without the cache of a snapshot.
    pub(crate) fn find_targets_in(&mut self, state: TreeState<'_>) -> Result<(), OperationError> {
        self.for_each_item(&mut |item| {
            if let Some(Target { name: Some(name), entry, .. }) = item.target.as_deref_mut() {
                *entry = state.entry_of(name)?;
            }
            Ok(())
        })
    }

    /// Adds the matching attributes that were added to the catalog after the filter was compiled.
    pub(crate) fn find_attributes(&mut self, catalog: &Catalog, shown: Shown) -> Result<(), OperationError> {
        self.for_each_item(&mut |item| {
            item.find_attributes(catalog, shown);
            Ok(())
        })
    }

    /// Makes tests of membership ignore members that only the URLs of dynamic groups describe.
    pub(crate) fn count_stored_only(&mut self) {
        let exclude = &mut |item: &mut Item| {
            item.counts_described = false;
            Ok(())
        };
        let _: Result<(), OperationError> = self.for_each_item(exclude);
    }

    /// Returns the entry names that the filter asserts.
    pub(crate) fn names(&self) -> Vec<&NormalName> {
        let mut names = Vec::new();
        self.visit(&mut |item| names.extend(item.target.iter().filter_map(|target| target.name.as_ref())));
        names
    }

    /// Returns true if a change of other entries alone may change the result for an entry. Such other entries are
    /// groups, and entries that the tested entry's values name.
    pub(crate) fn depends_on_other_entries(&self, catalog: &Catalog) -> bool {
        let mut asks = false;
        self.visit(&mut |item| {
            asks |= matches!(item.subject, Subject::Virtual(computed) if computed.is_membership() || computed.is_end())
                || item.counts_described
                || item.attributes.iter().any(|id| catalog.attribute(*id).is_link);
        });
        asks
    }

    /// Returns true if the filter tests an attribute that entries may inherit from a collective attribute subentry
    /// (RFC 3671). If so, neither indexes nor stored rows show which entries match.
    #[inline]
    pub(crate) fn tests_collective(&self, state: TreeState<'_>) -> bool {
        let mut asks = false;
        if state.collective.is_some() {
            self.visit(&mut |item| asks |= item.tests_collective(state));
        }
        asks
    }

    /// Returns the numbers of the items whose attributes may come from a collective subentry. The items of the filter
    /// are numbered from 0, in order.
    #[inline]
    pub(crate) fn collective_items(&self, state: TreeState<'_>) -> Vec<usize> {
        let (mut places, mut place) = (Vec::new(), 0);
        if state.collective.is_some() {
            self.visit(&mut |item| {
                if item.tests_collective(state) {
                    places.push(place);
                }
                place += 1;
            });
        }
        places
    }

    fn visit<'t>(&'t self, each: &mut dyn FnMut(&'t Item)) {
        match self {
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => {}
            Term::And(terms) | Term::Or(terms) => terms.iter().for_each(|term| term.visit(each)),
            Term::Not(term) => term.visit(each),
            Term::Item(item) => each(item),
        }
    }

    /// Returns the heap memory that the filter uses, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => 0,
            Term::And(terms) | Term::Or(terms) => {
                let inner: usize = terms.iter().map(Term::heap_bytes).sum();
                terms.capacity() * size_of::<Term>() + inner
            }
            Term::Not(term) => size_of::<Term>() + term.heap_bytes(),
            Term::Item(item) => item.heap_bytes(),
        }
    }

    /// Returns the number of tests in the filter, a measure of its cost.
    pub(crate) fn test_count(&self) -> usize {
        match self {
            Term::And(terms) | Term::Or(terms) => terms.iter().map(Term::test_count).sum(),
            Term::Not(term) => term.test_count(),
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) | Term::Item(_) => 1,
        }
    }

    fn for_each_item(
        &mut self,
        each: &mut dyn FnMut(&mut Item) -> Result<(), OperationError>,
    ) -> Result<(), OperationError> {
        match self {
            Term::Constant(_) | Term::Class(_) | Term::StructuralClass(_) => Ok(()),
            Term::And(terms) | Term::Or(terms) => {
                terms.iter_mut().try_for_each(|term| term.for_each_item(each))
            }
            Term::Not(term) => term.for_each_item(each),
            Term::Item(item) => each(item),
        }
    }
}

impl Item {
    /// Returns true if entries may inherit one of the item's attributes from a collective attribute subentry.
    #[inline]
    pub(crate) fn tests_collective(&self, state: TreeState<'_>) -> bool {
        state.collective.is_some_and(|subentries| subentries.have_one_of(&self.attributes))
    }

    /// Returns the heap memory that the item uses, in bytes.
    fn heap_bytes(&self) -> usize {
        let subject = match &self.subject {
            Subject::Attribute(description) => description.options.len(),
            Subject::Virtual(_) | Subject::Any => 0,
        };
        let test = self.test.heap_bytes();
        let target = self.target.as_ref().map_or(0, |target| {
            let name = target.name.as_ref().map_or(0, NormalName::heap_bytes);
            size_of::<Target>() + target.text.len() + name
        });
        subject + test + target + self.attributes.heap_bytes()
    }

    /// Computes the missing normal form of a name that was found in the cache by its spelling. The normal form is
    /// needed because the entry may have another name now.
    fn compute_name(&mut self, schema: &Schema) {
        if let (Some(target), Test::Equal(rule, key)) = (&mut self.target, &mut self.test)
            && target.name.is_none()
        {
            let text = target.text.as_bytes();
            target.name = name_in(schema, text);
            target.entry = None;
            key.clear();
            // The text was a DN of an entry and conforms to the syntax, so this cannot fail.
            let _ = rule.normalize_assertion(schema, text, key);
        }
    }

    /// Adds the matching attributes that were added to the catalog after the item was compiled.
    pub(crate) fn find_attributes(&mut self, catalog: &Catalog, shown: Shown) {
        match (&self.subject, &self.test) {
            (Subject::Attribute(description), test) => {
                self.attributes = catalog.matching_attributes(description);
                self.counts_described = compiler::counts_described(catalog, description, test);
                if matches!(test, Test::InChain(_)) {
                    self.attributes = self.attributes.only(|id| catalog.follows_chains(id));
                }
            }
            (Subject::Any, Test::Extensible(rule, _)) => {
                self.attributes = Compiler { catalog, shown, known: None }.attributes_fitting(*rule);
            }
            _ => {}
        }
    }
}

/// Returns true if the value contains, for each of `codes`, a word with that sound code.
fn sounds_like(value: &[u8], codes: &[String]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else { return false };
    let found = schema::sound_codes(text);
    codes.iter().all(|code| found.binary_search(code).is_ok())
}
