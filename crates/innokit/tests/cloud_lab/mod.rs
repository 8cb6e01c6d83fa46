//! A real S3 server over a directory of its own, and a proxy that breaks connections to it.

use std::cell::Cell;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{Dir, Run, innokit};
use crate::listener::{self, Listener, free_port};

/// Generous, because a busy machine starts a server slowly.
const PATIENCE: Duration = Duration::from_secs(120);

/// The folder of programs that the script builds.
fn programs() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| listener::programs("install-cloud.sh", "cloud"))
}

fn start(command: impl Fn(u16) -> Command) -> Listener {
    let is_up = |listener: &Listener| TcpStream::connect(("127.0.0.1", listener.port)).is_ok();
    Listener::start(command, is_up, (PATIENCE, Duration::from_millis(20)))
}

/// The accounts: the owner may do everything, the guest only what policies allow.
const OWNER: (&str, &str) = ("owner", "ownersecret");
pub const READER: (&str, &str) = ("reader", "readersecret");

/// The server, with one bucket `lab`.
pub struct Lab {
    pub dir: Dir,
    server: Listener,
    proxy: Option<(Listener, u16)>,
    /// Lines of the access log that have been counted.
    counted: Cell<usize>,
    scheme: &'static str,
}

impl Lab {
    pub fn new() -> Self {
        Self::start("http")
    }

    /// The same server behind TLS, with a certificate for `localhost` that only [`Lab::innokit`] trusts.
    pub fn with_tls() -> Self {
        Self::start("https")
    }

    fn start(scheme: &'static str) -> Self {
        let dir = Dir::new();
        for folder in ["buckets/lab", "notes", "accounts", "home"] {
            fs::create_dir_all(dir.path().join(folder)).expect("a directory");
        }
        let (reader, secret) = READER;
        let account = json!({"access": reader, "secret": secret, "role": "user", "userID": 0, "groupID": 0});
        dir.file("accounts/users.json", json!({"accessAccounts": {reader: account}}).to_string().as_bytes());
        let at = |name: &str| dir.path().join(name);
        if scheme == "https" {
            let mut openssl = Command::new("openssl");
            openssl.args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]);
            openssl.args(["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]);
            let made = openssl.arg("-keyout").arg(at("key.pem")).arg("-out").arg(at("cert.pem")).output();
            assert!(made.expect("openssl runs").status.success());
        }
        let server = start(|port| {
            let mut command = Command::new(programs().join("versitygw"));
            command.args(["--port", &format!("127.0.0.1:{port}"), "--access", OWNER.0, "--secret", OWNER.1, "--quiet"]);
            command.arg("--access-log").arg(at("log")).arg("--iam-dir").arg(at("accounts"));
            if scheme == "https" {
                command.arg("--cert").arg(at("cert.pem")).arg("--key").arg(at("key.pem"));
            }
            // Object metadata goes to files, because not every file system has extended attributes.
            command.args(["posix", "--bucketlinks", "--sidecar"]).arg(at("notes")).arg(at("buckets"));
            command
        });
        Self { dir, server, proxy: None, counted: Cell::new(0), scheme }
    }

    /// Puts a proxy in front of the server. From here on, innokit's requests go through it.
    pub fn proxied(mut self) -> Self {
        let toxiproxy = start(|port| {
            let mut command = Command::new(programs().join("toxiproxy"));
            command.args(["-host", "127.0.0.1", "-port", &port.to_string()]);
            command
        });
        let listen = free_port();
        let upstream = format!("127.0.0.1:{}", self.server.port);
        self.proxy = Some((toxiproxy, listen));
        self.tell_proxy(
            "/proxies",
            &json!({"name": "s3", "listen": format!("127.0.0.1:{listen}"), "upstream": upstream, "enabled": true}),
        );
        self
    }

    fn tell_proxy(&self, path: &str, words: &Value) {
        let (proxy, _) = self.proxy.as_ref().expect("a proxy");
        curl(&["-d", &words.to_string(), &format!("http://127.0.0.1:{}{path}", proxy.port)]);
    }

    /// Corrupts the server's responses on a fraction `share` of the connections.
    pub fn spoil(&self, kind: &str, share: f64, attributes: Value) {
        let toxic =
            json!({"name": kind, "type": kind, "stream": "downstream", "toxicity": share, "attributes": attributes});
        self.tell_proxy("/proxies/s3/toxics", &toxic);
    }

    /// Refuses all connections.
    pub fn cut_off(&self) {
        self.tell_proxy("/proxies/s3", &json!({"enabled": false}));
    }

    /// The server's own URL, bypassing the proxy.
    fn server_url(&self) -> String {
        let host = if self.scheme == "https" { "localhost" } else { "127.0.0.1" };
        format!("{}://{host}:{}", self.scheme, self.server.port)
    }

    /// The URL that innokit uses.
    pub fn url(&self) -> String {
        match &self.proxy {
            Some((_, port)) => format!("http://127.0.0.1:{port}"),
            None => self.server_url(),
        }
    }

    /// Sends a request as the owner, bypassing the proxy.
    fn ask(&self, arguments: &[&str], path: &str) {
        let user = format!("{}:{}", OWNER.0, OWNER.1);
        let certificate = self.dir.path().join("cert.pem");
        let mut all = vec!["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", &user];
        all.extend(["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]);
        if self.scheme == "https" {
            all.extend(["--cacert", certificate.to_str().expect("UTF-8")]);
        }
        let url = format!("{}/{path}", self.server_url());
        all.extend(arguments);
        all.push(&url);
        curl(&all);
    }

    /// Uploads an object through the server, so it has an ETag.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        let file = self.dir.file("upload", bytes);
        self.ask(&["-T", file.to_str().expect("UTF-8")], &format!("lab/{}", key.replace(' ', "%20")));
    }

    pub fn delete(&self, key: &str) {
        self.ask(&["-X", "DELETE"], &format!("lab/{key}"));
    }

    /// Grants the guest, or everyone, what the policy statements say.
    pub fn allow(&self, statements: &[(&str, &str, &str)]) {
        let statement = |(who, action, resource): &(&str, &str, &str)| {
            let resource = format!("arn:aws:s3:::{resource}");
            json!({"Effect": "Allow", "Principal": {"AWS": [who]}, "Action": [action], "Resource": [resource]})
        };
        let statements: Vec<Value> = statements.iter().map(statement).collect();
        let policy = json!({"Version": "2012-10-17", "Statement": statements}).to_string();
        self.ask(&["-X", "PUT", "-d", &policy], "lab?policy=");
    }

    /// Serves a folder of this system as a bucket.
    pub fn bucket(&self, name: &str, folder: &Path) {
        std::os::unix::fs::symlink(folder, self.dir.path().join("buckets").join(name)).expect("a link");
    }

    /// The bucket's folder. Files put here directly have no ETag.
    pub fn folder(&self) -> PathBuf {
        self.dir.path().join("buckets/lab")
    }

    /// `innokit` with this server's address and the owner's keys, shielded from the machine's own settings.
    pub fn innokit(&self) -> Command {
        self.innokit_as(OWNER)
    }

    pub fn innokit_as(&self, (key, secret): (&str, &str)) -> Command {
        let mut command = innokit();
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_") || name.ends_with("_proxy")) {
            command.env_remove(name);
        }
        command.env("HOME", self.dir.path().join("home"));
        command.env("AWS_ACCESS_KEY_ID", key).env("AWS_SECRET_ACCESS_KEY", secret).env("AWS_ENDPOINT_URL", self.url());
        if self.scheme == "https" {
            command.env("SSL_CERT_FILE", self.dir.path().join("cert.pem"));
        }
        command
    }

    /// Runs `innokit ARGUMENTS`.
    pub fn run(&self, arguments: &[&str]) -> Run {
        Run::of(&self.innokit().args(arguments).output().expect("innokit runs"))
    }

    /// Requests served since the last call: object reads, and all others.
    pub fn requests(&self) -> (usize, usize) {
        let log = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().skip(self.counted.get()).collect();
        self.counted.set(self.counted.get() + lines.len());
        let gets = lines.iter().filter(|line| line.contains("s3_GetObject ")).count();
        (gets, lines.len() - gets)
    }
}

fn curl(arguments: &[&str]) {
    let output = Command::new("curl").args(["-sS", "--fail-with-body", "--noproxy", "*"]).args(arguments).output();
    let output = output.expect("curl runs: install it");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}
