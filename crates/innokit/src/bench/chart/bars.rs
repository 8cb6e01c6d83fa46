//! Horizontal bars, one per row.

use super::axis::Axis;
use super::room::{GRID, LINE, MARGIN, WIDTH, colour, cut, heading, line, widest, width};
use crate::picture::{Anchor, FAINT, INK, LETTER, Scene, Shape, Weight};

/// Rows that show one measure.
pub struct Bars {
    /// What the bars show.
    pub heading: String,
    /// The measure, with its unit.
    pub axis: String,
    /// Names of the colours.
    pub classes: Vec<String>,
    /// From top to bottom.
    pub rows: Vec<Bar>,
    /// A figure to compare with, and its name.
    pub mark: Option<(f64, String)>,
}

/// One row.
pub struct Bar {
    /// Text on its left.
    pub label: String,
    /// Index of its colour.
    pub class: usize,
    /// Length of its bar.
    pub value: f64,
    /// Text on its right.
    pub text: String,
}

/// Pixels from one row to the next.
const ROW: i32 = 24;
/// Maximum length of a label, in letters.
const LABEL_MAX: i32 = 48;

impl Bars {
    /// Adds the panel to a picture.
    pub fn lay_out(&self, scene: &mut Scene) {
        heading(scene, &self.heading);
        self.legend(scene);
        let labels: Vec<String> = self.rows.iter().map(|row| cut(&row.label, LABEL_MAX)).collect();
        let left = MARGIN + widest(labels.iter().map(String::as_str)) + 12;
        let right = (WIDTH - MARGIN - 8 - widest(self.rows.iter().map(|row| row.text.as_str()))).max(left + 120);
        let mark = self.mark.as_ref().map(|(value, _)| *value);
        let fitted = Axis::linear(&self.axis).fit(self.rows.iter().map(|row| row.value).chain(mark));
        let x = |value: f64| left + (fitted.place(value) * f64::from(right - left)).round() as i32;
        if let Some((value, name)) = &self.mark {
            let middle = x(*value).min(WIDTH - MARGIN - width(name) / 2);
            scene.label(middle, scene.height, Anchor::Middle, INK, name.as_str());
            scene.height += LINE;
        }
        let (top, bottom) = (scene.height, scene.height + ROW * i32::try_from(self.rows.len()).unwrap_or(0));
        for (value, label) in fitted.ticks(((right - left) / (LETTER * 9)).unsigned_abs() as usize) {
            line(scene, vec![(x(value), top), (x(value), bottom)], 1, GRID);
            scene.label(x(value), bottom + 6, Anchor::Middle, FAINT, label);
        }
        for ((row, label), y) in self.rows.iter().zip(&labels).zip((top..).step_by(ROW as usize)) {
            scene.label(left - 12, y + 4, Anchor::End, INK, label.as_str());
            let end = x(row.value).max(left + i32::from(row.value > 0.0));
            scene.shapes.push(Shape::Rect(left, y + 4, end, y + ROW - 4, colour(row.class)));
            scene.text(end + 8, y + 4, Weight::Plain, INK, row.text.as_str());
        }
        if let Some(value) = mark {
            line(scene, vec![(x(value), top - 2), (x(value), bottom)], 2, INK);
        }
        scene.height = bottom + 6 + LINE;
        scene.label((left + right) / 2, scene.height, Anchor::Middle, FAINT, self.axis.as_str());
        scene.height += LINE;
    }

    /// The colours with their names, if more than one is used.
    fn legend(&self, scene: &mut Scene) {
        let mut x = MARGIN;
        let used = self.classes.iter().enumerate().filter(|(class, _)| self.rows.iter().any(|row| row.class == *class));
        for (class, name) in used {
            let end = x + 22 + width(name);
            if end > WIDTH - MARGIN {
                x = MARGIN;
                scene.height += LINE;
            }
            scene.shapes.push(Shape::Rect(x, scene.height + 3, x + 14, scene.height + 15, colour(class)));
            scene.text(x + 22, scene.height, Weight::Plain, INK, name.as_str());
            x += 22 + width(name) + 24;
        }
        if x > MARGIN {
            scene.height += LINE + 8;
        }
    }
}
