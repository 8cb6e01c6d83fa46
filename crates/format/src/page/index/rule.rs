//! The rules of an index page and their messages.

use std::fmt;

/// A broken rule of an index page, with the value found and the value expected.
///
/// `Display` is the message; [`IndexRule::name`] is the stable code for programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IndexFinding {
    /// The rule.
    pub rule: IndexRule,
    /// Origin of the record concerned, bytes from the start of the page.
    pub record: Option<u16>,
    /// What the page says.
    pub found: u64,
    /// What it should say, or the limit it exceeds.
    pub expected: u64,
}

impl fmt::Display for IndexFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(record) = self.record {
            write!(f, "record at byte {record}: ")?;
        }
        f.write_str(&self.rule.sentence(self.found, self.expected))
    }
}

impl std::error::Error for IndexFinding {}

crate::rules! {
    /// A rule of index pages.
    IndexRule(found, expected):
    RecordStyle "record_style" "the page's records have format {found} (0 REDUNDANT, 1 newer), the table has {expected}"
    IndexId "index_id" "the page says that it is of index {found}, it lies in index {expected}"
    HeapTop "heap_top" "the record heap ends at byte {found}, its limit is byte {expected}"
    HeapCount "heap_count" "the page header counts {found} records in the heap, there are {expected}"
    RecordCount "record_count" "the page header counts {found} records, the chain has {expected}"
    EmptyPage "empty_page" "the page has no records, only an empty tree's root may"
    Siblings "siblings" "the page names page {found} as its neighbour, and is page {expected} itself"
    SegmentHeader "segment_header" "the root's segment header names {found} where {expected} must be"
    MaxTrxId "max_trx_id" "no transaction is named as the last that changed the page's entries"
    SlotCount "slot_count" "the directory has {found} slots, the page has room for {expected} and needs 2"
    FirstSlot "first_slot" "the first directory slot points to byte {found}, the infimum lies at {expected}"
    LastSlot "last_slot" "the last directory slot points to byte {found}, the supremum lies at {expected}"
    SlotOrder "slot_order" "a directory slot points to byte {found}, the next record that owns a slot lies at {expected}"
    SlotMissing "slot_missing" "the chain has {found} records that own a directory slot, the directory has {expected}"
    Owned "n_owned" "it counts {found} records for its directory slot, there are {expected}"
    OwnedLimit "n_owned_limit" "its directory slot has {found} records, at most {expected} are possible"
    RecordOffset "record_offset" "the chain leads to byte {found}, the record heap ends at {expected}"
    ChainLoop "chain_loop" "the chain does not end: it comes back after {found} records, the heap has {expected}"
    ChainEnd "chain_end" "the chain ends at byte {found}, not at the supremum at {expected}"
    FreeOffset "free_offset" "the list of free records leads to byte {found}, the record heap ends at {expected}"
    FreeLoop "free_loop" "the list of free records does not end: it comes back after {found} records, the heap has {expected}"
    FreeLive "free_live" "it is in the chain and in the list of free records"
    Garbage "garbage" "the page header counts {found} bytes of free records, there are {expected}"
    HeapSpace "heap_space" "the records take {found} bytes, the page header says {expected}"
    HeapNumber "heap_number" "its heap number is {found}, the largest possible is {expected}"
    HeapNumberTwice "heap_number_twice" "its heap number {found} is that of another record too"
    InfimumText "infimum_text" "the infimum is not the one that every page begins with"
    SupremumText "supremum_text" "the supremum is not the one that every page begins with"
    RecordStatus "record_status" "its status is {found}, here it must be {expected}"
    MinRecMissing "min_rec_missing" "the lowest record of the level is not marked as such"
    MinRec "min_rec" "it is marked as the lowest record of a level, and is not"
    RecordHeader "record_header" "its header takes {found} bytes, at most {expected} are there"
    RecordEnd "record_end" "its data end at byte {found}, the limit is byte {expected}"
    RecordOverlap "record_overlap" "its bytes begin at {found}, where the record before it in the heap ends at {expected}"
    FieldCount "field_count" "it has {found} fields, {expected} are possible"
    FieldOffsets "field_offsets" "a field ends at {found}, the one before it at {expected}"
    FieldLength "field_length" "a field has {found} bytes, it must have {expected}"
    FieldTooLong "field_too_long" "a field has {found} bytes, its column has at most {expected}"
    FieldNull "field_null" "field {found} is NULL and must not be"
    ExternReference "extern_reference" "an off-page field has {found} bytes, the reference alone has {expected}"
    ExternPlace "extern_place" "field {found} is stored off-page, only fields of rows can be"
    ExternSpace "extern_space" "an off-page field lies in space {found}, the page in space {expected}"
    KeyOrder "key_order" "its key is lower than that of the record before it, at byte {found}"
    KeyTwice "key_twice" "its key is that of the record before it, at byte {found}"
}
