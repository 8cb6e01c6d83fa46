//! A scene as SVG, small enough for a repository: neighbours of one colour become one path, and a hint (`<title>`) becomes one invisible
//! rectangle.
//!
//! 4,096 cells in three bands would take 800 kB as single rectangles. As paths they take 8 bytes each, and runs of one colour less.

use std::fmt::Arguments;

use super::{Anchor, Rgb, Scene, Shape, Weight, size};

/// Writes the scene.
pub(super) fn text(scene: &Scene) -> String {
    let (width, height) = size(scene);
    let mut out = format!(
        "<svg width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" xmlns=\"http://www.w3.org/2000/svg\" \
         font-family=\"monospace\" font-size=\"13.5\">\n<path d=\"M0 0h{width}v{height}h-{width}z\" fill=\"#fff\"/>\n"
    );
    let is_one_path = |a: &Shape, b: &Shape| match (a, b) {
        (Shape::Rect(_, top, _, bottom, colour), Shape::Rect(_, next, _, end, other)) => {
            colour == other && bottom - top == end - next
        }
        _ => false,
    };
    for shapes in scene.shapes.chunk_by(is_one_path) {
        match shapes {
            [shape] => one(&mut out, shape),
            many => strokes(&mut out, many),
        }
    }
    out.push_str("</svg>\n");
    out
}

/// Draws rectangles of one colour and height as strokes whose width is that height.
fn strokes(out: &mut String, shapes: &[Shape]) {
    let Some(Shape::Rect(_, top, _, bottom, colour)) = shapes.first() else { return };
    put(out, format_args!("<path stroke=\"{}\" stroke-width=\"{}\" d=\"", hex(*colour), bottom - top));
    let mut pen: Option<(i32, i32)> = None;
    for shape in shapes {
        let Shape::Rect(left, top, right, bottom, _) = shape else { continue };
        match pen {
            Some((x, row)) if row == *top => put(out, format_args!("m{} 0h{}", left - x, right - left)),
            _ => put(out, format_args!("M{left} {}h{}", f64::from(top + bottom) / 2.0, right - left)),
        }
        pen = Some((*right, *top));
    }
    out.push_str("\"/>\n");
}

fn one(out: &mut String, shape: &Shape) {
    match shape {
        Shape::Rect(left, top, right, bottom, colour) => put(
            out,
            format_args!(
                "<rect x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\" fill=\"{}\"/>\n",
                right - left,
                bottom - top,
                hex(*colour)
            ),
        ),
        Shape::Text(x, y, weight, colour, text) => line(out, (*x, *y), (None, *weight), *colour, text),
        Shape::Label(x, y, anchor, colour, text) => line(out, (*x, *y), (Some(*anchor), Weight::Plain), *colour, text),
        Shape::Path(points, width, colour) => {
            let points: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
            put(
                out,
                format_args!(
                    "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" points=\"{}\"/>\n",
                    hex(*colour),
                    points.join(" ")
                ),
            );
        }
        Shape::Dot(x, y, radius, colour) => {
            put(out, format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" fill=\"{}\"/>\n", hex(*colour)));
        }
        Shape::Hint(left, top, right, bottom, words) => put(
            out,
            format_args!(
                "<path fill-opacity=\"0\" d=\"M{left} {top}H{right}V{bottom}H{left}z\"><title>{}</title></path>\n",
                escaped(words)
            ),
        ),
    }
}

/// A line of text at its top, in a font of the viewer's choice.
fn line(out: &mut String, (x, y): (i32, i32), (anchor, weight): (Option<Anchor>, Weight), colour: Rgb, text: &str) {
    let style = match weight {
        Weight::Title => " font-size=\"20\" font-weight=\"bold\"",
        Weight::Heading => " font-weight=\"bold\"",
        Weight::Plain => "",
    };
    let across = match anchor {
        None => "",
        Some(Anchor::Middle) => " text-anchor=\"middle\"",
        Some(Anchor::End) => " text-anchor=\"end\"",
    };
    let (colour, text) = (hex(colour), escaped(text));
    put(out, format_args!("<text x=\"{x}\" y=\"{y}\" dy=\"0.76em\"{style}{across} fill=\"{colour}\">{text}</text>\n"));
}

fn put(out: &mut String, words: Arguments<'_>) {
    out.push_str(&words.to_string());
}

fn hex((red, green, blue): Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Text between tags: names of files and tables may contain anything, and XML cannot express most control characters.
fn escaped(text: &str) -> String {
    let letter = |letter: char| match letter {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        letter if letter.is_control() => "?".to_owned(),
        letter => letter.to_string(),
    };
    text.chars().map(letter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_colour_are_one_path() {
        let cell = |x: i32, y: i32| Shape::Rect(x, y, x + 6, y + 7, (1, 2, 3));
        let shapes = vec![cell(10, 20), cell(17, 20), cell(10, 27), Shape::Rect(0, 0, 1, 1, (9, 9, 9))];
        let svg = text(&Scene { width: 100, height: 50, shapes });
        assert!(
            svg.contains("<path stroke=\"#010203\" stroke-width=\"7\" d=\"M10 23.5h6m1 0h6M10 30.5h6\"/>"),
            "{svg}"
        );
        assert!(svg.contains("<rect x=\"0\" y=\"0\" width=\"1\" height=\"1\" fill=\"#090909\"/>"), "{svg}");
    }

    #[test]
    fn names_cannot_end_the_picture() {
        assert_eq!(escaped("a<b>&\u{1}"), "a&lt;b&gt;&amp;?");
    }
}
