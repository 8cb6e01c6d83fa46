//! `innokit.signature.json`: who wrote a backup. A keyed checksum (HMAC-SHA-256) over the names, sizes and SHA-256 of all files in the set.
//!
//! The checksums of a manifest find damage: whoever changes a file can compute them again. This one cannot be made without the key, which is
//! a file that only the hosts that back up and restore have. It proves neither that the backup is the newest nor that nobody has read it.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flow::append::write_whole;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::error::{BackupError, Result, failed, refused};
use crate::door::{self, SetDir};
use crate::manifest::{MANIFEST, SIGNATURE};
use datadir::Error;
use datadir::reading::read_small;

const SCHEMA_VERSION: u32 = 1;
/// What is signed and what names a key are never the same bytes, so that one does not stand for the other.
const OF_FILES: &[u8] = b"innokit backup signature 1\0";
const OF_KEY: &[u8] = b"innokit key id 1\0";
/// Bytes of a key file. 32 random bytes are as strong as the checksum.
const KEY_MIN: usize = 32;
const KEY_MAX: u64 = 64 << 10;
/// Bytes of a signature: half a million files. Read into memory, they take a few times as much.
const SIGNATURE_MAX: u64 = 64 << 20;
/// Bytes read at once.
const PIECE: usize = 1 << 20;

/// The list of a set's files, and the checksum over it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signature {
    schema_version: u32,
    /// Which key it was, without saying anything about it.
    key: String,
    files: BTreeMap<String, Signed>,
    mac: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    size: u64,
    sha256: String,
}

/// A key to sign backups with, or to verify them. Both take the same one.
pub struct SigningKey(Hmac<Sha256>);

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("SigningKey").field(&self.id()).finish()
    }
}

impl SigningKey {
    /// Reads a key file: any bytes, at least 32, which no other user may read.
    ///
    /// # Errors
    /// It cannot be read, is too short or too long, or others can read it.
    pub fn read(path: &Path) -> std::result::Result<Self, Error> {
        let unusable = |why: &str| Error::Unusable { path: path.to_path_buf(), why: why.to_owned() };
        let io = |source| Error::Io { path: path.to_path_buf(), action: "reading the signing key", source };
        let file = door::open_file(path).map_err(io)?;
        if file.metadata().map_err(io)?.mode() & 0o077 != 0 {
            return Err(unusable("others can read or change this key: chmod 600 it; if they may have, make a new one"));
        }
        let mut bytes = Zeroizing::new(Vec::new());
        file.take(KEY_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() < KEY_MIN || bytes.len() as u64 > KEY_MAX {
            return Err(unusable(
                "a signing key has 32 bytes or more, at most 64 KiB: head -c 32 /dev/urandom makes one",
            ));
        }
        <Hmac<Sha256> as KeyInit>::new_from_slice(&bytes).map(Self).map_err(|_| unusable("not a key"))
    }

    /// Names the key in reports and signatures.
    #[must_use]
    pub fn id(&self) -> String {
        let mac = self.mac(OF_KEY, &[]).finalize().into_bytes();
        hex(mac.get(..8).unwrap_or_default())
    }

    fn mac(&self, purpose: &[u8], bytes: &[u8]) -> Hmac<Sha256> {
        let mut mac = self.0.clone();
        mac.update(purpose);
        mac.update(bytes);
        mac
    }
}

impl Signature {
    /// What the checksum is over.
    fn signed_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&(self.schema_version, &self.key, &self.files)).unwrap_or_default()
    }
}

/// Signs a finished backup: reads all of its files once more, and writes the signature beside them.
///
/// # Errors
/// [`BackupError`]: the backup is complete all the same, but not signed.
pub fn sign_backup(set: &Path, key: &SigningKey) -> Result<()> {
    let files = files_of(set)?;
    let mut signature = Signature { schema_version: SCHEMA_VERSION, key: key.id(), files, mac: String::new() };
    signature.mac = hex(&key.mac(OF_FILES, &signature.signed_bytes()).finalize().into_bytes());
    let path = set.join(SIGNATURE);
    let text = serde_json::to_vec_pretty(&signature).map_err(std::io::Error::other);
    text.and_then(|text| write_whole(&path, &text)).map_err(failed(&path, "writing the signature"))?;
    Ok(())
}

/// Verifies that one of the keys signed this set as it is now. Returns the key's id.
///
/// # Errors
/// [`BackupError::Refused`] if none of them did, [`BackupError::Damaged`] if files are not as they were signed.
pub(crate) fn signed_by(set: &Path, keys: &[SigningKey]) -> Result<String> {
    let name = set.display();
    let path = set.join(SIGNATURE);
    let bytes = match read_small(&path, SIGNATURE_MAX) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return refused(format!("{name}: not signed: leave out --trusted to use it all the same"));
        }
        other => other.map_err(failed(&path, "reading the signature"))?,
    };
    let Ok(signature) = serde_json::from_slice::<Signature>(&bytes) else {
        return refused(format!("{name}: not signed: {SIGNATURE} is no signature of this innokit"));
    };
    let Some(key) = keys.iter().find(|key| key.id() == signature.key) else {
        return refused(format!("{name}: not signed with any of the keys of --trusted: it names another key"));
    };
    let stored = unhex(&signature.mac).unwrap_or_default();
    if signature.schema_version != SCHEMA_VERSION
        || key.mac(OF_FILES, &signature.signed_bytes()).verify_slice(&stored).is_err()
    {
        return refused(format!("{name}: not signed: the signature was not made with key {}", key.id()));
    }
    compare(set, &signature.files, &files_of(set)?)?;
    Ok(signature.key)
}

/// The key that a set says it was signed with, which proves nothing: whoever changed the set can have written it. `None` if it is not signed.
pub(super) fn claimed_by(set: &Path) -> Option<String> {
    let bytes = read_small(&set.join(SIGNATURE), SIGNATURE_MAX).ok()?;
    serde_json::from_slice::<Signature>(&bytes).ok().map(|signature| signature.key)
}

fn compare(set: &Path, signed: &BTreeMap<String, Signed>, there: &BTreeMap<String, Signed>) -> Result<()> {
    let names = signed.keys().chain(there.keys());
    let wrong = names.filter_map(|name| match (signed.get(name), there.get(name)) {
        (Some(_), None) => Some((name, "it is missing")),
        (None, Some(_)) => Some((name, "it was added since")),
        (signed, there) if signed != there => Some((name, "it was changed since")),
        _ => None,
    });
    match wrong.min() {
        Some((name, why)) => {
            Err(BackupError::Damaged(format!("{}: not as it was signed: {name}: {why}", set.display())))
        }
        None => Ok(()),
    }
}

/// All files below the set but the signature. A link, a pipe or a device is none.
fn files_of(set: &Path) -> Result<BTreeMap<String, Signed>> {
    let (mut files, mut dirs) = (BTreeMap::new(), vec![PathBuf::new()]);
    let beneath = SetDir::open(set).map_err(failed(set, "opening the directory"))?;
    while let Some(dir) = dirs.pop() {
        let full = set.join(&dir);
        for entry in fs::read_dir(&full).map_err(failed(&full, "reading the directory"))? {
            let entry = entry.map_err(failed(&full, "reading the directory"))?;
            let (name, kind) =
                (dir.join(entry.file_name()), entry.file_type().map_err(failed(&full, "looking at it"))?);
            if kind.is_dir() {
                dirs.push(name);
            } else if name != Path::new(SIGNATURE) {
                let path = set.join(&name);
                let file = door::plain(&name).and_then(|name| beneath.read(&name));
                let signed = file.and_then(sum).map_err(failed(&path, "reading a file of the backup"))?;
                let Some(name) = name.to_str() else {
                    return refused(format!("{}: a name that is not UTF-8 cannot be signed", path.display()));
                };
                files.insert(name.to_owned(), signed);
            }
        }
    }
    if !files.contains_key(MANIFEST) {
        return refused(format!("{}: no backup of innokit, which would have the file {MANIFEST}", set.display()));
    }
    Ok(files)
}

fn sum(mut file: fs::File) -> std::io::Result<Signed> {
    let (mut sum, mut size, mut piece) = (Sha256::new(), 0, vec![0; PIECE]);
    loop {
        let len = file.read(&mut piece)?;
        let Some(read) = piece.get(..len).filter(|read| !read.is_empty()) else { break };
        sum.update(read);
        size += len as u64;
    }
    Ok(Signed { size, sha256: hex(&sum.finalize()) })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits =
        text.as_bytes().chunks_exact(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    digits.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn key(dir: &Path, name: &str, bytes: &[u8]) -> SigningKey {
        let path = dir.join(name);
        fs::write(&path, bytes).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
        SigningKey::read(&path).expect("a key")
    }

    fn set(dir: &Path) -> PathBuf {
        let set = dir.join("set");
        fs::create_dir_all(set.join("shop")).expect("made");
        fs::write(set.join(MANIFEST), "{}").expect("written");
        fs::write(set.join("shop/t.ibd"), vec![7; 3_000_000]).expect("written");
        set
    }

    #[test]
    fn a_set_is_as_it_was_signed_or_its_first_other_file_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let (ours, other) = (key(dir.path(), "ours", &[1; 32]), key(dir.path(), "other", &[2; 40]));
        let set = set(dir.path());
        let says = |keys: &[SigningKey]| signed_by(&set, keys).expect_err("not signed so").to_string();
        assert!(says(&[]).contains("not signed"));
        sign_backup(&set, &ours).expect("signed");
        let id = ours.id();
        assert!(says(&[other]).contains("names another key"));
        let keys = [ours];
        assert_eq!(signed_by(&set, &keys).expect("signed"), id);
        let signature = fs::read_to_string(set.join(SIGNATURE)).expect("text");
        for (file, bytes, why) in [
            ("shop/t.ibd", &[7; 2_999_999][..], "shop/t.ibd: it was changed since"),
            ("shop/u.ibd", b"new", "shop/u.ibd: it was added since"),
            (MANIFEST, b"{ }", "innokit.manifest.json: it was changed since"),
        ] {
            let before = fs::read(set.join(file)).ok();
            fs::write(set.join(file), bytes).expect("written");
            assert!(says(&keys).contains(why), "{}", says(&keys));
            match before {
                Some(before) => fs::write(set.join(file), before).expect("written"),
                None => fs::remove_file(set.join(file)).expect("removed"),
            }
        }
        fs::rename(set.join("shop/t.ibd"), dir.path().join("t.ibd")).expect("moved");
        assert!(says(&keys).contains("shop/t.ibd: it is missing"));
        std::os::unix::fs::symlink(dir.path().join("t.ibd"), set.join("shop/t.ibd")).expect("linked");
        assert!(says(&keys).contains("a symbolic link"));
        fs::remove_file(set.join("shop/t.ibd")).expect("removed");
        // The list as somebody without the key would change it.
        fs::write(set.join(SIGNATURE), signature.replace("shop/t.ibd", "shop/v.ibd")).expect("written");
        assert!(says(&keys).contains("was not made with key"));
        fs::write(set.join(SIGNATURE), "{}").expect("written");
        assert!(says(&keys).contains("no signature"));
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_short_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("key");
        for (len, mode, why) in
            [(32, 0o640, "others can read"), (31, 0o600, "32 bytes or more"), (70_000, 0o600, "64 KiB")]
        {
            fs::write(&path, vec![1; len]).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
            let refused = SigningKey::read(&path).expect_err("refused").to_string();
            assert!(refused.contains(why), "{refused}");
        }
        let key = key(dir.path(), "key", &[1; 32]);
        assert_eq!(format!("{key:?}"), format!("SigningKey({:?})", key.id()));
    }
}
