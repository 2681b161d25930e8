//! Line plots as SVG, for a page that is light or dark: colours are the page's CSS variables.
//!
//! plotters draws with fixed colours and whole numbers. So plots are drawn in colours that stand for roles ([`Paint`]),
//! which the finished SVG's text has replaced by variables, and [`SCALE`] times as large as they are shown.

use super::axis::Axis;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Drawn at so many times the size, since coordinates are whole numbers.
const SCALE: i32 = 4;
/// Size of a plot in CSS pixels, where there is room.
const WIDTH: i32 = 520;
const HEIGHT: i32 = 280;
/// Room beside the plot itself, in CSS pixels.
const LABELS_LEFT: i32 = 56;
const LABELS_BELOW: i32 = 26;
const LABELS_RIGHT: i32 = 122;
const TEXT_SIZE: i32 = 12;
/// Distance between two labels of lines.
const LABEL_DISTANCE: i32 = 15;
/// Characters of a line's label that have room.
const LABEL_CHARACTERS_MAX: usize = 19;

/// Colours of servers; a page's style has as many.
pub(crate) const SERIES_COLOURS: usize = 8;

/// What a colour stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paint {
    /// A server's.
    Series(usize),
    /// The null responder's.
    Floor,
    /// Lines of the grid.
    Grid,
    /// Text of the axes.
    Ink,
}

impl Paint {
    /// A colour that nothing else has.
    fn stand_in(self) -> RGBColor {
        match self {
            Paint::Series(index) => RGBColor(0xfa, 0xce, (index % SERIES_COLOURS) as u8),
            Paint::Floor => RGBColor(0xfa, 0xcf, 0),
            Paint::Grid => RGBColor(0xfa, 0xcf, 1),
            Paint::Ink => RGBColor(0xfa, 0xcf, 2),
        }
    }

    fn variable(self) -> String {
        match self {
            Paint::Series(index) => format!("var(--series-{})", index % SERIES_COLOURS),
            Paint::Floor => "var(--floor)".to_owned(),
            Paint::Grid => "var(--grid)".to_owned(),
            Paint::Ink => "var(--ink-soft)".to_owned(),
        }
    }
}

/// One line of a plot.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Written at its end.
    pub(crate) label: String,
    pub(crate) paint: Paint,
    /// Thin lines stand back: a median beside a 99th percentile.
    pub(crate) is_thin: bool,
    /// With a dot at each point: few points, each measured by itself.
    pub(crate) has_dots: bool,
    pub(crate) points: Vec<(f64, f64)>,
    /// Lowest and highest at some x, drawn as a band behind the line.
    pub(crate) band: Vec<(f64, f64, f64)>,
}

impl Line {
    pub(crate) fn new(label: String, paint: Paint, points: Vec<(f64, f64)>) -> Line {
        Line { label, paint, is_thin: false, has_dots: false, points, band: Vec::new() }
    }
}

/// A plot to be drawn.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// What it shows, for those who cannot see it.
    pub(crate) description: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// Why a plot could not be drawn.
#[derive(Debug, thiserror::Error)]
#[error("a plot cannot be drawn: {0}")]
pub struct PlotError(String);

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for PlotError {
    fn from(error: DrawingAreaErrorKind<E>) -> PlotError {
        PlotError(error.to_string())
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

impl Plot {
    /// The `svg` element.
    pub(crate) fn to_svg(&self) -> Result<String, PlotError> {
        let mut svg = String::new();
        {
            let size = ((WIDTH * SCALE) as u32, (HEIGHT * SCALE) as u32);
            let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
            let plane = root.margin(10 * SCALE, 0, 0, LABELS_RIGHT * SCALE);
            let mut chart = ChartBuilder::on(&plane)
                .x_label_area_size(LABELS_BELOW * SCALE)
                .y_label_area_size(LABELS_LEFT * SCALE)
                .build_cartesian_2d(self.x.clone(), self.y.clone())?;
            self.draw_grid(&root, &chart)?;
            for line in &self.lines {
                self.draw_line(&mut chart, line)?;
            }
            self.draw_labels(&root, &chart)?;
            root.present()?;
        }
        Ok(self.for_the_page(&svg))
    }

    fn draw_grid(&self, root: &Area<'_>, chart: &Chart<'_, '_>) -> Result<(), PlotError> {
        let (left, right) = self.x.ends();
        let (bottom, top) = self.y.ends();
        for &tick in self.y.ticks() {
            let (from, to) = (chart.backend_coord(&(left, tick)), chart.backend_coord(&(right, tick)));
            root.draw(&PathElement::new([from, to], stroke(Paint::Grid, 1)))?;
            let style = label_style(Paint::Ink, Pos::new(HPos::Right, VPos::Center));
            root.draw(&Text::new(self.y.label(tick), (from.0 - 7 * SCALE, from.1), style))?;
        }
        for &tick in self.x.ticks() {
            let (from, to) = (chart.backend_coord(&(tick, bottom)), chart.backend_coord(&(tick, top)));
            root.draw(&PathElement::new([from, (from.0, from.1 + 4 * SCALE)], stroke(Paint::Ink, 1)))?;
            if self.x.has(tick) && tick > left {
                root.draw(&PathElement::new([from, to], stroke(Paint::Grid, 1)))?;
            }
            let style = label_style(Paint::Ink, Pos::new(HPos::Center, VPos::Top));
            root.draw(&Text::new(self.x.label(tick), (from.0, from.1 + 7 * SCALE), style))?;
        }
        let corners = [chart.backend_coord(&(left, bottom)), chart.backend_coord(&(right, bottom))];
        root.draw(&PathElement::new(corners, stroke(Paint::Ink, 1)))?;
        Ok(())
    }

    fn draw_line(&self, chart: &mut Chart<'_, '_>, line: &Line) -> Result<(), PlotError> {
        let place = |x: f64, y: f64| (self.x.place(x), self.y.place(y));
        if !line.band.is_empty() {
            let lower = line.band.iter().map(|(x, low, _)| place(*x, *low));
            let upper = line.band.iter().rev().map(|(x, _, high)| place(*x, *high));
            let corners: Vec<_> = lower.chain(upper).collect();
            chart.draw_series([Polygon::new(corners, line.paint.stand_in().mix(0.18))])?;
        }
        let points: Vec<_> = line.points.iter().map(|(x, y)| place(*x, *y)).collect();
        if line.has_dots || points.len() == 1 {
            let dot = |point: &(f64, f64)| Circle::new(*point, 3 * SCALE + 2, line.paint.stand_in().filled());
            chart.draw_series(points.iter().map(dot))?;
        }
        let width = if line.is_thin || line.paint == Paint::Floor { 1 } else { 2 };
        chart.draw_series(LineSeries::new(points, stroke(line.paint, width)))?;
        Ok(())
    }

    /// Names of lines, at their ends, moved apart where they would overlap.
    fn draw_labels(&self, root: &Area<'_>, chart: &Chart<'_, '_>) -> Result<(), PlotError> {
        let mut labels: Vec<(i32, &Line)> = Vec::new();
        for line in &self.lines {
            let Some((x, y)) = line.points.last() else { continue };
            labels.push((chart.backend_coord(&(self.x.place(*x), self.y.place(*y))).1, line));
        }
        labels.sort_by_key(|(y, _)| *y);
        let top = 8 * SCALE;
        let bottom = (HEIGHT - LABELS_BELOW - 4) * SCALE;
        let mut places: Vec<i32> = labels.iter().map(|(y, _)| *y).collect();
        spread(&mut places, LABEL_DISTANCE * SCALE, top, bottom);
        let x = (WIDTH - LABELS_RIGHT + 7) * SCALE;
        for ((_, line), y) in labels.iter().zip(places) {
            let text: String = shortened(&line.label);
            root.draw(&Text::new(text, (x, y), label_style(line.paint, Pos::new(HPos::Left, VPos::Center))))?;
        }
        Ok(())
    }

    /// Replaces the colours by variables, and gives the element its description.
    fn for_the_page(&self, svg: &str) -> String {
        let mut page = svg.to_owned();
        let paints = (0..SERIES_COLOURS).map(Paint::Series).chain([Paint::Floor, Paint::Grid, Paint::Ink]);
        for paint in paints {
            let RGBColor(red, green, blue) = paint.stand_in();
            page = page.replace(
                &format!("\"#{red:02X}{green:02X}{blue:02X}\""),
                &format!("\"{}\"", paint.variable()),
            );
        }
        let start = page.find('>').map_or(0, |end| end + 1);
        let size = format!("0 0 {} {}", WIDTH * SCALE, HEIGHT * SCALE);
        let label = minijinja::HtmlEscape(&self.description);
        format!(
            "<svg viewBox=\"{size}\" role=\"img\" aria-label=\"{label}\"><title>{label}</title>{}",
            &page[start..]
        )
    }
}

type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

fn stroke(paint: Paint, width: i32) -> ShapeStyle {
    paint.stand_in().stroke_width((width * SCALE) as u32)
}

fn label_style(paint: Paint, position: Pos) -> TextStyle<'static> {
    ("sans-serif", TEXT_SIZE * SCALE).into_font().color(&paint.stand_in()).pos(position)
}

fn shortened(label: &str) -> String {
    if label.chars().count() <= LABEL_CHARACTERS_MAX {
        return label.to_owned();
    }
    let kept: String = label.chars().take(LABEL_CHARACTERS_MAX - 1).collect();
    format!("{}…", kept.trim_end())
}

/// Moves sorted places apart to at least `distance`, and into the room from `top` to `bottom`.
fn spread(places: &mut [i32], distance: i32, top: i32, bottom: i32) {
    let mut lowest = top;
    for place in places.iter_mut() {
        *place = (*place).max(lowest);
        lowest = *place + distance;
    }
    let mut highest = bottom;
    for place in places.iter_mut().rev() {
        *place = (*place).min(highest);
        highest = *place - distance;
    }
}

#[cfg(test)]
mod tests {
    use super::super::axis::Quantity;
    use super::*;

    #[test]
    fn labels_do_not_overlap_and_stay_inside() {
        for (mut places, expected) in [
            (vec![10, 12, 14], vec![10, 20, 30]),
            (vec![95, 98, 99], vec![80, 90, 100]),
            (vec![0, 50, 200], vec![5, 50, 100]),
            (vec![], vec![]),
        ] {
            spread(&mut places, 10, 5, 100);
            assert_eq!(places, expected);
        }
    }

    #[test]
    fn colours_are_the_pages_and_text_is_escaped() {
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
        assert!(!svg.contains("\"#FA") && !svg.contains("<c>"), "{svg}");
    }

    #[test]
    fn a_plot_of_nothing_is_drawn() {
        let plot = Plot {
            description: String::new(),
            x: Axis::exact(Quantity::Seconds, 0.0..0.0),
            y: Axis::linear(Quantity::Number, 0.0),
            lines: vec![Line::new(String::new(), Paint::Series(99), Vec::new())],
        };
        assert!(plot.to_svg().unwrap().ends_with("</svg>\n"));
    }
}
