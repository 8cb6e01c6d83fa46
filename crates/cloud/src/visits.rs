//! Counts the visits to each bucket: what is known about it is kept as long as there is one.

use std::collections::HashMap;

use datadir::remote::StorageOptions;

/// Open visits, by bucket.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    counts: HashMap<String, usize>,
    /// How the newest visit reaches the bucket.
    options: HashMap<String, StorageOptions>,
    /// The process that counts them. A forked child inherits its parent's counts, but nobody there would end those visits.
    process: u32,
}

impl Visits {
    fn settle(&mut self) {
        if self.process != std::process::id() {
            self.counts.clear();
            self.process = std::process::id();
        }
    }

    /// How to reach a bucket.
    pub fn options(&self, root: &str) -> StorageOptions {
        self.options.get(root).cloned().unwrap_or_default()
    }

    /// Whether one of the buckets is being visited with other options.
    pub fn is_barred(&mut self, roots: &[String], options: &StorageOptions) -> bool {
        self.settle();
        roots.iter().any(|root| self.counts.contains_key(root) && self.options(root) != *options)
    }

    /// Starts a visit. Returns whether it is the only one.
    pub fn begin(&mut self, root: &str, options: &StorageOptions) -> bool {
        self.settle();
        self.options.insert(root.to_owned(), options.clone());
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
        let (mut visits, none) = (Visits::default(), StorageOptions::new());
        assert!(visits.begin("s3://one", &none) && visits.begin("s3://other", &none));
        assert!(!visits.begin("s3://one", &none));
        assert!(!visits.end("s3://one") && visits.end("s3://one") && visits.end("s3://other"));
        assert!(visits.begin("s3://one", &none));
        visits.process += 1;
        assert!(visits.begin("s3://one", &none), "the parent's visits are not this process's");
    }

    #[test]
    fn a_bucket_is_visited_with_one_set_of_options_at_a_time() {
        let (mut visits, none) = (Visits::default(), StorageOptions::new());
        let guest = StorageOptions::from([("anon".to_owned(), "true".to_owned())]);
        let both = ["s3://one".to_owned(), "s3://other".to_owned()];
        visits.begin("s3://one", &guest);
        assert!(visits.is_barred(&both, &none) && !visits.is_barred(&both, &guest));
        visits.end("s3://one");
        assert!(!visits.is_barred(&both, &none));
        assert_eq!(visits.options("s3://one"), guest, "as long as no other comes");
    }
}
