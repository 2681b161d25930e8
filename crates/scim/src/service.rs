//! Requests and their answers. The method and the path of a request determine the operation.

use std::net::IpAddr;
use std::sync::Arc;

use client::{ClientError, Connection};
use serde_json::Value;

use crate::answer_memory::{AnswerMemory, AnswerShare};
use crate::bulk::{self, BulkOperation, OperationResult};
use crate::credentials::Credentials;
use crate::documents;
use crate::error::{Result, ScimError};
use crate::json::parse_object;
use crate::limits::BODY_SIZE_MAX;
use crate::listing::{Listing, list, selection_of};
use crate::model::{Model, ResourceType};
use crate::places::Places;
use crate::resources::{Resources, StoredResource, matches_version};
use crate::session::Session;
use crate::settings::ScimSettings;

/// A request that was received over HTTP.
pub struct ScimRequest<'a> {
    /// The HTTP method.
    pub method: &'a str,
    /// The path below the service, for example `/Users/ID`.
    pub path: &'a str,
    /// The query of the URL.
    pub query: &'a str,
    /// Value of the header `Authorization`.
    pub authorization: Option<&'a str>,
    /// Value of the header `If-Match`.
    pub if_match: Option<&'a str>,
    /// Value of the header `If-None-Match`.
    pub if_none_match: Option<&'a str>,
    /// Value of the header `Content-Type`.
    pub content_type: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
    /// URL at which the client reaches the service, without a slash at the end.
    pub url: &'a str,
    /// Address of the client.
    pub client: IpAddr,
}

/// The answer to a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScimResponse {
    /// The HTTP status.
    pub status: u16,
    /// The body, if there is one. Its type is `application/scim+json`.
    pub body: Option<String>,
    /// Value of the header `ETag`, if there is one.
    pub version: Option<String>,
    /// Value of the header `Location`, if there is one.
    pub location: Option<String>,
    /// Value of the header `Allow`: the methods of the resource, if the request had a different one.
    pub allowed_methods: Option<&'static str>,
}

impl ScimResponse {
    /// Returns the answer for an error outside of the service, for example an incomplete body.
    pub fn failed(status: u16, detail: &str) -> ScimResponse {
        ScimResponse::from(ScimError::new(status, detail))
    }
}

impl From<ScimError> for ScimResponse {
    fn from(error: ScimError) -> ScimResponse {
        let body = Some(error.document().to_string());
        ScimResponse { status: error.status, body, ..ScimResponse::default() }
    }
}

/// The SCIM service for users and groups.
pub struct Service {
    model: Model,
    url: Option<String>,
    places: Places,
    answers: Arc<AnswerMemory>,
}

/// The object that a path refers to.
enum Target<'a> {
    Documents(&'a str, Option<String>),
    /// All users and groups, as one list.
    Root,
    SearchRoot,
    Bulk,
    All(&'a ResourceType),
    Search(&'a ResourceType),
    One(&'a ResourceType, &'a str),
    /// The user of the credentials in the request (RFC 7644 section 3.11).
    Me,
}

impl Target<'_> {
    /// Returns the methods that are possible here, in the form of the header `Allow`.
    fn methods(&self) -> &'static str {
        match self {
            Target::Documents(..) | Target::Root => "GET, HEAD",
            Target::SearchRoot | Target::Search(_) | Target::Bulk => "POST",
            Target::All(_) => "GET, HEAD, POST",
            Target::One(..) | Target::Me => "GET, HEAD, PUT, PATCH, DELETE",
        }
    }
}

impl Service {
    /// Creates the service.
    ///
    /// # Errors
    /// A setting is wrong. The error contains the key of the setting and the reason.
    pub fn new(settings: &ScimSettings) -> std::result::Result<Service, String> {
        let url = settings.url.as_ref().map(|url| url.trim_end_matches('/').to_owned());
        Ok(Service { model: Model::of(settings)?, url, places: Places::default(), answers: Arc::default() })
    }

    /// Answers a request. `connect` opens a connection to the directory for the client. The caller must keep the
    /// returned share until the client has received the answer.
    pub fn answer(
        &self,
        request: &ScimRequest<'_>,
        connect: &mut dyn FnMut() -> std::result::Result<Connection, ClientError>,
    ) -> (ScimResponse, Option<AnswerShare>) {
        self.respond(request, connect).unwrap_or_else(|error| {
            let mut response = ScimResponse::from(error);
            if response.status == 405 {
                response.allowed_methods = self.target(request.path).ok().map(|target| target.methods());
            }
            (response, None)
        })
    }

    fn respond(
        &self,
        request: &ScimRequest<'_>,
        connect: &mut dyn FnMut() -> std::result::Result<Connection, ClientError>,
    ) -> Result<(ScimResponse, Option<AnswerShare>)> {
        let target = self.target(request.path)?;
        if let Target::Documents(kind, id) = target {
            return Ok((self.describe(request, kind, id.as_deref())?, None));
        }
        check_body(request)?;
        let credentials = Credentials::parse(request.authorization)?;
        let mut session = Session::bind(connect()?, &credentials, self.answers.share(request.client))?;
        let response = self.respond_to(request, target, &mut session)?;
        let share = session.into_share(response.body.as_ref().map_or(0, String::len))?;
        Ok((response, Some(share)))
    }

    fn respond_to(
        &self,
        request: &ScimRequest<'_>,
        target: Target<'_>,
        session: &mut Session,
    ) -> Result<ScimResponse> {
        let url = self.url.as_deref().unwrap_or(request.url);
        let resources = Resources { model: &self.model, url };
        let query = pairs(request.query)?;
        match (request.method, target) {
            ("GET", Target::Root) => {
                self.list(&resources, session, request, &self.model.both(), &Listing::of_query(&query)?)
            }
            ("GET", Target::All(resource)) => {
                self.list(&resources, session, request, &[resource], &Listing::of_query(&query)?)
            }
            ("POST", Target::SearchRoot) => {
                let listing = Listing::of_body(parse_object(request.body)?)?;
                self.list(&resources, session, request, &self.model.both(), &listing)
            }
            ("POST", Target::Search(resource)) => {
                let listing = Listing::of_body(parse_object(request.body)?)?;
                self.list(&resources, session, request, &[resource], &listing)
            }
            ("POST", Target::Bulk) => {
                let mut run = |operation: &BulkOperation| self.run(&resources, session, operation);
                Ok(document(200, &bulk::answer(parse_object(request.body)?, &mut run)?))
            }
            ("POST", Target::All(resource)) => {
                let body = parse_object(request.body)?;
                Ok(stored(201, resources.create(session, resource, body, &selection_of(&query)?)?))
            }
            (_, Target::Me) => {
                let id = session.own_id()?.ok_or_else(|| ScimError::not_found("a user of your own"))?;
                one(&resources, session, &self.model.users, &id, request, &query)
            }
            (_, Target::One(resource, id)) => one(&resources, session, resource, id, request, &query),
            _ => Err(not_allowed(request.method)),
        }
    }

    fn list(
        &self,
        resources: &Resources<'_>,
        session: &mut Session,
        request: &ScimRequest<'_>,
        types: &[&ResourceType],
        listing: &Listing,
    ) -> Result<ScimResponse> {
        let places = (&self.places, request.authorization.unwrap_or_default());
        Ok(document(200, &list(resources, session, places, types, listing)?))
    }

    /// Returns a document that describes the service. The request needs no credentials.
    fn describe(&self, request: &ScimRequest<'_>, kind: &str, id: Option<&str>) -> Result<ScimResponse> {
        if request.method != "GET" {
            return Err(not_allowed(request.method));
        }
        // A request for these documents with a filter must be refused (RFC 7644 section 4).
        if pairs(request.query)?.iter().any(|(name, _)| name.eq_ignore_ascii_case("filter")) {
            return Err(ScimError::new(403, "these documents cannot be filtered"));
        }
        let url = self.url.as_deref().unwrap_or(request.url);
        let documents = match kind {
            "ServiceProviderConfig" => return Ok(document(200, &documents::service_provider_config(url))),
            "ResourceTypes" => documents::resource_types(&self.model, url),
            _ => documents::schemas(&self.model, url),
        };
        let Some(id) = id else { return Ok(document(200, &documents::list(documents))) };
        let found = documents.iter().find(|(known, _)| known.eq_ignore_ascii_case(id));
        let missing = || ScimError::not_found(&format!("{kind} {:?}", ldap::Excerpt(id)));
        Ok(document(200, &found.ok_or_else(missing)?.1))
    }

    /// Runs one operation of a bulk request.
    fn run(
        &self,
        resources: &Resources<'_>,
        session: &mut Session,
        operation: &BulkOperation,
    ) -> Result<OperationResult> {
        let (method, version) = (operation.method.as_str(), operation.version.as_deref());
        let (data, selection) = (operation.data.clone(), selection_of(&[])?);
        let stored = match (method, self.target(&operation.path)?) {
            ("POST", Target::All(resource)) => (201, resources.create(session, resource, data, &selection)?),
            ("PUT", Target::One(resource, id)) => {
                (200, resources.replace(session, resource, id, (data, version), &selection)?)
            }
            ("PATCH", Target::One(resource, id)) => {
                (200, resources.patch(session, resource, id, (data, version), &selection)?)
            }
            ("DELETE", Target::One(resource, id)) => {
                resources.delete(session, resource, id, version)?;
                let location = Some(resources.writer().location(resource, id));
                return Ok(OperationResult { status: 204, id: None, location, version: None });
            }
            _ => {
                return Err(ScimError::syntax(
                    "an operation of a bulk request is POST, PUT, PATCH or DELETE of a user or group",
                ));
            }
        };
        let (status, StoredResource { id, version, location, .. }) = stored;
        Ok(OperationResult { status, id: Some(id), location: Some(location), version })
    }

    fn target<'a>(&'a self, path: &'a str) -> Result<Target<'a>> {
        let mut parts = path.trim_matches('/').split('/');
        let (first, second, more) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let typed = self.model.both().into_iter().find(|resource| resource.name.endpoint() == first);
        match (first, second, typed) {
            _ if more.is_some() => {}
            ("", None, _) => return Ok(Target::Root),
            (".search", None, _) => return Ok(Target::SearchRoot),
            ("Bulk", None, _) => return Ok(Target::Bulk),
            ("ServiceProviderConfig", None, _) => return Ok(Target::Documents(first, None)),
            ("ResourceTypes" | "Schemas", id, _) => {
                return Ok(Target::Documents(first, id.map(|id| id.replace("%3A", ":").replace("%3a", ":"))));
            }
            (_, None, Some(resource)) => return Ok(Target::All(resource)),
            (_, Some(".search"), Some(resource)) => return Ok(Target::Search(resource)),
            (_, Some(id), Some(resource)) => return Ok(Target::One(resource, id)),
            ("Me", None, _) => return Ok(Target::Me),
            _ => {}
        }
        Err(ScimError::not_found(&format!("{:?}", ldap::Excerpt(path))))
    }
}

/// Runs an operation on the resource with this id.
fn one(
    resources: &Resources<'_>,
    session: &mut Session,
    resource: &ResourceType,
    id: &str,
    request: &ScimRequest<'_>,
    query: &[(String, String)],
) -> Result<ScimResponse> {
    let selection = selection_of(query)?;
    let body = |body| Ok::<_, ScimError>((parse_object(body)?, request.if_match));
    match request.method {
        "GET" => {
            let found = resources.get(session, resource, id, &selection)?;
            let is_known =
                |stated| found.version.as_ref().is_some_and(|version| matches_version(stated, version));
            if request.if_none_match.is_some_and(is_known) {
                return Ok(ScimResponse { status: 304, version: found.version, ..ScimResponse::default() });
            }
            Ok(stored(200, found))
        }
        "PUT" => {
            let replaced = resources.replace(session, resource, id, body(request.body)?, &selection)?;
            Ok(stored(200, replaced))
        }
        "PATCH" => {
            let changed = resources.patch(session, resource, id, body(request.body)?, &selection)?;
            let status = if changed.resource.is_some() { 200 } else { 204 };
            Ok(stored(status, changed))
        }
        "DELETE" => {
            resources.delete(session, resource, id, request.if_match)?;
            Ok(ScimResponse { status: 204, ..ScimResponse::default() })
        }
        method => Err(not_allowed(method)),
    }
}

fn check_body(request: &ScimRequest<'_>) -> Result<()> {
    if request.body.len() > BODY_SIZE_MAX {
        return Err(ScimError::new(413, format!("a body has at most {BODY_SIZE_MAX} octets")));
    }
    let kind = request.content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    // The pages of other sites can send a body without a type, with the stored credentials of the browser.
    let is_json =
        ["application/scim+json", "application/json"].iter().any(|known| known.eq_ignore_ascii_case(kind));
    if !request.body.is_empty() && !is_json {
        return Err(ScimError::new(415, "the body is of type application/scim+json or application/json"));
    }
    Ok(())
}

fn pairs(query: &str) -> Result<Vec<(String, String)>> {
    let pairs = form_urlencoded::parse(query.as_bytes());
    let pairs: Vec<(String, String)> = pairs.into_owned().collect();
    let twice = |(place, (name, _)): (usize, &(String, String))| {
        pairs.iter().skip(place + 1).any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    if pairs.len() > 100 || pairs.iter().enumerate().any(twice) {
        return Err(ScimError::value("a parameter of the URL is given twice"));
    }
    Ok(pairs)
}

fn not_allowed(method: &str) -> ScimError {
    ScimError::new(405, format!("{:?} is not possible here", ldap::Excerpt(method)))
}

fn document(status: u16, body: &Value) -> ScimResponse {
    ScimResponse { status, body: Some(body.to_string()), ..ScimResponse::default() }
}

fn stored(status: u16, stored: StoredResource) -> ScimResponse {
    ScimResponse {
        status,
        body: stored.resource.map(|resource| resource.to_string()),
        version: stored.version,
        location: Some(stored.location),
        allowed_methods: None,
    }
}
