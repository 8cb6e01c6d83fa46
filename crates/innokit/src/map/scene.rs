//! The picture of a tablespace as rectangles and lines of text. Three bands show the same cells, in page order from left to right and top
//! to bottom: type and index of the pages, how full they are, and how old.

use std::collections::{BTreeMap, BTreeSet};

use inspect::info::grid::{Cell, Class, Grid};
use inspect::{FileInfo, TablespaceInfo};

use crate::picture::{FAINT, INK, LETTER, Rgb, Scene, Shape, Weight};
use crate::print::grouped;

/// Width of every picture, pixels.
const WIDTH: i32 = 1280;
/// Margins; page numbers are to the left of the cells.
const LEFT: i32 = 104;
const RIGHT: i32 = 32;
const TOP: i32 = 24;
/// Maximum height of a band, and maximum side of a cell.
const BAND_MAX: i32 = 196;
const CELL_MAX: i32 = 26;
/// Cells at least this large have gaps between them; smaller ones would be mostly gap.
const CELL_WITH_GAP: i32 = 10;
const LINE: i32 = 22;

const NOTHING: Rgb = (236, 238, 241);
const DAMAGE: Rgb = (220, 20, 20);

/// From nearly empty to full.
const FILL: [Rgb; 5] = [(255, 237, 160), (254, 178, 76), (120, 198, 121), (35, 132, 67), (0, 69, 41)];
/// From the oldest to the newest.
const AGE: [Rgb; 5] = [(45, 20, 90), (110, 40, 130), (190, 55, 100), (245, 125, 50), (252, 225, 100)];
/// Steps of a scale: few enough that neighbours of nearly the same colour are drawn in one go.
const STEPS: f64 = 24.0;

/// Colours of indexes, the largest index first; pages above the leaves are darker. The remaining indexes share the last colour.
const INDEXES: [Rgb; 7] =
    [(59, 130, 246), (16, 160, 110), (236, 100, 180), (150, 190, 40), (120, 110, 240), (200, 120, 70), (90, 150, 190)];
/// Maximum number of hints for the pointer; with more, the file would be large, so each row gets one.
const HINTS_MAX: usize = 500;

/// Lays out the picture.
pub fn scene(file: &FileInfo, space: &TablespaceInfo, grid: &Grid) -> Scene {
    let mut scene = Scene { width: WIDTH, height: TOP, shapes: Vec::new() };
    scene.titles(file, space, grid);
    let layout = Layout::of(grid.cells.len());
    let palette = Palette::of(space);
    let top = scene.band("Pages, by type and index", grid, layout, |cell| palette.colour(cell));
    scene.hints(grid, layout, top, &palette);
    scene.classes(grid, &palette);
    scene.scale("Fill of index pages", FILL, ["empty".to_owned(), "full".to_owned()]);
    scene.band("", grid, layout, |cell| cell.fill().map_or(NOTHING, |fill| blend(FILL, fill)));
    let ages = ages(grid);
    let end = |lsn: Option<&u64>| grouped(lsn.copied().unwrap_or(0));
    scene.scale("Age: newest LSN, by rank", AGE, [end(ages.first()), end(ages.last())]);
    scene.band("", grid, layout, |cell| cell.lsn().map_or(NOTHING, |lsn| blend(AGE, place(lsn, &ages))));
    scene.height += 8;
    scene
}

/// How the cells of a band are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    /// Pixels from one cell to the next, both ways.
    side: i32,
    columns: usize,
    rows: usize,
}

impl Layout {
    /// The largest square cells for which `cells` fit in a band. Rows have a multiple of 16 cells, if they can, so that extents line up.
    fn of(cells: usize) -> Self {
        let fits = |side: i32| {
            let columns = ((WIDTH - LEFT - RIGHT) / side) as usize;
            let columns = if columns >= 16 { columns / 16 * 16 } else { columns };
            let rows = cells.div_ceil(columns.max(1));
            (rows as i32 * side <= BAND_MAX).then_some(Self { side, columns, rows })
        };
        let smallest = Self { side: 1, columns: (WIDTH - LEFT - RIGHT) as usize, rows: 1 };
        (1..=CELL_MAX).rev().find_map(fits).unwrap_or(smallest)
    }
}

impl Scene {
    fn titles(&mut self, file: &FileInfo, space: &TablespaceInfo, grid: &Grid) {
        let name = file.path.rsplit('/').next().unwrap_or(&file.path);
        let known = space.name.as_ref().and_then(|known| known.schema.as_ref().zip(known.table.as_ref()));
        let table = known.map_or_else(|| name.to_owned(), |(schema, table)| format!("{schema}.{table}"));
        self.text(LEFT, self.height, Weight::Title, INK, shortened(&table, 70));
        self.height += 34;
        self.text(LEFT, self.height, Weight::Plain, INK, shortened(&format!("{name}: {}", file.what), 140));
        self.height += LINE;
        let cell = match grid.pages_per_cell {
            1 => "one cell is one page".to_owned(),
            pages => format!("one cell is {} pages", grouped(pages)),
        };
        let counts = &space.pages;
        let words = format!(
            "{} pages: {} used, {} free, {} never used; {cell}",
            grouped(counts.total),
            grouped(counts.used),
            grouped(counts.free),
            grouped(counts.never_used)
        );
        self.text(LEFT, self.height, Weight::Plain, FAINT, words);
        self.height += LINE;
        if counts.corrupt > 0 {
            let words = format!("damaged pages, {}: {}", grouped(counts.corrupt), damaged(space));
            self.text(LEFT, self.height, Weight::Heading, DAMAGE, shortened(&words, 140));
            self.height += LINE;
        }
        self.height += 14;
    }

    /// Draws the cells, in runs of one colour if there are no gaps. Returns the top of the band.
    fn band(&mut self, heading: &str, grid: &Grid, layout: Layout, colour_of: impl Fn(&Cell) -> Rgb) -> i32 {
        if !heading.is_empty() {
            self.text(LEFT, self.height, Weight::Heading, INK, heading);
            self.height += LINE + 4;
        }
        let gap = (layout.side / CELL_WITH_GAP).min(2);
        let top = self.height;
        let mut labelled = -LINE;
        // Grouped by colour, the file is a third as large.
        let mut by_colour: BTreeMap<Rgb, Vec<Shape>> = BTreeMap::new();
        for (row, cells) in (0..).zip(grid.cells.chunks(layout.columns.max(1))) {
            let y = top + row * layout.side;
            if y - top - labelled >= LINE {
                labelled = y - top;
                let page = u64::from(grid.first_page) + row as u64 * layout.columns as u64 * grid.pages_per_cell;
                let label = grouped(page);
                let x = LEFT - 10 - LETTER * label.len() as i32;
                self.text(x, y + (layout.side - 16) / 2, Weight::Plain, FAINT, label);
            }
            let mut x = LEFT;
            let same = |a: &Cell, b: &Cell| gap == 0 && colour_of(a) == colour_of(b);
            for run in cells.chunk_by(same) {
                let end = x + layout.side * run.len() as i32;
                if let Some(colour) = run.first().map(&colour_of) {
                    let cell = Shape::Rect(x, y, end - gap, y + layout.side - gap, colour);
                    by_colour.entry(colour).or_default().push(cell);
                }
                x = end;
            }
        }
        self.shapes.extend(by_colour.into_values().flatten());
        self.height = top + layout.rows as i32 * layout.side + 18;
        top
    }

    /// Describes the pages of each run of similar cells, or of each row if there are too many runs.
    fn hints(&mut self, grid: &Grid, layout: Layout, top: i32, palette: &Palette<'_>) {
        let rows = || (0..).zip(grid.cells.chunks(layout.columns.max(1)));
        let same = |a: &Cell, b: &Cell| (a.class(), a.index()) == (b.class(), b.index());
        let runs: usize = rows().map(|(_, cells)| cells.chunk_by(same).count()).sum();
        for (row, cells) in rows() {
            let (mut x, y) = (LEFT, top + row * layout.side);
            let mut page = u64::from(grid.first_page) + row as u64 * layout.columns as u64 * grid.pages_per_cell;
            for run in cells.chunk_by(|a, b| runs > HINTS_MAX || same(a, b)) {
                let (end, next) = (x + layout.side * run.len() as i32, page + run.len() as u64 * grid.pages_per_cell);
                let last = next.min(u64::from(grid.first_page) + grid.pages).saturating_sub(1);
                let place = if page == last { format!("page {page}") } else { format!("pages {page} to {last}") };
                let what = run.first().filter(|_| runs <= HINTS_MAX).map(|cell| palette.words(cell));
                let words = what.map_or_else(|| place.clone(), |what| format!("{place}: {what}"));
                self.shapes.push(Shape::Hint(x, y, end, y + layout.side, words));
                (x, page) = (end, next);
            }
        }
    }

    /// The legend: indexes that occur, then the other classes.
    fn classes(&mut self, grid: &Grid, palette: &Palette<'_>) {
        let mut x = LEFT;
        let mut seen: BTreeMap<(usize, Class), (Rgb, String)> = BTreeMap::new();
        for cell in &grid.cells {
            let place = palette.place(cell);
            let entry = || (palette.colour(cell), palette.legend(cell));
            seen.entry((place.unwrap_or(INDEXES.len()), cell.class())).or_insert_with(entry);
        }
        for (colour, label) in seen.into_values() {
            let label = shortened(&label, 60);
            let width = 22 + LETTER * label.len() as i32 + 18;
            if x + width > WIDTH - RIGHT {
                x = LEFT;
                self.height += LINE;
            }
            self.shapes.push(Shape::Rect(x, self.height + 2, x + 14, self.height + 16, colour));
            self.text(x + 22, self.height, Weight::Plain, INK, label);
            x += width;
        }
        self.height += LINE + 16;
    }

    /// A heading with a scale of colours beside it.
    fn scale(&mut self, heading: &str, colours: [Rgb; 5], ends: [String; 2]) {
        const STRIP: i32 = 200;
        const SLICE: i32 = 4;
        let [low, high] = ends;
        self.text(LEFT, self.height, Weight::Heading, INK, heading);
        let mut x = LEFT + 230;
        self.text(x, self.height, Weight::Plain, FAINT, low.as_str());
        x += LETTER * low.len() as i32 + 10;
        for slice in 0..STRIP / SLICE {
            let part = f64::from(slice) / f64::from(STRIP / SLICE - 1);
            let left = x + slice * SLICE;
            let shape = Shape::Rect(left, self.height + 2, left + SLICE, self.height + 16, blend(colours, part));
            self.shapes.push(shape);
        }
        x += STRIP + 10;
        self.text(x, self.height, Weight::Plain, FAINT, high.as_str());
        x += LETTER * high.len() as i32 + 26;
        self.shapes.push(Shape::Rect(x, self.height + 2, x + 14, self.height + 16, NOTHING));
        self.text(x + 22, self.height, Weight::Plain, FAINT, "does not apply");
        self.height += LINE + 4;
    }
}

/// The colour and description of each index.
struct Palette<'s> {
    /// Ids and names of the indexes with a colour of their own.
    indexes: Vec<(u64, &'s str)>,
}

impl<'s> Palette<'s> {
    fn of(space: &'s TablespaceInfo) -> Self {
        let own = space.indexes.iter().filter(|index| index.tree != "SDI");
        let mut own: Vec<_> =
            own.filter_map(|index| Some((index.pages, index.index_id?, index.name.as_deref()))).collect();
        own.sort_by_key(|(pages, id, _)| (std::cmp::Reverse(*pages), *id));
        let own = own.into_iter().take(INDEXES.len() - 1).map(|(_, id, name)| (id, name.unwrap_or_default()));
        Self { indexes: own.collect() }
    }

    /// The cell's place among the index colours.
    fn place(&self, cell: &Cell) -> Option<usize> {
        let id = cell.index().filter(|_| matches!(cell.class(), Class::Leaf | Class::Inner))?;
        Some(self.indexes.iter().position(|(own, _)| *own == id).unwrap_or(INDEXES.len() - 1))
    }

    fn colour(&self, cell: &Cell) -> Rgb {
        let own = self.place(cell).and_then(|place| INDEXES.get(place)).copied();
        let darker = |(red, green, blue): Rgb| (red / 5 * 2, green / 5 * 2, blue / 5 * 2);
        match (own, cell.class()) {
            (Some(colour), Class::Inner) => darker(colour),
            (Some(colour), _) => colour,
            (None, class) => colour(class),
        }
    }

    /// The cell's index: its name, or its number.
    fn index(&self, cell: &Cell) -> Option<String> {
        let id = cell.index().filter(|_| matches!(cell.class(), Class::Leaf | Class::Inner))?;
        let name = self.indexes.iter().find(|(own, name)| *own == id && !name.is_empty()).map(|(_, name)| *name);
        Some(name.map_or_else(|| format!("index {id}"), str::to_owned))
    }

    fn words(&self, cell: &Cell) -> String {
        match (self.index(cell), cell.class()) {
            (Some(index), Class::Inner) => format!("{index}, above the leaves"),
            (Some(index), _) => format!("{index}, leaf"),
            (None, class) => label(class).to_owned(),
        }
    }

    /// The same for the legend: indexes that share a colour have one description.
    fn legend(&self, cell: &Cell) -> String {
        let is_shared = self.place(cell) == Some(INDEXES.len() - 1);
        match cell.class() {
            Class::Inner if is_shared => "other indexes, above the leaves".to_owned(),
            Class::Leaf if is_shared => "other indexes, leaf".to_owned(),
            _ => self.words(cell),
        }
    }
}

/// The damaged pages with known numbers, and whether there are more.
fn damaged(space: &TablespaceInfo) -> String {
    let numbers: Vec<String> = space.damaged_pages.iter().map(|damaged| grouped(u64::from(damaged.page))).collect();
    let more = if space.pages.corrupt > numbers.len() as u64 { " ..." } else { "" };
    numbers.join(" ") + more
}

/// The LSNs of all cells, ascending, without duplicates. A server changes most pages in a few bursts. Colouring by rank separates
/// neighbours in time; by value, all but the newest would look the same.
fn ages(grid: &Grid) -> Vec<u64> {
    let lsns: BTreeSet<u64> = grid.cells.iter().filter_map(Cell::lsn).collect();
    lsns.into_iter().collect()
}

/// The rank of `lsn`, from 0, the oldest, to 1; 1 if all are the same.
fn place(lsn: u64, ages: &[u64]) -> f64 {
    match ages.len() {
        0 | 1 => 1.0,
        count => ages.partition_point(|age| *age < lsn) as f64 / (count - 1) as f64,
    }
}

/// The colour at `part` (0 to 1) of a scale.
fn blend(colours: [Rgb; 5], part: f64) -> Rgb {
    let part = (part.clamp(0.0, 1.0) * STEPS).round() / STEPS;
    let position = part * 4.0;
    let index = (position.floor() as usize).min(3);
    let share = position - index as f64;
    let [low, high] = [index, index + 1].map(|at| colours.get(at).copied().unwrap_or(NOTHING));
    let mix = |a: u8, b: u8| (f64::from(a) + (f64::from(b) - f64::from(a)) * share).round() as u8;
    (mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
}

const fn colour(class: Class) -> Rgb {
    match class {
        Class::Leaf => (59, 130, 246),
        Class::Inner => (23, 37, 130),
        Class::Dictionary => (20, 160, 150),
        Class::Blob => (245, 158, 11),
        Class::Undo => (146, 94, 50),
        Class::Management => (75, 85, 99),
        Class::Encrypted => (139, 92, 246),
        Class::Compressed => (60, 200, 235),
        Class::Other => (217, 190, 60),
        Class::Freed => (185, 205, 235),
        Class::Empty => NOTHING,
        Class::Damaged => DAMAGE,
    }
}

const fn label(class: Class) -> &'static str {
    match class {
        Class::Leaf => "index leaf",
        Class::Inner => "index, above the leaves",
        Class::Dictionary => "dictionary (SDI)",
        Class::Blob => "BLOB, LOB",
        Class::Undo => "undo log",
        Class::Management => "space management",
        Class::Encrypted => "encrypted",
        Class::Compressed => "page-compressed",
        Class::Other => "other",
        Class::Freed => "free, old content",
        Class::Empty => "all zero",
        Class::Damaged => "DAMAGED",
    }
}

/// Cuts off the end of a name or sentence that is too long for the picture.
fn shortened(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    let kept: String = text.chars().take(letters.saturating_sub(3)).collect();
    format!("{kept}...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_every_number_fit_into_their_band() {
        for cells in [0, 1, 7, 20, 112, 256, 1000, 2049, 4096] {
            let layout = Layout::of(cells);
            assert!(layout.columns * layout.rows >= cells, "{cells}: {layout:?}");
            assert!(layout.rows as i32 * layout.side <= BAND_MAX, "{cells}: {layout:?}");
            assert!(LEFT + layout.columns as i32 * layout.side <= WIDTH - RIGHT, "{cells}: {layout:?}");
        }
    }

    #[test]
    fn a_scale_begins_and_ends_with_its_own_colours() {
        assert_eq!(blend(FILL, 0.0), FILL[0]);
        assert_eq!(blend(FILL, 1.0), FILL[4]);
        assert_eq!(blend(AGE, 0.5), AGE[2]);
        let ages = [5, 6, 900];
        assert_eq!((place(5, &[5]), place(5, &ages), place(6, &ages), place(900, &ages)), (1.0, 0.0, 0.5, 1.0));
    }

    #[test]
    fn no_two_classes_look_the_same() {
        for (index, class) in Class::ALL.into_iter().enumerate() {
            for other in Class::ALL.into_iter().skip(index + 1) {
                assert_ne!(colour(class), colour(other), "{class:?} and {other:?}");
            }
            assert!(class == Class::Leaf || !INDEXES.contains(&colour(class)), "{class:?} looks like an index");
        }
    }
}
