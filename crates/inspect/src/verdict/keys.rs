//! Which keys were on lost pages, from their parents, and how many rows, estimated from their neighbours.
//!
//! ```text
//! pages of the tree above its leaves -> node pointers that lead to lost pages -> stretches of neighbours -> from, before, rows
//! ```

use std::collections::{BTreeMap, HashSet};

use format::page::index::IndexPage;
use format::record::RecordFields;
use format::schema::{FieldSource, IndexDef, TableDef};
use format::value::show::shown;

use super::HurtTree;
use crate::report::hurt::KeyRange;
use datadir::tablespace::Opener;

/// Parents read at most: enough for a table of a hundred million rows.
const PARENTS_MAX: usize = 65_536;
/// Key ranges reported separately, and estimated from their neighbours, at most.
const STRETCHES_MAX: usize = 100;

/// What the parents and neighbours of lost pages tell about them.
#[derive(Default)]
pub(super) struct Told {
    pub keys: Vec<KeyRange>,
    pub rows: Option<u64>,
}

/// Adjacent lost pages below one parent.
struct LostRun {
    from: Option<String>,
    before: Option<String>,
    /// The run reaches the end of its parent: it ends where this page's first key begins.
    open_to: Option<u32>,
    pages: u64,
    /// Sound leaves on either side.
    beside: Vec<u32>,
    is_of_leaves: bool,
}

/// The lost runs below one parent.
struct Parent {
    first: Option<String>,
    stretches: Vec<LostRun>,
}

/// Asks the parents of the `lost` pages for their keys.
pub(super) fn tell(tree: &HurtTree<'_>, lost: &[u32], opener: &mut Opener) -> Told {
    let (Some(index), Some(table)) =
        (tree.named.and_then(|named| named.index.as_ref()), tree.named.and_then(|named| named.whole.as_deref()))
    else {
        return Told::default();
    };
    let lost: HashSet<u32> = lost.iter().copied().collect();
    let mut pages: Vec<u32> = vec![tree.root.page_no];
    let top = tree.root.top_segment.into_iter().flat_map(|segment| tree.map.pages_of(segment));
    pages.extend(top.filter(|page_no| *page_no != tree.root.page_no && !lost.contains(page_no)));
    if pages.len() > PARENTS_MAX {
        return Told::default();
    }
    let mut parents = BTreeMap::new();
    tree.space.each_stored(&pages, |page_no, stored| {
        let image = stored.and_then(|stored| tree.space.opened(page_no, stored, opener));
        let parent = image.ok().and_then(|image| {
            let page = IndexPage::parse(&image, &tree.space.format).ok()?;
            let is_parent = page.index_id() == tree.root.index_id && !page.is_leaf();
            is_parent.then(|| parent(&page, (index, table), &lost))
        });
        if let Some(parent) = parent {
            parents.insert(page_no, parent);
        }
    });
    let first_of = |page_no: u32| parents.get(&page_no).and_then(|parent| parent.first.clone());
    let mut stretches = Vec::new();
    for parent in parents.values() {
        for stretch in &parent.stretches {
            let before = stretch.before.clone().or_else(|| stretch.open_to.and_then(first_of));
            let range = KeyRange { from: stretch.from.clone(), before, pages: stretch.pages };
            stretches.push((range, stretch));
        }
    }
    let rows = rows(tree, &stretches, opener);
    let keys = stretches.into_iter().map(|(range, _)| range).take(STRETCHES_MAX).collect();
    Told { keys, rows }
}

/// The lost pages below one parent.
fn parent(page: &IndexPage<'_>, (index, table): (&IndexDef, &TableDef), lost: &HashSet<u32>) -> Parent {
    let mut parent = Parent { first: None, stretches: Vec::new() };
    let (mut fields, mut before, mut open) = (RecordFields::new(), None, false);
    for (number, record) in page.records().map_while(Result::ok).enumerate() {
        if index.layout.locate(&record, &mut fields).is_err() {
            break;
        }
        let Some(child) = fields.child().map(|child| child.0) else { break };
        // The first pointer of a level covers all keys below the second.
        let key = || if record.is_min_rec() { None } else { key(page, (index, table), &fields) };
        if number == 0 {
            parent.first = key();
        }
        let is_lost = lost.contains(&child);
        match parent.stretches.last_mut().filter(|_| open) {
            Some(stretch) if is_lost => stretch.pages += 1,
            Some(stretch) => {
                stretch.before = key();
                stretch.beside.push(child);
            }
            None if is_lost => parent.stretches.push(LostRun {
                from: key(),
                before: None,
                open_to: None,
                pages: 1,
                beside: before.into_iter().collect(),
                is_of_leaves: page.level() == 1,
            }),
            None => {}
        }
        open = is_lost;
        before = (!is_lost).then_some(child);
    }
    if let Some(stretch) = parent.stretches.last_mut().filter(|_| open) {
        stretch.open_to = page.next().map(|next| next.0);
    }
    parent
}

/// `id = 17, name = 'x'`: the declared parts of the key.
fn key(page: &IndexPage<'_>, (index, table): (&IndexDef, &TableDef), fields: &RecordFields) -> Option<String> {
    let parts = if index.declared_parts > 0 { index.declared_parts } else { index.layout.key_fields() };
    let text = |number: usize| {
        let column = match index.fields.get(number)?.source {
            FieldSource::Column(at) => Some(table.columns.get(at)?),
            _ => None,
        };
        let name = column.map_or("DB_ROW_ID", |column| column.name.as_str());
        Some(format!("{name} = {}", shown(column, fields.bytes(page.bytes(), number))))
    };
    let parts: Option<Vec<_>> = (0..parts.max(1)).map(text).collect();
    parts.map(|parts| parts.join(", "))
}

/// Assumes that lost leaves held as many rows as the leaves beside them: an estimate, and labelled as one.
fn rows(tree: &HurtTree<'_>, stretches: &[(KeyRange, &LostRun)], opener: &mut Opener) -> Option<u64> {
    let of_leaves = || stretches.iter().filter(|(_, stretch)| stretch.is_of_leaves);
    let beside: HashSet<u32> =
        of_leaves().take(STRETCHES_MAX).flat_map(|(_, stretch)| stretch.beside.clone()).collect();
    let mut counted = BTreeMap::new();
    for page_no in beside {
        let image = tree.space.sound(page_no, opener).ok();
        let page = image.as_ref().and_then(|image| IndexPage::parse(image, &tree.space.format).ok());
        counted.extend(page.map(|page| (page_no, u64::from(page.record_count()))));
    }
    let overall = mean(counted.values().copied())?;
    let of_one = |stretch: &LostRun| {
        let own = mean(stretch.beside.iter().filter_map(|page_no| counted.get(page_no).copied()));
        own.unwrap_or(overall) * stretch.pages
    };
    Some(of_leaves().map(|(_, stretch)| of_one(stretch)).sum())
}

fn mean(numbers: impl Iterator<Item = u64>) -> Option<u64> {
    let (sum, count) = numbers.fold((0, 0), |(sum, count), number| (sum + number, count + 1));
    u64::checked_div(sum, count)
}
