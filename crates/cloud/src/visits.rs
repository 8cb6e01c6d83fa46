//! Counts the visits to each bucket: what is known about it is kept as long as there is one.

use std::collections::HashMap;

/// Open visits, by bucket.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    counts: HashMap<String, usize>,
    /// The process that counts them. A forked child inherits its parent's counts, but nobody there would end those visits.
    process: u32,
}

impl Visits {
    fn settle(&mut self) {
        if self.process != std::process::id() {
            *self = Self { counts: HashMap::new(), process: std::process::id() };
        }
    }

    /// Starts a visit. Returns whether it is the only one.
    pub fn begin(&mut self, root: &str) -> bool {
        self.settle();
        let count = self.counts.entry(root.to_owned()).or_default();
        *count += 1;
        *count == 1
    }

    /// Ends a visit. Returns whether it was the last.
    pub fn end(&mut self, root: &str) -> bool {
        self.settle();
        let Some(count) = self.counts.get_mut(root) else { return true };
        *count -= 1;
        let is_last = *count == 0;
        if is_last {
            self.counts.remove(root);
        }
        is_last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_visit_and_the_end_of_the_last_are_told() {
        let mut visits = Visits::default();
        assert!(visits.begin("s3://one") && visits.begin("s3://other"));
        assert!(!visits.begin("s3://one"));
        assert!(!visits.end("s3://one") && visits.end("s3://one") && visits.end("s3://other"));
        assert!(visits.begin("s3://one"));
        visits.process += 1;
        assert!(visits.begin("s3://one"), "the parent's visits are not this process's");
    }
}
