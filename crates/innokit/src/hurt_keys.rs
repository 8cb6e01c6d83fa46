//! Keys in the advice: what a check needed to read the files, the commands that it prints need too.

use std::path::Path;

use inspect::report::hurt::Hurt;

use crate::options::keys::KeyArgs;

/// Commands that read tablespaces.
const READING: [&str; 4] =
    ["innokit table export", "innokit table schema", "innokit recover --in-place", "innokit check --live"];

/// Adds the options that name keys to the commands that read encrypted files.
pub fn add(rows: &mut [Hurt], keys: &KeyArgs) {
    let options = options(keys);
    if options.is_empty() {
        return;
    }
    for command in rows.iter_mut().flat_map(|row| &mut row.commands) {
        // The first comment says how a backup is restored, which takes no key here.
        if let Some(word) = READING.into_iter().find(|word| command.starts_with(word)) {
            *command = format!("{word}{options}{}", command.get(word.len()..).unwrap_or_default());
        }
    }
}

fn options(keys: &KeyArgs) -> String {
    let keyrings = keys.keyring.iter().map(|path| format!(" --keyring {}", word(path)));
    let key_file = keys.key_file.iter().map(|(path, key)| match key {
        // The key itself stays out of what is printed.
        Some(key) if key.starts_with("FILE:") => format!(" --key-file {},{}", word(path), word(Path::new(key))),
        Some(_) => format!(" --key-file {},FILEKEY", word(path)),
        None => format!(" --key-file {}", word(path)),
    });
    keyrings.chain(key_file).collect()
}

/// A path as a word for a shell.
fn word(path: &Path) -> String {
    inspect::report::hurt::shell_word(&path.to_string_lossy())
}
