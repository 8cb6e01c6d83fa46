//! Hostile names in the dictionary that a tablespace of MySQL brings along (SDI): its table, schema, columns, indexes and files.

use std::fs;
use std::io::{Read, Write};

use crate::common::limited::{PATIENCE, limited};
use crate::common::{fixture, innokit};
use crate::hostile::{Place, state};
use crate::hostile_corpus::{attack, names};
use serde_json::Value;

/// Where the leaf of the dictionary is in the fixture: page 3.
const LEAF: std::ops::Range<usize> = 3 << 14..4 << 14;
/// Keys of JSON whose text is a name.
const NAMES: [&str; 4] = ["name", "schema_ref", "filename", "tablespace_ref"];
/// What innokit does not read, and leaves room for other names.
const SPARE: [&str; 5] = ["created", "last_altered", "comment", "engine_attribute", "secondary_engine_attribute"];

fn number(bytes: &[u8], at: usize) -> usize {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

/// Replaces each name by another. Returns how many.
fn rename(value: &mut Value, keys: &[&str], to: &str) -> usize {
    match value {
        Value::Array(values) => values.iter_mut().map(|value| rename(value, keys, to)).sum(),
        Value::Object(fields) => {
            fields.retain(|key, _| !SPARE.contains(&key.as_str()));
            let mut count = 0;
            for (key, value) in fields.iter_mut() {
                // Columns of the server's own have names that it looks for.
                if keys.contains(&key.as_str()) && value.as_str().is_some_and(|name| !name.starts_with("DB_")) {
                    *value = to.into();
                    count += 1;
                } else {
                    count += rename(value, keys, to);
                }
            }
            count
        }
        _ => 0,
    }
}

/// The JSON with this name under these keys: its length, and the stream of zlib.
fn packed_with(mut value: Value, keys: &[&str], name: &[u8]) -> (usize, Vec<u8>) {
    rename(&mut value, keys, &String::from_utf8_lossy(name));
    // What is no text stands as it is.
    let text = serde_json::to_string(&value).expect("JSON");
    let text = text.split('\u{fffd}').map(str::as_bytes).collect::<Vec<_>>().join(&0xff_u8);
    let mut stream = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    stream.write_all(&text).expect("memory");
    (text.len(), stream.finish().expect("memory"))
}

/// The tablespace with this name in all of its dictionary. Each object keeps its room on the page: what is left of it follows the stream of zlib.
fn renamed(bytes: &[u8], name: &[u8]) -> Vec<u8> {
    let (mut new, mut tables) = (bytes.to_vec(), 0);
    for at in LEAF.start + 8..LEAF.end - 8 {
        let (plain, packed) = (number(bytes, at - 8), number(bytes, at - 4));
        if bytes[at] != 0x78 || at + packed > LEAF.end || !(packed..1 << 20).contains(&plain) {
            continue;
        }
        let mut json = String::new();
        let read = flate2::read::ZlibDecoder::new(&bytes[at..at + packed]).read_to_string(&mut json);
        let Some(value) = read.ok().and_then(|_| serde_json::from_str::<Value>(&json).ok()) else { continue };
        // Long names do not fit everywhere at a time.
        let streams = [&NAMES[..], &NAMES[..2], &NAMES[1..3]].map(|keys| packed_with(value.clone(), keys, name));
        let is_table = value["dd_object_type"] == "Table";
        let Some((len, stream)) = streams.into_iter().find(|(_, stream)| stream.len() <= packed) else {
            // The little that is said of the tablespace itself leaves no room for any.
            assert!(!is_table, "{}", String::from_utf8_lossy(name));
            continue;
        };
        tables += usize::from(is_table);
        new[at - 8..at - 4].copy_from_slice(&u32::try_from(len).expect("short").to_be_bytes());
        new[at..at + stream.len()].copy_from_slice(&stream);
    }
    assert_eq!(tables, 1);
    new
}

#[test]
fn no_name_in_the_dictionary_of_a_tablespace_leads_out() {
    let place = Place::in_memory();
    let bytes = fixture("mysql-9.7/dynamic-16k.ibd");
    let mut shown = 0;
    for name in names(&place.text("victim/crontab")) {
        let path = place.dir.file("set/shop/t.ibd", &renamed(&bytes, &name));
        let sealed = limited(innokit().args(["innochecksum", "--no-check", "--write", "crc32"]).arg(&path), PATIENCE);
        assert_eq!(sealed.status, 0, "{}", sealed.errors);
        let set = state(&place.path("set"));
        for words in [
            &[b"check" as &[u8], b"--level", b"structure", b"set"][..],
            &[b"info", b"set/shop/t.ibd", b"--map", b"out/map.svg"],
            &[b"table", b"check", b"set"],
            &[b"table", b"count", b"set"],
            &[b"table", b"checksum", b"set"],
            &[b"table", b"schema", b"set"],
            &[b"table", b"export", b"--format", b"csv", b"-o", b"out/", b"set"],
            &[b"table", b"export", b"--format", b"sql", b"set/shop/t.ibd"],
        ] {
            fs::create_dir_all(place.path("out")).expect("made");
            attack(&place, words);
            let told = format!("{:?}: {words:?}", String::from_utf8_lossy(&name));
            place.assert_untouched(&told);
            assert!(state(&place.path("set")) == set, "{told}: the set changed");
            let mut entries: Vec<_> = fs::read_dir(place.path(""))
                .expect("a folder")
                .map(|entry| entry.expect("an entry").file_name())
                .collect();
            entries.sort();
            assert_eq!(entries, ["out", "set", "victim"], "{told}");
            assert!(
                state(&place.path("out"))
                    .iter()
                    .all(|(path, ..)| path.is_file() && path.parent() == Some(&place.path("out"))),
                "{told}"
            );
            fs::remove_dir_all(place.path("out")).expect("there");
        }
        let said = limited(innokit().args(["info", "--json"]).arg(&path), PATIENCE);
        shown += usize::from(said.text.contains("crontab") && name.ends_with(b"crontab"));
    }
    assert!(shown >= 3, "the names are not read: {shown}");
}
