//! What stands in records.

use std::collections::BTreeSet;

use super::{Kind, varint};

/// Bytes of a record that are kept until it ends. Commits and out-of-band records have their numbers at the front; XIDs are 136 bytes at
/// most; a GTID state has 19 bytes for each domain and server.
pub(super) const KEPT_MAX: usize = 1 << 20;
/// Begins of out-of-band records that are kept to compare references with: 16 MiB.
const PLACES_MAX: usize = 1 << 20;
/// The most bytes that either half of an XID has.
const XID_HALF_MAX: u8 = 64;

/// A GTID: domain, server, number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gtid {
    /// The domain.
    pub domain: u32,
    /// The server.
    pub server: u32,
    /// The number within the domain.
    pub number: u64,
}

/// The GTIDs that a state record has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GtidState {
    /// The last of each domain and server.
    pub gtids: Vec<Gtid>,
}

/// A place in the log: a file and the offset in it, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The number of the file.
    pub file: u64,
    /// The offset.
    pub offset: u64,
}

/// What is known of the file while it is read.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The number of the file, from its name or its header.
    pub file: Option<u64>,
    /// Where out-of-band records begin in it.
    begins: BTreeSet<u64>,
    /// There were too many, or a page was damaged: one that is not among them may still be there.
    is_incomplete: bool,
    /// The first GTID state.
    pub gtids: Option<GtidState>,
}

/// A number from the front, or the reason why there is none.
fn number(bytes: &mut &[u8]) -> Result<u64, String> {
    varint::take(bytes).ok_or_else(|| "ends within a number".to_owned())
}

fn place(bytes: &mut &[u8]) -> Result<Place, String> {
    Ok(Place { file: number(bytes)?, offset: number(bytes)? })
}

impl Records {
    pub(super) fn new(file: Option<u64>) -> Self {
        Self { file, ..Self::default() }
    }

    /// A page could not be read: records may have begun on it.
    pub(super) fn missed_page(&mut self) {
        self.is_incomplete = true;
    }

    /// A record that began at `offset` has ended. `content` is all of it, or its first [`KEPT_MAX`] bytes.
    pub(super) fn take(&mut self, kind: Kind, offset: u64, content: &[u8]) -> Result<(), String> {
        let mut rest = content;
        match kind {
            Kind::Commit => self.commit(offset, &mut rest),
            Kind::OutOfBand => self.out_of_band(offset, &mut rest),
            Kind::GtidState => self.gtid_state(&mut rest, content.len() < KEPT_MAX),
            Kind::XaPrepare => xid(content.get(2..)),
            Kind::XaComplete => xid(content.get(1..)),
            Kind::Dummy => Ok(()),
        }
    }

    /// A commit: up to two pairs of the first and the last out-of-band record that it takes, then events. `chunk_data_cache`.
    fn commit(&self, offset: u64, rest: &mut &[u8]) -> Result<(), String> {
        for _ in 0..2 {
            if number(rest)? == 0 {
                return Ok(());
            }
            for _ in 0..2 {
                let place = place(rest)?;
                self.is_there(place, offset)?;
            }
        }
        Ok(())
    }

    /// An out-of-band record: its number and its two children. A leaf has no left one, and the root of the tree before as right one.
    fn out_of_band(&mut self, offset: u64, rest: &mut &[u8]) -> Result<(), String> {
        let index = number(rest)?;
        for _ in 0..2 {
            let child = place(rest)?;
            // The source has no other mark for "none"; page 0 of a file is its header.
            if child != (Place { file: 0, offset: 0 }) {
                if index == 0 {
                    return Err("is the first of its transaction and refers to an earlier one".to_owned());
                }
                self.is_there(child, offset)?;
            }
        }
        if self.begins.len() < PLACES_MAX {
            self.begins.insert(offset);
        } else {
            self.is_incomplete = true;
        }
        Ok(())
    }

    /// Whether an out-of-band record begins at `place`. One of another file cannot be looked up.
    fn is_there(&self, place: Place, offset: u64) -> Result<(), String> {
        let Some(file) = self.file else { return Ok(()) };
        let Place { file: to, offset: at } = place;
        if (to, at) >= (file, offset) {
            return Err(format!("refers to byte {at} of file {to}, which is not before it"));
        }
        if to == file && !self.is_incomplete && !self.begins.contains(&at) {
            return Err(format!("refers to byte {at}, where no out-of-band record begins"));
        }
        Ok(())
    }

    fn gtid_state(&mut self, rest: &mut &[u8], is_whole: bool) -> Result<(), String> {
        let count = number(rest)?;
        number(rest)?; // the oldest file with a prepared transaction, as in the header
        let mut state = GtidState::default();
        for _ in 0..count {
            let read = || "has a domain or server of more than 32 bits".to_owned();
            let mut narrow = || number(rest).and_then(|value| u32::try_from(value).map_err(|_| read()));
            let (domain, server) = match (narrow(), narrow()) {
                (Ok(domain), Ok(server)) => (domain, server),
                _ if !is_whole => return Ok(()),
                (Err(why), _) | (_, Err(why)) => return Err(why),
            };
            match number(rest) {
                Ok(number) => state.gtids.push(Gtid { domain, server, number }),
                Err(_) if !is_whole => return Ok(()),
                Err(why) => return Err(why),
            }
        }
        self.gtids.get_or_insert(state);
        Ok(())
    }
}

/// An XID: its format, the lengths of its two halves, these.
fn xid(content: Option<&[u8]>) -> Result<(), String> {
    let Some([_, _, _, _, global, branch, rest @ ..]) = content else { return Err("ends within its XID".to_owned()) };
    if *global > XID_HALF_MAX || *branch > XID_HALF_MAX {
        return Err(format!("has an XID of {global} and {branch} bytes"));
    }
    if rest.len() < usize::from(*global) + usize::from(*branch) {
        return Err("ends within its XID".to_owned());
    }
    Ok(())
}
