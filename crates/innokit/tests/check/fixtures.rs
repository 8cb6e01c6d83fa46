//! Real tablespaces: intact ones pass, and the damage in every broken one is found and explained.

use std::collections::BTreeSet;

use crate::common::{Dir, check, check_json, manifest, reasons, total};

#[test]
fn every_sound_fixture_is_sound_by_its_own_algorithm() {
    for folder in ["mysql-9.7", "mariadb-10.11"] {
        let entries = manifest(folder);
        assert!(entries.len() >= 20, "{folder} has {} fixtures", entries.len());
        for entry in entries {
            let dir = Dir::new();
            let (document, status) = check_json(&dir.file("t.ibd", &entry.bytes()), &[]);
            let name = &entry.name;
            assert_eq!(reasons(&document), [""; 0], "{name}: {document:#}");
            assert_eq!(status, 0, "{name}");
            assert_eq!(total(&document, "pages"), entry.number("pages"), "{name}");
            assert_eq!(total(&document, "unverifiable"), 0, "{name}");
            let file = &document["files"][0];
            assert_eq!(file["algorithm"].as_str(), Some(entry.text("algorithm")), "{name}");
            assert_eq!(file["page_size"].as_u64(), Some(entry.number("physical_page_size")), "{name}");
        }
    }
}

#[test]
fn every_broken_fixture_is_found_and_named() {
    let entries = manifest("broken");
    assert!(entries.len() >= 20, "{} broken fixtures", entries.len());
    for entry in entries {
        let dir = Dir::new();
        let (document, status) = check_json(&dir.file("t.ibd", &entry.bytes()), &[]);
        let name = &entry.name;
        // Servers ignore bytes after the last whole page: a notice, not damage.
        let severity = if entry.text("reason") == "partial_page" { "notice" } else { "damage" };
        assert_eq!(status, i32::from(severity == "damage"), "{name}: {document:#}");
        let findings = document["findings"].as_array().expect("findings");
        let damage: Vec<_> = findings.iter().filter(|finding| finding["severity"] == severity).collect();
        assert_eq!(damage[0]["reason"].as_str(), Some(entry.text("reason")), "{name}: {document:#}");
        assert_eq!(damage[0]["page"].as_u64(), Some(entry.number("page")), "{name}");
        let pages = damage.iter().map(|finding| finding["page"].as_u64().expect("a page"));
        let expected: BTreeSet<u64> = entry.numbers("damaged_pages").into_iter().collect();
        assert_eq!(pages.collect::<BTreeSet<_>>(), expected, "{name}: {document:#}");
    }
}

#[test]
fn a_finding_says_file_page_type_index_and_both_checksums() {
    let dir = Dir::new();
    let entry =
        manifest("broken").into_iter().find(|entry| entry.name.contains("flipped-bit-mysql-16k.")).expect("there");
    let path = dir.file("shop/orders.ibd", &entry.bytes());
    let run = check(&path, &[]);
    let (document, _) = check_json(&path, &[]);
    let finding = &document["findings"][0];
    let hex = |field: &str| format!("{:08x}", finding[field].as_u64().expect("a checksum"));
    let line = run.text.lines().next().expect("a line");
    let index = finding["index_id"].as_u64().expect("an index id");
    assert!(line.starts_with(&format!("{}: page 4 (index page of index {index}): ", path.display())), "{line}");
    assert!(line.contains(&hex("stored")) && line.contains(&hex("computed")), "{line}");
    assert_ne!(hex("stored"), hex("computed"));
}
