//! Stores that mean no good: they redirect to get at credentials, list without end, or say something a byte at a time.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

use crate::common::limited::{PATIENCE, limited};
use crate::common::{Dir, Run, fixture, innokit};

/// A server for S3's protocol. It answers each request, of which it gets the target, and keeps the heads of all.
struct Store {
    port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Store {
    fn new(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        Self::with_heads(move |target, _, stream| answer(target, stream))
    }

    /// The same, for answers that depend on the lines of a request's head.
    fn with_heads(answer: impl Fn(&str, &[String], &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (heads, answer) = (Arc::<Mutex<Vec<String>>>::default(), Arc::new(answer));
        let kept = Arc::clone(&heads);
        // Ends with the test program.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let lines = BufReader::new(stream.try_clone().expect("a handle")).lines().map_while(Result::ok);
                    let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
                    let target = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
                    kept.lock().expect("no panic").push(head.join("\n"));
                    answer(&target, &head, &mut stream);
                });
            }
        });
        Self { port, heads }
    }

    /// Runs `innokit check s3://lab/db/`, for at most 50 seconds.
    fn check(&self) -> Run {
        let mut command = Command::new("timeout");
        command.arg("50").arg(innokit().get_program()).args(["check", "s3://lab/db/"]);
        Run::of(&self.among(&mut command).output().expect("timeout runs"))
    }

    /// Sets the environment of a command so that this is its store.
    fn among<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_") || name.ends_with("_proxy")) {
            command.env_remove(name);
        }
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        command.env("AWS_ENDPOINT_URL", endpoint).env("AWS_REGION", "us-east-1").env("HOME", "/nonexistent");
        command
            .env("AWS_ACCESS_KEY_ID", "key")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .env("AWS_SESSION_TOKEN", "token");
        command.env("INNOKIT_CLOUD_TIMEOUT", "2").env("INNOKIT_CLOUD_RETRIES", "0")
    }
}

fn say(stream: &mut TcpStream, status: &str, more: &str, body: &str) {
    let head = format!("HTTP/1.1 {status}\r\n{more}Content-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // The client may have gone.
    drop(stream.write_all(format!("{head}{body}").as_bytes()));
}

/// Answers a request for a range of these bytes.
fn serve(bytes: &[u8], head: &[String], stream: &mut TcpStream) {
    let lines = head.iter().filter_map(|line| line.split_once(": "));
    let range = lines.filter(|(name, _)| name.eq_ignore_ascii_case("range")).find_map(|(_, range)| {
        let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some((from.parse::<usize>().ok()?, to.parse::<usize>().map_or(bytes.len(), |last| last + 1)))
    });
    let (from, to) = range.map_or((0, bytes.len()), |(from, to)| (from, to.min(bytes.len())));
    let body = bytes.get(from..to).unwrap_or_default();
    let status = if range.is_some() { "206 Partial Content" } else { "200 OK" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nContent-Range: bytes {from}-{}/{}\r\n\
         Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: \"1\"\r\nConnection: close\r\n\r\n",
        body.len(),
        to.max(1) - 1,
        bytes.len()
    );
    // The client may have gone.
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)));
}

fn page(keys: &[&str], rest: &str) -> String {
    let entry = |key: &&str| {
        format!(
            "<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>\"1\"</ETag><Size>0</Size></Contents>"
        )
    };
    let entries: String = keys.iter().map(entry).collect();
    format!("<?xml version=\"1.0\"?><ListBucketResult><Name>lab</Name>{rest}{entries}</ListBucketResult>")
}

#[test]
fn a_redirect_to_another_port_gets_no_credentials() {
    let thief = Store::new(|_, stream| say(stream, "404 Not Found", "", ""));
    let port = thief.port;
    let store = Store::new(move |target, stream| {
        let more = format!("Location: http://127.0.0.1:{port}{target}\r\n");
        say(stream, "307 Temporary Redirect", &more, "");
    });
    let run = store.check();
    assert!(
        run.status == 2 && run.text.contains("redirects (307) to another host"),
        "{} {} {}",
        run.status,
        run.text,
        run.errors
    );
    assert!(thief.heads.lock().expect("no panic").is_empty());
    assert!(store.heads.lock().expect("no panic").iter().any(|head| head.contains("x-amz-security-token: token")));
}

#[test]
fn a_listing_that_leads_nowhere_ends_with_a_word() {
    let cut = "<IsTruncated>true</IsTruncated>";
    let again = "<IsTruncated>true</IsTruncated><NextContinuationToken>again</NextContinuationToken>";
    for (rest, word) in [(cut, "does not say where it continues"), (again, "the same place to continue at again")] {
        let store = Store::new(move |_, stream| say(stream, "200 OK", "", &page(&["db/t.ibd"], rest)));
        let run = store.check();
        let both = format!("{}{}", run.text, run.errors);
        assert!(run.status == 2 && both.contains(word), "{} {both}", run.status);
        assert!(store.heads.lock().expect("no panic").len() < 10);
    }
}

#[test]
fn one_name_that_is_no_path_is_named_and_the_others_are_read() {
    let store = Store::new(|target, stream| match target.contains("list-type=2") {
        true => say(stream, "200 OK", "", &page(&["db/../../etc/x.ibd", "db/t.txt", "db//u.ibd"], "")),
        false => say(stream, "404 Not Found", "", ""),
    });
    let run = store.check();
    let both = format!("{}{}", run.text, run.errors);
    assert!(run.status == 2 && both.contains("s3://lab/db/../../etc/x.ibd"), "{} {both}", run.status);
    assert!(both.contains("s3://lab/db//u.ibd") && both.contains("it is no path"), "{both}");
}

/// Each name is that of a real tablespace, so that what is found in it is reported under that name, and exported.
#[test]
fn no_key_of_a_bucket_leads_to_a_file_of_this_machine() {
    let dir = Dir::new();
    let victim = dir.file("victim/crontab", &[7; 20_000]);
    let bytes = fixture("mysql-9.7/dynamic-16k.ibd");
    let absolute = victim.display().to_string();
    let (long, deep) = ("n".repeat(4096), "d/".repeat(2048));
    let names = [
        "..",
        "../victim/crontab",
        "shop/../../victim/crontab",
        "./../victim/new.ibd",
        &absolute,
        "",
        ".",
        "shop//t.ibd",
        "shop/t.ibd/",
        "innokit-recover.shadow",
        "innokit-unpack.unfinished",
        "shop/t.ibd.innokit-ren",
        "innokit.manifest.json",
        "shop/&#27;]0;x&#7;&#10;.ibd",
        "shop/&#0;.ibd",
        "shop/\u{202e}.ibd",
        "ibdata1",
        "mysql.ibd",
        &long,
        &deep,
    ];
    for name in names {
        let (listed, whole) = (format!("db/{name}"), bytes.clone());
        let len = whole.len();
        let store = Store::with_heads(move |target, head, stream| match target.contains("list-type=2") {
            true => {
                let keys = page(&[&listed, "db/shop/u.ibd"], "").replace("<Size>0<", &format!("<Size>{len}<"));
                say(stream, "200 OK", "", &keys);
            }
            false => serve(&whole, head, stream),
        });
        for words in [
            &["check", "s3://lab/db/"][..],
            &["table", "check", "s3://lab/db/"],
            &["table", "export", "--format", "csv", "-o", "out/", "s3://lab/db/"],
            &["info", "s3://lab/db/shop/u.ibd"],
        ] {
            std::fs::create_dir_all(dir.path().join("out")).expect("made");
            let mut command = innokit();
            store.among(command.args(words).arg("--no-landlock").current_dir(dir.path()));
            let run = limited(&mut command, PATIENCE);
            assert!((0..3).contains(&run.status), "{name:?} {words:?}: {}", run.errors);
            let both = format!("{}{}", run.text, run.errors);
            assert!(!both.contains(['\x1b', '\u{202e}', '\0']), "{name:?} {words:?}: {both}");
            let entries = |folder: &str| {
                let entries = std::fs::read_dir(dir.path().join(folder)).expect("a folder");
                let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
                names.sort();
                names
            };
            assert!(entries("") == ["out", "victim"] && entries("victim") == ["crontab"], "{name:?} {words:?}");
            assert_eq!(std::fs::read(&victim).expect("there"), [7; 20_000], "{name:?} {words:?}");
            if words[1] == "export" {
                assert!(run.status > 0 || !entries("out").is_empty(), "{name:?}: {both}");
            }
            std::fs::remove_dir_all(dir.path().join("out")).expect("removed");
        }
        // An object beside it is read all the same, unless the listing itself cannot be.
        let run = store.check();
        let both = format!("{}{}", run.text, run.errors);
        assert!(["21 ok", "42 ok", "listing"].iter().any(|word| both.contains(word)), "{name:?}: {both}");
    }
}

#[test]
fn a_byte_a_second_meets_a_timeout() {
    let store = Store::new(|target, stream| {
        if target.contains("list-type=2") {
            let entry = page(&["db/t.ibd"], "").replace("<Size>0<", "<Size>1000000<");
            return say(stream, "200 OK", "", &entry);
        }
        if !target.ends_with("t.ibd") {
            return say(stream, "404 Not Found", "", "");
        }
        let head = "HTTP/1.1 206 Partial Content\r\nContent-Length: 1000000\r\nContent-Range: bytes 0-999999/1000000\r\n\
                    Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\nETag: \"1\"\r\n\r\n";
        let mut sent = stream.write_all(head.as_bytes());
        while sent.is_ok() {
            std::thread::sleep(std::time::Duration::from_millis(200));
            sent = stream.write_all(b"x");
        }
    });
    let run = store.check();
    let both = format!("{}{}", run.text, run.errors);
    assert!(run.status == 2 && both.contains("bytes came in"), "{} {both}", run.status);
}

#[test]
fn a_password_in_a_url_is_never_shown() {
    let url = Path::new("https://user:hunter2@127.0.0.1:9/t.ibd");
    for command in [&["check"][..], &["check", "--json"], &["info"], &["table", "count"]] {
        let output = innokit().args(command).arg(url).env("INNOKIT_CLOUD_RETRIES", "0").output();
        let run = Run::of(&output.expect("innokit runs"));
        let both = format!("{}{}", run.text, run.errors);
        assert!(run.status == 2 && both.contains("https://127.0.0.1:9/t.ibd"), "{both}");
        assert!(!both.contains("hunter2"), "{both}");
    }
}
