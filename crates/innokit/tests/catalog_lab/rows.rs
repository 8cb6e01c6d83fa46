//! Ways to damage a datadir or leave it intact, each with the expected words of innokit and the servers' verdict.

use std::fs;
use std::path::Path;

use super::{Age, Judge, Lab};

/// What innokit should say about a datadir: its exit status, and the codes of its findings about the datadir.
pub struct Word {
    pub exit: i32,
    pub reasons: &'static [&'static str],
}

/// A way to damage a datadir or to leave it intact.
pub struct Row {
    pub name: &'static str,
    pub act: fn(&Lab, &Path),
    pub mysql: Option<(Word, Judge)>,
    pub mariadb: Option<(Word, Judge)>,
}

const fn word(exit: i32, reasons: &'static [&'static str]) -> Word {
    Word { exit, reasons }
}

pub fn remove(data: &Path, name: &str) {
    let path = data.join(name);
    if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect(name);
}

fn rename(data: &Path, from: &str, to: &str) {
    fs::rename(data.join(from), data.join(to)).expect(from);
}

fn swap(data: &Path, a: &str, b: &str) {
    rename(data, a, "swapped");
    rename(data, b, a);
    rename(data, "swapped", b);
}

fn take(lab: &Lab, age: Age, name: &str) {
    fs::copy(lab.of(age).join(name), lab.data().join(name)).expect(name);
}

/// Copies a file of that age into the datadir, as `to`.
fn put(lab: &Lab, age: Age, name: &str, to: &str) {
    fs::copy(lab.of(age).join(name), lab.data().join(to)).expect(name);
}

fn cut(data: &Path, name: &str, pages: u64) {
    let file = fs::OpenOptions::new().write(true).open(data.join(name)).expect(name);
    file.set_len(pages * 16384).expect("cut");
}

pub const MISSING: &[&str] = &["missing_file"];
const SOUND: &[&str] = &[];
pub const CUT_TO_NOTHING: &str = "table cut to nothing";
/// Every datadir of the lab has a table whose tablespace is discarded.
pub const DISCARDED: &str = "discarded";

/// Rows for both kinds of servers.
#[allow(clippy::too_many_lines, reason = "it is a table")]
pub fn rows() -> Vec<Row> {
    let both = |name, act, exit, reasons, mysql, mariadb| Row {
        name,
        act,
        mysql: Some((word(exit, reasons), mysql)),
        mariadb: Some((word(exit, reasons), mariadb)),
    };
    let mysql =
        |name, act, exit, reasons, judge| Row { name, act, mysql: Some((word(exit, reasons), judge)), mariadb: None };
    let mariadb =
        |name, act, exit, reasons, judge| Row { name, act, mysql: None, mariadb: Some((word(exit, reasons), judge)) };
    use Judge::{Fine, Hurt, Refuses};
    vec![
        both("nothing done", |_, _| {}, 0, SOUND, Fine, Fine),
        both("table removed", |_, data| remove(data, "shop/orders.ibd"), 1, MISSING, Hurt, Hurt),
        both(
            "table with an odd name removed",
            |_, data| remove(data, "odd@002dname/t@0040k@0020ble.ibd"),
            1,
            MISSING,
            Hurt,
            Hurt,
        ),
        mysql("folder of a database removed", |_, data| remove(data, "odd@002dname"), 1, MISSING, Hurt),
        mariadb(
            "folder of a database removed",
            |_, data| remove(data, "odd@002dname"),
            1,
            &["missing_file", "missing_frm"],
            Hurt,
        ),
        both(
            "two tables swapped",
            |_, data| swap(data, "shop/orders.ibd", "shop/customers.ibd"),
            1,
            &["wrong_file", "wrong_file"],
            Hurt,
            Hurt,
        ),
        both(
            "table renamed",
            |_, data| rename(data, "shop/orders.ibd", "shop/orders_old.ibd"),
            1,
            &["misplaced_file"],
            Hurt,
            Hurt,
        ),
        both(
            "table moved to another database",
            |_, data| rename(data, "shop/orders.ibd", "odd@002dname/orders.ibd"),
            1,
            &["misplaced_file"],
            Hurt,
            Hurt,
        ),
        mysql(
            "copy of a table beside it",
            |lab, _| put(lab, Age::Now, "shop/orders.ibd", "shop/copy.ibd"),
            1,
            &["duplicate_space"],
            Refuses,
        ),
        mariadb(
            "copy of a table beside it",
            |lab, _| put(lab, Age::Now, "shop/orders.ibd", "shop/copy.ibd"),
            0,
            &["duplicate_space"],
            Fine,
        ),
        both(
            "copy of a table with another extension",
            |lab, _| put(lab, Age::Now, "shop/orders.ibd", "shop/orders.ibd.bak"),
            0,
            SOUND,
            Fine,
            Fine,
        ),
        both(
            "older copy, before TRUNCATE",
            |lab, _| take(lab, Age::Old, "shop/orders.ibd"),
            1,
            &["wrong_file"],
            Hurt,
            Hurt,
        ),
        both(
            "newer copy, after TRUNCATE",
            |lab, _| take(lab, Age::New, "shop/orders.ibd"),
            1,
            &["wrong_file"],
            Hurt,
            Hurt,
        ),
        both(
            "older copy, before ADD KEY in place",
            |lab, _| take(lab, Age::Old, "shop/customers.ibd"),
            1,
            &["stale_file"],
            Hurt,
            Hurt,
        ),
        both(
            "newer copy, after ADD KEY in place",
            |lab, _| take(lab, Age::New, "shop/customers.ibd"),
            1,
            SOUND,
            Fine,
            Hurt,
        ),
        both(
            "older copy, before ALTER by copy",
            |lab, _| take(lab, Age::Old, "shop/items.ibd"),
            1,
            &["wrong_file"],
            Hurt,
            Hurt,
        ),
        both(
            "older copy of an unchanged table",
            |lab, _| take(lab, Age::Old, "shop/renamed.ibd"),
            0,
            SOUND,
            Fine,
            Fine,
        ),
        both(
            "table of another server",
            |lab, _| take(lab, Age::Other, "shop/customers.ibd"),
            1,
            &["wrong_file"],
            Refuses,
            Hurt,
        ),
        both(
            "table of the past, dropped since",
            |lab, _| take(lab, Age::Old, "shop/gone.ibd"),
            0,
            &["orphan_file"],
            Fine,
            Fine,
        ),
        mysql(
            "table of another server, in a place of its own",
            |lab, _| put(lab, Age::Other, "shop/words.ibd", "shop/foreign.ibd"),
            1,
            &["duplicate_space"],
            Refuses,
        ),
        mariadb(
            "table of another server, in a place of its own",
            |lab, _| put(lab, Age::Other, "shop/words.ibd", "shop/foreign.ibd"),
            0,
            &["duplicate_space"],
            Fine,
        ),
        both("table cut to 3 pages", |_, data| cut(data, "shop/orders.ibd", 3), 1, SOUND, Hurt, Hurt),
        both(CUT_TO_NOTHING, |_, data| cut(data, "shop/orders.ibd", 0), 1, SOUND, Hurt, Hurt),
        both("far table removed", |lab, _| remove(&lab.far(), "shop/far.ibd"), 1, MISSING, Hurt, Hurt),
        both("ibdata1 removed", |_, data| remove(data, "ibdata1"), 1, MISSING, Refuses, Refuses),
        mariadb(
            "ibdata1 of another age",
            |lab, _| take(lab, Age::Old, "ibdata1"),
            1,
            &[
                "missing_file",
                "missing_frm",
                "orphan_file",
                "wrong_file",
                "wrong_file",
                "wrong_frm",
                "wrong_frm",
                "wrong_frm",
                "wrong_frm",
                "wrong_par",
            ],
            Hurt,
        ),
        mysql("partition removed", |_, data| remove(data, "shop/parts#p#p0.ibd"), 1, MISSING, Hurt),
        mysql("subpartition removed", |_, data| remove(data, "shop/subparts#p#p0#sp#p0sp1.ibd"), 1, MISSING, Hurt),
        mysql("mysql.ibd removed", |_, data| remove(data, "mysql.ibd"), 1, MISSING, Refuses),
        mysql(
            "mysql.ibd of another age",
            |lab, _| take(lab, Age::Old, "mysql.ibd"),
            1,
            &["missing_file", "orphan_file", "wrong_file", "wrong_file"],
            Hurt,
        ),
        mysql("undo_001 removed", |_, data| remove(data, "undo_001"), 2, MISSING, Fine),
        mysql(
            "undo files swapped",
            |_, data| swap(data, "undo_001", "undo_002"),
            1,
            &["wrong_file", "wrong_file"],
            Refuses,
        ),
        mysql("undo tablespace of the user removed", |_, data| remove(data, "more.ibu"), 2, MISSING, Fine),
        mysql("general tablespace removed", |_, data| remove(data, "roomy.ibd"), 1, MISSING, Hurt),
        mysql("redo folder removed", |_, data| remove(data, "#innodb_redo"), 2, &["missing_redo"], Refuses),
        mysql(
            "doublewrite files removed",
            |_, data| {
                remove(data, "#ib_16384_0.dblwr");
                remove(data, "#ib_16384_1.dblwr");
            },
            0,
            SOUND,
            Fine,
        ),
        mariadb("partition removed", |_, data| remove(data, "shop/parts#P#p0.ibd"), 1, MISSING, Hurt),
        mariadb("subpartition removed", |_, data| remove(data, "shop/subparts#P#p0#SP#p0sp1.ibd"), 1, MISSING, Hurt),
        mariadb(".par removed", |_, data| remove(data, "shop/parts.par"), 1, &["missing_par"], Hurt),
        mariadb(".frm removed", |_, data| remove(data, "shop/orders.frm"), 1, &["missing_frm"], Hurt),
        mariadb(
            ".frm of the past, dropped since",
            |lab, _| take(lab, Age::Old, "shop/gone.frm"),
            1,
            &["frm_without_table"],
            Hurt,
        ),
        mariadb("link file removed", |_, data| remove(data, "shop/far.isl"), 1, MISSING, Hurt),
        mariadb("undo001 removed", |_, data| remove(data, "undo001"), 1, &["missing_undo"], Refuses),
        mariadb(
            "all undo removed",
            |_, data| (1..=3).for_each(|number| remove(data, &format!("undo00{number}"))),
            2,
            &["missing_undo"; 3],
            Refuses,
        ),
        mariadb("redo removed", |_, data| remove(data, "ib_logfile0"), 2, &["missing_redo"], Refuses),
    ]
}
