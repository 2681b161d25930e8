//! Bulk requests (RFC 7644 section 3.7). A bulk request contains many operations. An operation may refer to a resource
//! that another operation of the same request creates.

use std::collections::{BTreeSet, HashMap, HashSet};

use ldap::Excerpt;
use serde_json::{Map, Value, json};

use crate::error::{Result, ScimError};
use crate::limits::BULK_OPERATIONS_MAX;

const REQUEST: &str = "urn:ietf:params:scim:api:messages:2.0:BulkRequest";
const RESPONSE: &str = "urn:ietf:params:scim:api:messages:2.0:BulkResponse";

/// Prefix of a reference to the resource that another operation creates.
const REFERENCE: &str = "bulkId:";

/// An operation of a bulk request.
#[derive(Clone, Debug)]
pub(crate) struct BulkOperation {
    pub(crate) method: String,
    /// Path of the operation: `/Users`, `/Users/ID` or similar.
    pub(crate) path: String,
    bulk_id: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) data: Map<String, Value>,
}

/// The result of an operation.
#[derive(Debug)]
pub(crate) struct OperationResult {
    pub(crate) status: u16,
    pub(crate) id: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) version: Option<String>,
}

/// Runs the operations of a bulk request, each by a call of `run`. Returns the response.
///
/// # Errors
/// The whole request is malformed or too large. Errors of single operations are in the response.
pub(crate) fn answer(
    body: Map<String, Value>,
    run: &mut dyn FnMut(&BulkOperation) -> Result<OperationResult>,
) -> Result<Value> {
    let (operations, errors_max) = parse(body)?;
    let mut results: Vec<Option<Value>> = operations.iter().map(|_| None).collect();
    let mut waiting = PendingOperations::of(&operations);
    let (mut ids, mut failed) = (HashMap::new(), HashSet::new());
    let mut errors = 0;
    while let Some(place) = waiting.next().filter(|_| errors < errors_max) {
        let operation = &operations[place];
        let outcome = resolved(operation, &ids, &failed).and_then(|operation| run(&operation));
        if let Some(bulk_id) = &operation.bulk_id {
            match &outcome {
                Ok(OperationResult { id: Some(id), .. }) => drop(ids.insert(bulk_id.clone(), id.clone())),
                _ => drop(failed.insert(bulk_id.clone())),
            }
            waiting.done(bulk_id);
        }
        errors += usize::from(outcome.is_err());
        results[place] = Some(result(operation, outcome));
    }
    if errors < errors_max {
        for (result_of, operation) in results.iter_mut().zip(&operations) {
            let error = || ScimError::new(409, "the operations name each other in a circle");
            result_of.get_or_insert_with(|| result(operation, Err(error())));
        }
    }
    let results: Vec<Value> = results.into_iter().flatten().collect();
    Ok(json!({ "schemas": [RESPONSE], "Operations": results }))
}

/// Returns the operations, and the number of errors at which the request ends.
fn parse(body: Map<String, Value>) -> Result<(Vec<BulkOperation>, usize)> {
    let (mut has_schema, mut operations, mut errors_max) = (false, None, usize::MAX);
    for (name, value) in body {
        match (name.to_ascii_lowercase().as_str(), value) {
            ("schemas", Value::Array(schemas)) => has_schema = schemas.iter().any(|one| one == REQUEST),
            ("failonerrors", Value::Null) => {}
            ("failonerrors", value) => {
                let number = value.as_u64().filter(|number| *number > 0);
                let wrong = || ScimError::value("failOnErrors: an integer from 1 on expected");
                errors_max = usize::try_from(number.ok_or_else(wrong)?).unwrap_or(usize::MAX);
            }
            ("operations", Value::Array(list)) => operations = Some(list),
            _ => {
                return Err(ScimError::syntax(format!("{:?} is not part of a bulk request", Excerpt(&name))));
            }
        }
    }
    if !has_schema {
        return Err(ScimError::syntax(format!("schemas: {REQUEST} is missing")));
    }
    let operations = operations.ok_or_else(|| ScimError::syntax("Operations is required: a list"))?;
    if operations.len() > BULK_OPERATIONS_MAX {
        let text = format!("Operations: at most {BULK_OPERATIONS_MAX}");
        return Err(ScimError::new(413, text));
    }
    let operations = operations.into_iter().map(operation).collect::<Result<Vec<_>>>()?;
    let mut seen = HashSet::new();
    if let Some(twice) = operations.iter().filter_map(|one| one.bulk_id.as_ref()).find(|id| !seen.insert(*id))
    {
        return Err(ScimError::value(format!("bulkId {:?} is given twice", Excerpt(twice))));
    }
    Ok((operations, errors_max))
}

fn operation(value: Value) -> Result<BulkOperation> {
    let Value::Object(parts) = value else {
        return Err(ScimError::syntax("Operations: an object expected"));
    };
    let (mut method, mut path, mut bulk_id, mut version) = (None, None, None, None);
    let mut data = Map::new();
    for (name, value) in parts {
        match (name.to_ascii_lowercase().as_str(), value) {
            ("method", Value::String(text)) => method = Some(text.to_ascii_uppercase()),
            ("path", Value::String(text)) => path = Some(text),
            ("bulkid", Value::String(text)) => bulk_id = Some(text),
            ("version", Value::String(text)) => version = Some(text),
            ("data", Value::Object(object)) => data = object,
            (_, Value::Null) => {}
            _ => return Err(ScimError::syntax(format!("{:?} is not part of an operation", Excerpt(&name)))),
        }
    }
    let method = method.ok_or_else(|| ScimError::syntax("method is required"))?;
    let path = path.ok_or_else(|| ScimError::syntax("path is required"))?;
    if method == "POST" && bulk_id.is_none() {
        return Err(ScimError::syntax("bulkId is required with POST"));
    }
    Ok(BulkOperation { method, path, bulk_id, version, data })
}

/// The operations that have not run yet. An operation waits for other operations if it refers to their resources.
struct PendingOperations<'a> {
    ready: BTreeSet<usize>,
    open: Vec<usize>,
    /// For the id of each operation, the indexes of the operations that refer to it.
    naming: HashMap<&'a str, Vec<usize>>,
}

impl<'a> PendingOperations<'a> {
    fn of(operations: &'a [BulkOperation]) -> PendingOperations<'a> {
        let known: HashSet<&str> = operations.iter().filter_map(|one| one.bulk_id.as_deref()).collect();
        let mut waiting =
            PendingOperations { ready: BTreeSet::new(), open: Vec::new(), naming: HashMap::new() };
        for (place, operation) in operations.iter().enumerate() {
            let mut named = Vec::new();
            references(operation, &mut named);
            named.retain(|id| known.contains(id));
            waiting.open.push(named.len());
            if named.is_empty() {
                waiting.ready.insert(place);
            }
            named.into_iter().for_each(|id| waiting.naming.entry(id).or_default().push(place));
        }
        waiting
    }

    /// Returns the first operation that does not wait for another operation.
    fn next(&mut self) -> Option<usize> {
        self.ready.pop_first()
    }

    /// Records that the operation with this id is done. Operations that refer to it no longer wait for it.
    fn done(&mut self, id: &str) {
        for place in self.naming.remove(id).unwrap_or_default() {
            self.open[place] -= 1;
            if self.open[place] == 0 {
                self.ready.insert(place);
            }
        }
    }
}

fn references<'a>(operation: &'a BulkOperation, named: &mut Vec<&'a str>) {
    named.extend(operation.path.split('/').filter_map(|part| part.strip_prefix(REFERENCE)));
    operation.data.values().for_each(|value| references_in(value, named));
}

fn references_in<'a>(value: &'a Value, named: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => named.extend(text.strip_prefix(REFERENCE)),
        Value::Array(values) => values.iter().for_each(|value| references_in(value, named)),
        Value::Object(object) => object.values().for_each(|value| references_in(value, named)),
        _ => {}
    }
}

/// Returns the operation with ids of resources in place of the references.
fn resolved(
    operation: &BulkOperation,
    ids: &HashMap<String, String>,
    failed: &HashSet<String>,
) -> Result<BulkOperation> {
    let mut named = Vec::new();
    references(operation, &mut named);
    if let Some(unknown) = named.iter().find(|id| !ids.contains_key(**id)) {
        let why = if failed.contains(*unknown) { "failed" } else { "does not exist or creates nothing" };
        return Err(ScimError::value(format!("{REFERENCE}{}: that operation {why}", Excerpt(unknown))));
    }
    let mut operation = operation.clone();
    let parts = operation.path.split('/').map(|part| match part.strip_prefix(REFERENCE) {
        Some(id) => ids.get(id).map_or(part, String::as_str),
        None => part,
    });
    operation.path = parts.collect::<Vec<_>>().join("/");
    operation.data.values_mut().for_each(|value| resolve_in(value, ids));
    Ok(operation)
}

fn resolve_in(value: &mut Value, ids: &HashMap<String, String>) {
    match value {
        Value::String(text) => {
            if let Some(id) = text.strip_prefix(REFERENCE).and_then(|id| ids.get(id)) {
                *text = id.clone();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| resolve_in(value, ids)),
        Value::Object(object) => object.values_mut().for_each(|value| resolve_in(value, ids)),
        _ => {}
    }
}

fn result(operation: &BulkOperation, outcome: Result<OperationResult>) -> Value {
    let mut result = json!({ "method": operation.method });
    if let Some(bulk_id) = &operation.bulk_id {
        result["bulkId"] = bulk_id.as_str().into();
    }
    match outcome {
        Ok(OperationResult { status, location, version, .. }) => {
            result["status"] = status.to_string().into();
            for (name, value) in [("location", location), ("version", version)] {
                if let Some(value) = value {
                    result[name] = value.into();
                }
            }
        }
        Err(error) => {
            result["status"] = error.status.to_string().into();
            result["response"] = error.document();
        }
    }
    result
}
