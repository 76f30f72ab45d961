//! An SVG picture, as text.

use std::fmt::Write as _;

use ratekeeper_console::shown;

use super::scale::Scale;

/// How large a picture is, in pixels.
pub(super) const WIDTH: f64 = 760.0;
pub(super) const HEIGHT: f64 = 420.0;
/// Where what is drawn begins and ends; around it is room for words.
pub(super) const LEFT: f64 = 76.0;
pub(super) const RIGHT: f64 = 736.0;
pub(super) const TOP: f64 = 78.0;
pub(super) const BOTTOM: f64 = 356.0;

/// Readable by day and by night.
const STYLE: &str = "\
    .paper { fill: #ffffff; stroke: #d0d7de; }
    .grid { stroke: #d8dee4; }
    .axis { stroke: #59636e; }
    .bar { fill: #0969da; }
    .one { fill: none; stroke: #0969da; stroke-width: 2; }
    .two { fill: none; stroke: #bc4c00; stroke-width: 2; stroke-dasharray: 6 4; }
    .dot-one { fill: #0969da; }
    .dot-two { fill: #bc4c00; }
    .mark { stroke: #bc4c00; stroke-dasharray: 4 3; }
    text { font: 12px system-ui, sans-serif; fill: #1f2328; }
    .title { font-size: 15px; font-weight: 600; }
    .quiet { fill: #59636e; }
    .warm { fill: #bc4c00; }
    @media (prefers-color-scheme: dark) {
      .paper { fill: #0d1117; stroke: #3d444d; }
      .grid { stroke: #262c36; }
      .axis { stroke: #9198a1; }
      .bar { fill: #4493f8; }
      .one { stroke: #4493f8; }
      .two { stroke: #f0883e; }
      .dot-one { fill: #4493f8; }
      .dot-two { fill: #f0883e; }
      .mark { stroke: #f0883e; }
      text { fill: #f0f6fc; }
      .quiet { fill: #9198a1; }
      .warm { fill: #f0883e; }
    }
";

/// Where a text stands at its place.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture that grows.
pub(super) struct Canvas {
    text: String,
}

impl Canvas {
    /// Empty paper, with a title, and below it what was asked.
    pub(super) fn new(title: &str, below: &str) -> Self {
        let shown = escape(title);
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"title\">\n  \
             <title id=\"title\">{shown}</title>\n  <style>\n{STYLE}  </style>\n  \
             <rect class=\"paper\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n",
            WIDTH - 1.0,
            HEIGHT - 1.0,
        );
        let mut canvas = Self { text };
        canvas.words("title", (20.0, 28.0), Anchor::Start, title);
        canvas.words("quiet", (20.0, 48.0), Anchor::Start, below);
        canvas
    }

    /// The picture.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    pub(super) fn words(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, words: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let words = escape(words);
        self.element(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>"
        ));
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.element(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// A bar that stands on the lower axis.
    pub(super) fn bar(&mut self, left: f64, right: f64, top: f64) {
        let (width, height) = ((right - left).max(0.5), BOTTOM - top);
        self.element(format_args!(
            "<rect class=\"bar\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"/>"
        ));
    }

    /// A line through these points, with a dot at each.
    pub(super) fn curve(&mut self, name: &str, points: &[(f64, f64)]) {
        let places: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let places = places.join(" ");
        self.element(format_args!("<polyline class=\"{name}\" points=\"{places}\"/>"));
        for (x, y) in points {
            self.element(format_args!(
                "<circle class=\"dot-{name}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"
            ));
        }
    }

    /// The lower axis, with its numbers and what they are.
    pub(super) fn axis_below(
        &mut self,
        scale: &Scale,
        name: &str,
        written: impl Fn(f64) -> String,
    ) {
        for tick in scale.ticks() {
            let x = scale.place(tick);
            self.line("grid", (x, TOP), (x, BOTTOM));
            self.words("quiet", (x, BOTTOM + 18.0), Anchor::Middle, &written(tick));
        }
        self.line("axis", (LEFT, BOTTOM), (RIGHT, BOTTOM));
        self.words("", (f64::midpoint(LEFT, RIGHT), BOTTOM + 42.0), Anchor::Middle, name);
    }

    /// The left axis, with its numbers and what they are.
    pub(super) fn axis_left(&mut self, scale: &Scale, name: &str, written: impl Fn(f64) -> String) {
        for tick in scale.ticks() {
            let y = scale.place(tick);
            self.line("grid", (LEFT, y), (RIGHT, y));
            self.words("quiet", (LEFT - 8.0, y + 4.0), Anchor::End, &written(tick));
        }
        self.line("axis", (LEFT, TOP), (LEFT, BOTTOM));
        self.words("", (20.0, TOP - 10.0), Anchor::Start, name);
    }

    fn element(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to memory does not fail.
        let _ = writeln!(self.text, "  {element}");
    }
}

/// A text of somebody else's inside an element.
fn escape(text: &str) -> String {
    let shown = shown(text);
    shown.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
