//! Restores to a moment, and replicas, of servers that write to more than InnoDB's tables: what no redo holds is refused or named, and each
//! refusal names a way out that is walked here.

use serde_json::Value;

use crate::backup_lab::Server;
use crate::backup_lab::replica::{Replica, port_to};

/// Seconds that a replica may take for a handful of rows.
const CATCH_UP_MAX: u32 = 60;
const TABLES: [&str; 3] = ["shop.a", "shop.parts", "shop.plain"];

struct Vendor {
    kind: &'static str,
    engine: &'static str,
    options: &'static [&'static str],
    /// Where the replica connects: our servers listen only on sockets.
    source: fn(u16) -> String,
    words: &'static str,
    reached: &'static str,
}

const VENDORS: [Vendor; 2] = [
    Vendor {
        kind: "mariadb118",
        engine: "Aria",
        options: &["--log-bin=bin", "--server-id=7", "--binlog-format=ROW"],
        source: |port| {
            format!("MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_SSL=0, MASTER_SSL_VERIFY_SERVER_CERT=0")
        },
        words: "MASTER",
        reached: "SELECT CONCAT('MASTER_GTID_WAIT(''', @@gtid_binlog_pos, ''', ",
    },
    Vendor {
        kind: "mysql",
        engine: "MyISAM",
        options: &["--log-bin=bin", "--server-id=7", "--gtid-mode=ON", "--enforce-gtid-consistency=ON"],
        source: |port| format!("SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_SSL=0, GET_SOURCE_PUBLIC_KEY=1"),
        words: "SOURCE",
        reached: "SELECT CONCAT('WAIT_FOR_EXECUTED_GTID_SET(''', REPLACE(@@gtid_executed, '\\n', ''), ''', ",
    },
];

struct Lab {
    vendor: &'static Vendor,
    server: Server,
    port: u16,
}

impl Lab {
    fn start(vendor: &'static Vendor) -> Self {
        let folder = tempfile::TempDir::new().expect("a folder");
        let options: Vec<String> = vendor.options.iter().map(|option| (*option).to_owned()).collect();
        let server = Server::start_in(folder, vendor.kind, &options);
        let port = port_to(server.socket());
        Self { vendor, server, port }
    }

    fn sql(&self, statements: &str) -> String {
        self.server.script_on("data", "sql", &["-N", "shop"], statements)
    }

    /// Archives everything, and returns the LSN at which the server is.
    fn archive(&self) -> u64 {
        let lsn = match self.vendor.kind {
            "mysql" => "SELECT JSON_EXTRACT(storage_engines, '$.InnoDB.LSN') FROM performance_schema.log_status",
            _ => {
                "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'Innodb_lsn_current'"
            }
        };
        let lsn = self.sql(lsn).trim().parse().expect("an LSN");
        self.server.archive();
        self.server.archive_up_to(lsn);
        lsn
    }

    /// Restores into the folder `name`.
    fn restored(&self, name: &str, more: &[&str]) -> Value {
        let done = self.server.run(&[&["restore", "--json", "--to", name], more, &["set"]].concat());
        assert_eq!(done.status, 0, "{} {name}: {}", self.vendor.kind, done.errors);
        done.json()
    }

    fn refused(&self, more: &[&str]) -> String {
        let refused = self.server.run(&[&["restore", "--to", "refused"], more, &["set"]].concat());
        assert!(refused.status == 2 && !self.server.of("refused").exists(), "{} {}", refused.text, refused.errors);
        refused.errors
    }

    /// A server on a restored folder that follows by the statements that were printed.
    fn follows(&self, (name, id): (&'static str, u32), restored: &Value) {
        let statements: Vec<&str> =
            restored["replica"].as_array().expect("statements").iter().filter_map(Value::as_str).collect();
        let words = self.vendor.words;
        let text = statements.join("\n");
        let text = text.replace(&format!("{words}_HOST='<source>'"), &(self.vendor.source)(self.port));
        let text = text.replace("<user>", "copy").replace("<password>", "copy");
        assert!(!text.contains('<') && statements.len() > 2, "{text}");
        // Through a socket MySQL takes a password as it is, and through a port encrypted; a login that it remembers needs neither.
        self.server.script_on("data", "sql", &["--user=copy", "--password=copy"], "SELECT 1;");
        let replica = Replica::start(&self.server, (name, id), &text);
        let wait = self.sql(&format!("{}{CATCH_UP_MAX})')", self.vendor.reached));
        replica.wait(wait.trim());
        assert_eq!(self.sums(name), self.sums("data"), "{} {name}: {text}", self.vendor.kind);
    }

    fn sums(&self, name: &str) -> String {
        let counts = TABLES.map(|table| format!("SELECT '{table}', COUNT(*) FROM {table};")).concat();
        self.server.script_on(name, "sql", &["-N"], &format!("{counts} CHECKSUM TABLE {};", TABLES.join(", ")))
    }
}

fn position(restored: &Value) -> &Value {
    &restored["binlog"]
}

fn what_no_redo_holds_is_refused_or_named(vendor: &'static Vendor) {
    let (lab, engine) = (Lab::start(vendor), vendor.engine);
    let grant = "CREATE USER copy@localhost IDENTIFIED BY 'copy'; GRANT REPLICATION SLAVE ON *.* TO copy@localhost;";
    lab.sql(&format!(
        "{grant} CREATE TABLE plain (id INT PRIMARY KEY, a INT) ENGINE={engine}; UPDATE a SET a = a + 1 WHERE id = 1;"
    ));
    lab.archive();
    // The newest transactions before the backup are not InnoDB's, so its own last position is before them.
    lab.sql("INSERT INTO plain VALUES (1, 1); OPTIMIZE TABLE parts; INSERT INTO plain VALUES (2, 2);");
    let socket = lab.server.socket().display().to_string();
    let taken = lab.server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "--json", "data"]);
    assert_eq!(taken.status, 0, "{}", taken.errors);
    lab.archive();
    let early = lab.restored("early", &["--redo", "redo"]);
    if vendor.words == "MASTER" {
        assert_eq!(*position(&early), taken.json()["manifest"]["binlog"], "InnoDB's own position is before it");
    }
    lab.sql("UPDATE a SET a = a + 1 WHERE id = 2; ANALYZE TABLE parts; INSERT INTO parts VALUES (3, 3);");
    let before = lab.archive();
    lab.sql("INSERT INTO plain VALUES (3, 3); CREATE USER later; UPDATE a SET a = a + 1 WHERE id = 3;");
    let after = lab.archive().to_string();
    let errors = lab.refused(&["--redo", "redo"]);
    assert!(errors.contains("shop.plain"), "the archive's end: {errors}");
    // The refusal names the table, and a moment that can be restored.
    let errors = lab.refused(&["--redo", "redo", "--until", &after]);
    let way_out = errors.split_once("--until ").and_then(|(_, rest)| rest.split_whitespace().next());
    let way_out = way_out.unwrap_or_else(|| panic!("no LSN: {errors}"));
    assert!(errors.contains("shop.plain") && way_out.parse::<u64>().is_ok_and(|lsn| lsn >= before), "{errors}");
    let walked = lab.restored("walked", &["--redo", "redo", "--until", way_out]);
    assert_eq!(walked["recovered"]["not_in_redo"].as_array().map(Vec::len), Some(0), "{walked:#}");
    let stale = lab.restored("stale", &["--redo", "redo", "--until", &after, "--stale-tables"]);
    let missing: Vec<&str> = stale["recovered"]["not_in_redo"]
        .as_array()
        .expect("notes")
        .iter()
        .filter_map(|note| note["what"].as_str())
        .collect();
    // MySQL keeps accounts in its dictionary, which the redo covers.
    let expected: &[&str] =
        if vendor.words == "MASTER" { &["shop.plain", "CREATE USER later"] } else { &["shop.plain"] };
    assert_eq!(missing, expected);
    let plain = lab.restored("plain", &[]);
    lab.follows(("plain", 8), &plain);
    lab.follows(("early", 9), &early);
    lab.follows(("walked", 10), &walked);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_no_redo_of_mariadb_holds_is_refused_or_named_and_replicas_start_where_the_restore_says() {
    what_no_redo_holds_is_refused_or_named(&VENDORS[0]);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn what_no_redo_of_mysql_holds_is_refused_or_named_and_replicas_start_where_the_restore_says() {
    what_no_redo_holds_is_refused_or_named(&VENDORS[1]);
}
