//! Lists and strings in a document of a set, read with a limit: what a stranger wrote must not decide how much memory is taken.
//!
//! Documents are read straight into typed values. A tree of JSON takes thirty times the memory of its text.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

/// No path and no version is longer.
const TEXT_MAX: usize = 16 << 10;
/// Room for this many members is made before the first is seen.
const ROOM_MAX: usize = 1024;

/// A list of at most `MAX` members.
pub(crate) fn list<'de, const MAX: usize, T, D>(from: D) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    struct Members<const MAX: usize, T>(PhantomData<T>);

    impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for Members<MAX, T> {
        type Value = Vec<T>;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(out, "a list of at most {MAX} members")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<T>, A::Error> {
            let mut members = Vec::with_capacity(from.size_hint().unwrap_or(0).min(ROOM_MAX));
            while let Some(member) = from.next_element()? {
                if members.len() == MAX {
                    return Err(A::Error::custom(format_args!("a list has more than {MAX} members")));
                }
                members.push(member);
            }
            Ok(members)
        }
    }

    from.deserialize_seq(Members::<MAX, T>(PhantomData))
}

/// A list of at most `MAX` short strings.
pub(crate) fn texts<'de, const MAX: usize, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Text(#[serde(deserialize_with = "text")] String);

    let texts: Vec<Text> = list::<MAX, _, _>(from)?;
    Ok(texts.into_iter().map(|text| text.0).collect())
}

/// A short string.
pub(crate) fn text<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    struct Short;

    impl Visitor<'_> for Short {
        type Value = String;

        fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(out, "a string of at most {TEXT_MAX} bytes")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
            if text.len() > TEXT_MAX {
                return Err(E::custom(format_args!("a string is longer than {TEXT_MAX} bytes")));
            }
            Ok(text.to_owned())
        }
    }

    from.deserialize_str(Short)
}
