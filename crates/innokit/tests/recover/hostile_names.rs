//! Hostile names inside of files that a server wrote: the records about files in the logs of both vendors, MySQL's dictionary of tablespaces, and
//! SYS_DATAFILES of MariaDB 10.5. A server is killed with such records in its log. Then each name is replaced by another one of the same length
//! that leads elsewhere, and everything is sealed again. As in the rest of the corpus, nothing may change in the victims, and nothing may wait.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{copy, innokit, repository};
use crate::hostile::{Place, pipe};
use crate::hostile_corpus::attack;
use format::checksum::crc32c;

/// Letters in the name of the database, and in those of its tables: there is room for any path.
const LETTERS: usize = 60;
/// A mini-transaction that says what happens to a file is shorter, bytes.
const NEAR: usize = 1500;

fn script(place: &Place, kind: &str, action: &str, options: &[&str], input: &str) {
    let mut command = Command::new(repository().join("scripts/server.sh"));
    command.args([kind, action]).arg(place.path("made")).args(options).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::inherit()).spawn().expect("bash runs");
    child.stdin.take().expect("piped").write_all(input.as_bytes()).expect("written");
    assert!(child.wait().expect("it ends").success(), "{kind} {action}");
}

/// A server that made, changed, renamed and dropped tables of a database with a long name, and was killed.
fn made(kind: &str) -> Place {
    let place = Place::in_memory();
    let size = match kind {
        "mysql" => "--innodb-redo-log-capacity=8M",
        _ => "--innodb-log-file-size=8M",
    };
    script(&place, kind, "init", &[size], "");
    script(&place, kind, "start", &[], "");
    let name = |letter: &str| letter.repeat(LETTERS);
    let table = |letter: &str| {
        let name = name(letter);
        format!(
            "CREATE TABLE {name} (id INT PRIMARY KEY, b VARCHAR(200)) ENGINE=InnoDB; INSERT INTO {name} VALUES (1, 'a');"
        )
    };
    let database = name("d");
    let sql = format!("CREATE DATABASE {database}; USE {database}; {} {}", table("t"), table("r"));
    script(&place, kind, "sql", &[], &sql);
    script(&place, kind, "stop", &[], "");
    script(&place, kind, "start", &[], "");
    let (old, new) = (name("r"), name("s"));
    let sql = format!(
        "USE {database}; UPDATE {} SET b = 'b'; {} {} RENAME TABLE {old} TO {new}; UPDATE {new} SET b = 'c'; DROP TABLE {};",
        name("t"),
        table("n"),
        table("x"),
        name("x")
    );
    script(&place, kind, "sql", &[], &sql);
    let _waiting = (kind == "mysql").then(|| interrupted(&place, &database, &name("t")));
    script(&place, kind, "kill9", &[], "");
    fs::create_dir(place.path("made/shop")).expect("made");
    fs::create_dir(place.path("made/pipes")).expect("made");
    pipe(&place.path("made/pipes/t.ibd"));
    symlink(place.path("victim"), place.path("made/linked")).expect("linked");
    place
}

/// Clients of a server that waits in the middle of a statement until it is killed.
struct Waiting([Child; 2]);

impl Drop for Waiting {
    fn drop(&mut self) {
        // They end with their server.
        self.0.iter_mut().for_each(|client| drop(client.wait()));
    }
}

/// Has MySQL rebuild a table that another transaction reads, so that the rebuild waits for it with a note in the DDL log of what to remove after a
/// crash. Returns once that note is on disk.
fn interrupted(place: &Place, database: &str, table: &str) -> Waiting {
    let client = |sql: String| {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args(["mysql", "sql"]).arg(place.path("made")).stdin(Stdio::piped());
        let mut client = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("bash runs");
        client.stdin.take().expect("piped").write_all(sql.as_bytes()).expect("written");
        client
    };
    let reader = client(format!("USE {database}; BEGIN; SELECT * FROM {table}; SELECT SLEEP(600);"));
    let dirty = "SET GLOBAL innodb_max_dirty_pages_pct_lwm = 0; SET GLOBAL innodb_max_dirty_pages_pct = 0;";
    let builder =
        client(format!("{dirty} USE {database}; SELECT SLEEP(1); ALTER TABLE {table} FORCE, ALGORITHM=COPY;"));
    let waiting = Waiting([reader, builder]);
    let started = Instant::now();
    loop {
        let bytes = fs::read(place.path("made/mysql.ibd")).expect("read");
        let note = format!("./{database}/#sql-");
        if bytes.windows(note.len()).any(|window| window == note.as_bytes()) {
            return waiting;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "the note is not on disk");
        sleep(Duration::from_millis(100));
    }
}

/// Names of this length that lead elsewhere. Several slashes are as good as one.
fn names(place: &Place, len: usize) -> Vec<Vec<u8>> {
    let victim = place.text("victim");
    let parts: [(&[u8], &[u8]); 9] = [
        (b"../victim", b"shop/t.ibd"),
        (victim.as_bytes(), b"shop/t.ibd"),
        (b"shop/../../victim", b"new.ibd"),
        (b"./linked", b"shop/t.ibd"),
        (b"./pipes", b"t.ibd"),
        (b"./shop", b"t.ibd.innokit-ren"),
        (b"./victim", b"innokit-recover.shadow"),
        (b"./shop\xff\xfe", b"t.ibd"),
        (b".", b"ibdata1"),
    ];
    let padded = |(front, back): (&[u8], &[u8])| {
        let slashes = vec![b'/'; len.checked_sub(front.len() + back.len()).expect("room")];
        [front, &slashes, back].concat()
    };
    parts.into_iter().map(padded).collect()
}

/// Where the names of tablespaces are, and how long they are.
fn places_of_names(bytes: &[u8]) -> Vec<(usize, usize)> {
    let database = [b'd'; LETTERS];
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(step) = bytes[at..].windows(LETTERS).position(|window| window == database) {
        let start = at + step;
        let table = start + LETTERS + 1;
        let near = &bytes[table.min(bytes.len())..(table + LETTERS + 4).min(bytes.len())];
        // That of a table under construction is shorter, and has room for a path all the same.
        let end = near.windows(4).position(|four| four == b".ibd").map_or(0, |len| table + len + 4);
        if end > 0 && bytes[table - 1] == b'/' {
            let front = if bytes[..start].ends_with(b"./") { 2 } else { 0 };
            found.push((start - front, end - start + front));
        }
        at = start + LETTERS;
    }
    found
}

/// CRC-32C, continued by one byte.
fn continued(crc: u32, byte: u8) -> u32 {
    (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82F6_3B78 } else { crc >> 1 })
}

/// The mini-transaction of MariaDB 10.8 or later around a name: where it starts, and the byte before its checksum.
fn around(bytes: &[u8], (at, len): (usize, usize)) -> Option<(usize, usize)> {
    (at.saturating_sub(NEAR)..at).rev().find_map(|start| {
        let mut crc: u32 = !0;
        (start..(at + len + NEAR).min(bytes.len() - 5)).find_map(|end| {
            let is_end = end >= at + len && bytes[end] < 2 && bytes[end + 1..end + 5] == (!crc).to_be_bytes();
            crc = continued(crc, bytes[end]);
            is_end.then_some((start, end))
        })
    })
}

/// Two numbers: where a name begins and its length, or where a mini-transaction begins and ends.
type Stretch = (usize, usize);

/// A file that bears names.
struct Carrier {
    path: PathBuf,
    bytes: Vec<u8>,
    is_log: bool,
    /// Each name, and in MariaDB's log the mini-transaction around it.
    names: Vec<(Stretch, Option<Stretch>)>,
}

impl Carrier {
    fn of(kind: &str, path: PathBuf) -> Self {
        let bytes = fs::read(&path).expect("read");
        let is_log = path.extension().is_none() && !path.ends_with("ibdata1");
        let has_frames = is_log && kind == "mariadb";
        let named =
            places_of_names(&bytes).into_iter().map(|at| (at, has_frames.then(|| around(&bytes, at)).flatten()));
        let names = named.filter(|(_, frame)| frame.is_some() || !has_frames).collect();
        Self { path, names, is_log, bytes }
    }
}

/// Replaces each name in a file, and its checksums.
fn replace(kind: &str, carrier: &Carrier, which: usize, place: &Place) {
    let Carrier { path, bytes, is_log, names: named } = carrier;
    let (mut new, is_log) = (bytes.clone(), *is_log);
    for ((at, len), frame) in named.iter().copied() {
        new[at..at + len].copy_from_slice(&names(place, len)[which]);
        if let Some((start, end)) = frame {
            let crc = crc32c(&new[start..end]);
            new[end + 1..end + 5].copy_from_slice(&crc.to_be_bytes());
        }
    }
    if is_log && kind != "mariadb" {
        for (block, old) in new.chunks_exact_mut(512).zip(bytes.chunks_exact(512)) {
            if block != old && old[508..] == crc32c(&old[..508]).to_be_bytes() {
                let crc = crc32c(&block[..508]);
                block[508..].copy_from_slice(&crc.to_be_bytes());
            }
        }
    }
    fs::write(path, new).expect("written");
    if !is_log {
        let sealed =
            innokit().args(["innochecksum", "--no-check", "--write", "crc32"]).arg(path).output().expect("it runs");
        assert!(sealed.status.success(), "{}", String::from_utf8_lossy(&sealed.stderr));
    }
}

fn every_name_in(kind: &str, files: &[&str], names_min: usize) {
    let place = made(kind);
    let made = place.path("made");
    let paths = files.iter().map(|name| made.join(name)).flat_map(|path| match path.is_dir() {
        true => fs::read_dir(path).expect("a folder").map(|entry| entry.expect("an entry").path()).collect(),
        false => vec![path],
    });
    let carriers: Vec<Carrier> =
        paths.map(|path| Carrier::of(kind, path)).filter(|carrier| !carrier.names.is_empty()).collect();
    let count: usize = carriers.iter().map(|carrier| carrier.names.len()).sum();
    assert!(count >= names_min && carriers.iter().any(|carrier| carrier.is_log), "{kind}: {count} names");
    for which in 0..names(&place, 150).len() {
        carriers.iter().for_each(|carrier| replace(kind, carrier, which, &place));
        copy(&made, &place.path("set"));
        for words in [
            &[b"recover" as &[u8], b"--dry-run", b"set"][..],
            &[b"redo", b"info", b"set"],
            &[b"check", b"set"],
            &[b"table", b"count", b"set/shop"],
            &[b"restore", b"set", b"--to", b"to"],
            &[b"recover", b"--in-place", b"set"],
        ] {
            attack(&place, words);
            place.assert_untouched(&format!("{kind}, name {which}: {words:?}"));
            assert!(!place.path("victim/new.ibd").exists());
        }
        for name in ["set", "to"] {
            fs::remove_dir_all(place.path(name)).ok();
        }
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn no_name_in_the_log_of_mariadb_leads_out() {
    every_name_in("mariadb", &["ib_logfile0"], 3);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn no_name_in_the_log_and_the_dictionary_of_mariadb_105_leads_out() {
    every_name_in("mariadb105", &["ib_logfile0", "ibdata1"], 4);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn no_name_in_the_log_and_the_dictionary_of_mysql_leads_out() {
    every_name_in("mysql", &["#innodb_redo", "mysql.ibd"], 4);
}
