//! Random tables of each server: our exported rows and checksums equal what the server shows.

use crate::random_tables::compare;
use crate::rows_lab::{Server, table};

/// Tables with random values and random ALTERs, for the seeds in `INNOKIT_RANDOM_TABLES`, by default two.
fn random_tables_are_what_the_server_shows(kind: &'static str) {
    let seeds = crate::random_tables::seeds("INNOKIT_RANDOM_TABLES", 1..3);
    let server = Server::empty(kind);
    for seed in seeds.clone() {
        server.attempt(&crate::random_tables::every_type(kind, seed));
        server.attempt(&crate::random_tables::altered(kind, seed));
    }
    let what = format!("{kind}, seeds {seeds:?}");
    let (tables, values) = all_is_as_shown(&server, &what);
    let rounds = usize::try_from(seeds.end - seeds.start).expect("few");
    assert!(values > 8000 * rounds, "{kind}: {values} values of {tables} tables");
}

/// Stops the server, and asserts for all tables in `rnd` that exported rows and checksums are what it showed, and that every rule holds.
/// Returns how many tables and values were compared. `what` goes into messages.
pub fn all_is_as_shown(server: &Server, what: &str) -> (usize, usize) {
    let tables = compare::tables(&server.sql(compare::COLUMNS));
    let shown = |name: &str| server.dir.path().join(format!("shown.{name}"));
    server.sql(&tables.iter().map(|table| table.outfile_statement(&shown(&table.name))).collect::<String>());
    let names: Vec<String> = tables.iter().map(|table| table.name.clone()).collect();
    let sums = server.checksums("rnd", &names);
    server.stop();
    let (files, sums) = (server.datadir().join("rnd"), server.dir.file("sums", sums.as_bytes()));
    let out = server.dir.path().join("exported");
    let to = out.to_str().expect("UTF-8").to_owned() + "/";
    let run = table(&["export", "--format", "tsv", "-o", &to], &[&files]);
    assert_eq!(run.status, 0, "{what}: {}", run.errors);
    let compared =
        tables.iter().map(|table| table.compare(&shown(&table.name), &out.join(format!("rnd.{}.tsv", table.name))));
    let values = compared.sum();
    let run = table(&["checksum", "--compare", sums.to_str().expect("UTF-8")], &[&files]);
    assert_eq!(run.status, 0, "{what}: {}{}", run.text, run.errors);
    let run = table(&["check", "--extended"], &[&files]);
    assert_eq!(run.status, 0, "{what}: {}{}", run.text, run.errors);
    (tables.len(), values)
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn random_tables_of_mysql_are_what_it_shows() {
    random_tables_are_what_the_server_shows("mysql");
}

#[test]
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn random_tables_of_mysql_8_0_15_are_what_it_shows() {
    random_tables_are_what_the_server_shows("mysql80");
}

#[test]
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn random_tables_of_mysql_5_6_are_what_it_shows() {
    if Server::is_here("mysql56") {
        random_tables_are_what_the_server_shows("mysql56");
    }
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn random_tables_of_mariadb_10_11_are_what_it_shows() {
    random_tables_are_what_the_server_shows("mariadb");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn random_tables_of_mariadb_10_5_are_what_it_shows() {
    random_tables_are_what_the_server_shows("mariadb105");
}

#[test]
#[cfg(target_arch = "x86_64")]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn random_tables_of_mariadb_11_4_are_what_it_shows() {
    random_tables_are_what_the_server_shows("mariadb114");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn random_tables_of_mariadb_11_8_are_what_it_shows() {
    random_tables_are_what_the_server_shows("mariadb118");
}
