//! Logins over the socket and over 127.0.0.1, to servers with TLS and without, and what refuses them in words.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use crate::backup_lab::session::Session;
use crate::backup_lab::{Server, ended};
use crate::common::Run;

const PASSWORD: &str = "pw' \"\u{e4}";

/// A server that also listens on a port.
struct Listening {
    server: Server,
    port: String,
}

impl Listening {
    fn start(kind: &'static str) -> Self {
        Self { server: Server::start(kind), port: String::new() }
    }

    /// Restarts it with a certificate, or without any TLS. The first login of an account is then a whole one again: servers remember those
    /// that succeeded.
    fn restart(&mut self, with_tls: bool) {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        self.port = free.to_string();
        let mut options = vec!["--skip-networking=OFF".to_owned(), "--bind-address=127.0.0.1".to_owned()];
        options.push(format!("--port={free}"));
        if with_tls {
            let (key, certificate) = (self.server.of("key.pem"), self.server.of("cert.pem"));
            let mut openssl = Command::new("openssl");
            openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]);
            let made = openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate).output().expect("openssl runs");
            assert!(made.status.success(), "{made:?}");
            // MariaDB starts without TLS in the tests.
            options.extend(Some("--ssl".to_owned()).filter(|_| self.server.kind != "mysql"));
            options.push(format!("--ssl-key={}", key.display()));
            options.push(format!("--ssl-cert={}", certificate.display()));
        }
        self.server.script("stop", &[], "");
        self.server.script("start", &options.iter().map(String::as_str).collect::<Vec<_>>(), "");
        // The server's own client, which takes TLS if it is offered.
        let more: &[&str] = if self.server.kind == "mysql" { &[] } else { &["--ssl", "--ssl-verify-server-cert=0"] };
        let over = ["-N", "--protocol=TCP", "--host=127.0.0.1", "--port", &self.port];
        let says = self.server.script_on("data", "sql", &[&over, more].concat(), "SHOW STATUS LIKE 'Ssl_cipher'");
        let has_tls = says.contains("TLS_");
        assert_eq!(has_tls, with_tls, "TLS of {}", self.server.kind);
    }

    /// A command with this account, over the port or the socket.
    fn run(&self, words: &[&str], account: (&str, &str), over_port: bool, to: &str) -> Run {
        let mut command = self.server.innokit();
        command.args(words).args(["--user", account.0, "--to", to]);
        let socket = self.server.socket();
        match over_port {
            true => command.args(["--port", &self.port]),
            false => command.arg("--socket").arg(socket),
        };
        ended(command.arg("data").env("INNOKIT_PASSWORD", account.1))
    }

    fn backup(&self, account: (&str, &str), over_port: bool) -> Run {
        fs::remove_dir_all(self.server.of("set")).ok();
        self.run(&["backup", "--progress", "never"], account, over_port, "set")
    }

    fn is_refused(&self, account: (&str, &str), over_port: bool, words: &str) {
        let run = self.backup(account, over_port);
        let is_said = run.errors.contains("refuses the login") && run.errors.contains(words);
        let kind = self.server.kind;
        assert!(run.status == 2 && is_said, "{kind}, {}, {words}: {}: {}", account.0, run.status, run.errors);
        assert!(!self.server.of("set").exists());
    }
}

fn accounts(kind: &str, users: &[(&str, &str)]) -> String {
    let (with, grants) = match kind {
        "mysql" => (
            "WITH caching_sha2_password BY",
            "BACKUP_ADMIN, PROCESS, FLUSH_TABLES, LOCK TABLES, RELOAD, REPLICATION CLIENT, SELECT ON *.*",
        ),
        _ => ("BY", "PROCESS, RELOAD, LOCK TABLES, REPLICATION CLIENT, BINLOG MONITOR, SELECT ON *.*"),
    };
    let password = PASSWORD.replace('\'', "''");
    let one = |(user, more): &(&str, &str)| {
        format!(
            "CREATE USER {user}@localhost IDENTIFIED {with} '{password}' {more}; GRANT {grants} TO {user}@localhost;\n"
        )
    };
    users.iter().map(one).collect()
}

/// Every way in of an account with a password, before the server remembers it and after.
fn logins(kind: &'static str) {
    let mut server = Listening::start(kind);
    let users = [
        ("sha", ""),
        ("tls", "REQUIRE SSL"),
        ("locked", "ACCOUNT LOCK"),
        ("expired", "PASSWORD EXPIRE"),
        ("one", "WITH MAX_USER_CONNECTIONS 1"),
    ];
    server.server.script("sql", &[], &accounts(kind, &users));
    let account = ("sha", PASSWORD);
    for with_tls in [false, true] {
        server.restart(with_tls);
        // A whole login over the port first: MySQL's then encrypts the password with the server's key.
        for over_port in [true, false] {
            let done = server.backup(account, over_port);
            assert_eq!(done.status, 0, "{kind}, TLS {with_tls}, port {over_port}: {}", done.errors);
            let again = server.run(&["redo", "archive", "--once"], account, over_port, "redo");
            assert_eq!(again.status, 0, "{kind}, TLS {with_tls}, port {over_port}: {}", again.errors);
        }
        for over_port in [true, false] {
            server.is_refused(("sha", "wrong"), over_port, "Access denied");
            server.is_refused(("sha", ""), over_port, "Access denied");
            server.is_refused(("tls", PASSWORD), over_port, "REQUIRE SSL");
        }
    }
    // The whole server lets nobody in over the port without TLS; a socket is as safe.
    server.server.script("sql", &[], "SET GLOBAL require_secure_transport = ON");
    server.is_refused(account, true, if kind == "mysql" { "insecure transport" } else { "requires TLS" });
    let done = server.backup(account, false);
    assert_eq!(done.status, 0, "{kind}: {}", done.errors);
    server.is_refused(("locked", PASSWORD), false, "locked");
    server.is_refused(("expired", PASSWORD), false, "expired");
    server.is_refused(("one", PASSWORD), false, "max_user_connections");
    // No row of any answer: nothing may be taken for another vendor or version.
    server.server.script("sql", &[], "SET GLOBAL sql_select_limit = 0");
    let done = server.backup(account, false);
    assert_eq!(done.status, 0, "{kind}: {}", done.errors);
    let done = server.run(&["redo", "archive", "--once"], account, false, "redo");
    assert_eq!(done.status, 0, "{kind}: {}", done.errors);
    server.server.script("sql", &[], "SET GLOBAL sql_select_limit = DEFAULT; SET GLOBAL max_connections = 10");
    let _held: Vec<Session> = (0..10)
        .map(|_| {
            let mut session = Session::of(&server.server);
            session.ask("DO 1");
            session
        })
        .collect();
    server.is_refused(account, false, "Too many connections");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mysql_is_logged_in_to_by_port_and_socket_with_tls_and_without() {
    logins("mysql");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn mariadb_is_logged_in_to_by_port_and_socket_with_tls_and_without() {
    logins("mariadb");
}

/// A hash from before MySQL 4.1, which no client of today sends.
#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn an_account_of_mariadb_with_an_old_password_is_named() {
    let server = Listening::start("mariadb");
    let old = "CREATE USER old@localhost IDENTIFIED VIA mysql_old_password USING '5d2e19393cc5ef67';";
    server.server.script("sql", &[], old);
    server.is_refused(("old", "password"), false, "old format");
    server.server.script("sql", &[], "SET GLOBAL secure_auth = OFF");
    server.is_refused(("old", "password"), false, "from before MySQL 4.1");
}
