//! Charts: panels of bars or lines, one below the other, laid out as a [`Scene`]. The number of its letters decides how much room a text
//! gets, so that no two texts overlap.

mod axis;
mod bars;
mod lines;
mod room;

pub use axis::Axis;
pub use bars::{Bar, Bars};
pub use lines::{Lines, Series};

use crate::picture::{FAINT, INK, LETTER, Scene, Weight};
use room::{LINE, MARGIN, WIDTH, cut};

/// A picture of figures.
pub struct Chart {
    /// What the chart is about.
    pub title: String,
    /// What the figures were measured on.
    pub notes: Vec<String>,
    /// From top to bottom.
    pub panels: Vec<Panel>,
}

/// A part of a chart.
pub enum Panel {
    /// Bars from left to right.
    Bars(Bars),
    /// Lines.
    Lines(Lines),
}

impl Chart {
    /// Lays the chart out.
    pub fn scene(&self) -> Scene {
        let mut scene = Scene { width: WIDTH, height: MARGIN, shapes: Vec::new() };
        scene.text(MARGIN, scene.height, Weight::Title, INK, cut(&self.title, (WIDTH - 2 * MARGIN) / 14));
        scene.height += 36;
        for note in &self.notes {
            scene.text(MARGIN, scene.height, Weight::Plain, FAINT, cut(note, (WIDTH - 2 * MARGIN) / LETTER));
            scene.height += LINE;
        }
        for panel in &self.panels {
            scene.height += 20;
            match panel {
                Panel::Bars(bars) => bars.lay_out(&mut scene),
                Panel::Lines(lines) => lines.lay_out(&mut scene),
            }
        }
        scene.height += MARGIN;
        scene
    }
}

#[cfg(test)]
mod tests {
    use super::room::width;
    use super::*;
    use crate::picture::{Anchor, Shape};

    /// A text, and the left, top, right and bottom of its room.
    fn text(shape: &Shape) -> Option<(&str, [i32; 4])> {
        let (x, y, before, text) = match shape {
            Shape::Text(x, y, Weight::Plain | Weight::Heading, _, text) => (x, y, 0, text),
            Shape::Label(x, y, Anchor::Middle, _, text) => (x, y, width(text) / 2, text),
            Shape::Label(x, y, Anchor::End, _, text) => (x, y, width(text), text),
            _ => return None,
        };
        Some((text, [x - before, *y, x - before + width(text), y + 16]))
    }

    fn overlap(a: [i32; 4], b: [i32; 4]) -> bool {
        a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3]
    }

    fn sample() -> Chart {
        let bar = |label: &str, value, class| Bar {
            label: label.to_owned(),
            class,
            value,
            text: format!("{value} MB/s of it"),
        };
        let bars = Bars {
            heading: "Bars".to_owned(),
            axis: "MB/s".to_owned(),
            classes: vec!["read".to_owned(), "written".to_owned()],
            rows: vec![
                bar("nothing at all", 0.0, 0),
                bar("a long label that says what it is", 1234.5, 1),
                bar("b", 7.0, 0),
            ],
            mark: Some((1100.0, "the limit".to_owned())),
        };
        let series = |name: &str, factor: f64| Series {
            name: name.to_owned(),
            points: (0..12).map(|bits| (f64::from(1 << bits), factor * f64::from(bits + 1))).collect(),
        };
        let lines = |y: Axis| Lines {
            heading: "Lines".to_owned(),
            x: Axis::powers_of_two("callers"),
            y,
            series: vec![series("one", 1.0), series("ten thousand", 10_000.0)],
            enclosed: Vec::new(),
        };
        let panels = vec![
            Panel::Bars(bars),
            Panel::Lines(lines(Axis::linear("MB/s"))),
            Panel::Lines(lines(Axis::logarithmic("commits/s"))),
        ];
        Chart { title: "A chart".to_owned(), notes: vec!["2 cores".to_owned()], panels }
    }

    #[test]
    fn no_label_lies_on_another_and_none_outside() {
        let scene = sample().scene();
        let texts: Vec<_> = scene.shapes.iter().filter_map(text).collect();
        assert!(texts.len() > 30, "{}", texts.len());
        for (index, &one) in texts.iter().enumerate() {
            let [left, top, right, bottom] = one.1;
            assert!(left >= 0 && top >= 0 && right <= scene.width && bottom <= scene.height, "{one:?}");
            for &other in texts.iter().skip(index + 1) {
                assert!(!overlap(one.1, other.1), "{one:?} lies on {other:?}");
            }
        }
    }

    #[test]
    fn no_label_lies_on_a_line_and_compared_panels_have_the_same_axes() {
        let points = [(1.0, 10.0), (10.0, 20.0), (100.0, 5.0)];
        let panel = |factor: f64, enclosed: Vec<(f64, f64)>| {
            let points = points.iter().map(|(x, y)| (*x, y * factor)).collect();
            Panel::Lines(Lines {
                heading: "Lines".to_owned(),
                x: Axis::logarithmic("seconds"),
                y: Axis::linear("MB/s"),
                series: vec![Series { name: "a name of a line".to_owned(), points }],
                enclosed,
            })
        };
        let drawn = |panels: Vec<Panel>| {
            let scene = Chart { title: String::new(), notes: Vec::new(), panels }.scene();
            let lines: Vec<_> = scene.shapes.iter().filter_map(series_line).cloned().collect();
            let edge = |least: bool, of: fn(&(i32, i32)) -> i32, line: &[(i32, i32)]| {
                let values = line.iter().map(of);
                if least { values.min() } else { values.max() }.expect("points")
            };
            for line in &lines {
                let room = [
                    edge(true, |point| point.0, line),
                    edge(true, |point| point.1, line),
                    edge(false, |point| point.0, line),
                    edge(false, |point| point.1, line),
                ];
                for text in scene.shapes.iter().filter_map(text) {
                    assert!(!overlap(room, text.1), "{text:?} lies on a line in {room:?}");
                }
            }
            lines
        };
        let all: Vec<(f64, f64)> = points.iter().flat_map(|&(x, y)| [(x, y), (x, 100.0 * y)]).collect();
        let alone = drawn(vec![panel(1.0, Vec::new()), panel(100.0, Vec::new())]);
        let compared = drawn(vec![panel(1.0, all.clone()), panel(100.0, all)]);
        let height = |line: &[(i32, i32)]| line[1].1.abs_diff(line[2].1);
        assert!(height(&alone[0]).abs_diff(height(&alone[1])) <= 1, "each has axes of its own: {alone:?}");
        assert!(height(&compared[0]) * 50 < height(&compared[1]), "they share their axes: {compared:?}");
    }

    /// A line of a series: neither of the grid nor the sample beside a name.
    fn series_line(shape: &Shape) -> Option<&Vec<(i32, i32)>> {
        match shape {
            Shape::Path(points, 2, _) if points.len() > 2 => Some(points),
            _ => None,
        }
    }

    #[test]
    fn larger_figures_have_longer_bars() {
        let scene = sample().scene();
        let bars: Vec<_> = scene
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Rect(left, top, right, bottom, _) if bottom - top > 12 => Some(right - left),
                _ => None,
            })
            .collect();
        assert_eq!(bars.len(), 3, "one bar for each row");
        assert!(bars[1] > 100 * bars[2].min(3) && bars[2] >= 1 && bars[0] <= bars[2], "{bars:?}");
    }
}
