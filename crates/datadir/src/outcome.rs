//! What a command's run came to, and its exit status: the one place that says which wins if several are true of one run.
//!
//! | outcome | exit status |
//! |---|---|
//! | [`Outcome::AllWell`] | 0 |
//! | [`Outcome::Damage`] | 1 |
//! | [`Outcome::Undecided`] | 2 |
//! | [`Outcome::Interrupted`] | 130 |
//!
//! Damage comes first ([`Outcome::of`]): a damaged page stays damaged, whatever else could not be read. The exceptions:
//!
//! - `table checksum` and `table export` put a pending log first ([`Outcome::of_comparison`]): recovery will repair pages and change rows, so
//!   neither a difference nor damage means anything yet.
//! - `diff` puts everything open first: it answers whether two sets differ, and a table that was read on one side only answers nothing.
//! - `backup verify` and `redo verify` are never undecided: what they cannot read is an error, which ends the command ([`Fault`]).
//! - `table schema` never finds damage: a definition is there, or it is not.
//!
//! [`Fault`]: crate::fault::Fault

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that was asked for was done or looked at, and nothing is wrong.
    AllWell,
    /// Bytes are not what the server wrote, or two sets differ.
    Damage,
    /// Something that was asked for was not done, or its answer is not known.
    Undecided,
    /// A signal ended the run.
    Interrupted,
}

impl Outcome {
    /// The rule: damage first.
    #[must_use]
    pub const fn of(is_damaged: bool, is_open: bool) -> Self {
        match (is_damaged, is_open) {
            (true, _) => Self::Damage,
            (false, true) => Self::Undecided,
            (false, false) => Self::AllWell,
        }
    }

    /// The exception: what is open makes everything else meaningless.
    #[must_use]
    pub const fn of_comparison(is_open: bool, other: Self) -> Self {
        if is_open { Self::Undecided } else { other }
    }

    /// The outcome of a command that ends with this exit status. A status of another program's is undecided.
    #[must_use]
    pub const fn of_status(status: u8) -> Self {
        match status {
            0 => Self::AllWell,
            1 => Self::Damage,
            130 => Self::Interrupted,
            _ => Self::Undecided,
        }
    }

    /// The exit status. A signal's is the one that shells report.
    #[must_use]
    pub const fn exit_status(self) -> u8 {
        match self {
            Self::AllWell => 0,
            Self::Damage => 1,
            Self::Undecided => 2,
            Self::Interrupted => 130,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_comes_first_unless_what_is_open_makes_it_meaningless() {
        assert_eq!(Outcome::of(true, true), Outcome::Damage);
        assert_eq!(Outcome::of(false, true), Outcome::Undecided);
        assert_eq!(Outcome::of_comparison(true, Outcome::Damage), Outcome::Undecided);
        assert_eq!(Outcome::of_comparison(false, Outcome::Damage), Outcome::Damage);
    }

    #[test]
    fn every_outcome_has_a_status_of_its_own() {
        for outcome in [Outcome::AllWell, Outcome::Damage, Outcome::Undecided, Outcome::Interrupted] {
            assert_eq!(Outcome::of_status(outcome.exit_status()), outcome);
        }
    }
}
