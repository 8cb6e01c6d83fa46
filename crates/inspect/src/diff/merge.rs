//! Two streams of rows that are in the order of one key, joined row by row.
//!
//! The order is the index's own. Where it is known (numbers, bytes, ASCII), the smaller of the two first rows stands alone. Where it is not, as
//! in most collations, both streams still are in the same order: rows are kept until a key comes that the other side has too, and what
//! both have before it stands alone. Only equal bytes are equal keys then, so a key that changed its case is one row less and one more.

use std::cmp::Ordering;
use std::collections::{HashMap, VecDeque};
use std::io;

use format::schema::KeyOrder;

use super::stream::RowAt;

/// The order of the first columns of each row, which are its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyRule(pub Vec<(KeyOrder, bool)>);

/// A row, or two with the same key.
#[derive(Debug, Clone, Copy)]
pub(super) enum Met<'m> {
    OnlyA(&'m RowAt),
    OnlyB(&'m RowAt),
    Both(&'m RowAt, &'m RowAt),
}

/// Why a merge ended early.
#[derive(Debug)]
pub(super) enum Ended {
    /// What takes the rows failed.
    Failed(io::Error),
    /// More rows than fit in memory lie between two keys that both sides have.
    TooFarApart,
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl KeyRule {
    /// `None` if the order is unknown.
    fn compare(&self, a: &RowAt, b: &RowAt) -> Option<Ordering> {
        for (column, (order, descending)) in self.0.iter().enumerate() {
            let of_column = match (a.get(column), b.get(column)) {
                (None, None) => Ordering::Equal,
                (None, Some(_)) => Ordering::Less,
                (Some(_), None) => Ordering::Greater,
                (Some(a), Some(b)) => order.compare(a, b)?,
            };
            if of_column.is_ne() {
                return Some(if *descending { of_column.reverse() } else { of_column });
            }
        }
        Some(Ordering::Equal)
    }

    /// The key as bytes: equal for equal keys only.
    fn bytes(&self, row: &RowAt) -> Vec<u8> {
        let mut key = Vec::new();
        for column in 0..self.0.len() {
            let value = row.get(column);
            key.extend(value.map_or(u64::MAX, |value| value.len() as u64).to_be_bytes());
            key.extend_from_slice(value.unwrap_or_default());
        }
        key
    }
}

/// One side: rows that are kept, and the rest.
struct Line<'l> {
    rows: &'l mut dyn Iterator<Item = RowAt>,
    kept: VecDeque<RowAt>,
}

impl Line<'_> {
    fn at(&mut self, place: usize) -> Option<&RowAt> {
        while self.kept.len() <= place {
            self.kept.push_back(self.rows.next()?);
        }
        self.kept.get(place)
    }
}

/// Passes every row to `found`, in order. `memory`: bytes of rows that may be kept.
pub(super) fn merge(
    a: &mut dyn Iterator<Item = RowAt>,
    b: &mut dyn Iterator<Item = RowAt>,
    (rule, memory): (&KeyRule, usize),
    found: &mut dyn FnMut(Met<'_>) -> io::Result<()>,
) -> Result<(), Ended> {
    let (mut a, mut b) = (Line { rows: a, kept: VecDeque::new() }, Line { rows: b, kept: VecDeque::new() });
    loop {
        let order = match (a.at(0), b.at(0)) {
            (None, None) => return Ok(()),
            (Some(_), None) => Some(Ordering::Less),
            (None, Some(_)) => Some(Ordering::Greater),
            (Some(of_a), Some(of_b)) => rule.compare(of_a, of_b),
        };
        let (alone_a, alone_b, is_met) = match order {
            Some(Ordering::Less) => (1, 0, false),
            Some(Ordering::Greater) => (0, 1, false),
            Some(Ordering::Equal) => (0, 0, true),
            None => meeting(&mut a, &mut b, rule, memory)?,
        };
        a.kept.drain(..alone_a.min(a.kept.len())).try_for_each(|row| found(Met::OnlyA(&row)))?;
        b.kept.drain(..alone_b.min(b.kept.len())).try_for_each(|row| found(Met::OnlyB(&row)))?;
        if is_met && let (Some(of_a), Some(of_b)) = (a.kept.pop_front(), b.kept.pop_front()) {
            found(Met::Both(&of_a, &of_b))?;
        }
    }
}

/// How many rows of each side come before the first key that both have, and whether there is one.
fn meeting(a: &mut Line<'_>, b: &mut Line<'_>, rule: &KeyRule, memory: usize) -> Result<(usize, usize, bool), Ended> {
    let (mut of_a, mut of_b) = (Keys::default(), Keys::default());
    for place in 0.. {
        let (in_a, in_b) = (a.at(place), b.at(place));
        if in_a.is_none() && in_b.is_none() {
            break;
        }
        if let Some(other) = in_a.and_then(|row| of_a.add(row, place, rule, &of_b)) {
            return Ok((place, other, true));
        }
        if let Some(other) = in_b.and_then(|row| of_b.add(row, place, rule, &of_a)) {
            return Ok((other, place, true));
        }
        if of_a.memory + of_b.memory > memory {
            return Err(Ended::TooFarApart);
        }
    }
    Ok((a.kept.len(), b.kept.len(), false))
}

/// The keys of the rows that are kept of one side.
#[derive(Default)]
struct Keys {
    places: HashMap<Vec<u8>, usize>,
    memory: usize,
}

impl Keys {
    /// Adds a row. Returns where the other side has its key.
    fn add(&mut self, row: &RowAt, place: usize, rule: &KeyRule, others: &Self) -> Option<usize> {
        let key = rule.bytes(row);
        let other = others.places.get(&key).copied();
        self.memory += row.size() + key.len();
        self.places.insert(key, place);
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(rule: &KeyRule, a: &[&str], b: &[&str], memory: usize) -> Result<String, Ended> {
        let rows = |keys: &[&str]| keys.iter().map(|key| RowAt::of(&[Some(key.as_bytes())])).collect::<Vec<_>>();
        let (mut said, text) =
            (String::new(), |row: &RowAt| String::from_utf8_lossy(row.get(0).unwrap_or_default()).into_owned());
        merge(&mut rows(a).into_iter(), &mut rows(b).into_iter(), (rule, memory), &mut |met| {
            said += &match met {
                Met::OnlyA(row) => format!("-{} ", text(row)),
                Met::OnlyB(row) => format!("+{} ", text(row)),
                Met::Both(a, b) if text(a) == text(b) => format!("={} ", text(a)),
                Met::Both(a, b) => format!("{}~{} ", text(a), text(b)),
            };
            Ok(())
        })?;
        Ok(said)
    }

    #[test]
    fn rows_of_a_known_order_meet_in_that_order() {
        for (order, descending, a, b, expected) in [
            (KeyOrder::Bytes, false, ["a", "b", "d"], ["b", "c", "d"], "-a =b +c =d "),
            (KeyOrder::Bytes, true, ["d", "b", "a"], ["d", "c", "b"], "=d +c =b -a "),
            // What pads with spaces has one key for both.
            (KeyOrder::PaddedBytes, false, ["a", "b", "c"], ["a", "b ", "d"], "=a b~b  -c +d "),
        ] {
            let rule = KeyRule(vec![(order, descending)]);
            assert_eq!(merged(&rule, &a, &b, 0).expect("merged"), expected);
        }
    }

    #[test]
    fn rows_of_an_unknown_order_meet_at_the_next_key_that_both_have() {
        let rule = KeyRule(vec![(KeyOrder::Unknown, false)]);
        // An order that no rule here knows: z before a.
        let said = merged(&rule, &["z", "q", "m", "b"], &["y", "q", "l", "k", "a"], 10_000).expect("merged");
        assert_eq!(said, "-z +y =q -m -b +l +k +a ");
        assert_eq!(merged(&rule, &["z", "a"], &["a"], 10_000).expect("merged"), "-z =a ");
        assert_eq!(merged(&rule, &[], &["b", "a"], 0).expect("merged"), "+b +a ");
        assert!(matches!(merged(&rule, &["z", "y"], &["b", "a"], 10), Err(Ended::TooFarApart)));
    }

    #[test]
    fn a_model_that_sorts_finds_what_the_merge_finds() {
        let keys: Vec<String> = (0..40).map(|number| format!("{}{number}", number * 7 % 10)).collect();
        let mut seed = 7_u64;
        let mut half = |is_most: bool| -> Vec<&str> {
            let mut picked: Vec<&str> = Vec::new();
            for key in &keys {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if (seed >> 33) % 4 > u64::from(!is_most) {
                    picked.push(key);
                }
            }
            picked
        };
        for round in 0..200 {
            let (a, b) = (half(round % 2 == 0), half(round % 3 == 0));
            let rule = KeyRule(vec![(KeyOrder::Unknown, false)]);
            let said = merged(&rule, &a, &b, 100_000).expect("merged");
            let mut found: Vec<&str> = said.split_whitespace().collect();
            let mut expected: Vec<String> = Vec::new();
            for key in &keys {
                let mark = match (a.contains(&key.as_str()), b.contains(&key.as_str())) {
                    (true, true) => "=",
                    (true, false) => "-",
                    (false, true) => "+",
                    (false, false) => continue,
                };
                expected.push(format!("{mark}{key}"));
            }
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected);
        }
    }
}
