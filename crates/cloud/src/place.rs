//! Parses URLs: scheme, bucket, object.

use std::path::Path;

/// The kind of storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    /// Amazon S3, and everything that speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
    /// A web server: single objects, no listings.
    Https,
}

const SCHEMES: [(&str, Scheme); 4] =
    [("s3://", Scheme::S3), ("gs://", Scheme::Gcs), ("az://", Scheme::Azure), ("https://", Scheme::Https)];

/// A parsed URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub scheme: Scheme,
    /// The bucket, the container, or the web server's host and port.
    pub bucket: String,
    /// The object's name or a prefix, without leading and trailing slashes; may be empty.
    pub key: String,
    /// Whether it ends in a slash or has no key, so that it can only be a prefix.
    pub is_prefix: bool,
}

impl Place {
    /// Parses a URL. `None` for anything else, and without a bucket.
    pub fn of(path: &Path) -> Option<Self> {
        let text = path.to_str()?;
        let (prefix, scheme) = SCHEMES.iter().find(|(prefix, _)| text.starts_with(prefix))?;
        let rest = text.get(prefix.len()..)?;
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return None;
        }
        let is_prefix = key.is_empty() || key.ends_with('/');
        let key = key.trim_matches('/').to_owned();
        Some(Self { scheme: *scheme, bucket: bucket.to_owned(), key, is_prefix })
    }

    /// The URL of the bucket.
    pub fn root(&self) -> String {
        let scheme = SCHEMES.iter().find(|(_, scheme)| *scheme == self.scheme).map_or("", |(prefix, _)| prefix);
        format!("{scheme}{}", self.bucket)
    }

    /// The key as the storage knows it. Web server paths are percent-encoded; keys are not.
    pub fn decoded(&self) -> String {
        if self.scheme != Scheme::Https {
            return self.key.clone();
        }
        let mut bytes = Vec::with_capacity(self.key.len());
        let mut rest = self.key.as_bytes();
        while let Some((first, after)) = rest.split_first() {
            let pair = after.get(..2).filter(|_| *first == b'%').and_then(|pair| std::str::from_utf8(pair).ok());
            let byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
            bytes.push(byte.unwrap_or(*first));
            rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The URL without a trailing slash, which is how this crate names it.
    pub fn url(&self) -> String {
        if self.key.is_empty() { self.root() } else { format!("{}/{}", self.root(), self.key) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    fn read(url: &str) -> Option<(Scheme, String, String, bool)> {
        Place::of(Path::new(url)).map(|place| (place.scheme, place.bucket, place.key, place.is_prefix))
    }

    #[test]
    fn a_url_is_a_bucket_and_a_key() {
        let case = |scheme, bucket: &str, key: &str, is_prefix| Some((scheme, bucket.into(), key.into(), is_prefix));
        assert_eq!(read("s3://b/db/t.ibd"), case(Scheme::S3, "b", "db/t.ibd", false));
        assert_eq!(read("gs://b/db/"), case(Scheme::Gcs, "b", "db", true));
        assert_eq!(read("az://b"), case(Scheme::Azure, "b", "", true));
        assert_eq!(read("https://host:9000/a/t.ibd"), case(Scheme::Https, "host:9000", "a/t.ibd", false));
        assert_eq!(read("s3://b/t#p#p0.ibd"), case(Scheme::S3, "b", "t#p#p0.ibd", false));
        assert_eq!((read("s3:///k"), read("/s3://b"), read("ftp://b/k")), (None, None, None));
        let decoded = |url: &str| Place::of(Path::new(url)).unwrap().decoded();
        assert_eq!(decoded("https://h/a%20b/%23c%zz%"), "a b/#c%zz%");
        assert_eq!(decoded("s3://b/a%20b"), "a%20b");
        assert_eq!(Place::of(Path::new("s3://b/p/")).unwrap().url(), "s3://b/p");
    }
}
