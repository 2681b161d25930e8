//! Line plots as SVG. Colors are CSS variables of the page, so that a plot fits a light or a dark page. `plot.svg` is
//! the template; this module computes the coordinates.

use std::fmt::Write as _;
use std::sync::LazyLock;

use minijinja::value::Serde;
use minijinja::{Environment, context};
use serde::Serialize;

use super::axis::Axis;

/// Width of a plot in CSS pixels, if the page is wide enough.
const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 280.0;
/// Left edge of the plotting area. Labels are outside this area.
const LEFT: f64 = 56.0;
const RIGHT: f64 = WIDTH - 122.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = HEIGHT - 26.0;
/// Minimum distance between two labels of lines, in CSS pixels.
const LABEL_DISTANCE: f64 = 15.0;
/// Maximum number of characters of a line's label.
const LABEL_CHARACTERS_MAX: usize = 19;

/// Number of colors for servers. The style of the page defines the same number.
pub(crate) const SERIES_COLOURS: usize = 8;

/// The subject of a line, which determines its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// A server.
    Series(usize),
    /// The null responder.
    Floor,
}

impl Paint {
    /// Returns the name of the CSS variable.
    fn variable(self) -> String {
        match self {
            Paint::Series(index) => format!("var(--series-{})", index % SERIES_COLOURS),
            Paint::Floor => "var(--floor)".to_owned(),
        }
    }
}

/// One line of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Text that is drawn at the end of the line.
    pub(crate) label: String,
    pub(crate) paint: Paint,
    /// Whether the line is thin and less prominent, such as a median next to a 99th percentile.
    pub(crate) is_thin: bool,
    /// Whether each point has a dot. Dots are useful for few points that were each measured separately.
    pub(crate) has_dots: bool,
    pub(crate) points: Vec<(f64, f64)>,
    /// Horizontal coordinates, each with the lowest and the highest value at that coordinate. The ranges between these
    /// values are drawn as a band under the line.
    pub(crate) band: Vec<(f64, f64, f64)>,
}

impl Line {
    pub(crate) fn new(label: String, paint: Paint, points: Vec<(f64, f64)>) -> Line {
        Line { label, paint, is_thin: false, has_dots: false, points, band: Vec::new() }
    }
}

/// A plot.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// Description of the plot, for readers who cannot see it.
    pub(crate) description: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// Reason why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("a plot cannot be drawn: {0}")]
pub struct PlotError(String);

/// A tick of an axis.
#[derive(Serialize)]
struct Tick {
    at: f64,
    label: String,
    /// Whether the tick has a grid line.
    has_line: bool,
}

/// A line with the coordinates of its points in the drawing.
#[derive(Serialize)]
struct PlacedLine {
    paint: String,
    points: String,
    dots: Vec<(f64, f64)>,
    band: String,
    width: u8,
}

/// The label of a line, at the end of the line.
#[derive(Serialize)]
struct Label {
    at: f64,
    paint: String,
    text: String,
}

static TEMPLATE: LazyLock<Result<Environment<'_>, minijinja::Error>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(minijinja::UndefinedBehavior::Strict);
    // The suffix `.xml` makes the template engine escape values.
    environment.add_template("plot.xml", include_str!("plot.svg"))?;
    Ok(environment)
});

impl Plot {
    /// Returns the `svg` element.
    ///
    /// # Errors
    /// The template is invalid.
    pub(crate) fn to_svg(&self) -> Result<String, PlotError> {
        let template = TEMPLATE.as_ref().map_err(|error| PlotError(error.to_string()))?;
        let y_ticks = self.y.ticks().iter();
        let y_ticks =
            y_ticks.map(|&tick| Tick { at: self.y_at(tick), label: self.y.label(tick), has_line: true });
        let (first, _) = self.x.ends();
        let x_ticks = self.x.ticks().iter().map(|&tick| Tick {
            at: self.x_at(tick),
            label: self.x.label(tick),
            has_line: self.x.has(tick) && tick > first,
        });
        let values = context! {
            description => self.description.as_str(),
            width => WIDTH, height => HEIGHT, left => LEFT, right => RIGHT, top => TOP, bottom => BOTTOM,
            x_ticks => Serde(x_ticks.collect::<Vec<_>>()),
            y_ticks => Serde(y_ticks.collect::<Vec<_>>()),
            lines => Serde(self.lines.iter().map(|line| self.placed(line)).collect::<Vec<_>>()),
            labels => Serde(self.labels()),
        };
        let svg = template.get_template("plot.xml").and_then(|template| template.render(values));
        svg.map_err(|error| PlotError(error.to_string()))
    }

    /// Returns the position of a horizontal coordinate, to a tenth of a pixel.
    fn x_at(&self, place: f64) -> f64 {
        rounded(LEFT + (RIGHT - LEFT) * share(place, self.x.ends()))
    }

    /// Returns the position of a vertical coordinate.
    fn y_at(&self, place: f64) -> f64 {
        rounded(BOTTOM - (BOTTOM - TOP) * share(place, self.y.ends()))
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x_at(self.x.place(x)), self.y_at(self.y.place(y)))
    }

    fn placed(&self, line: &Line) -> PlacedLine {
        let lower = line.band.iter().map(|(x, low, _)| self.at(*x, *low));
        let upper = line.band.iter().rev().map(|(x, _, high)| self.at(*x, *high));
        let points: Vec<_> = line.points.iter().map(|(x, y)| self.at(*x, *y)).collect();
        PlacedLine {
            paint: line.paint.variable(),
            band: point_list(lower.chain(upper)),
            points: point_list(points.iter().copied()),
            width: if line.is_thin || line.paint == Paint::Floor { 1 } else { 2 },
            dots: if line.has_dots || points.len() == 1 { points } else { Vec::new() },
        }
    }

    /// Returns the labels of lines. Labels that would overlap are moved apart.
    fn labels(&self) -> Vec<Label> {
        let ends = self.lines.iter().filter_map(|line| Some((line, line.points.last()?)));
        let mut labels: Vec<Label> = ends
            .map(|(line, (x, y))| Label {
                at: self.at(*x, *y).1,
                paint: line.paint.variable(),
                text: shortened(&line.label),
            })
            .collect();
        labels.sort_by(|one, other| one.at.total_cmp(&other.at));
        let mut places: Vec<f64> = labels.iter().map(|label| label.at).collect();
        spread(&mut places, LABEL_DISTANCE, TOP - 2.0, BOTTOM - 4.0);
        labels.iter_mut().zip(places).for_each(|(label, at)| label.at = at);
        labels
    }
}

/// Returns the position of a coordinate between the ends of its axis: 0 at the first end, 1 at the last.
fn share(place: f64, (first, last): (f64, f64)) -> f64 {
    (place - first) / (last - first)
}

fn rounded(pixels: f64) -> f64 {
    (pixels * 10.0).round() / 10.0
}

fn point_list(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.fold(String::new(), |mut list, (x, y)| {
        let _ = write!(list, "{}{x},{y}", if list.is_empty() { "" } else { " " });
        list
    })
}

fn shortened(label: &str) -> String {
    if label.chars().count() <= LABEL_CHARACTERS_MAX {
        return label.to_owned();
    }
    let shortened: String = label.chars().take(LABEL_CHARACTERS_MAX - 1).collect();
    format!("{}…", shortened.trim_end())
}

/// Moves sorted positions apart, so that neighbors are at least `distance` apart. All positions stay between `top` and
/// `bottom`, as long as there is room.
fn spread(places: &mut [f64], distance: f64, top: f64, bottom: f64) {
    let mut lowest = top;
    for place in places.iter_mut() {
        *place = place.max(lowest);
        lowest = *place + distance;
    }
    let mut highest = bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(highest);
        highest = *place - distance;
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::Quantity;
    use super::*;

    #[test]
    fn labels_do_not_overlap_and_lie_within_the_plot() {
        for (mut places, expected) in [
            (vec![10.0, 12.0, 14.0], vec![10.0, 20.0, 30.0]),
            (vec![95.0, 98.0, 99.0], vec![80.0, 90.0, 100.0]),
            (vec![0.0, 50.0, 200.0], vec![5.0, 50.0, 100.0]),
            (vec![], vec![]),
        ] {
            spread(&mut places, 10.0, 5.0, 100.0);
            assert_eq!(places, expected);
        }
    }

    #[test]
    fn plots_use_the_page_s_colours_and_escape_text() {
        let line = Line::new("A & \"B\" <c>".to_owned(), Paint::Series(1), vec![(0.0, 1.0), (9.0, 2.0)]);
        let floor = Line::new("floor".to_owned(), Paint::Floor, vec![(0.0, 3.0)]);
        let plot = Plot {
            description: "rate & <time>".to_owned(),
            x: Axis::exact(Quantity::Seconds, 0.0..9.0),
            y: Axis::linear(Quantity::Number, 3.0),
            lines: vec![line, floor],
        };
        let svg = plot.to_svg().unwrap();
        for part in
            ["var(--series-1)", "var(--floor)", "var(--grid)", "var(--ink-soft)", "A &amp; ", "&lt;time&gt;"]
        {
            assert!(svg.contains(part), "{part} in {svg}");
        }
        assert!(!svg.contains("<c>"), "{svg}");
    }

    #[test]
    fn an_empty_plot_is_drawn() {
        let plot = Plot {
            description: String::new(),
            x: Axis::exact(Quantity::Seconds, 0.0..0.0),
            y: Axis::linear(Quantity::Number, 0.0),
            lines: vec![Line::new(String::new(), Paint::Series(99), Vec::new())],
        };
        assert!(plot.to_svg().unwrap().ends_with("</svg>"));
    }
}
