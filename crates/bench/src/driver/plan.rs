//! A workload in executable form: requests are templates, expected answers are checks, and keys are sequences.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use ldap::{
    AddRequest, AttributesBuf, Authentication, BindRequest, ChangeOperation, ChangesBuf, CompareRequest,
    DeleteRequest, FilterBuf, ModifyDnRequest, ModifyRequest, Request, ResultCode, SearchRequest,
    SelectionBuf,
};

use super::Options;
use super::data::KeyData;
use super::keys::KeySequence;
use super::pattern::{ColumnNames, Pattern, Placeholders};
use super::request::RequestTemplate;
use crate::result::OperationKind;
use crate::workload::{
    BindConnection, BindMechanism, ExpectedEntries, KeySource, Operation, OperationName, Text, Workload,
};

/// A result whose error has the position of an octet in the workload file, and a message.
pub(crate) type PlanResult<T> = Result<T, (usize, String)>;

/// A workload in executable form.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) data: KeyData,
    pub(crate) jobs: Vec<PlannedJob>,
    /// All kinds of operations in the workload, without duplicates.
    pub(crate) kinds: Vec<OperationKind>,
    /// Number of the first entry of the workload's own entries.
    pub(crate) own_first: u64,
    /// Number of the next entry to add. All threads share it.
    pub(crate) next_new: AtomicU64,
}

/// A job in executable form.
#[derive(Debug)]
pub(crate) struct PlannedJob {
    pub(crate) clients: usize,
    pub(crate) outstanding: usize,
    pub(crate) rate: Option<f64>,
    pub(crate) operations: Vec<PlannedOperation>,
    pub(crate) weight: u64,
}

impl PlannedJob {
    /// Returns true if each client has a persistent connection of the kind `on`.
    pub(crate) fn keeps(&self, on: On) -> bool {
        self.operations.iter().any(|operation| operation.weight > 0 && operation.uses(on))
    }
}

/// An operation in executable form.
#[derive(Debug)]
pub(crate) struct PlannedOperation {
    /// Index of the operation's kind in [`Plan::kinds`].
    pub(crate) kind_index: usize,
    pub(crate) weight: u64,
    pub(crate) keys: PlannedKeys,
    /// Requests of the operation, in order. All of them use the same key.
    pub(crate) steps: Vec<PlannedStep>,
    /// Whether all steps together count as one operation. If false, each step counts.
    pub(crate) is_one: bool,
}

impl PlannedOperation {
    fn uses(&self, on: On) -> bool {
        self.steps.iter().any(|step| step.on == on)
    }
}

#[derive(Debug)]
pub(crate) enum PlannedKeys {
    /// Keys of the data, or of the workload's own entries. Keys of own entries have numbers from 1.
    Sequence {
        sequence: Arc<KeySequence>,
        is_own: bool,
    },
    New,
    Added,
}

/// Connection of a client on which an operation runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum On {
    /// The connection for all operations except binds.
    #[default]
    Main,
    /// A second connection, for binds.
    Bind,
    /// A new connection.
    New,
}

/// A request and its expected answer.
#[derive(Debug)]
pub(crate) struct PlannedStep {
    pub(crate) request: Requests,
    pub(crate) on: On,
    pub(crate) expected: Expected,
    /// Tag of the protocol operation that the final answer must have.
    pub(crate) answer: u8,
    /// Entries per page of a paged search.
    pub(crate) page: Option<NonZeroU32>,
}

/// Source of the octets of a request.
#[derive(Debug)]
pub(crate) enum Requests {
    Template(RequestTemplate),
    /// One template for each key, in order.
    Listed(Arc<[RequestTemplate]>),
    Sasl(Sasl),
}

/// A SASL bind, which may take several messages.
#[derive(Debug)]
pub(crate) struct Sasl {
    pub(crate) mechanism: BindMechanism,
    pub(crate) user: Pattern,
    pub(crate) password: Pattern,
}

/// Expected answer.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) code: u32,
    /// Number of entries that the answer must contain.
    pub(crate) entries: ExpectedEntries,
    pub(crate) dn: Option<Pattern>,
    pub(crate) attribute: Option<(Vec<u8>, Pattern)>,
}

/// Returns the attributes of the data (columns) that a workload uses.
pub(crate) fn columns(workload: &Workload) -> PlanResult<ColumnNames> {
    let mut columns = ColumnNames::default();
    for job in &workload.jobs {
        for operation in &job.operations {
            steps(operation, &mut columns)?;
        }
    }
    place(&mut Placeholders::new(&mut columns), &workload.data.dn)?;
    Ok(columns)
}

/// Checks everything in a workload that does not depend on the data.
pub(crate) fn check(workload: &Workload) -> PlanResult<()> {
    columns(workload).map(drop)
}

/// Compiles a workload for these data.
pub(crate) fn plan(workload: &Workload, data: KeyData, options: &Options) -> PlanResult<Plan> {
    let mut columns = columns(workload)?;
    let own = workload.own_entries;
    let operations = workload.jobs.iter().flat_map(|job| &job.operations);
    let mut kinds: Vec<OperationKind> =
        operations.filter(|operation| operation.weight > 0).map(Operation::kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut jobs = Vec::new();
    for index in 0..workload.jobs.len() {
        jobs.push(plan_job(workload, index, &data, options, &kinds, &mut columns)?);
    }
    let own_first = own_first(options.shard);
    Ok(Plan { data, jobs, kinds, own_first, next_new: AtomicU64::new(own_first + own) })
}

fn plan_job(
    workload: &Workload,
    index: usize,
    data: &KeyData,
    options: &Options,
    kinds: &[OperationKind],
    columns: &mut ColumnNames,
) -> PlanResult<PlannedJob> {
    let job = &workload.jobs[index];
    // The command line sets the values of the first job. The other jobs are scaled in proportion.
    let first = &workload.jobs[0];
    let scaled = |given: Option<usize>, own: usize, first: usize| match given {
        Some(given) => (given * own).div_ceil(first).max(1),
        None => own,
    };
    let mut operations = Vec::new();
    for (number, operation) in job.operations.iter().enumerate() {
        let mut steps = steps(operation, columns)?;
        if options.canned {
            steps.iter_mut().for_each(expect_canned);
        }
        let range = match (operation.keys, &operation.listed) {
            (_, Some(listed)) => 0..listed.searches.len() as u64,
            (KeySource::Data, None) => {
                let at = |share: f64| (data.count as f64 * share).ceil() as u64;
                let end = at(operation.share.unwrap_or(1.0)).max(1);
                at(operation.skip.unwrap_or_default()).min(end - 1)..end
            }
            _ => 0..workload.own_entries.max(1),
        };
        let seed = options.seed.wrapping_add((index * 64 + number) as u64);
        // The workload's own entries are not divided, because each load machine adds entries of its own.
        let shard = if operation.keys == KeySource::Data { options.shard } else { (0, 1) };
        let sequence = || KeySequence::part(operation.order, part(&range, shard), seed);
        operations.push(PlannedOperation {
            kind_index: kinds.iter().position(|kind| *kind == operation.kind()).unwrap_or_default(),
            weight: u64::from(operation.weight),
            keys: match operation.keys {
                KeySource::Data => PlannedKeys::Sequence { sequence: Arc::new(sequence()), is_own: false },
                KeySource::Own => PlannedKeys::Sequence { sequence: Arc::new(sequence()), is_own: true },
                KeySource::New => PlannedKeys::New,
                KeySource::Added => PlannedKeys::Added,
            },
            is_one: *operation.kind.get_ref() == OperationName::Authentication,
            steps,
        });
    }
    Ok(PlannedJob {
        clients: scaled(options.clients, job.clients, first.clients),
        outstanding: options.outstanding.unwrap_or(job.outstanding),
        rate: if index == 0 { options.rate.or(job.rate) } else { job.rate },
        weight: operations.iter().map(|operation| operation.weight).sum(),
        operations,
    })
}

/// Returns the number of a load machine's first own entry. The own entries of different machines do not overlap.
pub(crate) fn own_first((machine, _): (u64, u64)) -> u64 {
    (machine << 40) + 1
}

/// Returns the share of the keys that load machine `index` of `of` machines uses. If there are fewer keys than machines
/// and the share would be empty, returns all keys.
fn part(all: &Range<u64>, (index, of): (u64, u64)) -> Range<u64> {
    let count = u128::from(all.end - all.start);
    let start = |index: u64| all.start + (count * u128::from(index) / u128::from(of.max(1))) as u64;
    let (from, to) = (start(index), start(index + 1));
    if from < to { from..to } else { all.clone() }
}

/// DN of the entry in all answers of the null responder.
pub(crate) const CANNED_DN: &str = "cn=null";

fn expect_canned(step: &mut PlannedStep) {
    let mut columns = ColumnNames::default();
    let canned = Placeholders::new(&mut columns).pattern(CANNED_DN).ok();
    step.expected.dn = step.expected.dn.take().and(canned);
    step.expected.attribute = None;
    step.page = None;
    if step.answer == ldap::response::response_tag::SEARCH_DONE.0 {
        step.expected.entries = ExpectedEntries::Exactly(1);
    }
}

fn needed<'a>(field: &'a Option<Text>, operation: &Operation, name: &str) -> PlanResult<&'a Text> {
    let kind = &operation.kind;
    field.as_ref().ok_or_else(|| (kind.span().start, format!("the operation needs `{name}`")))
}

fn place(placeholders: &mut Placeholders<'_>, text: &Text) -> PlanResult<String> {
    placeholders.mark(text.get_ref()).map_err(|error| (text.span().start, error.to_string()))
}

/// Returns a pattern with which answers are compared.
fn comparable(placeholders: &mut Placeholders<'_>, text: &Text) -> PlanResult<Pattern> {
    let pattern =
        placeholders.pattern(text.get_ref()).map_err(|error| (text.span().start, error.to_string()))?;
    if pattern.is_random() {
        return Err((text.span().start, "an answer cannot be compared with something random".to_owned()));
    }
    Ok(pattern)
}

fn expected(code: ResultCode, operation: &Operation) -> Expected {
    Expected {
        code: operation.expect_code.unwrap_or(code.0),
        entries: ExpectedEntries::Exactly(0),
        dn: None,
        attribute: None,
    }
}

/// Returns the requests of an operation.
fn steps(operation: &Operation, columns: &mut ColumnNames) -> PlanResult<Vec<PlannedStep>> {
    let mut placeholders = Placeholders::new(columns);
    let placeholders = &mut placeholders;
    match operation.kind.get_ref() {
        OperationName::Search if operation.listed.is_some() => Ok(vec![listed(operation, placeholders)?]),
        OperationName::Search => Ok(vec![search(operation, placeholders)?]),
        OperationName::Authentication => {
            Ok(vec![search(operation, placeholders)?, simple_bind(operation, placeholders)?])
        }
        OperationName::Bind if operation.mechanism == BindMechanism::Simple => {
            Ok(vec![simple_bind(operation, placeholders)?])
        }
        OperationName::Bind => Ok(vec![sasl_bind(operation, placeholders)?]),
        OperationName::Compare => Ok(vec![compare(operation, placeholders)?]),
        OperationName::Modify => modifies(operation, placeholders),
        OperationName::Add => Ok(vec![add(operation, placeholders)?]),
        OperationName::Delete => Ok(vec![delete(operation, placeholders)?]),
        OperationName::Rename => renames(operation, placeholders),
    }
}

fn step(
    request: Request<'_>,
    placeholders: &Placeholders<'_>,
    answer: ldap::ResponseOp,
    expected: Expected,
) -> PlannedStep {
    let request = Requests::Template(RequestTemplate::new(request, placeholders));
    PlannedStep { request, on: On::Main, expected, answer: answer.tag().0, page: None }
}

fn search(operation: &Operation, placeholders: &mut Placeholders<'_>) -> PlanResult<PlannedStep> {
    let base = needed(&operation.base, operation, "base")?;
    let base = place(placeholders, base)?;
    let (filter_at, filter_text) = match &operation.filter {
        Some(text) => (text.span().start, place(placeholders, text)?),
        None => (0, "(objectClass=*)".to_owned()),
    };
    let filter = FilterBuf::parse(&filter_text).map_err(|error| (filter_at, format!("filter: {error}")))?;
    let mut selection = SelectionBuf::new();
    for attribute in &operation.attributes {
        selection.push(attribute.get_ref());
    }
    let request = Request::Search(SearchRequest::new(
        &base,
        operation.scope.to_ldap(),
        filter.as_filter(),
        selection.as_selection(),
    ));
    let mut expected = expected(ResultCode::SUCCESS, operation);
    if *operation.kind.get_ref() == OperationName::Authentication {
        expected.code = ResultCode::SUCCESS.0;
    }
    expected.dn = operation.dn.as_ref().map(|text| comparable(placeholders, text)).transpose()?;
    expected.attribute = match &operation.expect_attribute {
        None => None,
        Some(text) => {
            let (name, value) = attribute_line(text.get_ref())
                .ok_or_else(|| (text.span().start, "expect_attribute is \"NAME: VALUE\"".to_owned()))?;
            let value =
                placeholders.pattern(value).map_err(|error| (text.span().start, error.to_string()))?;
            Some((name.as_bytes().to_vec(), value))
        }
    };
    let is_one = expected.dn.is_some() || expected.attribute.is_some();
    let default = if is_one { ExpectedEntries::Exactly(1) } else { ExpectedEntries::Any };
    expected.entries = operation.expect_entries.unwrap_or(default);
    let step = step(request, placeholders, ldap::ResponseOp::SearchDone, expected);
    Ok(PlannedStep { page: page(operation)?, ..step })
}

/// Returns the page size of a paged search. All pages need the same request, so this request must not contain random
/// placeholders.
fn page(operation: &Operation) -> PlanResult<Option<NonZeroU32>> {
    let wrong = |text: &str| Err((operation.kind.span().start, text.to_owned()));
    if operation.page.is_none() {
        return Ok(None);
    }
    if *operation.kind.get_ref() != OperationName::Search {
        return wrong("`page` is for searches");
    }
    let is_random =
        |text: &Option<Text>| text.as_ref().is_some_and(|text| text.get_ref().contains("{random:"));
    if is_random(&operation.base) || is_random(&operation.filter) {
        return wrong("with `page`, base and filter are the same for all pages and have nothing random");
    }
    Ok(operation.page)
}

fn listed(operation: &Operation, placeholders: &Placeholders<'_>) -> PlanResult<PlannedStep> {
    let searches = operation.listed.as_deref().map(|listed| listed.searches.as_slice()).unwrap_or_default();
    let mut requests = Vec::with_capacity(searches.len());
    for search in searches {
        let filter = FilterBuf::parse(&search.filter).map_err(|error| (0, format!("filter: {error}")))?;
        let selection: SelectionBuf = search.attributes.iter().collect();
        let request = Request::Search(SearchRequest::new(
            &search.base,
            search.scope.to_ldap(),
            filter.as_filter(),
            selection.as_selection(),
        ));
        requests.push(RequestTemplate::new(request, placeholders));
    }
    let mut expected = expected(ResultCode::SUCCESS, operation);
    expected.entries = operation.expect_entries.unwrap_or(ExpectedEntries::Any);
    Ok(PlannedStep {
        request: Requests::Listed(requests.into()),
        on: On::Main,
        expected,
        answer: ldap::ResponseOp::SearchDone.tag().0,
        page: None,
    })
}

fn bind_connection(operation: &Operation) -> On {
    match operation.connection {
        BindConnection::Kept => On::Bind,
        BindConnection::New => On::New,
    }
}

fn simple_bind(operation: &Operation, placeholders: &mut Placeholders<'_>) -> PlanResult<PlannedStep> {
    let name = place(placeholders, needed(&operation.dn, operation, "dn")?)?;
    let password = place(placeholders, needed(&operation.password, operation, "password")?)?;
    let authentication = Authentication::Simple(password.as_bytes());
    let request = Request::Bind(BindRequest { version: 3, name: &name, authentication });
    let expected = expected(ResultCode::SUCCESS, operation);
    let mut step = step(request, placeholders, ldap::ResponseOp::Bind, expected);
    step.on = bind_connection(operation);
    Ok(step)
}

fn sasl_bind(operation: &Operation, placeholders: &mut Placeholders<'_>) -> PlanResult<PlannedStep> {
    let pattern = |placeholders: &mut Placeholders<'_>, text: &Text| {
        placeholders.pattern(text.get_ref()).map_err(|error| (text.span().start, error.to_string()))
    };
    let sasl = Sasl {
        mechanism: operation.mechanism,
        user: pattern(placeholders, needed(&operation.user, operation, "user")?)?,
        password: pattern(placeholders, needed(&operation.password, operation, "password")?)?,
    };
    Ok(PlannedStep {
        request: Requests::Sasl(sasl),
        on: bind_connection(operation),
        expected: expected(ResultCode::SUCCESS, operation),
        answer: ldap::ResponseOp::Bind.tag().0,
        page: None,
    })
}

fn compare(operation: &Operation, placeholders: &mut Placeholders<'_>) -> PlanResult<PlannedStep> {
    let entry = place(placeholders, needed(&operation.dn, operation, "dn")?)?;
    let description = needed(&operation.attribute, operation, "attribute")?.get_ref();
    let value = place(placeholders, needed(&operation.value, operation, "value")?)?;
    let request = Request::Compare(CompareRequest { entry: &entry, description, value: value.as_bytes() });
    let expected = expected(ResultCode::COMPARE_TRUE, operation);
    Ok(step(request, placeholders, ldap::ResponseOp::Compare, expected))
}

fn modifies(operation: &Operation, placeholders: &mut Placeholders<'_>) -> PlanResult<Vec<PlannedStep>> {
    let object = place(placeholders, needed(&operation.dn, operation, "dn")?)?;
    if operation.changes.is_empty() {
        return Err((operation.kind.span().start, "a modify needs `changes`".to_owned()));
    }
    let mut steps = Vec::new();
    for list in [&operation.changes, &operation.undo] {
        if list.is_empty() {
            continue;
        }
        // Consecutive changes of the same kind to one attribute are combined.
        let mut merged: Vec<(ChangeOperation, String, Vec<String>)> = Vec::new();
        for text in list {
            let wrong = || {
                let message = "a change is \"add NAME: VALUE\", \"delete NAME: VALUE\", \"delete NAME\" or \"replace \
                    NAME: VALUE\"";
                (text.span().start, message.to_owned())
            };
            let marked = place(placeholders, text)?;
            let (verb, rest) = marked.split_once(' ').ok_or_else(wrong)?;
            let change = match verb {
                "add" => ChangeOperation::Add,
                "delete" => ChangeOperation::Delete,
                "replace" => ChangeOperation::Replace,
                _ => return Err(wrong()),
            };
            match (attribute_line(rest), merged.last_mut()) {
                (Some((name, value)), Some((last, known, values))) if *last == change && known == name => {
                    values.push(value.to_owned());
                }
                (Some((name, value)), _) => merged.push((change, name.to_owned(), vec![value.to_owned()])),
                (None, _) if change == ChangeOperation::Delete => {
                    merged.push((change, rest.trim().to_owned(), Vec::new()));
                }
                (None, _) => return Err(wrong()),
            }
        }
        let mut changes = ChangesBuf::new();
        merged.iter().for_each(|(change, name, values)| changes.push(*change, name, values));
        let request = Request::Modify(ModifyRequest { object: &object, changes: changes.as_changes() });
        let expected = expected(ResultCode::SUCCESS, operation);
        steps.push(step(request, placeholders, ldap::ResponseOp::Modify, expected));
    }
    Ok(steps)
}

/// Returns the request that adds an entry.
pub(crate) fn add(operation: &Operation, placeholders: &mut Placeholders<'_>) -> PlanResult<PlannedStep> {
    let dn = place(placeholders, needed(&operation.dn, operation, "dn")?)?;
    let text = needed(&operation.entry, operation, "entry")?;
    let entry = place(placeholders, text)?;
    let mut values: Vec<(&str, Vec<&str>)> = Vec::new();
    for line in entry.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = attribute_line(line)
            .ok_or_else(|| (text.span().start, format!("entry: {line:?} is not \"NAME: VALUE\"")))?;
        match values.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, list)) => list.push(value),
            None => values.push((name, vec![value])),
        }
    }
    let mut attributes = AttributesBuf::new();
    for (name, list) in &values {
        attributes.push(name, list);
    }
    let request = Request::Add(AddRequest { entry: &dn, attributes: attributes.as_attributes() });
    let expected = expected(ResultCode::SUCCESS, operation);
    Ok(step(request, placeholders, ldap::ResponseOp::Add, expected))
}

fn delete(operation: &Operation, placeholders: &mut Placeholders<'_>) -> PlanResult<PlannedStep> {
    let dn = place(placeholders, needed(&operation.dn, operation, "dn")?)?;
    Ok(delete_step(&dn, placeholders, expected(ResultCode::SUCCESS, operation)))
}

/// Returns the request that removes the entry `dn`, in which placeholders are marked.
fn delete_step(dn: &str, placeholders: &Placeholders<'_>, expected: Expected) -> PlannedStep {
    step(Request::Delete(DeleteRequest { entry: dn }), placeholders, ldap::ResponseOp::Delete, expected)
}

/// Returns the request that removes the entry added by an add operation.
pub(crate) fn removal(operation: &Operation, placeholders: &mut Placeholders<'_>) -> PlanResult<PlannedStep> {
    delete(operation, placeholders)
}

/// Returns the requests that rename an entry and restore its name.
fn renames(operation: &Operation, placeholders: &mut Placeholders<'_>) -> PlanResult<Vec<PlannedStep>> {
    let text = needed(&operation.dn, operation, "dn")?;
    let own = place(placeholders, text)?;
    let new_rdn = place(placeholders, needed(&operation.new_rdn, operation, "new_rdn")?)?;
    let comma = first_comma(&own)
        .ok_or_else(|| (text.span().start, "the entry to rename has no entry above it".to_owned()))?;
    let (old_rdn, above) = own.split_at(comma);
    let renamed = format!("{new_rdn}{above}");
    let there = ModifyDnRequest { entry: &own, new_rdn: &new_rdn, delete_old_rdn: true, new_superior: None };
    let back =
        ModifyDnRequest { entry: &renamed, new_rdn: old_rdn, delete_old_rdn: true, new_superior: None };
    let steps = [there, back].map(|request| {
        let expected = expected(ResultCode::SUCCESS, operation);
        step(Request::ModifyDn(request), placeholders, ldap::ResponseOp::ModifyDn, expected)
    });
    Ok(steps.into())
}

/// Returns the position of the comma after the first RDN.
fn first_comma(dn: &str) -> Option<usize> {
    let mut is_escaped = false;
    dn.bytes().position(|octet| {
        let is_end = octet == b',' && !is_escaped;
        is_escaped = octet == b'\\' && !is_escaped;
        is_end
    })
}

/// Splits `NAME: VALUE`.
fn attribute_line(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once(':')?;
    let name = name.trim();
    (!name.is_empty() && !name.contains(' ')).then(|| (name, value.trim()))
}
