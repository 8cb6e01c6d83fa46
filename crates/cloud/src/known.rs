//! What listings and lookups have returned so far.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use datadir::remote::{Missed, RemoteObject};

use crate::fault::Fault;
use crate::fetch::Object;

/// What a name in a prefix stands for. It may be an object and a longer prefix at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    pub object: Option<Arc<Object>>,
    /// The number of the longer prefix.
    pub prefix: Option<u64>,
}

/// Whether a URL is the bucket's or lies in it.
pub(crate) fn is_in(url: &str, root: &str) -> bool {
    url.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Everything known, by URL without a trailing slash.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// Prefixes, and what has been seen directly below them.
    prefixes: HashMap<String, BTreeMap<String, Node>>,
    objects: HashMap<String, Arc<Object>>,
    numbers: HashMap<String, u64>,
    /// Prefixes whose whole subtree is known.
    whole: HashSet<String>,
    /// Prefixes whose direct children are all known.
    listed: HashSet<String>,
    /// Names known not to exist.
    absent: HashMap<String, Fault>,
    next: u64,
}

impl Known {
    /// The next unused number.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn object(&self, url: &str) -> Option<Arc<Object>> {
        self.objects.get(url).map(Arc::clone)
    }

    /// The number of a prefix.
    pub fn prefix(&self, url: &str) -> Option<u64> {
        self.numbers.get(url).copied()
    }

    pub fn absent(&self, url: &str) -> Option<Fault> {
        self.absent.get(url).cloned()
    }

    pub fn is_absent(&mut self, url: &str, fault: &Fault) {
        self.absent.insert(url.to_owned(), fault.clone());
    }

    /// Whether a listing covers `url`: if it is not known then, it does not exist.
    pub fn is_covered(&self, url: &str) -> bool {
        let mut above = url;
        if self.whole.contains(above) {
            return true;
        }
        while let Some((parent, _)) = above.rsplit_once('/') {
            let is_right_below = above.len() == url.len();
            if self.whole.contains(parent) || is_right_below && self.listed.contains(parent) {
                return true;
            }
            above = parent;
        }
        false
    }

    /// The direct children of a prefix, if all are known.
    pub fn children(&self, url: &str) -> Option<Vec<(String, Node)>> {
        let is_known = self.listed.contains(url) || self.is_covered(url);
        let children = self.prefixes.get(url).filter(|_| is_known)?;
        Some(children.iter().map(|(name, node)| (name.clone(), node.clone())).collect())
    }

    /// Adds an object. A known object keeps the version that was first seen.
    pub fn add_object(&mut self, object: &Arc<Object>) -> Arc<Object> {
        let kept = Arc::clone(self.objects.entry(object.url.clone()).or_insert_with(|| Arc::clone(object)));
        if let Some((parent, name)) = object.url.rsplit_once('/') {
            self.add_prefix(parent);
            let node = self.prefixes.entry(parent.to_owned()).or_default().entry(name.to_owned()).or_default();
            node.object = Some(Arc::clone(&kept));
        }
        kept
    }

    /// Adds a prefix and all shorter ones, up to the bucket. Returns its number.
    pub fn add_prefix(&mut self, url: &str) -> u64 {
        if let Some(number) = self.numbers.get(url) {
            return *number;
        }
        let number = self.number();
        self.numbers.insert(url.to_owned(), number);
        self.prefixes.entry(url.to_owned()).or_default();
        if let Some((parent, name)) = url.rsplit_once('/').filter(|(parent, _)| !parent.ends_with('/')) {
            self.add_prefix(parent);
            self.prefixes.entry(parent.to_owned()).or_default().entry(name.to_owned()).or_default().prefix =
                Some(number);
        }
        number
    }

    /// Objects that failed, with the reason.
    pub fn broken(&self) -> Vec<Missed> {
        self.objects.values().filter_map(|object| object.failure()).collect()
    }

    /// Forgets a bucket and everything in it.
    pub fn forget(&mut self, root: &str) {
        self.prefixes.retain(|url, _| !is_in(url, root));
        self.objects.retain(|url, _| !is_in(url, root));
        self.numbers.retain(|url, _| !is_in(url, root));
        self.whole.retain(|url| !is_in(url, root));
        self.listed.retain(|url| !is_in(url, root));
        self.absent.retain(|url, _| !is_in(url, root));
    }

    /// Records that the prefix's whole subtree has been added.
    pub fn close_whole(&mut self, url: &str) {
        self.drop_markers(url);
        self.whole.insert(url.to_owned());
    }

    /// Records that the prefix's direct children have all been added.
    pub fn close_listed(&mut self, url: &str) {
        self.listed.insert(url.to_owned());
    }

    /// Tools that show buckets as folders create an empty object for each folder. It is not a file if anything is below it.
    fn drop_markers(&mut self, url: &str) {
        let below = format!("{url}/");
        for (prefix, children) in &mut self.prefixes {
            if prefix != url && !prefix.starts_with(&below) {
                continue;
            }
            for (name, node) in children.iter_mut().filter(|(_, node)| node.prefix.is_some()) {
                if node.object.take_if(|object| object.len == 0).is_some() {
                    self.objects.remove(&format!("{prefix}/{name}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_forgotten_and_one_of_a_longer_name_is_not() {
        let mut known = Known::default();
        for url in ["s3://lab/db/a", "s3://lab", "s3://laboratory/db"] {
            known.add_prefix(url);
            known.close_listed(url);
            known.is_absent(&format!("{url}/none"), &Fault::new(std::io::ErrorKind::NotFound, "absent"));
        }
        let before = known.prefix("s3://laboratory/db");
        known.forget("s3://lab");
        assert_eq!((known.prefix("s3://lab"), known.prefix("s3://lab/db")), (None, None));
        assert!(known.absent("s3://lab/none").is_none() && known.children("s3://lab").is_none());
        assert!(!known.is_covered("s3://lab/db/a/other") && known.is_covered("s3://laboratory/db/other"));
        assert!(before.is_some() && known.prefix("s3://laboratory/db") == before);
        assert!(known.add_prefix("s3://lab/db") > before.unwrap_or(0), "no number is given twice");
    }
}
