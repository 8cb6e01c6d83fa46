//! MariaDB's triggers, from the `.TRG` files beside its tables. MySQL 8 keeps them in its dictionary, MySQL 5 in the same files.
//!
//! The file is text: `TYPE=TRIGGERS`, then lines of a name, `=` and values between spaces. Statements are in single quotes, in which a
//! backslash escapes a quote, itself, a line's end (`n`), zero (`0`) and 26 (`z`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::frm;
use crate::schema::UnreadSchema;
use datadir::inventory::plain;
use datadir::name::{decoded, frm_beside};
use datadir::selection::Selection;
use datadir::{Error, files};

/// Bytes. A server reads no longer one.
const LEN_MAX: u64 = 16 << 20;

/// The triggers of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableTriggers {
    /// The database.
    pub schema: String,
    /// The table.
    pub table: String,
    /// The file.
    pub source: PathBuf,
    /// In the order in which they fire.
    pub triggers: Vec<Trigger>,
}

/// A trigger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// `CREATE DEFINER=... TRIGGER ...`, as its author wrote it.
    pub statement: String,
    /// The `sql_mode` under which it was created, as the number that `SET sql_mode` takes.
    pub sql_mode: u64,
}

/// Reads the triggers of the tables in `paths`: tablespaces, `.frm` or `.TRG` files, and folders.
///
/// # Errors
/// None today; files that cannot be read are in the second list.
pub fn triggers(paths: &[PathBuf], selection: &Selection) -> Result<(Vec<TableTriggers>, Vec<UnreadSchema>), Error> {
    let mut wanted = BTreeSet::new();
    for path in paths {
        if files::is_dir(path) {
            wanted.extend(frm::below(path, selection).iter().map(|frm| frm.with_extension("TRG")));
        } else {
            wanted.extend(frm_beside(path).map(|frm| frm.with_extension("TRG")));
        }
    }
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for path in wanted.into_iter().filter(|path| files::exists(path)) {
        match read(&path) {
            Ok(table) => found.push(table),
            Err(why) => unread.push(UnreadSchema { path, why }),
        }
    }
    Ok((found, unread))
}

fn read(path: &Path) -> Result<TableTriggers, String> {
    if files::metadata(path).map_err(|error| plain(&error))?.len() > LEN_MAX {
        return Err("is too long for a file of triggers".to_owned());
    }
    let bytes = files::read(path).map_err(|error| plain(&error))?;
    let text = String::from_utf8(bytes).map_err(|_| "its triggers are not in UTF-8".to_owned())?;
    let triggers = parse(&text).ok_or("does not hold triggers as MariaDB writes them")?;
    let part = |name: Option<&std::ffi::OsStr>| decoded(&name.unwrap_or_default().to_string_lossy());
    let schema = part(path.parent().and_then(Path::file_name));
    Ok(TableTriggers { schema, table: part(path.file_stem()), source: path.to_path_buf(), triggers })
}

fn parse(text: &str) -> Option<Vec<Trigger>> {
    let rest = text.strip_prefix("TYPE=TRIGGERS\n")?;
    let value = |name: &str| rest.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let statements = quoted(value("triggers")?)?;
    let modes: Vec<u64> = value("sql_modes")?.split_whitespace().map_while(|mode| mode.parse().ok()).collect();
    (modes.len() == statements.len()).then(|| {
        let of = |(statement, sql_mode)| Trigger { statement, sql_mode };
        statements.into_iter().zip(modes).map(of).collect()
    })
}

/// The values of a line, each in single quotes.
fn quoted(line: &str) -> Option<Vec<String>> {
    let (mut values, mut value) = (Vec::new(), None::<String>);
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, value.as_mut()) {
            ('\'', None) => value = Some(String::new()),
            (' ', None) => {}
            (_, None) => return None,
            ('\'', Some(_)) => values.extend(value.take()),
            ('\\', Some(text)) => text.push(match letters.next()? {
                'n' => '\n',
                '0' => '\0',
                'z' => '\x1a',
                other => other,
            }),
            (_, Some(text)) => text.push(letter),
        }
    }
    value.is_none().then_some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_unescaped_and_have_their_modes() {
        let text = "TYPE=TRIGGERS\ntriggers='CREATE TRIGGER a SET @x=\\'it\\'' 'CREATE TRIGGER b\\nSET @y=\\'\\\\\\''\nsql_modes=0 1411383296\n";
        let of = |statement: &str, sql_mode| Trigger { statement: statement.to_owned(), sql_mode };
        let expected = vec![of("CREATE TRIGGER a SET @x='it'", 0), of("CREATE TRIGGER b\nSET @y='\\'", 1_411_383_296)];
        assert_eq!(parse(text), Some(expected));
        for broken in [
            "",
            "TYPE=VIEW\n",
            "TYPE=TRIGGERS\ntriggers='a\nsql_modes=0\n",
            "TYPE=TRIGGERS\ntriggers='a'\nsql_modes=\n",
        ] {
            assert_eq!(parse(broken), None, "{broken}");
        }
    }
}
