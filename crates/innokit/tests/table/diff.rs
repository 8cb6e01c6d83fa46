//! `innokit diff` of two datadirs: the statements that it writes turn one into the other, and back, as their server sees it.

use std::path::{Path, PathBuf};

use crate::common::{Run, copy, innokit};
use crate::random_tables::{history, seeds};
use crate::rows_lab::Server;

fn diff(options: &[&str], paths: &[&Path]) -> Run {
    Run::of(&innokit().arg("diff").args(options).args(paths).output().expect("innokit runs"))
}

/// The names and checksums of all tables in `rnd`.
fn sums(server: &Server) -> Vec<String> {
    let names = server.sql("SELECT table_name FROM information_schema.tables WHERE table_schema = 'rnd' ORDER BY 1");
    let names: Vec<String> = names.lines().map(str::to_owned).collect();
    server.checksums("rnd", &names).lines().map(str::to_owned).collect()
}

/// A copy of the datadir of a server that is stopped for it.
fn stopped_copy(server: &Server, name: &str) -> PathBuf {
    let to = server.dir.path().join(name);
    server.stop();
    copy(&server.datadir(), &to);
    server.script("start", &[], "");
    to
}

/// What differs once statements about these tables had no part in it: tables without a key.
fn without(sums: &[String], refused: &[String]) -> Vec<String> {
    let is_kept = |line: &&String| !refused.iter().any(|name| line.starts_with(&format!("{name}\t")));
    sums.iter().filter(is_kept).cloned().collect()
}

/// The tables that a run named as not compared.
fn refused(run: &Run) -> Vec<String> {
    let is_refusal = |line: &&str| line.contains("it has no primary key");
    let lines = run.errors.lines().filter(is_refusal);
    lines.filter_map(|line| line.split_once(": ")).map(|(name, _)| name.to_owned()).collect()
}

fn statements_turn_one_datadir_into_the_other(kind: &'static str) {
    let default = if std::env::var_os("INNOKIT_SOAK").is_some() { 1..20 } else { 1..2 };
    let server = Server::empty(kind);
    for seed in seeds("INNOKIT_RANDOM_TABLES", default) {
        server.sql("DROP DATABASE IF EXISTS rnd");
        let [before, after] = history(kind, seed);
        server.attempt(&before);
        let (sums_a, a) = (sums(&server), stopped_copy(&server, &format!("a{seed}")));
        server.attempt(&after);
        let (sums_b, b) = (sums(&server), stopped_copy(&server, &format!("b{seed}")));
        let what = format!("{kind}, seed {seed}");
        let forth = diff(&["--format", "sql"], &[&a, &b]);
        let back = diff(&["--format", "sql", "--reverse"], &[&a, &b]);
        let left_out = refused(&forth);
        let expected = if left_out.is_empty() { 1 } else { 2 };
        assert_eq!((forth.status, back.status), (expected, expected), "{what}: {}", forth.errors);
        server.script("sql", &[], &back.text);
        assert_eq!(without(&sums(&server), &left_out), without(&sums_a, &left_out), "{what}: back");
        server.script("sql", &[], &forth.text);
        assert_eq!(without(&sums(&server), &left_out), without(&sums_b, &left_out), "{what}: forth");
        for path in [a, b] {
            let same = diff(&[], &[&path, &path]);
            assert!(same.status == if left_out.is_empty() { 0 } else { 2 }, "{what}: {}{}", same.text, same.errors);
            std::fs::remove_dir_all(path).expect("removed");
        }
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn statements_turn_one_datadir_of_mysql_into_the_other() {
    statements_turn_one_datadir_into_the_other("mysql");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn statements_turn_one_datadir_of_mariadb_10_11_into_the_other() {
    statements_turn_one_datadir_into_the_other("mariadb");
}
