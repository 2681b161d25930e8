//! `pando search`: searches a server page by page, and prints entries as they arrive.

pub(crate) mod results;

use std::process::ExitCode;

use clap::Args;
use client::{ClientError, Connection, Outcome};
use ldap::{
    Control, ControlsBuf, FilterBuf, PagedResults, Request, Response, ResultCode, Scope, SearchRequest,
    SelectionBuf, SortKey, oids,
};

use crate::exit;
use crate::online::{ScopeName, TargetArguments, parse_filter, refusal};
use crate::print;
use results::{Form, Results};

/// Number of entries in a requested page.
const PAGE_SIZE: u32 = 1_000;

pub(crate) const HELP: &str = "\
Asks the running server through the socket in the data directory, as the administrator, or the server at --url.
Prints LDIF, one entry after the other, and asks for them in pages.

Examples:
  pando search --data /var/lib/pando '(uid=anna)'
  pando search --data /var/lib/pando --table --sort sn,-uid '(objectClass=person)' uid sn mail
  pando search --url ldaps://ldap.example.com --tls-ca ca.pem --bind-dn cn=admin '(mail=*)' mail
  pando search --url ldap://ldap.example.com --base '' --scope base '(objectClass=*)' '*' +

Exit codes:
  0  the search is complete, also if it found nothing, or --limit is reached
  1  failed: no connection, no such base, no access
  2  the command line is wrong
  6  incomplete: a limit of the server or --time-limit was reached";

/// The options of `pando search`.
#[derive(Debug, Args)]
pub(crate) struct SearchArguments {
    #[command(flatten)]
    server: TargetArguments,
    /// Base of the search [default: the whole directory]
    #[arg(short, long, value_name = "DN")]
    base: Option<String>,
    /// Scope of the search
    #[arg(short, long, value_enum, default_value = "sub")]
    scope: ScopeName,
    /// Attributes to sort by, most important first; `-NAME` sorts in reverse order
    #[arg(long, value_name = "NAME", value_delimiter = ',', allow_hyphen_values = true)]
    sort: Vec<String>,
    /// Maximum number of entries to print [default: all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Time limit of each page of the search, in seconds [default: that of the server]
    #[arg(long, value_name = "SECONDS", default_value_t = 0, hide_default_value = true)]
    time_limit: u32,
    /// Print a table with a column for each attribute
    #[arg(long, conflicts_with = "json", requires = "attributes")]
    table: bool,
    /// Print referral entries as ordinary entries (RFC 3296)
    #[arg(long)]
    manage_dsa_it: bool,
    /// The filter (RFC 4515)
    #[arg(default_value = "(objectClass=*)", value_parser = parse_filter)]
    filter: FilterBuf,
    /// Attributes to print; `*` are all user attributes, `+` all operational ones [default: *]
    #[arg(value_name = "ATTRIBUTE")]
    attributes: Vec<String>,
}

/// End of a search without an error.
enum End {
    /// All entries were printed, or as many as requested.
    Complete,
    /// A limit of the server ended the search.
    Limited(Outcome),
}

/// Reason that a search ended early.
#[derive(Debug, thiserror::Error)]
enum SearchError {
    #[error("{0}")]
    Failed(String),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Write(#[from] std::io::Error),
}

pub(crate) fn run(arguments: &SearchArguments) -> ExitCode {
    let mut connection = match arguments.server.connect() {
        Ok(connection) => connection,
        Err(error) => return exit::failure(&error),
    };
    let form = match (print::form().is_json, arguments.table) {
        (true, _) => Form::Json,
        (_, true) => Form::Table,
        _ => Form::Ldif,
    };
    let results = Results::new(form, &arguments.attributes).map_err(SearchError::from);
    let found = results.and_then(|mut results| {
        // Finish the output even after an error, so that entries that arrived before it are printed.
        let end = arguments.search(&mut connection, &mut results);
        results.finish()?;
        end
    });
    match found {
        Ok(End::Complete) => ExitCode::SUCCESS,
        Ok(End::Limited(outcome)) => {
            exit::incomplete(&format!("these are not all entries: {}: {}", outcome.code, outcome.diagnostic))
        }
        Err(SearchError::Write(error)) => exit::not_written("standard output", &error),
        Err(error) => exit::failure(&error.to_string()),
    }
}

impl SearchArguments {
    fn search(&self, connection: &mut Connection, results: &mut Results) -> Result<End, SearchError> {
        let bases = match (&self.base, self.scope) {
            (Some(base), _) => vec![base.clone()],
            (None, ScopeName::Base) => vec![String::new()],
            (None, _) => {
                let root = connection.entry("", &["namingContexts"])?;
                root.map(|root| root.texts("namingContexts")).unwrap_or_default()
            }
        };
        if bases.is_empty() {
            return Err(SearchError::Failed("the server names no suffix; give --base DN".to_owned()));
        }
        if bases.len() > 1 && !self.sort.is_empty() {
            let message = format!("entries of {} suffixes cannot be sorted; give --base DN", bases.len());
            return Err(SearchError::Failed(message));
        }
        for base in &bases {
            match self.pages(connection, base, results)? {
                End::Complete if self.is_enough(results) => break,
                End::Complete => {}
                limited @ End::Limited(_) => return Ok(limited),
            }
        }
        Ok(End::Complete)
    }

    fn is_enough(&self, results: &Results) -> bool {
        self.limit.is_some_and(|limit| results.entry_count() >= u64::from(limit))
    }

    /// Searches below one base, page by page.
    fn pages(
        &self,
        connection: &mut Connection,
        base: &str,
        results: &mut Results,
    ) -> Result<End, SearchError> {
        let mut cookie = Vec::new();
        loop {
            let outcome = self.page(connection, base, &mut cookie, results)?;
            match outcome.code {
                _ if self.is_enough(results) => return Ok(End::Complete),
                ResultCode::SUCCESS if cookie.is_empty() => return Ok(End::Complete),
                ResultCode::SUCCESS => {}
                // The suffix has no entries yet.
                ResultCode::NO_SUCH_OBJECT if self.base.is_none() => return Ok(End::Complete),
                ResultCode::SIZE_LIMIT_EXCEEDED
                | ResultCode::TIME_LIMIT_EXCEEDED
                | ResultCode::ADMIN_LIMIT_EXCEEDED => return Ok(End::Limited(outcome)),
                ResultCode::REFERRAL => {
                    let message = format!("the server refers to {}", outcome.referrals.join(" "));
                    return Err(SearchError::Failed(message));
                }
                code => return Err(SearchError::Failed(refusal(code, &outcome.diagnostic))),
            }
        }
    }

    /// Requests one page, and passes its entries to `results`. `cookie` identifies the page. On return, `cookie`
    /// identifies the next page.
    fn page(
        &self,
        connection: &mut Connection,
        base: &str,
        cookie: &mut Vec<u8>,
        results: &mut Results,
    ) -> Result<Outcome, SearchError> {
        let selection = SelectionBuf::from_iter(&self.attributes);
        let request = SearchRequest {
            size_limit: self.limit.unwrap_or(0),
            time_limit_seconds: self.time_limit,
            ..SearchRequest::new(base, self.scope.scope(), self.filter.as_filter(), selection.as_selection())
        };
        let page = PagedResults { size: PAGE_SIZE, cookie }.encode();
        let order = self.order();
        let mut controls = ControlsBuf::new();
        // The control is not critical. A server without paged results sends all entries in one response. The entries
        // are printed as they arrive.
        if request.scope != Scope::BaseObject {
            controls.push(Control { oid: oids::PAGED_RESULTS, critical: false, value: Some(&page) });
        }
        if let Some(order) = &order {
            controls.push(Control { oid: oids::SORT_REQUEST, critical: true, value: Some(order) });
        }
        if self.manage_dsa_it {
            controls.push(Control { oid: oids::MANAGE_DSA_IT, critical: true, value: None });
        }
        let id = connection.send(Request::Search(request), controls.as_controls())?;
        loop {
            let received = connection.receive(id)?;
            let message = received.message();
            match message.response {
                Response::SearchEntry(_) if self.is_enough(results) => {}
                Response::SearchEntry(entry) => results.entry(&entry)?,
                Response::SearchReference(urls) => results.reference(&urls.iter().collect::<Vec<_>>())?,
                _ => {}
            }
            if let Some(outcome) = received.outcome() {
                let control = message.controls.find(oids::PAGED_RESULTS).and_then(|control| control.value);
                let next = control.and_then(PagedResults::decode).map(|next| next.cookie.to_vec());
                *cookie = next.unwrap_or_default();
                return Ok(outcome);
            }
        }
    }

    /// Returns the value of the sort control, if `--sort` is given.
    fn order(&self) -> Option<Vec<u8>> {
        let keys: Vec<SortKey<'_>> = self.sort.iter().map(|name| sort_key(name)).collect();
        (!keys.is_empty()).then(|| SortKey::encode_list(&keys))
    }
}

fn sort_key(name: &str) -> SortKey<'_> {
    let attribute = name.strip_prefix('-');
    SortKey { attribute: attribute.unwrap_or(name), rule: None, reverse: attribute.is_some() }
}
