//! A bucket's client, its retries, and whether the server answers.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datadir::remote::StorageOptions;
use object_store::ObjectStore;

use crate::carrier::PerProcess;
use crate::clients::{self, Secrets};
use crate::fault::{Fault, Trouble};
use crate::guard::Odd;
use crate::options::Signer;
use crate::place::{Place, Scheme};
use crate::policy::Policy;
use crate::tally::Tally;

/// A bucket, or a web server.
#[derive(Debug)]
pub(crate) struct Store {
    pub scheme: Scheme,
    place: Place,
    /// What no report shows.
    secrets: Secrets,
    /// Names in its listings that are no paths.
    pub odd: Odd,
    client: PerProcess<Arc<dyn ObjectStore>>,
    pub policy: Policy,
    pub tally: Arc<Tally>,
    began: Instant,
    /// When it last answered anything, in milliseconds since this store was created, at least 1; 0 for never.
    answered: AtomicU64,
    /// Why no more requests are sent, after one got no answer to any of its tries.
    silent: OnceLock<Fault>,
    /// A request failed other than by a missing object: the credentials may have expired, or the network may be back by the next visit.
    failed: AtomicBool,
    /// Hash of the environment that the credentials come from.
    settings: u64,
}

impl Store {
    pub fn new(place: &Place, secrets: Secrets, policy: Policy, tally: Arc<Tally>) -> Self {
        Self {
            scheme: place.scheme,
            place: place.clone(),
            secrets,
            odd: Odd::default(),
            client: PerProcess::default(),
            policy,
            tally,
            began: Instant::now(),
            answered: AtomicU64::new(0),
            silent: OnceLock::new(),
            failed: AtomicBool::new(false),
            settings: clients::settings(),
        }
    }

    /// Its client.
    ///
    /// # Errors
    /// What is missing or unusable.
    pub fn client(&self) -> Result<Arc<dyn ObjectStore>, Fault> {
        let connect = || clients::connect(&self.place, &self.secrets, &self.policy, &self.odd);
        let client = self.client.get(connect);
        client.map_err(|words| self.remember(Fault::new(io::ErrorKind::InvalidInput, words)))
    }

    /// Whether the next visit can reuse it: nothing has failed, and the environment is unchanged.
    pub fn is_fit(&self) -> bool {
        // Relaxed, here and below: set once and never reset. Faults themselves are handed over by locks.
        !self.failed.load(Ordering::Relaxed)
            && self.secrets.query.is_none()
            && self.secrets.login.is_none()
            && self.settings == clients::settings()
    }

    /// Whether it reaches its bucket with these options.
    pub fn has(&self, options: &StorageOptions) -> bool {
        self.secrets.options == *options
    }

    fn remember(&self, fault: Fault) -> Fault {
        if fault.kind != io::ErrorKind::NotFound {
            // Relaxed: see above.
            self.failed.store(true, Ordering::Relaxed);
        }
        fault
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// Notes that the store answered, whatever the answer was.
    pub fn answered(&self) {
        // Relaxed, here and in `given_up`: the time stands alone, and it is read only after seconds of waiting.
        self.answered.fetch_max(self.now(), Ordering::Relaxed);
    }

    /// Begins a request.
    ///
    /// # Errors
    /// The store does not answer.
    pub fn begin(&self) -> Result<Tries<'_>, Fault> {
        match self.silent.get() {
            Some(fault) => Err(fault.clone()),
            None => Ok(Tries { store: self, number: 0, began: self.now() }),
        }
    }
}

/// The tries of one request.
pub(crate) struct Tries<'s> {
    store: &'s Store,
    number: u32,
    began: u64,
}

impl Tries<'_> {
    /// Notes a failed try, and waits until the next one is due.
    ///
    /// # Errors
    /// There were enough tries.
    pub async fn after(&mut self, trouble: Trouble) -> Result<(), Fault> {
        self.next(trouble).await.map_err(|fault| self.store.remember(fault))
    }

    async fn next(&mut self, trouble: Trouble) -> Result<(), Fault> {
        let reason = match trouble {
            Trouble::Final(mut fault) => {
                self.store.answered();
                if fault.kind == io::ErrorKind::PermissionDenied && !fault.words.contains(':') {
                    let signer = Signer::of(self.store.scheme, &self.store.secrets.options);
                    fault.words = format!("{}: {}", fault.words, signer.why_denied());
                }
                return Err(fault);
            }
            Trouble::Passing(reason) => reason,
        };
        if let Some(fault) = self.store.silent.get() {
            return Err(fault.clone());
        }
        self.number += 1;
        if self.number > self.store.policy.retries {
            return Err(self.given_up(&reason));
        }
        self.store.tally.retried(&reason);
        tokio::time::sleep(Policy::pause(self.number, chance())).await;
        Ok(())
    }

    /// Notes that a good part of the answer arrived, so that the next failure counts as the first.
    pub fn progressed(&mut self) {
        self.number = 0;
        self.began = self.store.now();
    }

    /// Gives up. If no other request was answered meanwhile either, declares the store silent, so that the next ten thousand objects do not
    /// wait as long.
    fn given_up(&self, reason: &str) -> Fault {
        let waited = Duration::from_millis(self.store.now().saturating_sub(self.began));
        let tries = match self.number {
            1 => "1 try".to_owned(),
            number => format!("{number} tries"),
        };
        let words = format!("no useful answer after {tries} in {:.1} s: {reason}", waited.as_secs_f64());
        let fault = Fault::new(std::io::ErrorKind::TimedOut, words);
        // Relaxed: see `answered`.
        if self.store.answered.load(Ordering::Relaxed) < self.began {
            return self.store.silent.get_or_init(|| fault).clone();
        }
        fault
    }
}

/// A number that differs between requests that fail at the same time.
fn chance() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) as u32
}
