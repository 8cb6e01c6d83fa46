//! Reads option files as the servers' own clients do: groups in brackets, `name = value`, `!include` and `!includedir`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::access::AccessError;

/// The groups whose options are read.
const GROUPS: [&str; 3] = ["client", "client-server", "innokit"];
/// The deepest include. This stops a file that includes itself.
const DEPTH_MAX: u32 = 10;

/// Passes the options of a file to `take`, in file order: later ones win.
///
/// # Errors
/// The file cannot be read, or others can read the password in it.
pub(crate) fn read(path: &Path, take: &mut dyn FnMut(&str, String)) -> Result<(), AccessError> {
    read_below(path, DEPTH_MAX, take)
}

fn read_below(path: &Path, depth: u32, take: &mut dyn FnMut(&str, String)) -> Result<(), AccessError> {
    let unread = |source| AccessError::OptionFile { path: path.to_path_buf(), source };
    let bytes = fs::read(path).map_err(unread)?;
    // Its group may be the backup's own; every user of the machine is not.
    let is_open = fs::metadata(path).map_err(unread)?.permissions().mode() & 0o007 != 0;
    let mut counts = false;
    for line in String::from_utf8_lossy(&bytes).lines().map(str::trim) {
        if let Some(group) = line.strip_prefix('[') {
            let Some((name, _)) = group.split_once(']') else {
                let source = std::io::Error::other(format!("{line}: the group's name has no closing bracket"));
                return Err(AccessError::OptionFile { path: path.to_path_buf(), source });
            };
            let name = name.trim();
            counts = GROUPS.contains(&name);
        } else if let Some(include) = line.strip_prefix('!') {
            for file in included(include).into_iter().filter(|_| depth > 0) {
                read_below(&file, depth - 1, take)?;
            }
        } else if counts && !line.is_empty() && !line.starts_with(['#', ';']) {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            let name = name.trim().replace('_', "-");
            if name == "password" && is_open {
                return Err(AccessError::Readable { path: path.to_path_buf() });
            }
            take(&name, unquoted(value.trim()));
        }
    }
    Ok(())
}

/// The files that a line includes; of a directory, those whose names end in `.cnf`, sorted.
fn included(line: &str) -> Vec<PathBuf> {
    match line.split_once(char::is_whitespace) {
        Some(("include", file)) => vec![PathBuf::from(file.trim())],
        Some(("includedir", dir)) => {
            let entries = fs::read_dir(dir.trim()).into_iter().flatten().flatten().map(|entry| entry.path());
            let mut files: Vec<_> =
                entries.filter(|path| path.extension().is_some_and(|ending| ending == "cnf")).collect();
            files.sort_unstable();
            files
        }
        _ => Vec::new(),
    }
}

/// A value without its quotes, escapes and trailing comment.
fn unquoted(value: &str) -> String {
    let quote = value.chars().next().filter(|first| ['"', '\''].contains(first));
    let body = match quote {
        Some(quote) => value.get(1..).unwrap_or_default().rsplit_once(quote).map_or(value, |(body, _)| body),
        None => value.split('#').next().unwrap_or_default().trim_end(),
    };
    let (mut text, mut characters) = (String::new(), body.chars());
    while let Some(character) = characters.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        match characters.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r') => text.push('\r'),
            Some('b') => text.push('\u{8}'),
            Some('s') => text.push(' '),
            Some(other @ ('\\' | '"' | '\'')) => text.push(other),
            // An unknown escape stays as it is, as in the clients.
            Some(other) => text.extend(['\\', other]),
            None => text.push('\\'),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Vec<(String, String)> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("my.cnf");
        fs::create_dir(dir.path().join("more")).expect("made");
        fs::write(dir.path().join("more/b.cnf"), "[innokit]\nuser=of_b\n").expect("written");
        fs::write(dir.path().join("more/a.cnf"), "[innokit]\nuser=of_a\n").expect("written");
        fs::write(dir.path().join("more/ignored.txt"), "[innokit]\nuser=never\n").expect("written");
        fs::write(&path, text.replace("DIR", &dir.path().display().to_string())).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
        let mut options = Vec::new();
        read(&path, &mut |name, value| options.push((name.to_owned(), value))).expect("read");
        options
    }

    #[test]
    fn a_password_that_others_can_read_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("my.cnf");
        let read_as = |text: &str, mode: u32| {
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            read(&path, &mut |_, _| {})
        };
        let why = read_as("[client]\npassword=p\n", 0o644).expect_err("refused").to_string();
        assert!(why.contains("chmod 600"), "{why}");
        assert!(read_as("[client]\npassword=p\n", 0o600).is_ok() && read_as("[client]\nuser=u\n", 0o644).is_ok());
        assert!(read_as("[mysqld]\npassword=p\n", 0o644).is_ok());
    }

    #[test]
    fn options_are_read_as_the_clients_read_them() {
        let text = "# a comment\nuser=before any group\n[mysqld]\nsocket=/server\n[client]\nuser = backup # who\npassword=\"a#b \\\"c\\\"\\s\"\n\
                    ; another\n[innokit]\nsocket='/run/my socket.sock'\nssl-verify\ndefaults_x=back\\slash\\\\\n";
        let expected = [
            ("user", "backup"),
            ("password", "a#b \"c\" "),
            ("socket", "/run/my socket.sock"),
            ("ssl-verify", ""),
            ("defaults-x", "back lash\\"),
        ];
        assert_eq!(options(text), expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_group_without_its_bracket_is_an_error_as_for_the_clients() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("my.cnf");
        fs::write(&path, "[client\nuser=x\n").expect("written");
        let error = read(&path, &mut |_, _| ()).expect_err("the clients refuse it");
        assert!(error.to_string().contains("no closing bracket"), "{error}");
    }

    #[test]
    fn files_are_included_in_order_and_never_without_end() {
        let users = |text: &str| options(text).into_iter().map(|(_, value)| value).collect::<Vec<_>>();
        assert_eq!(users("!includedir DIR/more\n[client]\nuser=own\n"), ["of_a", "of_b", "own"]);
        assert_eq!(users("[client]\nuser=own\n!include DIR/more/a.cnf\n"), ["own", "of_a"]);
        assert_eq!(users("[client]\nuser=own\n!include DIR/my.cnf\n").len(), 11);
    }
}
