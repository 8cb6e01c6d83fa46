//! Decrypts encrypted logs on their way to the verifier. The output is the log that the server would have written without encryption, with
//! each byte at its position in the file.
//!
//! # MySQL (8.0.14 and later, `binlog_encryption`)
//!
//! A header of 512 bytes names a key in the keyring. That key (AES-256-CBC, no padding, the header's initialisation vector) decrypts the
//! header's 32 bytes of password. SHA-512 of the password gives the AES-256 key (its first 32 bytes) and the first half of the counter
//! block (the next 8); the other half counts 16-byte blocks from 0, which is byte 512 of the file. The result is a whole log, including its
//! magic, in which positions count from there.
//!
//! # MariaDB (10.1 and later, `encrypt_binlog`)
//!
//! A plain log up to START_ENCRYPTION: scheme 1 (one byte), key version 4, nonce 12. After that each event is encrypted separately with
//! that version of key 1; the initialisation vector is the nonce and the event's position, 4. The length stays readable:
//!
//! | in the file | in the decrypted run |
//! |---|---|
//! | 4 to 8 | 0 to 4: type, server id |
//! | 0 to 3 | 5 to 8: timestamp |
//! | 9 to 12, the length | - |
//! | 13 to the end | 9 to the end: next position, flags, body, checksum |
//!
//! The run is decrypted in CBC mode, with the rest at its end xored with the encrypted initialisation vector; or in CTR mode. The mode is
//! not stored: the first event whose header makes sense reveals it, and if none does the key is wrong.
//!
//! These facts were verified on logs of MySQL 9.7, MariaDB 10.11 and 11.8.

use aes::cipher::{KeyInit, KeyIvInit, StreamCipher};
use aes::{Aes256, Aes256Dec};
use crc_fast::{CrcAlgorithm, checksum};
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

use super::Error;
use super::event::{CRC_LEN, EventType, HEADER_LEN, Header, POS_LEN, POS_NEXT, POS_TYPE};
use super::format_description::EncryptedHeader;
use format::bytes::le;
use format::cipher::{BLOCK, cbc_decrypt, cbc_decrypt_with, ctr_apply_with, encrypt_block_with};
use format::keyring::{KeyStore, Secret};
use format::pieces::{clamp, gather, take};

/// The id of MariaDB's key for logs and temporary files.
const SYSTEM_KEY_ID: u32 = 1;
/// The only encryption scheme of MariaDB's logs.
const SCHEME: u8 = 1;
const NONCE_LEN: usize = 12;
/// Bytes of an event up to the end of its first encrypted block.
const FIRST_LEN: usize = BLOCK + 4;
/// Bytes searched for an event that makes sense, and decrypted at a time.
const LOOKED_AT_MAX: usize = 64 << 10;

/// Decrypts the rest of a log.
#[derive(Debug)]
pub(super) enum Opening {
    MySql(Box<Keystream>),
    MariaDb(Box<Events>),
}

impl Opening {
    /// Consumes and decrypts as much of `input` as possible; `plain` gets the result. `false` if more is needed.
    pub(super) fn open(&mut self, input: &mut &[u8], plain: &mut Vec<u8>) -> Result<bool, Error> {
        match self {
            Self::MySql(stream) => {
                plain.extend_from_slice(take(input, LOOKED_AT_MAX));
                stream.0.apply_keystream(plain.as_mut_slice());
                Ok(!plain.is_empty())
            }
            Self::MariaDb(events) => events.open(input, plain),
        }
    }

    /// The file has ended: decrypts the rest.
    pub(super) fn finish(&mut self, plain: &mut Vec<u8>) -> Result<(), Error> {
        match self {
            Self::MySql(_) => Ok(()),
            Self::MariaDb(events) => events.finish(plain),
        }
    }
}

/// MySQL's key stream. `Debug` does not print it.
pub(super) struct Keystream(ctr::Ctr128BE<Aes256>);

impl std::fmt::Debug for Keystream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Keystream")
    }
}

impl Keystream {
    /// From a file's header and the key it names. `None` if the key is not 32 bytes long.
    pub(super) fn new(header: &EncryptedHeader, key: &Secret) -> Option<Self> {
        let key: &[u8; 32] = key.bytes().try_into().ok()?;
        let mut password = Zeroizing::new(header.encrypted_password);
        cbc_decrypt(&Aes256Dec::new(key.into()), &header.iv, password.as_mut_slice());
        let digest = Zeroizing::new(<[u8; 64]>::from(Sha512::digest(password.as_slice())));
        let (key, rest) = digest.split_first_chunk::<32>()?;
        let mut counter = [0; BLOCK];
        counter.first_chunk_mut::<8>()?.copy_from_slice(rest.first_chunk::<8>()?);
        Some(Self(ctr::Ctr128BE::<Aes256>::new(key.into(), &counter.into())))
    }
}

/// The content of START_ENCRYPTION.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StartEncryption {
    pub(super) key_version: u32,
    nonce: [u8; NONCE_LEN],
}

impl StartEncryption {
    /// Parses what follows the event's header. `None` if the scheme is unknown or the event too short.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        if body.first() != Some(&SCHEME) {
            return None;
        }
        Some(Self { key_version: le::u32_at(body, 1)?, nonce: *body.get(5..)?.first_chunk()? })
    }

    /// The key it names, in words.
    pub(super) fn key_name(self) -> String {
        key_name(self.key_version)
    }

    pub(super) fn key(self, keys: &KeyStore) -> Option<&Secret> {
        keys.by_id(SYSTEM_KEY_ID, self.key_version)
    }
}

fn key_name(version: u32) -> String {
    format!("{SYSTEM_KEY_ID} (version {version})")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Cbc,
    Ctr,
}

/// MariaDB's encrypted events.
#[derive(Debug)]
pub(super) struct Events {
    key: Secret,
    key_version: u32,
    nonce: [u8; NONCE_LEN],
    /// Position of the next event.
    position: u64,
    mode: Option<Mode>,
    /// The server that started the log.
    server_id: u32,
    /// Bytes held back until the mode is known, an event's first block is here, or a block is complete.
    waiting: Vec<u8>,
    event: Option<Body>,
    /// The bytes are not events: the rest is passed on unchanged.
    is_lost: bool,
}

/// An event after its first block.
#[derive(Debug)]
struct Body {
    iv: [u8; BLOCK],
    /// The previous encrypted block, or in CTR mode the next counter.
    chain: [u8; BLOCK],
    /// Encrypted bytes still to come.
    left: usize,
}

impl Events {
    /// For the events from `position` on, in a log started by server `server_id`.
    pub(super) fn new(start: StartEncryption, key: &Secret, position: u64, server_id: u32) -> Self {
        let StartEncryption { key_version, nonce } = start;
        let (key, waiting) = (key.clone(), Vec::new());
        Self { key, key_version, nonce, position, mode: None, server_id, waiting, event: None, is_lost: false }
    }

    fn open(&mut self, input: &mut &[u8], plain: &mut Vec<u8>) -> Result<bool, Error> {
        if self.mode.is_none() {
            let is_enough = gather(&mut self.waiting, input, LOOKED_AT_MAX);
            if !is_enough {
                return Ok(false);
            }
            self.find_mode()?;
        }
        self.waiting.extend_from_slice(take(input, LOOKED_AT_MAX));
        self.decrypt(plain);
        Ok(!plain.is_empty())
    }

    fn finish(&mut self, plain: &mut Vec<u8>) -> Result<(), Error> {
        if self.mode.is_none() && self.waiting.len() >= HEADER_LEN {
            self.find_mode()?;
        }
        self.decrypt(plain);
        // The rest of a truncated event: keep less than a header, because a whole one would be parsed.
        match self.event.take() {
            None => self.waiting.truncate(HEADER_LEN - 1),
            Some(mut body) if self.mode == Some(Mode::Ctr) => {
                self.is_lost |= body.decrypt(self.key.bytes(), Mode::Ctr, &mut self.waiting).is_none();
            }
            Some(_) => {}
        }
        plain.append(&mut self.waiting);
        Ok(())
    }

    /// Tries both modes on the events read so far.
    fn find_mode(&mut self) -> Result<(), Error> {
        let (mut at, mut position) = (0, self.position);
        while let Some(rest) = self.waiting.get(at..).filter(|rest| rest.len() >= HEADER_LEN) {
            let fits = |mode: &Mode| self.makes_sense(rest, position, *mode);
            if let Some(mode) = [Mode::Cbc, Mode::Ctr].into_iter().find(fits) {
                self.mode = Some(mode);
                return Ok(());
            }
            let len = le::u32_at(rest, POS_LEN).unwrap_or(0).max(HEADER_LEN as u32);
            at = at.saturating_add(len as usize);
            position = position.saturating_add(len.into());
        }
        Err(Error::WrongKey { key: key_name(self.key_version) })
    }

    /// Whether the event at `position`, at the start of `rest`, makes sense once decrypted: its checksum matches, or the next one is where
    /// its length says, or its server is the one that started the log.
    fn makes_sense(&self, rest: &[u8], position: u64, mode: Mode) -> bool {
        let len = clamp(le::u32_at(rest, POS_LEN).unwrap_or(0).into());
        let first = rest.get(..first_len(len)).unwrap_or(rest);
        let Some(header) = self.opened(first, position, mode).and_then(|plain| Header::parse(&plain)) else {
            return false;
        };
        let next = low(position).wrapping_add(header.len);
        if !header.kind.is_plausible() {
            return false;
        }
        let is_sound = || {
            let event = self.opened(rest.get(..len)?, position, mode)?;
            let (covered, stored) = event.split_at_checked(event.len().checked_sub(CRC_LEN)?)?;
            Some(checksum(CrcAlgorithm::Crc32IsoHdlc, covered) == u64::from(le::u32_at(stored, 0)?))
        };
        header.next == next || header.server_id() == self.server_id || is_sound() == Some(true)
    }

    fn iv(&self, position: u64) -> [u8; BLOCK] {
        let mut iv = [0; BLOCK];
        iv.iter_mut().zip(self.nonce).for_each(|(to, from)| *to = from);
        le::put_u32(&mut iv, NONCE_LEN, low(position));
        iv
    }

    /// The decrypted event at `position`, or its front, if whole blocks of it are encrypted.
    fn opened(&self, event: &[u8], position: u64, mode: Mode) -> Option<Vec<u8>> {
        let iv = self.iv(position);
        let mut run = encrypted_run(event)?;
        let mut body = Body { iv, chain: iv, left: run.len() };
        body.decrypt(self.key.bytes(), mode, &mut run)?;
        let moved = POS_LEN - POS_TYPE;
        Some([run.get(moved..POS_LEN)?, run.get(..moved)?, event.get(POS_LEN..POS_NEXT)?, run.get(POS_LEN..)?].concat())
    }

    /// Decrypts the bytes held back, as far as possible.
    fn decrypt(&mut self, plain: &mut Vec<u8>) {
        let mode = self.mode.unwrap_or(Mode::Cbc);
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut rest = waiting.as_mut_slice();
        while !self.is_lost {
            let Some(mut body) = self.event.take().or_else(|| self.begin(&mut rest, mode, plain)) else { break };
            let at_hand = rest.len().min(body.left);
            let whole = if at_hand == body.left { at_hand } else { at_hand - at_hand % BLOCK };
            let (bytes, after) = std::mem::take(&mut rest).split_at_mut(whole);
            rest = after;
            self.is_lost = body.decrypt(self.key.bytes(), mode, bytes).is_none();
            plain.extend_from_slice(bytes);
            if body.left > 0 {
                self.event = Some(body);
                break;
            }
        }
        if self.is_lost {
            plain.extend_from_slice(rest);
        } else {
            self.waiting = rest.to_vec();
        }
    }

    /// Decrypts an event's first bytes; `None` until all are here.
    fn begin(&mut self, rest: &mut &mut [u8], mode: Mode, plain: &mut Vec<u8>) -> Option<Body> {
        let stored = clamp(le::u32_at(rest.get(..HEADER_LEN)?, POS_LEN)?.into());
        let first = rest.get(..first_len(stored))?;
        let opened = self.opened(first, self.position, mode)?;
        let iv = self.iv(self.position);
        let chain = match mode {
            Mode::Cbc => encrypted_run(first)?.first_chunk().copied().unwrap_or(iv),
            Mode::Ctr => following(iv, 1),
        };
        let header = Header::parse(&opened)?;
        let len = if mode == Mode::Cbc { self.true_len(&header) } else { clamp(header.len.into()) };
        if len < opened.len() {
            self.is_lost = true;
            return None;
        }
        *rest = std::mem::take(rest).split_at_mut_checked(opened.len())?.1;
        self.position = self.position.saturating_add(len as u64);
        plain.extend_from_slice(&opened);
        Some(Body { iv, chain, left: len - opened.len() })
    }

    /// The length according to the next position, if that differs from the header's and is plausible. Then the header's length is wrong: in
    /// CBC mode a damaged next position would have changed everything decrypted with it.
    fn true_len(&self, header: &Header) -> usize {
        let by_position = header.next.wrapping_sub(low(self.position));
        let is_sound = header.kind.is_plausible() && header.kind != EventType::FORMAT_DESCRIPTION;
        let is_sound = is_sound && header.server_id() == self.server_id && header.next != 0;
        let len = if is_sound && (FIRST_LEN as u32..LEN_MAX).contains(&by_position) { by_position } else { header.len };
        clamp(len.into())
    }
}

/// A length derived from a next position is believed up to this, bytes.
const LEN_MAX: u32 = 1 << 30;

/// How much of an event to decrypt first: its first block, unless the event is just a header.
const fn first_len(stored: usize) -> usize {
    if stored == HEADER_LEN { HEADER_LEN } else { FIRST_LEN }
}

/// The encrypted bytes of an event, or of its front, in order.
fn encrypted_run(event: &[u8]) -> Option<Vec<u8>> {
    Some([event.get(POS_TYPE..POS_LEN)?, event.get(..POS_TYPE)?, event.get(POS_NEXT..)?].concat())
}

/// The lower half of a position.
const fn low(position: u64) -> u32 {
    (position & 0xFFFF_FFFF) as u32
}

/// The counter `blocks` later.
const fn following(counter: [u8; BLOCK], blocks: u128) -> [u8; BLOCK] {
    u128::from_be_bytes(counter).wrapping_add(blocks).to_be_bytes()
}

impl Body {
    /// Decrypts the next bytes: whole blocks, except at the event's end. `None` if AES has no keys of this length.
    fn decrypt(&mut self, key: &[u8], mode: Mode, bytes: &mut [u8]) -> Option<()> {
        self.left -= bytes.len();
        let (blocks, tail) = bytes.as_chunks_mut::<BLOCK>();
        let (count, last) = (blocks.len(), blocks.last().copied());
        if mode == Mode::Ctr {
            ctr_apply_with(key, &self.chain, bytes)?;
            self.chain = following(self.chain, count as u128);
            return Some(());
        }
        cbc_decrypt_with(key, &self.chain, blocks.as_flattened_mut())?;
        self.chain = last.unwrap_or(self.chain);
        if !tail.is_empty() {
            let mask = encrypt_block_with(key, &self.iv)?;
            tail.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        }
        Some(())
    }
}
