//! `backup verify` on directories that innokit did not make.

use std::fs;

use crate::backup_lab::ended;
use crate::common::{all_datadirs, copy, innokit};

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_of_another_tool_is_refused_with_the_commands_that_verify_it() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let set = dir.path().join("set");
    copy(&all_datadirs().join("mariadb-16k"), &set);
    let run = |words: &[&str]| ended(innokit().args(words).arg("set").current_dir(dir.path()));
    let refused = run(&["backup", "verify"]);
    assert!(refused.status == 2 && refused.errors.contains("set: no backup of innokit"), "{}", refused.errors);
    fs::write(set.join("xtrabackup_checkpoints"), "backup_type = full-backuped\nfrom_lsn = 0\nto_lsn = 1\n")
        .expect("written");
    let refused = run(&["backup", "verify"]);
    let says = ["a backup of mariadb-backup", "innokit check set verifies", "innokit recover --dry-run set"];
    assert!(refused.status == 2 && says.iter().all(|words| refused.errors.contains(words)), "{}", refused.errors);
    fs::remove_file(set.join("xtrabackup_checkpoints")).expect("removed");
    for way_out in [&["check"][..], &["recover", "--dry-run"]] {
        let done = run(way_out);
        assert_eq!(done.status, 0, "{way_out:?}: {}{}", done.text, done.errors);
    }
}
