//! `info --map`: the picture of a tablespace as SVG or PNG. [`scene`] says what is where; here it is drawn. Nothing depends on
//! fonts of the machine: an SVG leaves its text to the viewer, a PNG gets letters that are built in.

mod scene;

use std::error::Error;
use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jobs::FileInfo;
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster};
use plotters::coord::Shift;
use plotters::prelude::*;

use scene::{Rgb, Scene, Shape, WIDTH, Weight};

/// Draws the file's grid into `target`, whose extension says how. The target is replaced in one step, once the picture is done.
pub fn draw(file: &FileInfo, target: &Path) -> Result<(), Box<dyn Error>> {
    let (Some(space), Some(grid)) = (&file.tablespace, &file.grid) else {
        return Err("there is nothing to draw".into());
    };
    let scene = scene::scene(file, space, grid);
    let png = target.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("png"));
    let bytes = if png { as_png(&scene)? } else { as_svg(&scene)?.into_bytes() };
    Ok(replace(target, &bytes)?)
}

fn replace(target: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // As any other file that a command makes: the user's umask decides.
    let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(dir)?;
    file.write_all(bytes)?;
    file.persist(target)?;
    Ok(())
}

fn size(scene: &Scene) -> (u32, u32) {
    (WIDTH.unsigned_abs(), scene.height.unsigned_abs().max(1))
}

fn as_svg(scene: &Scene) -> Result<String, Box<dyn Error>> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size(scene)).into_drawing_area();
        paint(&area, scene, svg_text).map_err(|error| error.to_string())?;
        area.present().map_err(|error| error.to_string())?;
    }
    Ok(text)
}

fn as_png(scene: &Scene) -> Result<Vec<u8>, Box<dyn Error>> {
    let (width, height) = size(scene);
    let mut pixels = vec![0; width as usize * height as usize * 3];
    {
        let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
        paint(&area, scene, pixel_text).map_err(|error| error.to_string())?;
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

/// What drawing comes to.
type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// A line of text as somebody wants it drawn.
struct Line<'t> {
    at: (i32, i32),
    weight: Weight,
    colour: RGBColor,
    text: &'t str,
}

fn paint<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    scene: &Scene,
    write: impl Fn(&DrawingArea<DB, Shift>, &Line<'_>) -> Drawn<DB>,
) -> Drawn<DB> {
    area.fill(&WHITE)?;
    for shape in &scene.shapes {
        match shape {
            Shape::Rect(left, top, right, bottom, colour) => {
                area.draw(&Rectangle::new([(*left, *top), (*right, *bottom)], rgb(*colour).filled()))?;
            }
            Shape::Text(x, y, weight, colour, text) => {
                write(area, &Line { at: (*x, *y), weight: *weight, colour: rgb(*colour), text })?;
            }
        }
    }
    Ok(())
}

const fn rgb((red, green, blue): Rgb) -> RGBColor {
    RGBColor(red, green, blue)
}

/// Text as text, in whatever the viewer has.
fn svg_text<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, line: &Line<'_>) -> Drawn<DB> {
    let (size, style) = match line.weight {
        Weight::Title => (20.0, FontStyle::Bold),
        Weight::Heading => (13.5, FontStyle::Bold),
        Weight::Plain => (13.5, FontStyle::Normal),
    };
    let font = FontDesc::new(FontFamily::Monospace, size, style);
    area.draw_text(line.text, &TextStyle::from(font).color(&line.colour), line.at)
}

/// Text as pixels of built-in letters, softened at their edges. What these do not have becomes a question mark.
fn pixel_text<DB: DrawingBackend>(area: &DrawingArea<DB, Shift>, line: &Line<'_>) -> Drawn<DB> {
    let (weight, height) = match line.weight {
        Weight::Title => (FontWeight::Bold, RasterHeight::Size24),
        Weight::Heading => (FontWeight::Bold, RasterHeight::Size16),
        Weight::Plain => (FontWeight::Regular, RasterHeight::Size16),
    };
    let (mut x, top) = line.at;
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
