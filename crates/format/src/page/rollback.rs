//! Open transactions: TRX_SYS or a rollback segment array names the rollback segments, these name the undo logs, and each undo log gives
//! the state of its last transaction.
//!
//! Facts: `trx0sys.h`, `trx0rseg.h`, `trx0undo.h` of MySQL 8.0 and MariaDB 10.11.

/// This page names rollback segments too.
pub use super::doublewrite::TRX_SYS_PAGE_NO;
use crate::bytes::be;
use crate::fil::{self, FIL_PAGE_DATA, PageType};
use crate::types::{PageNo, PageSize, SpaceId};

/// The page of MySQL 8's undo tablespaces that names their rollback segments.
pub const RSEG_ARRAY_PAGE_NO: PageNo = PageNo(3);
/// After the next transaction's id and the segment header: tablespace and page of each rollback segment. 8 bytes each.
pub const TRX_SYS_RSEGS: usize = FIL_PAGE_DATA + 18;
/// After version, size and segment header: the page of each rollback segment. 4 bytes each.
pub const RSEG_ARRAY_PAGES: usize = FIL_PAGE_DATA + 18;
/// Rollback segments named by either page.
pub const RSEGS_MAX: usize = 128;
/// After the sizes, the history list and the segment header: the page of each undo log. 4 bytes each.
pub const TRX_RSEG_UNDO_SLOTS: usize = FIL_PAGE_DATA + 34;
/// 0 in a rollback segment of MariaDB 10.3 or later, and never in one of another server. 4 bytes.
const TRX_RSEG_FORMAT: usize = FIL_PAGE_DATA;
/// After the undo logs and the newest transaction: the position in the binary log (8 bytes) and its file (512 bytes, ends with a zero).
const TRX_RSEG_BINLOG_AFTER_SLOTS: usize = 8;
const TRX_RSEG_BINLOG_NAME_LEN: usize = 512;
/// State of an undo log, after the header common to all undo pages. 2 bytes.
pub const TRX_UNDO_STATE: usize = FIL_PAGE_DATA + 18;
/// Offset of the header of its last log. 2 bytes.
pub const TRX_UNDO_LAST_LOG: usize = TRX_UNDO_STATE + 2;
/// In a log's header: the transaction. 8 bytes.
pub const TRX_UNDO_TRX_ID: usize = 0;

/// After the transaction: the number of its commit, from the same counter; 0 before it. 8 bytes.
const TRX_UNDO_TRX_NO: usize = TRX_UNDO_TRX_ID + 8;

/// Whether the XID is there: bit 0 of the byte at this offset in a log's header.
const TRX_UNDO_XID_EXISTS: usize = 20;
/// The XID's format, 4 bytes; then the lengths of its two parts, 4 bytes each, and the parts.
const TRX_UNDO_XA_FORMAT: usize = 46;
const TRX_UNDO_XA_BQUAL_LEN: usize = TRX_UNDO_XA_FORMAT + 8;
const TRX_UNDO_XA_XID: usize = TRX_UNDO_XA_FORMAT + 12;
/// Format and first bytes of the XIDs that servers make up for their own two-phase commit of engine and binary log. They have one part.
const OWN_XID_FORMAT: u32 = 1;
const OWN_XID_PREFIX: &[u8] = b"MySQLXid";

/// States of open transactions: active; prepared in servers up to MySQL 8.0.28; prepared in later servers; and, in later servers, prepared
/// in the transaction coordinator too.
const TRX_UNDO_ACTIVE: u16 = 1;
const TRX_UNDO_PREPARED: [u16; 3] = [5, 6, 7];

/// An undo log of an open transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OpenUndo {
    /// The transaction id; 0 if the offset of the log's header leads outside the page.
    pub transaction: u64,
    /// Whether it is prepared: its coordinator decides whether it commits.
    pub is_prepared: bool,
}

fn numbers(page: &[u8], at: usize, count: usize) -> impl Iterator<Item = u32> + '_ {
    (0..count).map_while(move |slot| be::u32_at(page, at + 4 * slot))
}

/// The rollback segments named on page 5 of a system tablespace.
pub fn rollback_segments(trx_sys: &[u8]) -> impl Iterator<Item = (SpaceId, PageNo)> + '_ {
    let numbers = (0..RSEGS_MAX).map_while(|slot| {
        let at = TRX_SYS_RSEGS + 8 * slot;
        Some((SpaceId(be::u32_at(trx_sys, at)?), PageNo(be::u32_at(trx_sys, at + 4)?)))
    });
    numbers.filter(|(_, page_no)| *page_no != PageNo::NONE && page_no.0 != 0)
}

/// The rollback segments named on page 3 of a MySQL 8 undo tablespace; empty for any other page.
pub fn rollback_segment_array(page: &[u8]) -> impl Iterator<Item = PageNo> + '_ {
    let is_array = be::u16_at(page, fil::FIL_PAGE_TYPE) == Some(PageType::RSEG_ARRAY.0);
    let count = if is_array { RSEGS_MAX } else { 0 };
    numbers(page, RSEG_ARRAY_PAGES, count).map(PageNo).filter(|page_no| *page_no != PageNo::NONE && page_no.0 != 0)
}

/// The first pages of the undo logs named in a rollback segment header.
pub fn undo_logs(rseg: &[u8], logical: PageSize) -> impl Iterator<Item = PageNo> + '_ {
    let slots = logical.bytes() / 16;
    numbers(rseg, TRX_RSEG_UNDO_SLOTS, slots).map(PageNo).filter(|page_no| *page_no != PageNo::NONE)
}

/// File and position of the binary log after the last commit in a rollback segment. `None` if the server wrote no binary log, or does not
/// record it here: only MariaDB does, from 10.3 on.
#[must_use]
pub fn last_in_binlog(rseg: &[u8], logical: PageSize) -> Option<(String, u64)> {
    if be::u32_at(rseg, TRX_RSEG_FORMAT) != Some(0) {
        return None;
    }
    let at = TRX_RSEG_UNDO_SLOTS + logical.bytes() / 16 * 4 + TRX_RSEG_BINLOG_AFTER_SLOTS;
    let name = rseg.get(at + 8..)?.get(..TRX_RSEG_BINLOG_NAME_LEN)?;
    let name = name.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
    Some((String::from_utf8_lossy(name).into_owned(), be::u64_at(rseg, at)?))
}

/// What page 5 of a system tablespace says of the next transaction's id. Servers up to MariaDB 10.2, and MySQL, write it when the id reaches a
/// multiple of [`TRX_ID_WRITE_MARGIN`], so that it may lag behind by less than that; later servers of MariaDB do not write it.
#[must_use]
pub fn next_transaction(trx_sys: &[u8]) -> Option<u64> {
    be::u64_at(trx_sys, FIL_PAGE_DATA)
}

/// See [`next_transaction`].
pub const TRX_ID_WRITE_MARGIN: u64 = 256;

/// The newest transaction that was committed in a rollback segment of MariaDB 10.3 or later; `None` in one of another server.
#[must_use]
pub fn newest_in_segment(rseg: &[u8], logical: PageSize) -> Option<u64> {
    (be::u32_at(rseg, TRX_RSEG_FORMAT) == Some(0))
        .then(|| be::u64_at(rseg, TRX_RSEG_UNDO_SLOTS + logical.bytes() / 16 * 4))
        .flatten()
}

/// The last transaction of the undo log with this first page, or the number of its commit if that is greater.
#[must_use]
pub fn last_in_log(page: &[u8]) -> Option<u64> {
    let log = usize::from(be::u16_at(page, TRX_UNDO_LAST_LOG)?);
    Some(be::u64_at(page, log + TRX_UNDO_TRX_ID)?.max(be::u64_at(page, log + TRX_UNDO_TRX_NO)?))
}

/// The open transaction of the undo log with this first page; `None` if the transaction has ended.
#[must_use]
pub fn open_undo(page: &[u8]) -> Option<OpenUndo> {
    let state = be::u16_at(page, TRX_UNDO_STATE)?;
    let is_prepared = TRX_UNDO_PREPARED.contains(&state);
    if !is_prepared && state != TRX_UNDO_ACTIVE {
        return None;
    }
    let log = usize::from(be::u16_at(page, TRX_UNDO_LAST_LOG)?);
    // The transaction id may be missing: a log in an open state counts even if its header offset is wrong.
    let transaction = be::u64_at(page, log + TRX_UNDO_TRX_ID).unwrap_or(0);
    Some(OpenUndo { transaction, is_prepared })
}

/// Whether the transaction of the undo log with this first page is prepared for a commit that the server's own binary log decides, rather
/// than an `XA PREPARE` of a user's.
#[must_use]
pub fn waits_for_binlog(page: &[u8]) -> bool {
    let is_own = || {
        let log = usize::from(be::u16_at(page, TRX_UNDO_LAST_LOG)?);
        let is_there = page.get(log + TRX_UNDO_XID_EXISTS)? & 1 == 1;
        let format = be::u32_at(page, log + TRX_UNDO_XA_FORMAT)?;
        let second_part = be::u32_at(page, log + TRX_UNDO_XA_BQUAL_LEN)?;
        let is_own_name = page.get(log + TRX_UNDO_XA_XID..)?.starts_with(OWN_XID_PREFIX);
        Some(is_there && format == OWN_XID_FORMAT && second_part == 0 && is_own_name)
    };
    open_undo(page).is_some_and(|open| open.is_prepared) && is_own() == Some(true)
}

/// Makes the prepared transaction of the undo log with this first page an active one, which the server rolls back when it starts. `None` if
/// the page is too short to have a state.
#[must_use]
pub fn make_active(page: &mut [u8]) -> Option<()> {
    be::put_u16(page, TRX_UNDO_STATE, TRX_UNDO_ACTIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Vec<u8> {
        vec![0xFF; 16384]
    }

    #[test]
    fn only_the_servers_own_prepared_transactions_wait_for_its_binary_log() {
        let mut undo = vec![0; 16384];
        undo[56..60].copy_from_slice(&[0, 5, 0, 100]);
        undo[107] = 9;
        undo[120] = 1;
        undo[146..158].copy_from_slice(&[0, 0, 0, 1, 0, 0, 0, 24, 0, 0, 0, 0]);
        undo[158..166].copy_from_slice(b"MySQLXid");
        assert!(waits_for_binlog(&undo));
        let changed = |at: usize, byte: u8| {
            let mut undo = undo.clone();
            undo[at] = byte;
            waits_for_binlog(&undo)
        };
        // The server of MySQL 8.0.29 and later; an active one, a committed one; no XID, another format, two parts, a user's name.
        assert!(changed(57, 6) && changed(120, 3));
        assert!(
            [(57, 1), (57, 3), (120, 0), (149, 2), (157, 1), (158, b'm')].iter().all(|(at, byte)| !changed(*at, *byte))
        );
        assert!(!waits_for_binlog(&undo[..150]) && !waits_for_binlog(&[]));
        assert_eq!((make_active(&mut undo), make_active(&mut [])), (Some(()), None));
        assert_eq!(open_undo(&undo), Some(OpenUndo { transaction: 9, is_prepared: false }));
    }

    #[test]
    fn segments_logs_and_states_are_read_where_the_servers_write_them() {
        let mut trx_sys = page();
        trx_sys[56..64].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 6]);
        trx_sys[72..80].copy_from_slice(&[0, 0, 0, 3, 0, 0, 0, 9]);
        let named: Vec<_> = rollback_segments(&trx_sys).collect();
        assert_eq!(named, [(SpaceId(0), PageNo(6)), (SpaceId(3), PageNo(9))]);
        let mut array = page();
        array[24..26].copy_from_slice(&[0, 21]);
        array[60..64].copy_from_slice(&[0, 0, 0, 5]);
        assert_eq!(rollback_segment_array(&array).collect::<Vec<_>>(), [PageNo(5)]);
        assert_eq!(rollback_segment_array(&page()).count(), 0);
        let mut rseg = page();
        rseg[76..80].copy_from_slice(&[0, 0, 1, 0]);
        assert_eq!(undo_logs(&rseg, PageSize::DEFAULT).collect::<Vec<_>>(), [PageNo(256)]);
        assert_eq!(last_in_binlog(&rseg, PageSize::DEFAULT), None, "not of MariaDB 10.3 or later");
        rseg[38..42].fill(0);
        rseg[4176..4184].copy_from_slice(&[0, 0, 0, 0, 0, 0, 7, 54]);
        rseg[4184..4184 + 512].fill(0);
        assert_eq!(last_in_binlog(&rseg, PageSize::DEFAULT), None, "no binary log");
        rseg[4184..4184 + 10].copy_from_slice(b"bin.000004");
        assert_eq!(last_in_binlog(&rseg, PageSize::DEFAULT), Some(("bin.000004".to_owned(), 1846)));
        let mut undo = page();
        undo[58..60].copy_from_slice(&[0, 100]);
        undo[100..108].copy_from_slice(&[0, 0, 0, 0, 0, 0, 7, 8]);
        let states = (0..9_u8).map(|state| {
            undo[56..58].copy_from_slice(&[0, state]);
            open_undo(&undo).map(|open| (open.transaction, open.is_prepared))
        });
        let (active, prepared) = (Some((1800, false)), Some((1800, true)));
        let expected = [None, active, None, None, None, prepared, prepared, prepared, None];
        assert_eq!(states.collect::<Vec<_>>(), expected);
    }
}
