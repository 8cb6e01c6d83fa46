//! In which partition a row belongs, where the declared expression can be computed from one column.
//!
//! ```text
//! PARTITION BY RANGE (`id`) (PARTITION p0 VALUES LESS THAN (100), ...)  -> Placement { column, Range([100, ...]), own }
//! the bytes of the column -> a number -> the number of a partition -> not `own`: the row is misplaced
//! ```
//!
//! Known are RANGE, LIST and HASH of a whole number, and of `YEAR`, `TO_DAYS` and `TO_SECONDS` of a date; RANGE COLUMNS and LIST COLUMNS of one
//! such column. KEY hashes by the collation, and is not computed, nor are subpartitions.
//!
//! Facts: `get_partition_id_range`, `get_part_id_linear_hash` and `calc_daynr` of both servers.

use super::column::ColumnDef;
use super::types::SqlType;
use super::{TableDef, quoted};
use crate::bytes::be;

/// Where the rows of one partition belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The number of the column that decides.
    pub column: usize,
    /// The names of the partitions, in their order.
    names: Vec<String>,
    own: usize,
    /// The type of the column.
    stored: SqlType,
    of: Number,
    by: Rule,
}

/// What is taken of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    Whole,
    Year,
    Days,
    Seconds,
}

/// How partitions share the numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Rule {
    /// Upper bounds, exclusive; `None` is MAXVALUE.
    Range(Vec<Option<i128>>),
    /// The values of each; `None` is NULL.
    List(Vec<Vec<Option<i128>>>),
    Hash {
        is_linear: bool,
    },
}

impl Placement {
    /// Of the rows of partition `own` of this table; `None` if their place cannot be computed.
    #[must_use]
    pub fn of(table: &TableDef, own: &str) -> Option<Self> {
        let clause = Clause::parse(table.declared.partitioning.as_deref()?)?;
        let is_it = |column: &ColumnDef| column.name.eq_ignore_ascii_case(&clause.column);
        let column = table.columns.iter().position(is_it)?;
        let def = table.columns.get(column).filter(|column| !column.is_virtual)?;
        let of = clause.number_of(def)?;
        let names = match clause.names.is_empty() {
            false => clause.names.clone(),
            true => (0..clause.count?).map(|number| format!("p{number}")).collect(),
        };
        let own = own.split('#').next().unwrap_or(own);
        let own = names.iter().position(|name| name.eq_ignore_ascii_case(own))?;
        let value = |text: &String| number(text, (def, of), clause.is_columns);
        let by = match clause.kind.as_str() {
            "HASH" => Rule::Hash { is_linear: clause.is_linear },
            "RANGE" => {
                let bounds = clause.values.iter().map(|values| match values.as_slice() {
                    [only] if only.eq_ignore_ascii_case("MAXVALUE") => Some(None),
                    [only] => value(only).map(Some),
                    _ => None,
                });
                Rule::Range(bounds.collect::<Option<_>>()?)
            }
            "LIST" => {
                let or_null = |text: &String| {
                    if text.eq_ignore_ascii_case("NULL") { Some(None) } else { value(text).map(Some) }
                };
                let each = clause.values.iter().map(|values| values.iter().map(or_null).collect::<Option<Vec<_>>>());
                Rule::List(each.collect::<Option<_>>()?)
            }
            _ => return None,
        };
        let is_whole = matches!(by, Rule::Hash { .. }) || clause.values.len() == names.len();
        is_whole.then_some(Self { column, names, own, stored: def.sql_type, of, by })
    }

    /// The name of the partition that a row with this value belongs in, if it is another. `None` too if that cannot be computed.
    #[must_use]
    pub fn elsewhere(&self, value: Option<&[u8]>) -> Option<&str> {
        let number = match value {
            None => None,
            Some(bytes) => Some(self.number(bytes)?),
        };
        let place = self.place(number)?;
        (place != self.own).then(|| self.names.get(place).map(String::as_str)).flatten()
    }

    fn number(&self, bytes: &[u8]) -> Option<i128> {
        match self.stored {
            SqlType::Int { unsigned, .. } => whole(bytes, unsigned),
            SqlType::Date => {
                let stored = u32::from_be_bytes([0, *bytes.first()? ^ 0x80, *bytes.get(1)?, *bytes.get(2)?]);
                let stored = i128::from(stored);
                moment((stored >> 9, stored >> 5 & 15, stored & 31), 0, self.of)
            }
            SqlType::DateTime(_) => {
                let stored = u64::from(be::u32_at(bytes, 0)?) << 8 | u64::from(*bytes.get(4)?);
                let stored = i128::from(stored.checked_sub(1 << 39)?);
                let (months, time) = (stored >> 22, stored & 0x1_ffff);
                let seconds = ((time >> 12) * 60 + (time >> 6 & 63)) * 60 + (time & 63);
                moment((months / 13, months % 13, stored >> 17 & 31), seconds, self.of)
            }
            _ => None,
        }
    }

    fn place(&self, number: Option<i128>) -> Option<usize> {
        match &self.by {
            Rule::Range(bounds) => {
                let Some(number) = number else { return Some(0) };
                bounds.iter().position(|bound| bound.is_none_or(|bound| number < bound))
            }
            Rule::List(lists) => lists.iter().position(|values| values.contains(&number)),
            Rule::Hash { is_linear } => {
                // The server computes with signed numbers of 64 bits, and takes the least for NULL.
                let value = number.map_or(i64::MIN, |number| number as i64);
                let count = i64::try_from(self.names.len()).ok().filter(|count| *count > 0)?;
                let place = if *is_linear { linear(value, count) } else { (value % count).abs() };
                usize::try_from(place).ok()
            }
        }
    }
}

fn linear(value: i64, count: i64) -> i64 {
    let mask = i64::try_from((count as u64).next_power_of_two()).unwrap_or(i64::MAX) - 1;
    let place = value & mask;
    if place < count { place } else { value & ((mask + 1) / 2 - 1) }
}

/// A stored whole number: big-endian, signed ones with their sign bit flipped.
fn whole(bytes: &[u8], unsigned: bool) -> Option<i128> {
    let bits = 8 * u32::try_from(bytes.len()).ok().filter(|len| (1..=8).contains(len))?;
    let number = bytes.iter().fold(0_i128, |number, byte| number << 8 | i128::from(*byte));
    Some(if unsigned { number } else { number - (1 << (bits - 1)) })
}

/// A value of the clause. In RANGE and LIST of an expression it is a number, in those of columns it is like a value of the column.
fn number(text: &str, (def, of): (&ColumnDef, Number), is_columns: bool) -> Option<i128> {
    if is_columns && !matches!(def.sql_type, SqlType::Int { .. }) { written(text, of) } else { text.parse().ok() }
}

/// A date in quotes, with or without a time.
fn written(text: &str, of: Number) -> Option<i128> {
    let text = text.trim_matches('\'');
    let (date, time) = text.split_once(' ').unwrap_or((text, "0:0:0"));
    let numbers = |text: &str, mark| text.split(mark).map(|part| part.parse().ok()).collect::<Option<Vec<i128>>>();
    let (date, time) = (numbers(date, '-')?, numbers(time.split('.').next().unwrap_or(time), ':')?);
    let (&[year, month, day], &[hour, minute, second]) = (date.as_slice(), time.as_slice()) else { return None };
    moment((year, month, day), (hour * 60 + minute) * 60 + second, of)
}

/// A moment as the number that is compared; `None` of those that are no dates: the server's functions differ there.
fn moment((year, month, day): (i128, i128, i128), seconds: i128, of: Number) -> Option<i128> {
    if month == 0 || day == 0 || year == 0 {
        return None;
    }
    let days = days(year, month, day);
    Some(match of {
        Number::Year => year,
        Number::Days => days,
        Number::Whole | Number::Seconds => days * 86400 + seconds,
    })
}

/// As `TO_DAYS`.
const fn days(year: i128, month: i128, day: i128) -> i128 {
    let (mut sum, mut year) = (365 * year + 31 * (month - 1) + day, year);
    if month <= 2 {
        year -= 1;
    } else {
        sum -= (month * 4 + 23) / 10;
    }
    sum + year / 4 - (year / 100 + 1) * 3 / 4
}

/// The parts of the clause that matter here.
#[derive(Debug, Default)]
struct Clause {
    is_linear: bool,
    kind: String,
    is_columns: bool,
    function: Option<String>,
    column: String,
    count: Option<usize>,
    names: Vec<String>,
    values: Vec<Vec<String>>,
}

impl Clause {
    fn parse(text: &str) -> Option<Self> {
        let mut words = Words::of(text);
        words.find("BY")?;
        let (is_linear, kind) = (words.eat("LINEAR"), words.next()?.to_ascii_uppercase());
        let mut clause = Self { is_linear, kind, is_columns: words.eat("COLUMNS"), ..Self::default() };
        words.eat("(").then_some(())?;
        clause.column = words.next()?;
        if words.eat("(") {
            clause.function = Some(clause.column.to_ascii_uppercase());
            clause.column = words.next()?;
            words.eat(")").then_some(())?;
        }
        words.eat(")").then_some(())?;
        if words.eat("PARTITIONS") {
            clause.count = words.next()?.parse().ok();
        }
        words.partitions(&mut clause)?;
        Some(clause)
    }

    /// What is compared; `None` if it cannot be computed for such a column.
    fn number_of(&self, def: &ColumnDef) -> Option<Number> {
        let is_whole = matches!(def.sql_type, SqlType::Int { .. });
        let is_date = matches!(def.sql_type, SqlType::Date | SqlType::DateTime(_));
        match self.function.as_deref() {
            None if is_whole || (is_date && self.is_columns) => Some(Number::Whole),
            Some("YEAR") if is_date => Some(Number::Year),
            Some("TO_DAYS") if is_date => Some(Number::Days),
            Some("TO_SECONDS") if is_date => Some(Number::Seconds),
            _ => None,
        }
    }
}

/// The words of a clause: names without their quotes, strings with them, numbers with their sign, single marks.
struct Words(std::iter::Peekable<std::vec::IntoIter<String>>);

impl Words {
    fn of(text: &str) -> Self {
        let (mut words, mut rest) = (Vec::new(), text);
        while let Some(first) = rest.chars().next() {
            let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.');
            let len = match first {
                '`' => quoted::end(rest, '`'),
                '\'' => quoted::end(rest, '\''),
                '/' | '*' | '!' => rest.find(|c: char| !matches!(c, '/' | '*' | '!')).unwrap_or(rest.len()),
                _ if is_name(first) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
                '-' => 1 + rest.get(1..).unwrap_or_default().find(|c| !is_name(c)).unwrap_or(rest.len() - 1),
                _ => first.len_utf8(),
            };
            let (word, after) = rest.split_at(len);
            match first {
                '`' => words.push(word.trim_matches('`').replace("``", "`")),
                '/' | '*' | '!' => {}
                _ if first.is_whitespace() => {}
                _ => words.push(word.to_owned()),
            }
            rest = after;
        }
        Self(words.into_iter().peekable())
    }

    fn next(&mut self) -> Option<String> {
        self.0.next()
    }

    fn eat(&mut self, word: &str) -> bool {
        self.0.next_if(|next| next.eq_ignore_ascii_case(word)).is_some()
    }

    /// Goes on after the word.
    fn find(&mut self, word: &str) -> Option<()> {
        self.0.find(|next| next.eq_ignore_ascii_case(word)).map(|_| ())
    }

    /// The list of partitions with their values, if there is one.
    fn partitions(&mut self, clause: &mut Clause) -> Option<()> {
        let mut depth = 0_usize;
        while let Some(word) = self.next() {
            match word.as_str() {
                "(" => depth += 1,
                ")" => depth = depth.saturating_sub(1),
                _ if depth == 1 && word.eq_ignore_ascii_case("PARTITION") => clause.names.push(self.next()?),
                _ if depth == 1 && word.eq_ignore_ascii_case("VALUES") => {
                    let values = self.values()?;
                    clause.values.push(values);
                }
                _ => {}
            }
        }
        Some(())
    }

    /// After VALUES: `LESS THAN (1)`, `LESS THAN MAXVALUE`, `IN (1,2)`.
    fn values(&mut self) -> Option<Vec<String>> {
        if !self.eat("IN") {
            (self.eat("LESS") && self.eat("THAN")).then_some(())?;
        }
        if !self.eat("(") {
            return Some(vec![self.next()?]);
        }
        let mut values = Vec::new();
        loop {
            match self.next()?.as_str() {
                ")" => return Some(values),
                "," => {}
                // A tuple, of several columns.
                "(" => return None,
                value => values.push(value.to_owned()),
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail")]
mod tests {
    use super::*;

    fn clause(text: &str) -> Clause {
        Clause::parse(text).unwrap()
    }

    #[test]
    fn clauses_of_both_servers_are_taken_apart() {
        let range = clause(
            "/*!50100 PARTITION BY RANGE (`id`)\n(PARTITION p0 VALUES LESS THAN (-5) ENGINE = InnoDB,\n PARTITION `p``1` VALUES LESS THAN MAXVALUE COMMENT = 'VALUES (1)' ENGINE = InnoDB) */",
        );
        assert_eq!((range.kind.as_str(), range.column.as_str()), ("RANGE", "id"));
        assert_eq!(range.names, ["p0", "p`1"]);
        assert_eq!(range.values, [vec!["-5"], vec!["MAXVALUE"]]);
        let hash = clause(" PARTITION BY LINEAR HASH (year(`d`))\nPARTITIONS 6");
        assert_eq!((hash.is_linear, hash.function.as_deref(), hash.count), (true, Some("YEAR"), Some(6)));
        let list = clause(
            "PARTITION BY LIST  COLUMNS(`a`)\n(PARTITION x VALUES IN (1,NULL,3) ENGINE = InnoDB,\n PARTITION y VALUES IN (2) ENGINE = InnoDB)",
        );
        assert!(list.is_columns);
        assert_eq!(list.values, [vec!["1", "NULL", "3"], vec!["2"]]);
        let subs = clause(
            "/*!50100 PARTITION BY RANGE (`a`)\nSUBPARTITION BY HASH (`b`)\n(PARTITION p0 VALUES LESS THAN (9)\n (SUBPARTITION s0 ENGINE = InnoDB,\n  SUBPARTITION s1 ENGINE = InnoDB)) */",
        );
        assert_eq!((subs.names.len(), subs.values.len()), (1, 1));
    }

    #[test]
    fn what_cannot_be_computed_is_not_taken_apart() {
        for text in [
            "",
            "PARTITION BY RANGE (`a` + 1) (PARTITION p0 VALUES LESS THAN (1))",
            "PARTITION BY RANGE  COLUMNS(`a`,`b`) (PARTITION p0 VALUES LESS THAN (1,2))",
            "PARTITION BY RANGE (",
            "PARTITION BY LIST  COLUMNS(`a`) (PARTITION p0 VALUES IN ((1,2)))",
        ] {
            assert!(Clause::parse(text).is_none(), "{text}");
        }
    }

    #[test]
    fn numbers_are_those_of_the_servers() {
        // SELECT TO_DAYS('2007-10-07'), TO_SECONDS('2009-11-29 00:00:00')
        assert_eq!(written("'2007-10-07'", Number::Days), Some(733_321));
        assert_eq!(written("'2009-11-29 00:00:00.5'", Number::Seconds), Some(63_426_672_000));
        assert_eq!(written("2000-02-29 23:59:59", Number::Year), Some(2000));
        assert_eq!(written("0000-00-00", Number::Year), None);
        assert_eq!((whole(&[0x7f, 0xff], false), whole(&[0xff; 8], true)), (Some(-1), Some(u64::MAX.into())));
        // A linear hash over 6 partitions folds 6 and 7 back.
        assert_eq!([0, 5, 6, 7, 13].map(|value| linear(value, 6)), [0, 5, 2, 3, 5]);
    }
}
