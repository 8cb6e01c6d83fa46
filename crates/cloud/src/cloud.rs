//! A process's view of object storage, as jobs use it: resolves URLs to objects and prefixes, and reads their bytes.

use std::any::Any;
use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use datadir::remote::{Missed, Remote, RemoteMeta, RemoteObject, RemoteVersion, SetFile, StorageOptions};
use flow::SharedEngine;
use object_store::ObjectMeta;
use object_store::path::Path as Location;

use crate::blocks::{BLOCK, Blocks};
use crate::carrier::Carrier;
use crate::clients::Secrets;
use crate::engine::{Ranges, Source};
use crate::fault::{self, Fault};
use crate::fetch::{Object, look_up};
use crate::known::{Known, Node, is_in};
use crate::listing;
use crate::options;
use crate::place::{Place, Scheme};
use crate::policy::Policy;
use crate::store::Store;
use crate::tally::Tally;
use crate::visits::Visits;

/// Buckets and web servers, read with the credentials of the environment. Starts nothing until the first URL is read.
#[derive(Debug)]
pub struct Cloud {
    policy: Policy,
    tally: Arc<Tally>,
    carrier: Arc<Carrier>,
    stores: Mutex<HashMap<String, Arc<Store>>>,
    known: Mutex<Known>,
    visits: Mutex<Visits>,
    /// A visit has ended.
    left: Condvar,
    /// `user:password` of web servers, by the URL of the server.
    logins: Mutex<HashMap<String, String>>,
    /// Query strings of signed web server URLs, by URL.
    queries: Mutex<HashMap<String, String>>,
    blocks: Arc<Blocks>,
    /// Paths that could not be read, and the reason to show the user.
    failures: Mutex<Vec<Missed>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Maps and lists stay valid if another thread panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cloud {
    /// Storage with these timeouts and retries.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        let (tally, carrier, blocks) = (Arc::default(), Arc::default(), Arc::default());
        let (stores, known, visits) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (logins, queries, failures) = (Mutex::default(), Mutex::default(), Mutex::default());
        let left = Condvar::new();
        Self { policy, tally, carrier, stores, known, visits, left, logins, queries, blocks, failures }
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        self.carrier.wait(work)
    }

    fn store(&self, place: &Place) -> Arc<Store> {
        // One client per bucket, and one per signed URL.
        let query = lock(&self.queries).get(&place.url()).cloned();
        let login = lock(&self.logins).get(&place.root()).cloned();
        let name = query.as_ref().map_or_else(|| place.root(), |_| place.url());
        let options = lock(&self.visits).options(&place.root());
        let mut stores = lock(&self.stores);
        if let Some(store) = stores.get(&name).filter(|store| store.has(&options)) {
            return Arc::clone(store);
        }
        let secrets = Secrets { query, login, options };
        let store = Arc::new(Store::new(place, secrets, self.policy, Arc::clone(&self.tally)));
        stores.insert(name, Arc::clone(&store));
        store
    }

    /// Forgets what is known about a bucket, and its client unless it can be reused.
    fn forget(&self, root: &str) {
        lock(&self.known).forget(root);
        lock(&self.stores).retain(|name, store| !is_in(name, root) || store.is_fit());
        for store in lock(&self.stores).iter().filter(|(name, _)| is_in(name, root)).map(|(_, store)| store) {
            lock(&store.odd).clear();
        }
        lock(&self.failures).retain(|missed| !missed.path.to_str().is_some_and(|url| is_in(url, root)));
    }

    /// The URL of a web server without the user and the password in it, which are kept for the requests.
    fn without_login(&self, path: PathBuf) -> PathBuf {
        let rest = path.to_str().and_then(|text| text.strip_prefix("https://"));
        let Some(rest) = rest else { return path };
        let (host, _) = rest.split_once(['/', '?']).unwrap_or((rest, ""));
        let Some((login, _)) = host.rsplit_once('@') else { return path };
        let plain = PathBuf::from(format!("https://{}", rest.get(login.len() + 1..).unwrap_or_default()));
        if let Some(place) = Place::of(&plain) {
            // The rest of a signed URL belongs to the object, not to the server.
            let root = place.root();
            let root = root.split('?').next().unwrap_or_default().to_owned();
            lock(&self.logins).insert(root, login.to_owned());
        }
        plain
    }

    /// Records a path that could not be read.
    fn failed(&self, path: &Path, fault: &Fault) {
        let mut failures = lock(&self.failures);
        if failures.iter().all(|failed| failed.path != path) {
            failures.push(Missed { path: path.to_path_buf(), why: fault.words.clone(), kind: fault.kind });
        }
    }

    /// What is known about a URL without a request.
    fn known_as(&self, url: &str) -> Option<Result<RemoteMeta, Fault>> {
        let known = lock(&self.known);
        if let Some(object) = known.object(url) {
            return Some(Ok(object.meta()));
        }
        if let Some(number) = known.prefix(url).filter(|_| known.is_covered(url)) {
            return Some(Ok(RemoteMeta { is_dir: true, len: 0, number }));
        }
        if let Some(fault) = known.absent(url) {
            return Some(Err(fault));
        }
        known.is_covered(url).then(|| Err(Fault::new(io::ErrorKind::NotFound, "the listing has no such object")))
    }

    fn add(&self, place: &Place, store: &Arc<Store>, meta: ObjectMeta) -> Arc<Object> {
        self.add_as(format!("{}/{}", place.root(), meta.location), store, meta)
    }

    fn add_as(&self, url: String, store: &Arc<Store>, meta: ObjectMeta) -> Arc<Object> {
        let mut known = lock(&self.known);
        let number = known.number();
        known.add_object(&Arc::new(Object::new(url, store, meta, number)))
    }

    /// Looks up the object with that name.
    fn ask(&self, place: &Place, store: &Arc<Store>) -> Result<RemoteMeta, Fault> {
        let location = location(place)?;
        let meta = self.wait(look_up(store, &location))?;
        Ok(self.add_as(place.url(), store, meta).meta())
    }

    /// Lists everything below a prefix.
    fn list_whole(&self, place: &Place, store: &Arc<Store>) -> Result<RemoteMeta, Fault> {
        if place.scheme == Scheme::Https {
            return Err(Fault::new(io::ErrorKind::Unsupported, "a web server gives no listings: name each file"));
        }
        let prefix = location(place)?;
        let found = self.wait(listing::below(store, Some(&prefix).filter(|_| !place.key.is_empty())))?;
        if found.is_empty() {
            return Err(Fault::new(
                io::ErrorKind::NotFound,
                match place.key.is_empty() {
                    true => "the bucket is empty",
                    false => "there is no object of this name, and none below it",
                },
            ));
        }
        for meta in found {
            self.add(place, store, meta);
        }
        let mut known = lock(&self.known);
        known.close_whole(&place.url());
        let number = known.add_prefix(&place.url());
        Ok(RemoteMeta { is_dir: true, len: 0, number })
    }

    fn name(&self, place: &Place) -> Result<RemoteMeta, Fault> {
        let store = self.store(place);
        if place.is_prefix {
            return self.list_whole(place, &store);
        }
        let refused = match self.ask(place, &store) {
            Err(fault) if matches!(fault.kind, io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) => fault,
            other => return other,
        };
        // Without the right to list, a missing object is reported as "denied". With only the right to list, an existing one is.
        match self.list_whole(place, &store) {
            Err(_) if place.scheme == Scheme::Https => Err(refused),
            // A refused listing comes with a body that explains more.
            Err(other) if other.kind == io::ErrorKind::PermissionDenied => Err(other),
            Err(_) if refused.kind == io::ErrorKind::PermissionDenied => Err(refused),
            other => other,
        }
    }

    /// Looks for a file beside those that the user named.
    fn probe(&self, place: &Place) -> Result<RemoteMeta, Fault> {
        let store = self.store(place);
        let absent = match place.is_prefix {
            true => Fault::new(io::ErrorKind::NotFound, "not looked up"),
            false => match self.ask(place, &store) {
                Err(fault) if fault.kind == io::ErrorKind::NotFound => fault,
                other => return other,
            },
        };
        if place.scheme == Scheme::Https {
            return Err(absent);
        }
        let children = self.list_beside(place, &store)?;
        match children.is_empty() {
            true => Err(absent),
            false => Ok(RemoteMeta { is_dir: true, len: 0, number: lock(&self.known).add_prefix(&place.url()) }),
        }
    }

    fn list_beside(&self, place: &Place, store: &Arc<Store>) -> Result<Vec<(String, Node)>, Fault> {
        let prefix = location(place)?;
        let found = self.wait(listing::beside(store, Some(&prefix).filter(|_| !place.key.is_empty())))?;
        let (objects, prefixes) = found;
        for meta in objects {
            self.add(place, store, meta);
        }
        let mut known = lock(&self.known);
        for prefix in prefixes {
            known.add_prefix(&format!("{}/{prefix}", place.root()));
        }
        known.add_prefix(&place.url());
        known.close_listed(&place.url());
        Ok(known.children(&place.url()).unwrap_or_default())
    }

    fn children(&self, place: &Place) -> Result<Vec<(String, Node)>, Fault> {
        if let Some(children) = lock(&self.known).children(&place.url()) {
            return Ok(children);
        }
        if place.scheme == Scheme::Https {
            return Err(Fault::new(io::ErrorKind::Unsupported, "a web server gives no listings: name each file"));
        }
        self.list_beside(place, &self.store(place))
    }

    fn object(&self, path: &Path) -> Result<Arc<Object>, Fault> {
        let gone = || Fault::new(io::ErrorKind::NotFound, "there is no such object");
        let url = Place::of(path).ok_or_else(gone)?.url();
        if lock(&self.known).object(&url).is_none() {
            self.look(path)?;
        }
        lock(&self.known).object(&url).ok_or_else(gone)
    }

    /// Registers a path as an object that was found earlier, without a request.
    fn take_for(&self, path: &Path, version: &RemoteVersion) -> Result<(), Fault> {
        let unnamed = || Fault::new(io::ErrorKind::InvalidInput, "this URL names no bucket");
        let place = Place::of(path).ok_or_else(unnamed)?;
        let (store, location) = (self.store(&place), location(&place)?);
        let mut known = lock(&self.known);
        let number = known.number();
        let object = Object::expected(place.url(), &store, location, version, number);
        if known.add_object(&Arc::new(object)).is(version) { Ok(()) } else { Err(fault::replaced()) }
    }

    /// What a path is. Sends at most one request per path.
    fn look(&self, path: &Path) -> Result<RemoteMeta, Fault> {
        let place =
            Place::of(path).ok_or_else(|| Fault::new(io::ErrorKind::InvalidInput, "this URL names no bucket"))?;
        if let Some(known) = self.known_as(&place.url()) {
            return known;
        }
        self.probe(&place).inspect_err(|fault| {
            lock(&self.known).is_absent(&place.url(), fault);
            // A file that the user did not name may be unreadable. A storage that cannot be reached at all is an error.
            if !matches!(fault.kind, io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) {
                self.failed(path, fault);
            }
        })
    }

    fn bytes(&self, object: &Arc<Object>, bytes: &mut [u8], offset: u64) -> Result<usize, Fault> {
        if let Some(got) = self.blocks.copy(object.number, object.len, offset, bytes) {
            return Ok(got);
        }
        if bytes.len() >= BLOCK { self.wait(object.fill(bytes, offset)) } else { self.part(object, bytes, offset) }
    }

    /// Fetches the block with the first of these bytes, and copies the bytes it holds.
    fn part(&self, object: &Arc<Object>, bytes: &mut [u8], offset: u64) -> Result<usize, Fault> {
        let start = offset - offset % BLOCK as u64;
        let block = match self.blocks.find(object.number, start) {
            Some(block) => block,
            None => {
                let mut block = vec![0; BLOCK];
                let got = self.wait(object.fill(&mut block, start))?;
                block.truncate(got);
                let block: Arc<[u8]> = block.into();
                self.blocks.keep(object.number, start, Arc::clone(&block));
                block
            }
        };
        let have = block.get((offset - start) as usize..).unwrap_or_default();
        let len = have.len().min(bytes.len());
        if let (Some(into), Some(from)) = (bytes.get_mut(..len), have.get(..len)) {
            into.copy_from_slice(from);
        }
        Ok(len)
    }
}

impl Remote for Cloud {
    fn has(&self, path: &Path) -> bool {
        Place::of(path).is_some()
    }

    fn enter(&self, path: PathBuf) -> PathBuf {
        let path = self.without_login(path);
        let signed = path.to_str().filter(|text| text.starts_with("https://")).and_then(|text| text.split_once('?'));
        let Some((url, query)) = signed else { return path };
        let plain = PathBuf::from(url);
        if let Some(place) = Place::of(&plain) {
            lock(&self.queries).insert(place.url(), query.to_owned());
        }
        plain
    }

    fn named(&self, path: &Path) -> io::Result<RemoteMeta> {
        let unnamed = || Fault::new(io::ErrorKind::InvalidInput, "this URL names no bucket");
        let place = Place::of(path).ok_or_else(unnamed);
        let found = place.and_then(|place| match self.known_as(&place.url()) {
            Some(Ok(known)) => Ok(known),
            _ => self.name(&place),
        });
        found.map_err(|fault| {
            self.failed(path, &fault);
            fault.to_io()
        })
    }

    fn metadata(&self, path: &Path) -> io::Result<RemoteMeta> {
        self.look(path).map_err(|fault| fault.to_io())
    }

    fn list(&self, path: &Path) -> io::Result<Vec<(OsString, RemoteMeta)>> {
        let unnamed = || Fault::new(io::ErrorKind::InvalidInput, "this URL names no bucket");
        let children = Place::of(path).ok_or_else(unnamed).and_then(|place| self.children(&place));
        let children = children.map_err(|fault| {
            if !matches!(fault.kind, io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) {
                self.failed(path, &fault);
            }
            fault.to_io()
        })?;
        let entries = children.into_iter().flat_map(|(name, node)| {
            let object = node.object.map(|object| object.meta());
            let prefix = node.prefix.map(|number| RemoteMeta { is_dir: true, len: 0, number });
            object.into_iter().chain(prefix).map(move |meta| (OsString::from(&name), meta)).collect::<Vec<_>>()
        });
        Ok(entries.collect())
    }

    fn hold(&self, path: &Path) -> io::Result<Arc<dyn RemoteObject>> {
        let object = self.object(path).map_err(|fault| fault.to_io())?;
        Ok(object)
    }

    fn expect(&self, path: &Path, version: &RemoteVersion) -> io::Result<()> {
        self.take_for(path, version).map_err(|fault| fault.to_io())
    }

    fn read_at(&self, object: &Arc<dyn RemoteObject>, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.bytes(&own(object)?, bytes, offset).map_err(|fault| fault.to_io())
    }

    fn engine(&self, files: Vec<SetFile>) -> Box<dyn SharedEngine> {
        let source = |file| match file {
            SetFile::Here => Source::Here,
            SetFile::There(object) => {
                own(&object).map_or_else(|error| Source::Gone(Fault::of_io(&error)), Source::Object)
            }
            SetFile::Gone(error) => Source::Gone(Fault::of_io(&error)),
        };
        let sources = files.into_iter().map(source).collect();
        Box::new(Ranges { sources, blocks: Arc::clone(&self.blocks), carrier: Arc::clone(&self.carrier) })
    }

    fn takes(&self, path: &Path, given: &StorageOptions) -> Result<(), String> {
        let scheme = Place::of(path).ok_or("this URL names no bucket")?.scheme;
        given.keys().try_for_each(|name| options::setting(scheme, name).map(drop))
    }

    fn visit(&self, paths: &[PathBuf], options: &StorageOptions) {
        let roots: Vec<String> = roots(paths).collect();
        // All at once: of two visits to the same two buckets, neither may wait for the other with one of them.
        let mut visits = lock(&self.visits);
        while visits.is_barred(&roots, options) {
            visits = self.left.wait(visits).unwrap_or_else(PoisonError::into_inner);
        }
        for root in roots {
            if visits.begin(&root, options) {
                self.forget(&root);
            }
        }
    }

    fn leave(&self, paths: &[PathBuf]) {
        let mut visits = lock(&self.visits);
        for root in roots(paths) {
            if visits.end(&root) {
                self.forget(&root);
            }
        }
        drop(visits);
        self.left.notify_all();
    }

    fn failures(&self) -> Vec<Missed> {
        let mut failures = lock(&self.failures).clone();
        failures.extend(lock(&self.known).broken());
        for (name, store) in lock(&self.stores).iter() {
            let why = "its name has an empty part, or the part `.` or `..`: it is no path, and was not read";
            let missed = |key: &String| Missed {
                path: PathBuf::from(format!("{name}/{key}")),
                why: why.to_owned(),
                kind: io::ErrorKind::InvalidFilename,
            };
            failures.extend(lock(&store.odd).iter().map(missed));
        }
        failures.sort_by(|one, other| one.path.cmp(&other.path));
        failures.dedup_by(|one, other| one.path == other.path);
        failures
    }

    fn notes(&self) -> Vec<String> {
        self.tally.notes()
    }
}

/// Downcasts to this crate's object, the only implementation.
fn own(object: &Arc<dyn RemoteObject>) -> io::Result<Arc<Object>> {
    let object: Arc<dyn Any + Send + Sync> = Arc::<dyn RemoteObject>::clone(object);
    object.downcast().map_err(|_| io::ErrorKind::Unsupported.into())
}

/// The buckets of these paths, with repetitions.
fn roots(paths: &[PathBuf]) -> impl Iterator<Item = String> {
    paths.iter().filter_map(|path| Some(Place::of(path)?.root()))
}

fn location(place: &Place) -> Result<Location, Fault> {
    let unusable = |error| Fault::new(io::ErrorKind::InvalidInput, format!("this name cannot be asked for: {error}"));
    Location::parse(place.decoded()).map_err(unusable)
}
