//! A backup that somebody has changed, and a datadir in which somebody else may write: what `backup` reads beside a running server, and what
//! `restore` believes of an increment.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use crate::backup_lab::Server;
use crate::common::Run;
use format::checksum::crc32c;
use recovery::manifest::Manifest;

/// Runs innokit in the server's folder, for at most a minute: nothing here takes longer unless it waits for a pipe.
fn run(server: &Server, words: &[&str]) -> Run {
    let own = server.innokit();
    let mut command = Command::new("timeout");
    command.arg("60").arg(own.get_program()).args(words).current_dir(server.folder.path());
    Run::of(&command.env_remove("INNOKIT_PASSWORD").env("HOME", server.folder.path()).output().expect("timeout runs"))
}

fn back_up(server: &Server, to: &str, more: &[&str]) -> Manifest {
    let socket = server.socket().display().to_string();
    let words = ["backup", "--user", "root", "--socket", &socket, "--to", to, "--json", "data"];
    let done = run(server, &[&words, more].concat());
    assert_eq!(done.status, 0, "{to}: {}", done.errors);
    serde_json::from_value(done.json()["manifest"].clone()).expect("a manifest")
}

/// Replaces a manifest by one with a right checksum.
fn seal(set: &Path, mut manifest: Manifest) {
    manifest.checksum.clear();
    manifest.checksum = format!("{:08x}", crc32c(&serde_json::to_vec(&manifest).expect("JSON")));
    fs::write(set.join("innokit.manifest.json"), serde_json::to_vec_pretty(&manifest).expect("JSON")).expect("written");
}

fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn a_backup_waits_for_no_pipe_copies_no_secret_and_a_forged_increment_writes_nothing_outside() {
    let server = Server::start("mariadb");
    let (data, secret) = (server.data(), server.of("secret"));
    fs::write(&secret, "a key of root").expect("written");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("a mode");
    let made = Command::new("mkfifo")
        .args(["shop/pipe.frm", "shop/pipe.MYD"])
        .current_dir(&data)
        .status()
        .expect("mkfifo runs");
    assert!(made.success());
    symlink(&secret, data.join("shop/secret.frm")).expect("linked");
    let key = server.of("key");
    fs::write(&key, [3; 32]).expect("written");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a mode");
    let manifest = back_up(&server, "full", &["--sign", "key"]);
    for name in ["shop/pipe.frm", "shop/pipe.MYD", "shop/secret.frm"] {
        let is_left_out = manifest.left_out.iter().any(|left| left == name);
        assert!(is_left_out && !server.of("full").join(name).exists(), "{name}: {:?}", manifest.left_out);
    }
    ["shop/pipe.frm", "shop/pipe.MYD", "shop/secret.frm"]
        .iter()
        .for_each(|name| fs::remove_file(data.join(name)).expect("there"));

    server.script("sql", &[], "INSERT INTO shop.a (a) VALUES (1);");
    let sound = back_up(&server, "inc", &["--incremental-since", "full", "--sign", "key"]);
    let (inc, victim) = (server.of("inc"), server.of("victim"));
    fs::write(&victim, [7; 40_000]).expect("written");
    let before = (entries(server.folder.path()), fs::metadata(&victim).expect("there").mtime_nsec());
    let paths = ["../evil.ibd", "shop/../../evil.ibd", "innokit-recover.shadow", "shop/a.ibd.innokit-new", ""]
        .map(str::to_owned);
    let absolute = [server.of("evil.ibd"), victim.clone()].map(|path| path.display().to_string());
    for path in paths.iter().chain(&absolute) {
        for list in ["tablespaces", "files"] {
            let mut forged = sound.clone();
            if list == "files" {
                forged.files[0].path.clone_from(path);
            } else {
                forged.tablespaces[0].path.clone_from(path);
            }
            seal(&inc, forged);
            for words in [
                &["restore", "full", "--increment", "inc", "--to", "to"][..],
                &["restore", "full", "--increment", "inc", "--to", "to", "--no-landlock"],
                &["backup", "verify", "full", "--increment", "inc"],
            ] {
                let refused = run(&server, words);
                assert!(refused.status > 0 && refused.status < 3, "{path} in {list}: {}", refused.errors);
                let now = (entries(server.folder.path()), fs::metadata(&victim).expect("there").mtime_nsec());
                assert!(now == before, "{path} in {list}: {:?}", now.0);
            }
        }
    }
    let mut forged = sound.clone();
    forged.server_version.push('x');
    seal(&inc, forged);
    let refused = run(&server, &["restore", "full", "--increment", "inc", "--to", "to", "--trusted", "key"]);
    assert!(refused.status == 1 && refused.errors.contains("inc: not as it was signed"), "{}", refused.errors);
    seal(&inc, sound);
    what_verify_says_of_signatures(&server);
    let restored = run(&server, &["restore", "full", "--increment", "inc", "--to", "to", "--trusted", "key"]);
    assert_eq!(restored.status, 0, "{}", restored.errors);
    assert_eq!(restored.text.matches("and as it was signed").count(), 2, "{}", restored.text);
    only_what_is_signed_is_restored(&server);
}

/// Never that a backup is to be trusted without a key.
fn what_verify_says_of_signatures(server: &Server) {
    let verify = |more: &[&str]| run(server, &[&["backup", "verify", "full", "--increment", "inc"], more].concat());
    let said = verify(&[]);
    assert!(
        said.status == 0 && said.text.contains("signature names key ") && said.text.contains("not verified"),
        "{}",
        said.text
    );
    let said = verify(&["--trusted", "key"]);
    assert!(said.status == 0 && said.text.contains(": as it was signed"), "{}{}", said.text, said.errors);
    let signature = server.of("inc/innokit.signature.json");
    let kept = fs::read(&signature).expect("a signature");
    fs::remove_file(&signature).expect("removed");
    let said = verify(&[]);
    assert!(said.status == 0 && said.text.contains("signature not signed"), "{}", said.text);
    let said = verify(&["--trusted", "key"]);
    assert!(said.status == 2 && said.errors.contains("inc: not signed"), "{}", said.errors);
    fs::write(&signature, kept).expect("written");
    let log = server.of("inc/ib_logfile0");
    let kept = fs::read(&log).expect("a log");
    fs::write(&log, [kept.as_slice(), b"x"].concat()).expect("written");
    let said = verify(&["--trusted", "key"]);
    assert!(said.status == 1 && said.text.contains("it was changed since"), "{}{}", said.text, said.errors);
    fs::write(&log, kept).expect("written");
}

/// The full backup as an archive, moved, without its signature, and with another key.
fn only_what_is_signed_is_restored(server: &Server) {
    let tar = |set: &str, to: &str| {
        let made =
            Command::new("tar").args(["-c", "-f", to, "-C", set, "."]).current_dir(server.folder.path()).status();
        assert!(made.expect("tar runs").success());
    };
    fs::write(server.of("other"), [4; 32]).expect("written");
    fs::set_permissions(server.of("other"), fs::Permissions::from_mode(0o600)).expect("a mode");
    tar("full", "signed.tar");
    let signature = server.of("full/innokit.signature.json");
    let kept = fs::read(&signature).expect("a signature");
    fs::remove_file(&signature).expect("removed");
    tar("full", "unsigned.tar");
    for (set, key, status, says) in [
        ("unsigned.tar", "key", 2, "not signed"),
        ("full", "key", 2, "not signed"),
        ("signed.tar", "other", 2, "not signed with any of the keys"),
        ("signed.tar", "key", 0, "and as it was signed"),
    ] {
        let done = run(server, &["restore", set, "--to", "trusted", "--trusted", key]);
        assert_eq!(done.status, status, "{set}: {}", done.errors);
        assert!(
            [done.text, done.errors].concat().contains(says) && server.of("trusted").exists() == (status == 0),
            "{set}"
        );
    }
    assert!(!server.of("trusted/innokit.signature.json").exists());
    fs::write(&signature, kept).expect("written");
    let moved = run(server, &["restore", "full", "--move", "--to", "moved", "--trusted", "key"]);
    assert!(moved.status == 0 && !server.of("moved/innokit.signature.json").exists(), "{}", moved.errors);
}
