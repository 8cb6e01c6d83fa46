//! A bucket: its client, and whether it answers.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use object_store::ObjectStore;

use crate::carrier::PerProcess;
use crate::clients;
use crate::fault::{Fault, Trouble};
use crate::place::{Place, Scheme};
use crate::policy::Policy;
use crate::tally::Tally;

/// A bucket, or a web server.
#[derive(Debug)]
pub(crate) struct Store {
    pub scheme: Scheme,
    place: Place,
    /// What signs requests to a web server.
    query: Option<String>,
    client: PerProcess<Arc<dyn ObjectStore>>,
    pub policy: Policy,
    pub tally: Arc<Tally>,
    began: Instant,
    /// When it last answered anything, in milliseconds since it began, from 1; 0 for never.
    answered: AtomicU64,
    /// Nothing was answered during all the tries of a request: why no others are made.
    silent: OnceLock<Fault>,
    /// A request failed for another reason than that nothing has the name: the credentials may be old, or the network may be back.
    failed: AtomicBool,
    /// Of the environment that the credentials come from.
    settings: u64,
}

impl Store {
    pub fn new(place: &Place, query: Option<String>, policy: Policy, tally: Arc<Tally>) -> Self {
        Self {
            scheme: place.scheme,
            place: place.clone(),
            query,
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

    /// What speaks to it.
    ///
    /// # Errors
    /// What is missing or unusable.
    pub fn client(&self) -> Result<Arc<dyn ObjectStore>, Fault> {
        let connect = || clients::connect(&self.place, self.query.as_deref(), &self.policy);
        let client = self.client.get(connect);
        client.map_err(|words| self.remember(Fault::new(io::ErrorKind::InvalidInput, words)))
    }

    /// Whether the next visit may use it too: nothing has failed, and the environment is the same.
    pub fn is_fit(&self) -> bool {
        !self.failed.load(Ordering::Relaxed) && self.query.is_none() && self.settings == clients::settings()
    }

    fn remember(&self, fault: Fault) -> Fault {
        if fault.kind != io::ErrorKind::NotFound {
            self.failed.store(true, Ordering::Relaxed);
        }
        fault
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// The store answered, whatever it said.
    pub fn answered(&self) {
        self.answered.fetch_max(self.now(), Ordering::Relaxed);
    }

    /// Begins a request.
    ///
    /// # Errors
    /// The store is silent, so there is no point.
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
    /// A try failed. Returns when it is time for the next one.
    ///
    /// # Errors
    /// There will be none.
    pub async fn after(&mut self, trouble: Trouble) -> Result<(), Fault> {
        self.next(trouble).await.map_err(|fault| self.store.remember(fault))
    }

    async fn next(&mut self, trouble: Trouble) -> Result<(), Fault> {
        let reason = match trouble {
            Trouble::Final(fault) => {
                self.store.answered();
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

    /// A good part of the answer arrived: what failed after it is another failure.
    pub fn progressed(&mut self) {
        self.number = 0;
        self.began = self.store.now();
    }

    /// No more tries. If nobody else was answered meanwhile either, the store is silent: ten thousand objects must not wait as long again.
    fn given_up(&self, reason: &str) -> Fault {
        let waited = Duration::from_millis(self.store.now().saturating_sub(self.began));
        let tries = match self.number {
            1 => "1 try".to_owned(),
            number => format!("{number} tries"),
        };
        let words = format!("no useful answer after {tries} in {:.1} s: {reason}", waited.as_secs_f64());
        let fault = Fault::new(std::io::ErrorKind::TimedOut, words);
        if self.store.answered.load(Ordering::Relaxed) < self.began {
            return self.store.silent.get_or_init(|| fault).clone();
        }
        fault
    }
}

/// A number that differs between requests that failed together.
fn chance() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) as u32
}
