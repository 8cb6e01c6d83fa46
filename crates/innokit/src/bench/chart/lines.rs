//! Lines over an axis, with their names on the right.

use super::axis::Axis;
use super::room::{GRID, LINE, MARGIN, WIDTH, colour, cut, heading, line, widest};
use crate::picture::{Anchor, FAINT, INK, LETTER, Scene, Shape, Weight};

/// Several series over the same axes.
pub struct Lines {
    /// What the lines show.
    pub heading: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines.
    pub series: Vec<Series>,
    /// Other points that the axes enclose: those of panels to compare with.
    pub enclosed: Vec<(f64, f64)>,
}

/// One line.
pub struct Series {
    /// Its name.
    pub name: String,
    /// Points in ascending order of the first value.
    pub points: Vec<(f64, f64)>,
}

/// Height of the plot, pixels.
const HEIGHT: i32 = 280;
/// Maximum length of a name, in letters.
const NAME_MAX: i32 = 34;
/// Length of the sample line beside a name, pixels.
const SAMPLE: i32 = 28;

impl Lines {
    /// Adds the panel to a picture.
    pub fn lay_out(&self, scene: &mut Scene) {
        heading(scene, &self.heading);
        scene.text(MARGIN, scene.height, Weight::Plain, FAINT, self.y.name.as_str());
        scene.height += LINE + 6;
        let points = || self.series.iter().flat_map(|series| &series.points).chain(&self.enclosed).copied();
        let (across, up) = (self.x.fit(points().map(|(x, _)| x)), self.y.fit(points().map(|(_, y)| y)));
        let y_ticks = up.ticks(7);
        let left = MARGIN + widest(y_ticks.iter().map(|(_, label)| label.as_str())) + 10;
        let names: Vec<String> = self.series.iter().map(|series| cut(&series.name, NAME_MAX)).collect();
        let right = WIDTH - MARGIN - widest(names.iter().map(String::as_str)) - SAMPLE - 40;
        let (top, bottom) = (scene.height, scene.height + HEIGHT);
        let x = |value: f64| left + (across.place(value) * f64::from(right - left)).round() as i32;
        let y = |value: f64| bottom - (up.place(value) * f64::from(HEIGHT)).round() as i32;
        for (value, label) in y_ticks {
            line(scene, vec![(left, y(value)), (right, y(value))], 1, GRID);
            scene.label(left - 10, y(value) - 8, Anchor::End, FAINT, label);
        }
        for (value, label) in across.ticks(((right - left) / (LETTER * 7)).unsigned_abs() as usize) {
            line(scene, vec![(x(value), top), (x(value), bottom)], 1, GRID);
            scene.label(x(value), bottom + 14, Anchor::Middle, FAINT, label);
        }
        for (class, series) in self.series.iter().enumerate() {
            let points: Vec<_> = series.points.iter().map(|&(across, up)| (x(across), y(up))).collect();
            scene.shapes.extend(points.iter().map(|&(x, y)| Shape::Dot(x, y, 4, colour(class))));
            line(scene, points, 2, colour(class));
        }
        for ((class, name), y) in names.iter().enumerate().zip((top..).step_by(LINE as usize)) {
            let start = right + 24;
            line(scene, vec![(start, y + 8), (start + SAMPLE, y + 8)], 2, colour(class));
            scene.shapes.push(Shape::Dot(start + SAMPLE / 2, y + 8, 4, colour(class)));
            scene.text(start + SAMPLE + 10, y, Weight::Plain, INK, name.as_str());
        }
        let legend = LINE * i32::try_from(names.len()).unwrap_or(0);
        scene.height = (bottom + 14 + LINE).max(top + legend);
        scene.label((left + right) / 2, scene.height, Anchor::Middle, FAINT, self.x.name.as_str());
        scene.height += LINE;
    }
}
