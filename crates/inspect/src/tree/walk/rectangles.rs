//! R-trees: a node pointer's rectangle contains those of all records below it.

use format::page::index::IndexPage;
use format::record::{Record, RecordFields};
use format::schema::{IndexDef, IndexKind};

use super::{Rule, Task, Tools, TreeFinding, Walk};

/// The lowest and highest x, then the same of y.
type Rectangle = [f64; 4];

impl Walk<'_> {
    /// Checks a page's records against the node pointer to it.
    pub(super) fn rectangles(&mut self, task: &Task, page: &IndexPage<'_>, tools: &mut Tools) {
        let Some(index) = self.index.filter(|index| index.kind == IndexKind::Spatial) else { return };
        let Some(father) = &task.father else { return };
        let [fields, _] = &mut tools.fields;
        let pointer = Record::new(&father.image, father.origin, page.style(), false);
        let Some(outer) = pointer.and_then(|pointer| rectangle(index, &pointer, fields)) else { return };
        let mut found = Vec::new();
        for record in page.records().map_while(Result::ok) {
            if rectangle(index, &record, fields).is_some_and(|inner| !holds(outer, inner)) {
                let finding = TreeFinding::new(Rule::FatherRectangle, task.page_no, u64::from(father.page_no), 0);
                found.push(finding.at(record.origin()));
            }
        }
        found.into_iter().for_each(|finding| self.report(finding));
    }
}

/// Coordinates are stored little-endian.
fn rectangle(index: &IndexDef, record: &Record<'_>, fields: &mut RecordFields) -> Option<Rectangle> {
    index.layout.locate(record, fields).ok()?;
    let (doubles, []) = fields.bytes(record.page(), 0)?.as_chunks::<8>() else { return None };
    let [a, b, c, d] = doubles else { return None };
    Some([*a, *b, *c, *d].map(f64::from_le_bytes))
}

fn holds(outer: Rectangle, inner: Rectangle) -> bool {
    let [low_x, high_x, low_y, high_y] = outer;
    let [inner_low_x, inner_high_x, inner_low_y, inner_high_y] = inner;
    low_x <= inner_low_x && inner_high_x <= high_x && low_y <= inner_low_y && inner_high_y <= high_y
}
