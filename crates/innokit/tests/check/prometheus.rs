//! The output of `--metrics`, read by its real consumers: node_exporter's textfile collector, scraped by Prometheus with our alerts.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Dir, fixture, innokit, repository};
use crate::listener::Listener;
use serde_json::Value;

/// Five minutes, because a busy machine starts a server slowly. It only keeps a hung test from running forever.
const PATIENCE: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(200);

/// The folder of Debian's programs that the script fetches.
fn programs() -> PathBuf {
    crate::listener::programs("install-prometheus.sh", "prometheus/usr/bin")
}

fn start(command: impl Fn(u16) -> Command) -> Listener {
    Listener::start(command, |listener| listener.get("/metrics").is_some(), (PATIENCE, PAUSE))
}

impl Listener {
    /// The body of a response with status 200.
    fn get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        head.lines().next()?.contains(" 200 ").then(|| body.to_owned())
    }

    /// Asks Prometheus until `is_enough` accepts the answer.
    fn answer(&self, path: &str, is_enough: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + PATIENCE;
        loop {
            let answer: Value = self.get(path).and_then(|body| serde_json::from_str(&body).ok()).unwrap_or_default();
            if is_enough(&answer) {
                return answer;
            }
            assert!(Instant::now() < end, "{path}: {answer:#}");
            std::thread::sleep(PAUSE);
        }
    }
}

/// A checked datadir with damage, one without, and the metrics file.
fn checked(dir: &Dir) -> (PathBuf, PathBuf, PathBuf) {
    let good = dir.file("good/t.ibd", &fixture("mysql-9.7/dynamic-16k.ibd"));
    let bad = dir.file("bad/t.ibd", &fixture("broken/flipped-bit-mysql-16k.ibd"));
    let metrics = dir.file("collected/innokit.prom", b"");
    let [good, bad] = [good, bad].map(|file| file.parent().expect("below it").to_path_buf());
    let ran = innokit().args(["check", "-q", "--metrics"]).arg(&metrics).args([&good, &bad]).output().expect("it runs");
    assert_eq!(ran.status.code(), Some(1));
    (good, bad, metrics)
}

fn prometheus(program: &Path, dir: &Path, exporter: u16, port: u16) -> Command {
    let rules = repository().join("contrib/prometheus/innokit.rules.yml").canonicalize().expect("rules");
    let config = dir.join("prometheus.yml");
    let settings = format!(
        "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: ['{}']\nscrape_configs:\n  - job_name: node\n    \
         static_configs:\n      - targets: ['127.0.0.1:{exporter}']\n",
        rules.display()
    );
    fs::write(&config, settings).expect("written");
    let mut command = Command::new(program);
    command.arg(format!("--config.file={}", config.display()));
    command.arg(format!("--storage.tsdb.path={}", dir.join("prometheus").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
    command
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn prometheus_scrapes_the_metrics_and_our_rule_fires_for_the_damaged_path() {
    let (dir, programs) = (Dir::new(), programs());
    let (good, bad, metrics) = checked(&dir);
    let folder = metrics.parent().expect("a folder").display().to_string();
    let exporter = start(|port| {
        let mut command = Command::new(programs.join("prometheus-node-exporter"));
        command.args(["--collector.disable-defaults", "--collector.textfile"]);
        command.arg(format!("--collector.textfile.directory={folder}"));
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command
    });
    let server = start(|port| prometheus(&programs.join("prometheus"), dir.path(), exporter.port, port));

    let found = "/api/v1/query?query=innokit_check_findings%7Bseverity%3D%22damage%22%7D";
    let answer = server.answer(found, |answer| answer["data"]["result"].as_array().is_some_and(|rows| rows.len() == 2));
    let rows = answer["data"]["result"].as_array().expect("two rows");
    let value = |path: &Path| {
        let row = rows.iter().find(|row| row["metric"]["path"] == path.display().to_string().as_str());
        row.map(|row| row["value"][1].clone())
    };
    assert_eq!((value(&good), value(&bad)), (Some("0".into()), Some("1".into())), "{answer:#}");
    let pages = "/api/v1/query?query=sum(innokit_check_pages)";
    let answer =
        server.answer(pages, |answer| answer["data"]["result"].as_array().is_some_and(|rows| !rows.is_empty()));
    assert_eq!(answer["data"]["result"][0]["value"][1], "46", "two files of 23 pages");

    let is_firing = |answer: &Value| {
        answer["data"]["alerts"].as_array().is_some_and(|alerts| alerts.iter().any(|alert| alert["state"] == "firing"))
    };
    let answer = server.answer("/api/v1/alerts", is_firing);
    let alerts = answer["data"]["alerts"].as_array().expect("alerts");
    let told: Vec<_> = alerts.iter().map(|alert| (&alert["labels"]["alertname"], &alert["labels"]["path"])).collect();
    assert_eq!(told.len(), 1, "{answer:#}");
    assert_eq!((told[0].0, told[0].1), (&"InnodbDamaged".into(), &bad.display().to_string().into()));
    // The textfile collector reports whether it could read the file.
    let collected = exporter.get("/metrics").expect("metrics");
    assert!(collected.contains("node_textfile_scrape_error 0"), "{collected}");
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn promtool_finds_no_fault_with_the_metrics_and_the_rules() {
    let (dir, promtool) = (Dir::new(), programs().join("promtool"));
    let (_, _, metrics) = checked(&dir);
    let linted = Command::new(&promtool)
        .args(["check", "metrics"])
        .stdin(fs::File::open(metrics).expect("metrics"))
        .output()
        .expect("promtool runs");
    let said = String::from_utf8_lossy(&linted.stderr).into_owned() + &String::from_utf8_lossy(&linted.stdout);
    assert!(linted.status.success() && said.trim().is_empty(), "{said}");
    let rules = repository().join("contrib/prometheus/innokit.rules.yml");
    let checked = Command::new(promtool).args(["check", "rules"]).arg(rules).output().expect("promtool runs");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}
