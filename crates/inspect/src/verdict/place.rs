//! From damaged pages to the indexes they belong to, by the segments that own them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use format::Family;
use format::keyring::KeyStore;

use super::{HurtTree, Mark, Marks, advice, of_file, verdict_of};
use crate::definitions::known::{Known, know};
use crate::definitions::{Definitions, own_definitions};
use crate::report::hurt::{Action, Hurt, TableVerdict};
use crate::report::shown;
use crate::tree::Root;
use datadir::file_kind::FileKind;
use datadir::name::{NameHint, table_of_path};
use datadir::redo_log::Awaits;
use datadir::severity::Severity;
use datadir::tablespace::{FoundFile, Opener, Tablespace};

/// A file, or a tablespace of several, with its findings.
pub(crate) struct Case {
    /// Its files; empty if they cannot be read again, as for archive members.
    pub files: Vec<FoundFile>,
    /// As shown in findings.
    pub path: PathBuf,
    /// As shown in reports.
    pub kind: FileKind,
    pub marks: Marks,
    /// The worst finding without a page, if there is one.
    pub severity: Option<Severity>,
    /// Whether recovery or the server still has work to do on it.
    pub awaits: Option<Awaits>,
}

impl Case {
    fn shown(&self) -> String {
        shown(&self.path)
    }

    fn is_hurt(&self) -> bool {
        self.severity.is_some() || !self.marks.is_empty()
    }
}

/// The result of [`judge`].
#[derive(Default)]
pub(crate) struct Judged {
    pub hurt: Vec<Hurt>,
    /// Every table, if requested.
    pub tables: Vec<TableVerdict>,
}

/// Decides which tables and indexes are damaged. With `list`, also names those that are not.
pub(crate) fn judge(cases: &[Case], keys: &KeyStore, page_size: Option<u32>, list: bool) -> Judged {
    let wanted = |case: &&Case| !case.files.is_empty() && (list || case.is_hurt()) && holds_tables(case.kind);
    let open = |case: &Case| Some((case.path.clone(), Tablespace::open(&case.files, keys, page_size).ok()?));
    let spaces: BTreeMap<PathBuf, Tablespace> = cases.iter().filter(wanted).filter_map(open).collect();
    let described = describing(cases, &spaces, &open);
    let definitions = Definitions::read(spaces.values().chain(&described), keys);
    let mut judged = Judged::default();
    for case in cases {
        let first = judged.hurt.len();
        let mut names = Vec::new();
        match spaces.get(&case.path) {
            Some(space) => {
                let known = know(space, &definitions, &mut Opener::new());
                if case.is_hurt() {
                    judged.hurt.extend(in_space(case, &known, &definitions));
                }
                names = definitions.tables_in(space);
            }
            None if case.is_hurt() => judged.hurt.push(whole(case, case.marks.len() as u64)),
            None => {}
        }
        let own = judged.hurt.get_mut(first..).unwrap_or_default();
        if let Some(awaits) = case.awaits {
            put_off(own, &case.path, awaits);
        }
        if list && holds_tables(case.kind) {
            let own = judged.hurt.get(first..).unwrap_or_default();
            let shown = case.shown();
            if names.is_empty() {
                names.extend(table_of_path(&case.path));
            }
            judged.tables.extend(names.iter().map(|name| verdict_of(Some(name), &shown, own)));
        }
    }
    judged
}

/// For partitions that are judged without it, the file of the same table that has its definition: MySQL writes it into one of them.
fn describing(
    cases: &[Case],
    spaces: &BTreeMap<PathBuf, Tablespace>,
    open: &dyn Fn(&Case) -> Option<(PathBuf, Tablespace)>,
) -> Vec<Tablespace> {
    let mut opener = Opener::new();
    let mut is_described = |space: &Tablespace| {
        let defined = own_definitions(space, &mut opener);
        space.format.family() != Family::MySql || defined.is_some_and(|(tables, _)| !tables.is_empty())
    };
    let mut of_tables: BTreeMap<_, bool> = BTreeMap::new();
    for (path, space) in spaces {
        if let Some(table) = partitioned(path) {
            *of_tables.entry(table).or_default() |= is_described(space);
        }
    }
    let mut found = Vec::new();
    for case in cases.iter().filter(|case| !case.files.is_empty() && !spaces.contains_key(&case.path)) {
        let Some(is_known) = partitioned(&case.path).and_then(|table| of_tables.get_mut(&table)) else { continue };
        if !*is_known && let Some((_, space)) = open(case).filter(|(_, space)| is_described(space)) {
            *is_known = true;
            found.push(space);
        }
    }
    found
}

/// The folder and the name of the table that a partition's file belongs to.
pub(crate) fn partitioned(path: &Path) -> Option<(&Path, &str)> {
    let name = path.file_name()?.to_str()?;
    Some((path.parent()?, name.get(..name.to_ascii_lowercase().find("#p#")?)?))
}

fn holds_tables(kind: FileKind) -> bool {
    use FileKind::{DictionaryTablespace, SystemTablespace, Tablespace, Unrecognised};
    matches!(kind, Tablespace | SystemTablespace | DictionaryTablespace | Unrecognised)
}

/// Pending work is the one remedy for everything that it leaves undecided.
pub(crate) fn put_off(rows: &mut [Hurt], path: &Path, awaits: Awaits) {
    for row in rows.iter_mut().filter(|row| row.severity == Severity::Undecided) {
        (row.action, row.commands) = match awaits {
            Awaits::Recovery => (Action::RecoverFirst, advice::recover(path)),
            Awaits::Server => (Action::StartServer, Vec::new()),
            Awaits::Running => (Action::CheckLive, advice::check_live(path)),
        };
    }
}

/// An entry for the whole file: for what belongs to no index, or cannot be read again.
fn whole(case: &Case, pages: u64) -> Hurt {
    let marks = case.marks.values().map(|mark| mark.severity);
    let severity = worst(marks.chain(case.severity));
    let table = table_of_path(&case.path);
    let kind = match case.kind {
        FileKind::Unrecognised if NameHint::of(&case.path) == NameHint::Table => FileKind::Tablespace,
        kind => kind,
    };
    let mut ids = case.marks.values().map(|mark| mark.index_id);
    let index_id = ids.next().flatten().filter(|id| ids.all(|other| other == Some(*id)));
    let is_header_lost = case.marks.contains_key(&0);
    let row =
        Hurt { index_id, is_header_lost, is_frame_lost: true, ..of_file(&case.shown(), kind, table, severity, pages) };
    advice::advised(row, None, None)
}

/// An entry for pages that belong to no index: the header, the maps.
pub(crate) fn of_space(space: &Tablespace, table: Option<String>, severity: Severity, pages: u64) -> Hurt {
    let path = shown(space.path());
    let kind = if space.format.space().0 == 0 { FileKind::SystemTablespace } else { FileKind::Tablespace };
    let row = Hurt { is_frame_lost: true, ..of_file(&path, kind, table, severity, pages) };
    advice::advised(row, None, Some(space))
}

fn worst(severities: impl Iterator<Item = Severity>) -> Severity {
    severities.min_by_key(|severity| *severity as u8).unwrap_or(Severity::Notice)
}

fn in_space(case: &Case, known: &Known, definitions: &Definitions) -> Vec<Hurt> {
    let mut opener = Opener::new();
    let mut by_root: BTreeMap<u32, Marks> = BTreeMap::new();
    let mut rest = Marks::new();
    for (page_no, mark) in &case.marks {
        let of = match root_of(known, *page_no, mark) {
            Some(root) => by_root.entry(root.page_no).or_default(),
            None => &mut rest,
        };
        of.insert(*page_no, *mark);
    }
    let named: BTreeMap<u32, _> = known
        .roots
        .iter()
        .filter(|root| by_root.contains_key(&root.page_no))
        .map(|root| (root.page_no, definitions.named(&known.space, root, &known.map, &mut opener)))
        .collect();
    let is_clustered = |page_no: u32| {
        let named = named.get(&page_no).and_then(Option::as_ref)?;
        named.index.as_ref()?.is_clustered().then(|| named.table.clone())
    };
    let hurt_tables: Vec<_> = by_root.keys().filter_map(|page_no| is_clustered(*page_no)).collect();
    let mut rows = Vec::new();
    if !rest.is_empty() || case.severity.is_some() {
        let own = Case { marks: rest, files: Vec::new(), path: case.path.clone(), ..*case };
        let mut row = whole(&own, own.marks.len() as u64);
        let tables = definitions.tables_in(&known.space);
        if let [table] = tables.as_slice() {
            row.table = Some(table.clone());
            row = advice::advised(row, None, Some(&known.space));
        }
        rows.push(row);
    }
    for (page_no, marks) in &by_root {
        let Some(root) = known.roots.iter().find(|root| root.page_no == *page_no) else { continue };
        let named = named.get(page_no).and_then(Option::as_ref);
        let table = named.map(|named| named.table.clone());
        let tree = HurtTree {
            space: &known.space,
            map: &known.map,
            root,
            named,
            marks,
            severity: worst(marks.values().map(|mark| mark.severity)),
            rows_missing: None,
            is_misplaced: false,
            is_table_hurt: table.is_some_and(|table| hurt_tables.contains(&table)),
        };
        rows.push(Hurt { kind: case.kind, ..tree.row(&case.shown(), &mut opener) });
    }
    rows
}

/// The tree a page belongs to: by its segment, or by the page's own index id if the map is lost.
fn root_of<'k>(known: &'k Known, page_no: u32, mark: &Mark) -> Option<&'k Root> {
    let owner = known.map.owner(page_no);
    let has = |root: &&Root| match owner {
        Some(owner) => [root.leaf_segment, root.top_segment].contains(&Some(owner)),
        None => root.page_no == page_no || (!known.map.is_known() && mark.index_id == Some(root.index_id)),
    };
    known.roots.iter().find(has)
}
