//! Room for text and lines.

use crate::picture::{INK, LETTER, Rgb, Scene, Shape, Weight};

/// Width of every chart, pixels.
pub(super) const WIDTH: i32 = 1240;
/// Margin on all sides.
pub(super) const MARGIN: i32 = 32;
/// Height of a line of text.
pub(super) const LINE: i32 = 22;
/// Grid lines, drawn under the figures.
pub(super) const GRID: Rgb = (226, 230, 235);
/// The palette of Okabe and Ito without its yellow: colour-blind readers can tell these apart.
const COLOURS: [Rgb; 8] = [
    (0, 114, 178),
    (230, 159, 0),
    (0, 158, 115),
    (204, 121, 167),
    (213, 94, 0),
    (86, 180, 233),
    (90, 90, 90),
    (160, 130, 20),
];

pub(super) fn colour(class: usize) -> Rgb {
    COLOURS.get(class % COLOURS.len()).copied().unwrap_or(INK)
}

pub(super) fn heading(scene: &mut Scene, text: &str) {
    scene.text(MARGIN, scene.height, Weight::Heading, INK, text);
    scene.height += LINE + 6;
}

/// Width of a text, pixels.
pub(super) fn width(text: &str) -> i32 {
    LETTER * i32::try_from(text.chars().count()).unwrap_or(0)
}

/// Width of the widest text, pixels.
pub(super) fn widest<'t>(texts: impl Iterator<Item = &'t str>) -> i32 {
    texts.map(width).max().unwrap_or(0)
}

/// Cuts off the end of a text that is too long.
pub(super) fn cut(text: &str, letters: i32) -> String {
    let letters = usize::try_from(letters).unwrap_or(0);
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(letters.saturating_sub(3)).collect();
    format!("{kept}...")
}

/// A line through these points.
pub(super) fn line(scene: &mut Scene, points: Vec<(i32, i32)>, thickness: u32, colour: Rgb) {
    scene.shapes.push(Shape::Path(points, thickness, colour));
}
