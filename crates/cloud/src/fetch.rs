//! Reads one object: a range request, resumed where it broke off for as long as retrying may help.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use chrono::{DateTime, Utc};
use datadir::remote::{Missed, RemoteMeta, RemoteObject, RemoteVersion};
use futures_util::StreamExt;
use object_store::path::Path as Location;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStoreExt};

use crate::fault::{self, Fault, Trouble};
use crate::place::Scheme;
use crate::store::Store;
use crate::tally::Tally;

/// After receiving this many bytes the connection evidently works, if badly, and the count of tries starts again from zero.
const PROGRESS: usize = 64 << 10;

/// An object, in the version that was first seen.
#[derive(Debug)]
pub(crate) struct Object {
    /// Its URL, which jobs use as its path.
    pub url: String,
    pub store: Arc<Store>,
    pub location: Location,
    pub len: u64,
    /// Identifies its content. A plain web server may send none.
    e_tag: Option<String>,
    modified: DateTime<Utc>,
    /// Unique among all objects and prefixes.
    pub number: u64,
    /// Why it cannot be read, once that is certain.
    pub failed: OnceLock<Fault>,
}

impl Object {
    pub fn new(url: String, store: &Arc<Store>, meta: ObjectMeta, number: u64) -> Self {
        let ObjectMeta { location, last_modified: modified, size: len, e_tag, .. } = meta;
        let e_tag = e_tag.filter(|tag| !tag.trim_matches('"').is_empty());
        Self { url, store: Arc::clone(store), location, len, e_tag, modified, number, failed: OnceLock::new() }
    }

    /// An object found earlier, perhaps by another process. Sends no request.
    pub fn expected(url: String, store: &Arc<Store>, location: Location, version: &RemoteVersion, number: u64) -> Self {
        let RemoteVersion { len, e_tag, modified: (seconds, nanoseconds) } = version.clone();
        let modified = DateTime::from_timestamp(seconds, nanoseconds).unwrap_or_default();
        Self { url, store: Arc::clone(store), location, len, e_tag, modified, number, failed: OnceLock::new() }
    }

    /// Whether it is this version.
    pub fn is(&self, version: &RemoteVersion) -> bool {
        self.has(version.e_tag.as_deref(), version.modified.0, version.len)
    }

    fn has(&self, e_tag: Option<&str>, modified_seconds: i64, len: u64) -> bool {
        let plain = |tag: &str| tag.trim_start_matches("W/").trim_matches('"').to_owned();
        let is_same = match (&self.e_tag, e_tag) {
            (Some(then), Some(now)) => plain(then) == plain(now),
            // Listings give fractions of a second; response headers do not.
            _ => self.modified.timestamp() == modified_seconds,
        };
        is_same && len == self.len
    }

    /// Fills `bytes` from `offset` on, up to the object's end, and returns the number of bytes read. After a permanent failure every
    /// further call fails without a request.
    pub async fn fill(&self, bytes: &mut [u8], offset: u64) -> Result<usize, Fault> {
        let want = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
        let bytes = bytes.get_mut(..want).unwrap_or_default();
        if bytes.is_empty() {
            return Ok(0);
        }
        if let Some(fault) = self.failed.get() {
            return Err(fault.clone());
        }
        match self.tries(bytes, offset).await {
            Ok(()) => Ok(want),
            Err(fault) => Err(self.failed.get_or_init(|| fault).clone()),
        }
    }

    async fn tries(&self, bytes: &mut [u8], offset: u64) -> Result<(), Fault> {
        let mut tries = self.store.begin()?;
        let mut done = 0;
        loop {
            let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) else { return Ok(()) };
            let wanted = rest.len();
            let (got, outcome) = self.attempt(rest, offset + done as u64).await;
            done += got;
            if got >= PROGRESS {
                tries.progressed();
            }
            Tally::count(&self.store.tally.bytes, got as u64);
            match outcome {
                Ok(()) if got == wanted => return Ok(()),
                Ok(()) => {
                    let reason = format!("the answer ended after {got} of {wanted} bytes");
                    tries.after(Trouble::Passing(reason)).await?;
                }
                Err(trouble) => tries.after(trouble).await?,
            }
        }
    }

    /// Sends one request. Returns how many bytes arrived, even if it failed.
    async fn attempt(&self, bytes: &mut [u8], offset: u64) -> (usize, Result<(), Trouble>) {
        let mut got = 0;
        let outcome = self.receive(bytes, offset, &mut got).await;
        (got, outcome)
    }

    async fn receive(&self, bytes: &mut [u8], offset: u64, got: &mut usize) -> Result<(), Trouble> {
        let store = &*self.store;
        Tally::count(&store.tally.ranges, 1);
        let range = GetRange::Bounded(offset..offset + bytes.len() as u64);
        let client = store.client().map_err(Trouble::Final)?;
        let answer = within(store, client.get_opts(&self.location, self.condition(range))).await?;
        store.answered();
        self.is_the_same(&answer.meta).map_err(Trouble::Final)?;
        let mut stream = answer.into_stream();
        let (mut since, mut seen) = (Instant::now(), 0);
        while let Some(part) = within(store, async { stream.next().await.transpose() }).await? {
            let end = *got + part.len();
            let Some(place) = bytes.get_mut(*got..end) else {
                let words = "the server sends more bytes than it was asked for";
                return Err(Trouble::Final(Fault::new(std::io::ErrorKind::InvalidData, words)));
            };
            place.copy_from_slice(&part);
            *got = end;
            store.answered();
            // A byte a second is no silence, but a terabyte of it takes 30,000 years.
            if end - seen >= PROGRESS {
                (since, seen) = (Instant::now(), end);
            } else if end < bytes.len() && since.elapsed() > store.policy.timeout {
                let seconds = since.elapsed().as_secs();
                return Err(Trouble::Passing(format!("only {} bytes came in {seconds} s", end - seen)));
            }
        }
        Ok(())
    }

    /// Makes the request conditional on the listed version. `If-Match` never matches a weak tag, so that one is compared in the response.
    fn condition(&self, range: GetRange) -> GetOptions {
        let if_match = self.e_tag.clone().filter(|tag| !tag.starts_with("W/"));
        GetOptions { range: Some(range), if_match, ..GetOptions::default() }
    }

    fn is_the_same(&self, now: &ObjectMeta) -> Result<(), Fault> {
        let is_same = self.has(now.e_tag.as_deref(), now.last_modified.timestamp(), now.size);
        if is_same { Ok(()) } else { Err(fault::replaced()) }
    }
}

impl RemoteObject for Object {
    fn meta(&self) -> RemoteMeta {
        RemoteMeta { is_dir: false, len: self.len, number: self.number }
    }

    fn version(&self) -> RemoteVersion {
        let modified = (self.modified.timestamp(), self.modified.timestamp_subsec_nanos());
        RemoteVersion { len: self.len, e_tag: self.e_tag.clone(), modified }
    }

    fn failure(&self) -> Option<Missed> {
        let Fault { kind, words } = self.failed.get()?.clone();
        Some(Missed { path: PathBuf::from(&self.url), why: words, kind })
    }
}

/// Looks up the object at a location.
pub(crate) async fn look_up(store: &Store, location: &Location) -> Result<ObjectMeta, Fault> {
    let (client, mut tries) = (store.client()?, store.begin()?);
    loop {
        Tally::count(&store.tally.heads, 1);
        let looked = match store.scheme {
            // A signed URL is valid for one method only, so send a GET. Its range shows whether the server supports ranges.
            Scheme::Https => {
                let range = Some(GetRange::Bounded(0..1));
                let options = GetOptions { range, ..GetOptions::default() };
                within(store, client.get_opts(location, options)).await.map(|answer| answer.meta)
            }
            _ => within(store, client.head(location)).await,
        };
        match looked {
            Ok(meta) => {
                store.answered();
                return Ok(meta);
            }
            Err(trouble) => tries.after(trouble).await?,
        }
    }
}

/// Fails if nothing arrives for too long.
pub(crate) async fn within<T>(
    store: &Store,
    work: impl Future<Output = Result<T, object_store::Error>>,
) -> Result<T, Trouble> {
    let timeout = store.policy.timeout;
    match tokio::time::timeout(timeout, work).await {
        Ok(result) => result.map_err(|error| Trouble::of(&error)),
        Err(_) => Err(Trouble::Passing(format!("nothing came for {} s", timeout.as_secs()))),
    }
}
