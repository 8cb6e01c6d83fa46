//! Pictures as SVG or PNG: rectangles, lines and text at given pixels, from `info --map` and `bench --chart`. They do not depend on the
//! machine's fonts: an SVG leaves text to the viewer, and a PNG gets built-in letters.

mod svg;

use std::error::Error;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};
use plotters::coord::Shift;
use plotters::prelude::*;
use tempfile::NamedTempFile;

use crate::named_file;

/// Red, green, blue.
pub type Rgb = (u8, u8, u8);

/// Text, and anything else that should stand out.
pub const INK: Rgb = (31, 41, 55);
/// Secondary text.
pub const FAINT: Rgb = (107, 114, 128);

/// Approximate width of a letter of plain text or of a heading, good enough to place what follows.
pub const LETTER: i32 = 8;

/// Something to draw; coordinates in pixels from the top left corner.
#[derive(Clone, Debug, PartialEq)]
pub enum Shape {
    /// A filled rectangle: left, top, and the first pixels to the right and below that are outside.
    Rect(i32, i32, i32, i32, Rgb),
    /// A line of text at its top left corner.
    Text(i32, i32, Weight, Rgb, String),
    /// A line of plain text at its middle or end, and its top.
    Label(i32, i32, Anchor, Rgb, String),
    /// Straight lines from point to point, and their width in pixels.
    Path(Vec<(i32, i32)>, u32, Rgb),
    /// A filled circle: centre and radius.
    Dot(i32, i32, i32, Rgb),
    /// An invisible rectangle, with the text shown when a pointer rests on it. Only in SVGs.
    Hint(i32, i32, i32, i32, String),
}

/// Which part of a label is at its position. Widths of fonts differ, so only the renderer knows where the text begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

/// The style of a line of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The title of the picture.
    Title,
    /// The heading of a part.
    Heading,
    /// Everything else.
    Plain,
}

/// A picture.
#[derive(Clone, Debug, Default)]
pub struct Scene {
    /// Pixels.
    pub width: i32,
    /// Pixels.
    pub height: i32,
    /// In drawing order.
    pub shapes: Vec<Shape>,
}

impl Scene {
    /// Adds a line of text at its top left corner.
    pub fn text(&mut self, x: i32, y: i32, weight: Weight, colour: Rgb, text: impl Into<String>) {
        self.shapes.push(Shape::Text(x, y, weight, colour, text.into()));
    }

    /// Adds a line of plain text at its middle or end.
    pub fn label(&mut self, x: i32, y: i32, anchor: Anchor, colour: Rgb, text: impl Into<String>) {
        self.shapes.push(Shape::Label(x, y, anchor, colour, text.into()));
    }
}

/// Checks a picture's name. The extension decides the format, and so prevents overwriting a tablespace by mistake.
///
/// # Errors
/// If the extension is not that of a picture.
pub fn named(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let extension = path.extension().map(|extension| extension.to_ascii_lowercase());
    match extension.as_deref().and_then(|extension| extension.to_str()) {
        Some("svg" | "png") => Ok(path),
        _ => Err("a picture is drawn as .svg or .png".to_owned()),
    }
}

/// Draws into `target`, in the format of its extension. The target is replaced in one step, once the picture is complete.
pub fn replace(scene: &Scene, target: &Path) -> Result<(), Box<dyn Error>> {
    let bytes = bytes(scene, target)?;
    // The user's umask decides, as for any other file that a command creates.
    let temporary = |dir: &Path| tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(dir);
    Ok(named_file::write(target, &bytes, temporary)?)
}

/// The same, but never replaces an existing file.
pub fn create(scene: &Scene, target: &Path) -> Result<(), Box<dyn Error>> {
    beside(target, &bytes(scene, target)?)?.persist_noclobber(target)?;
    Ok(())
}

fn bytes(scene: &Scene, target: &Path) -> Result<Vec<u8>, Box<dyn Error>> {
    let png = target.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
    if png { as_png(scene) } else { Ok(svg::text(scene).into_bytes()) }
}

/// A temporary file in the directory of `target`.
fn beside(target: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // The user's umask decides, as for any other file that a command creates.
    let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(dir)?;
    file.write_all(bytes)?;
    Ok(file)
}

fn size(scene: &Scene) -> (u32, u32) {
    (scene.width.unsigned_abs().max(1), scene.height.unsigned_abs().max(1))
}

fn as_png(scene: &Scene) -> Result<Vec<u8>, Box<dyn Error>> {
    let (width, height) = size(scene);
    let mut pixels = vec![0; width as usize * height as usize * 3];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        paint(&area, scene).map_err(|error| error.to_string())?;
        area.present().map_err(|error| error.to_string())?;
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(bytes)
}

/// The result of drawing.
type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// A line of text to draw.
struct Line<'t> {
    at: (i32, i32),
    /// The point of the text at `at`; the left end, if `None`.
    anchor: Option<Anchor>,
    weight: Weight,
    colour: RGBColor,
    text: &'t str,
}

fn paint<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, scene: &Scene) -> Drawn<DB> {
    area.fill(&WHITE)?;
    for shape in &scene.shapes {
        match shape {
            Shape::Rect(left, top, right, bottom, colour) => {
                area.draw(&Rectangle::new([(*left, *top), (*right, *bottom)], rgb(*colour).filled()))?;
            }
            Shape::Text(x, y, weight, colour, text) => {
                pixel_text(area, &Line { at: (*x, *y), anchor: None, weight: *weight, colour: rgb(*colour), text })?;
            }
            Shape::Label(x, y, anchor, colour, text) => {
                let (anchor, weight) = (Some(*anchor), Weight::Plain);
                pixel_text(area, &Line { at: (*x, *y), anchor, weight, colour: rgb(*colour), text })?;
            }
            Shape::Path(points, width, colour) => {
                area.draw(&PathElement::new(points.clone(), rgb(*colour).stroke_width(*width)))?;
            }
            Shape::Dot(x, y, radius, colour) => {
                area.draw(&Circle::new((*x, *y), *radius, rgb(*colour).filled()))?;
            }
            Shape::Hint(..) => {}
        }
    }
    Ok(())
}

const fn rgb((red, green, blue): Rgb) -> RGBColor {
    RGBColor(red, green, blue)
}

/// Text as pixels of built-in letters, antialiased. A character without a letter becomes a question mark.
fn pixel_text<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, line: &Line<'_>) -> Drawn<DB> {
    let (weight, height) = match line.weight {
        Weight::Title => (FontWeight::Bold, RasterHeight::Size24),
        Weight::Heading => (FontWeight::Bold, RasterHeight::Size16),
        Weight::Plain => (FontWeight::Regular, RasterHeight::Size16),
    };
    let (mut x, top) = line.at;
    let letters = i32::try_from(line.text.chars().count()).unwrap_or(0);
    let width = letters * i32::try_from(get_raster_width(weight, height)).unwrap_or(0);
    x -= match line.anchor {
        None => 0,
        Some(Anchor::Middle) => width / 2,
        Some(Anchor::End) => width,
    };
    for letter in line.text.chars() {
        let raster = get_raster(letter, weight, height).or_else(|| get_raster('?', weight, height));
        let Some(raster) = raster else { continue };
        for (y, row) in (top..).zip(raster.raster()) {
            for (x, shade) in (x..).zip(*row).filter(|(_, shade)| **shade > 0) {
                area.draw_pixel((x, y), &line.colour.mix(f64::from(*shade) / 255.0))?;
            }
        }
        x += i32::try_from(raster.width()).unwrap_or(0);
    }
    Ok(())
}
