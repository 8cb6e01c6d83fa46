//! Manifests over arbitrary bytes: no panic, no name that leads out of the set, and what was read is written and read again as the same.
//!
//! The first byte says what the rest is: with bit 0, the value of a field of an otherwise sound manifest (bits 1 to 3: which), so that values
//! are reached that arbitrary text seldom has.
#![no_main]

use std::path::{Component, Path};

use recovery::manifest::fuzzed_manifest;
use libfuzzer_sys::fuzz_target;

const FIELDS: [&str; 8] =
    ["state", "id", "binlog", "left_out", "damaged", "tablespaces", "files", "from_lsn"];

fn of_field(field: &str, value: &[u8]) -> Vec<u8> {
    let fields = [
        ("schema_version", "1"), ("id", "\"\""), ("state", "\"complete\""), ("innokit_version", "\"0\""), ("server_version", "\"\""),
        ("started_at", "1"), ("taken_at", "1"), ("from_lsn", "1"), ("to_lsn", "2"), ("binlog", "null"), ("needs_keys", "false"),
        ("locks", "{\"ddl_ms\":0,\"commit_ms\":0}"), ("pages", "1"), ("pages_read_again", "0"), ("left_out", "[]"), ("damaged", "[]"),
        ("tablespaces", "[]"), ("files", "[]"), ("checksum", "\"\""),
    ];
    let mut text = b"{".to_vec();
    for (name, sound) in fields {
        text.extend(format!("{}\"{name}\":", if text.len() > 1 { "," } else { "" }).bytes());
        text.extend(if name == field { value } else { sound.as_bytes() });
    }
    text.push(b'}');
    text
}

fuzz_target!(|input: &[u8]| {
    let Some((&how, rest)) = input.split_first() else { return };
    let text = if how & 1 == 1 { of_field(FIELDS[usize::from(how >> 1 & 7)], rest) } else { rest.to_vec() };
    let Some((manifest, _)) = fuzzed_manifest(&text) else { return };
    let names = manifest.files.iter().map(|file| &file.path).chain(manifest.tablespaces.iter().map(|space| &space.path));
    for name in names {
        let is_inside = Path::new(name).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        assert!(is_inside && !name.is_empty(), "{name:?} leads out of the set");
    }
    let again = serde_json::to_vec(&manifest).expect("JSON");
    assert_eq!(fuzzed_manifest(&again).map(|(again, _)| again), Some(manifest), "what is written is read");
});
