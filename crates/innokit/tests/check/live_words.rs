//! With real servers: silent next to a healthy one, and the commands that a report suggests do what it says.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::broken_table::Ibd;
use crate::common::{all_datadirs, check, check_json, innokit, repository};
use tempfile::TempDir;

/// A server on its own datadir, killed by pid on drop.
struct Server {
    kind: &'static str,
    folder: TempDir,
}

impl Server {
    fn start(kind: &'static str) -> Self {
        // The script that makes the datadirs installs the servers.
        assert!(all_datadirs().exists());
        let server = Self { kind, folder: TempDir::new().expect("a folder") };
        server.script("init", &[]);
        server.script("start", &[]);
        server
    }

    fn datadir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn script(&self, action: &str, words: &[&str]) -> String {
        let mut command = Command::new(repository().join("scripts/server.sh"));
        command.args([self.kind, action]).arg(self.datadir()).args(words).stdin(Stdio::null());
        let output = command.output().expect("bash runs");
        assert!(output.status.success(), "{action} {}: {}", self.kind, String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn sql(&self, text: &str) -> String {
        self.script("sql", &["-N", "-e", text])
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let script = repository().join("scripts/server.sh");
        drop(Command::new(script).args([self.kind, "kill9"]).arg(self.datadir()).output());
    }
}

const TABLE: &str = "CREATE DATABASE shop; \
    CREATE TABLE shop.t (id INT PRIMARY KEY, a INT, b VARCHAR(50) CHARACTER SET utf8mb4, KEY `k``y` (a), UNIQUE KEY u (b(20), id)); \
    INSERT INTO shop.t VALUES (0, 0, 'x')";
const DOUBLE: &str =
    "INSERT INTO shop.t SELECT id + (SELECT COUNT(*) FROM shop.t), id * 7 % 1009, CONCAT('name ', id) FROM shop.t";

fn quiet_beside_a_healthy_server_and_an_index_comes_back(kind: &'static str) {
    let server = Server::start(kind);
    server.sql(TABLE);
    for _ in 0..12 {
        server.sql(DOUBLE);
    }
    let run = check(&server.datadir(), &["--live", "-q"]);
    assert_eq!((run.status, run.text.as_str(), run.errors.as_str()), (0, "", ""), "{kind}");
    let output =
        innokit().args(["table", "check", "--live", "-q"]).arg(server.datadir()).output().expect("innokit runs");
    let said = (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned());
    assert_eq!(said, (Some(0), String::new()), "{kind}");
    // Without `--live`, a datadir that a server has open is reported as such.
    assert!(check(&server.datadir(), &[]).text.contains("check with --live"), "{kind}");

    server.script("stop", &["0"]);
    let path = server.datadir().join("shop/t.ibd");
    for index in ["k`y", "u"] {
        let table = Ibd::at(&path);
        let leaf = table.leaves(index)[1];
        let mut bytes = table.bytes.clone();
        let size = table.format.physical().bytes();
        bytes[leaf as usize * size + 5000] ^= 0x10;
        std::fs::write(&path, &bytes).expect("written");
        let (document, status) = check_json(&server.datadir(), &[]);
        let rows = document["hurt"].as_array().expect("rows");
        assert_eq!((status, rows.len()), (1, 1), "{kind}: {rows:#?}");
        assert_eq!((&rows[0]["index"], &rows[0]["action"]), (&index.into(), &"rebuild_index".into()), "{kind}");
        let commands: Vec<&str> =
            rows[0]["commands"].as_array().expect("commands").iter().filter_map(|command| command.as_str()).collect();
        server.script("start", &[]);
        let before = server.sql("SHOW CREATE TABLE shop.t");
        for command in commands {
            server.sql(command);
        }
        let checked = server.sql("CHECK TABLE shop.t EXTENDED");
        assert!(checked.contains("OK"), "{kind}: {checked}");
        // The same keys in any order.
        let keys = |text: &str| {
            let mut keys: Vec<String> = text
                .split("\\n")
                .filter(|line| line.contains("KEY"))
                .map(|line| line.trim_end_matches(',').trim().to_owned())
                .collect();
            keys.sort();
            keys
        };
        assert_eq!(keys(&before), keys(&server.sql("SHOW CREATE TABLE shop.t")), "{kind}");
        assert_eq!(server.sql("SELECT COUNT(*) FROM shop.t").trim(), "4096");
        server.script("stop", &["0"]);
    }
    let (document, status) = check_json(&server.datadir(), &[]);
    assert_eq!(status, 0, "{kind}: {:#}", document["findings"]);
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn quiet_beside_a_healthy_mysql_and_its_index_comes_back() {
    quiet_beside_a_healthy_server_and_an_index_comes_back("mysql");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn quiet_beside_a_healthy_mariadb_and_its_index_comes_back() {
    quiet_beside_a_healthy_server_and_an_index_comes_back("mariadb");
}
