//! Names that come out of a set are data: they end no comment in SQL and steer no terminal.

use crate::common::{Dir, Run, fixture, innokit};

/// What the definition of the fixture's table is, in the form that `--create-table` takes.
const DEFINITION: &str = "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, a INT, b VARCHAR(40), c TEXT, KEY (a), KEY (b),
    `v\nDROP TABLE victim; -- ` INT AS (1)) ENGINE=InnoDB DEFAULT CHARSET=latin1;";

/// `innokit table ARGUMENTS` on a table whose name holds a newline, a statement, an escape sequence and an override of direction.
fn hostile(arguments: &[&str]) -> Run {
    let dir = Dir::new();
    let name = "db/a@000aDROP@0020TABLE@0020victim@003b@002d@002d@0020@001b@005b2J@202e.ibd";
    let path = dir.file(name, &fixture("mariadb-10.11/dynamic-16k.ibd"));
    let sql = dir.file("t.sql", DEFINITION.as_bytes());
    let output = innokit().arg("table").args(arguments).arg("--create-table").arg(sql).arg(path).output();
    Run::of(&output.expect("innokit runs"))
}

#[test]
fn a_comment_in_sql_ends_where_innokit_ends_it() {
    for arguments in [&["export", "--format", "sql"][..], &["schema"]] {
        let run = hostile(arguments);
        assert_eq!(run.status, 0, "{}", run.errors);
        let comment = run.text.lines().next().expect("a line");
        assert!(comment.contains("a\\nDROP TABLE victim;-- \\u{1b}[2J\\u{202e}"), "{comment}");
        // Elsewhere the name stands in backquotes, which it cannot leave.
        let outside: Vec<&str> = run.text.split('`').step_by(2).collect();
        assert!(!outside.iter().any(|text| text.lines().any(|line| line.starts_with("DROP"))), "{}", run.text);
    }
}

#[test]
fn a_name_keeps_its_line_and_steers_no_terminal() {
    for arguments in [&["checksum"][..], &["export", "--verbose", "--format", "csv", "--limit", "1"]] {
        let run = hostile(arguments);
        assert_eq!(run.status, 0, "{}", run.errors);
        let both = format!("{}{}", run.text, run.errors);
        assert!(both.contains("a\\nDROP TABLE victim;-- \\u{1b}[2J\\u{202e}"), "{both}");
        assert!(!both.contains(['\x1b', '\u{202e}']) && !both.contains("\nDROP"), "{both}");
    }
}
