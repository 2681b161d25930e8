//! The report: the results of runs as an HTML page, and as data for programs.
//!
//! The only input of a [`Report`] is the results ([`crate::result`]) of one or more runs. [`groups`] sorts the results
//! for comparison, [`problems`] finds problems that a reader must know, [`charts`] and [`plot`] draw. [`documents`]
//! puts the figures into tables like those of the published measurements that some workloads repeat, [`verdict`]
//! summarizes the comparison with each server in a sentence, and [`view`] formats all of this as text for the page's
//! template (`report/page.html`, `report/style.css`).
//!
//! The page is one file, without scripts, and refers to no other file. Its tables contain the numbers of the plots, so
//! that no figure is only in a plot.

mod axis;
mod charts;
mod documents;
mod environment;
mod groups;
mod overview;
mod plot;
mod problems;
mod rows;
mod sweeps;
pub mod text;
mod verdict;
mod view;

pub use plot::PlotError;

use crate::result::RunResult;
use groups::Groups;
use minijinja::context;
use minijinja::value::Serde;
use std::io::{self, Write};

/// Results of one or more runs, shown together.
pub struct Report {
    runs: Vec<RunResult>,
    reference: Option<String>,
}

/// Reason why the page cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A plot could not be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The template could not be filled in.
    #[error("the page cannot be made: {0:#}")]
    Template(#[from] minijinja::Error),
}

impl Report {
    /// Creates a report of these runs, in this order.
    pub fn new(runs: Vec<RunResult>) -> Report {
        Report { runs, reference: None }
    }

    /// Compares servers with the server whose product name begins with `product`, instead of with the first server.
    ///
    /// # Errors
    /// No product name begins with `product`; the error lists the products of the report.
    pub fn compare_with(&mut self, product: &str) -> Result<(), Vec<String>> {
        let mut products: Vec<String> = Vec::new();
        for result in self.runs.iter().flat_map(|run| &run.workloads) {
            if result.server.product.starts_with(product) {
                self.reference = Some(product.to_owned());
                return Ok(());
            }
            if !products.contains(&result.server.product) {
                products.push(result.server.product.clone());
            }
        }
        Err(products)
    }

    /// Returns the page.
    ///
    /// # Errors
    /// The page's template or a plot is invalid. Results never cause an error.
    pub fn html(&self) -> Result<String, ReportError> {
        let groups = Groups::new(&self.runs, self.reference.as_deref());
        let page = view::Page::new(&self.runs, &groups)?;
        let mut templates = minijinja::Environment::new();
        templates.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
        templates.add_template("page.html", include_str!("report/page.html"))?;
        templates.add_filter("number", text::count);
        templates.add_filter("rate", text::rate);
        templates.add_filter("bytes", text::bytes);
        templates.add_filter("duration", text::duration);
        let style = include_str!("report/style.css");
        Ok(templates
            .get_template("page.html")?
            .render(context! { style, page => Serde(&page), headings => view::RESULT_HEADINGS })?)
    }

    /// Writes tables in Markdown, with a row for each workload and a column for each server. Writes nothing if there
    /// are too few servers to compare.
    ///
    /// # Errors
    /// The sink fails.
    pub fn write_markdown(&self, sink: impl Write) -> io::Result<()> {
        let groups = Groups::new(&self.runs, self.reference.as_deref());
        overview::overview(&groups).map_or(Ok(()), |overview| overview::write_markdown(&overview, sink))
    }

    /// Returns true if the results have no problems that the reader must know.
    pub fn is_clean(&self) -> bool {
        let groups = Groups::new(&self.runs, self.reference.as_deref());
        problems::all(&self.runs, &groups, groups::anchor).is_empty()
    }

    /// Writes one row for each result, as CSV with a heading.
    ///
    /// # Errors
    /// The sink fails.
    pub fn write_csv(&self, sink: impl Write) -> io::Result<()> {
        rows::write_results(&self.runs, sink)
    }

    /// Writes one row for each second of every result, as CSV with a heading.
    ///
    /// # Errors
    /// The sink fails.
    pub fn write_seconds_csv(&self, sink: impl Write) -> io::Result<()> {
        rows::write_seconds(&self.runs, sink)
    }

    /// Writes the conditions of each run, and one JSON object for each result.
    ///
    /// # Errors
    /// The sink fails.
    pub fn write_json(&self, sink: impl Write) -> io::Result<()> {
        rows::write_json(&self.runs, sink)
    }
}

#[cfg(test)]
mod tests;
