//! Splits SQL text into words, names, strings and signs.

/// A piece of SQL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Token {
    /// A keyword, bare name or number, as written.
    Word(String),
    /// A name in backquotes.
    Name(String),
    /// A string in quotes, without them.
    Text(String),
    /// Anything else, one character.
    Sign(char),
}

/// The token for the comments with which servers mark temporal types stored as before MySQL 5.6.
pub(super) const OLD_FORMAT: &str = "innokit:old-format";
const OLD_FORMAT_COMMENTS: [&str; 2] = ["mariadb-5.3", "5.5 binary format"];

impl Token {
    /// Whether it is this keyword.
    pub(super) fn is(&self, keyword: &str) -> bool {
        matches!(self, Self::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    pub(super) fn is_sign(&self, sign: char) -> bool {
        matches!(self, Self::Sign(found) if *found == sign)
    }

    /// A name, in backquotes or bare.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Word(name) | Self::Name(name) => Some(name),
            _ => None,
        }
    }

    /// A number.
    pub(super) fn number(&self) -> Option<u32> {
        match self {
            Self::Word(digits) => digits.parse().ok(),
            _ => None,
        }
    }
}

/// A statement.
#[derive(Debug, Clone)]
pub(super) struct Statement<'s> {
    /// From its first token to its last, as written.
    pub text: &'s str,
    pub tokens: Vec<Token>,
}

/// The statements of a text, each without its semicolon. Comments are dropped, but the content of version comments (`/*!50100 … */`) is
/// read.
pub(super) fn statements(sql: &str) -> Vec<Statement<'_>> {
    let (mut all, mut tokens) = (Vec::new(), Vec::new());
    let (mut start, mut end) = (None, 0);
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let (token, after) = next(first, rest);
        let at = sql.len() - rest.len();
        rest = after;
        match token {
            Some(Token::Sign(';')) => {
                let text = sql.get(start.take().unwrap_or(at)..end).unwrap_or("");
                all.push(Statement { text, tokens: std::mem::take(&mut tokens) });
            }
            Some(token) => {
                start = start.or(Some(at));
                tokens.push(token);
                end = sql.len() - rest.len();
            }
            None => {}
        }
    }
    let text = sql.get(start.unwrap_or(end)..end).unwrap_or("");
    all.push(Statement { text, tokens });
    all.retain(|statement| !statement.tokens.is_empty());
    all
}

/// The token that starts here, if any, and the rest.
fn next(first: char, rest: &str) -> (Option<Token>, &str) {
    let after = rest.get(first.len_utf8()..).unwrap_or("");
    match first {
        '`' => {
            let (text, after) = quoted(after, '`', false);
            (Some(Token::Name(text)), after)
        }
        '\'' | '"' => {
            let (text, after) = quoted(after, first, true);
            (Some(Token::Text(text)), after)
        }
        '#' => (None, line(after)),
        '-' if is_line_comment(after) => (None, line(after)),
        '/' if after.starts_with('*') => comment(after.get(1..).unwrap_or("")),
        // The end of a version comment.
        '*' if after.starts_with('/') => (None, after.get(1..).unwrap_or("")),
        _ if first.is_whitespace() => (None, after),
        _ if is_of_word(first) => {
            let end = rest.find(|character| !is_of_word(character)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            (Some(Token::Word(word.to_owned())), after)
        }
        _ => (Some(Token::Sign(first)), after),
    }
}

fn is_of_word(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '$')
}

/// After the first dash: another one, followed by a space or the end.
fn is_line_comment(after: &str) -> bool {
    after.strip_prefix('-').is_some_and(|rest| rest.chars().next().is_none_or(char::is_whitespace))
}

fn line(rest: &str) -> &str {
    rest.split_once('\n').map_or("", |(_, after)| after)
}

/// Reads a comment after its `/*`.
fn comment(rest: &str) -> (Option<Token>, &str) {
    if let Some(version) = rest.strip_prefix('!').or_else(|| rest.strip_prefix("M!")) {
        return (None, version.trim_start_matches(|digit: char| digit.is_ascii_digit()));
    }
    let (text, after) = rest.split_once("*/").unwrap_or((rest, ""));
    let is_old = OLD_FORMAT_COMMENTS.contains(&text.trim());
    (is_old.then(|| Token::Word(OLD_FORMAT.to_owned())), after)
}

/// The text up to the closing `quote`, where a doubled quote is part of the text, and the rest.
fn quoted(rest: &str, quote: char, escapes: bool) -> (String, &str) {
    let mut text = String::new();
    let mut characters = rest.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        if character == '\\' && escapes {
            text.extend(characters.next().map(|(_, escaped)| unescaped(escaped)));
        } else if character != quote {
            text.push(character);
        } else if characters.next_if(|(_, next)| *next == quote).is_some() {
            text.push(quote);
        } else {
            return (text, rest.get(at + quote.len_utf8()..).unwrap_or(""));
        }
    }
    (text, "")
}

const fn unescaped(character: char) -> char {
    match character {
        'n' => '\n',
        't' => '\t',
        'r' => '\r',
        '0' => '\0',
        'b' => '\u{8}',
        'Z' => '\u{1A}',
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_go_and_version_comments_stay() {
        let sql = "-- a;b\n# c;\nA /* d; */ /*!50100 `b``c` */ 'it''s\\n;' /*M!100301 E*/;F--1";
        let word = |word: &str| Token::Word(word.to_owned());
        let first = vec![word("A"), Token::Name("b`c".to_owned()), Token::Text("it's\n;".to_owned()), word("E")];
        let second = vec![word("F"), Token::Sign('-'), Token::Sign('-'), word("1")];
        let found = statements(sql);
        assert_eq!(found.iter().map(|statement| &statement.tokens).collect::<Vec<_>>(), [&first, &second]);
        assert!(found.first().is_some_and(|first| first.text.starts_with("A /* d; */") && first.text.ends_with('E')));
        assert!(found.last().is_some_and(|last| last.text == "F--1"));
    }

    #[test]
    fn what_does_not_end_is_read_to_its_end() {
        let only = |sql: &str| statements(sql).pop().map(|statement| statement.tokens);
        assert_eq!(only("`a"), Some(vec![Token::Name("a".to_owned())]));
        assert_eq!(only("'é\\"), Some(vec![Token::Text("é".to_owned())]));
        assert!(statements("/* ; ").is_empty());
        assert_eq!(statements("datetime /* mariadb-5.3 */").len(), 1);
    }
}
