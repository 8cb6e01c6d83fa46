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
    /// The value in the page.
    pub found: u64,
    /// The value that it should have, or the limit that it exceeds.
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
    RecordStyle "record_style" "the page's records have format {found} (0 REDUNDANT, 1 newer), but the table has {expected}"
    IndexId "index_id" "the page says that it belongs to index {found}, but it is in index {expected}"
    HeapTop "heap_top" "the record heap ends at byte {found}, but its limit is byte {expected}"
    HeapCount "heap_count" "the page header counts {found} records in the heap, but there are {expected}"
    RecordCount "record_count" "the page header counts {found} records, but the chain has {expected}"
    EmptyPage "empty_page" "the page has no records, but only the root of an empty tree may have none"
    Siblings "siblings" "the page names page {found} as its neighbour, but it is page {expected} itself"
    RootSiblings "root_siblings" "the root of the tree names page {found} as its neighbour, but a root has none"
    SegmentHeader "segment_header" "the root's segment header names {found} instead of {expected}"
    MaxTrxId "max_trx_id" "the page does not name the last transaction that changed its entries"
    SlotCount "slot_count" "the directory has {found} slots, but the page has room for {expected} and needs 2"
    FirstSlot "first_slot" "the first directory slot points to byte {found}, but the infimum is at {expected}"
    LastSlot "last_slot" "the last directory slot points to byte {found}, but the supremum is at {expected}"
    SlotOrder "slot_order" "a directory slot points to byte {found}, but the next record that owns a slot is at {expected}"
    SlotMissing "slot_missing" "the chain has {found} records that own a directory slot, but the directory has {expected}"
    Owned "n_owned" "it counts {found} records for its directory slot, but there are {expected}"
    OwnedLimit "n_owned_limit" "its directory slot has {found} records, but at most {expected} are possible"
    RecordOffset "record_offset" "the chain leads to byte {found}, but the record heap ends at {expected}"
    ChainLoop "chain_loop" "the chain does not end: it loops after {found} records, but the heap has {expected}"
    ChainEnd "chain_end" "the chain ends at byte {found}, not at the supremum at {expected}"
    FreeOffset "free_offset" "the list of free records leads to byte {found}, but the record heap ends at {expected}"
    FreeLoop "free_loop" "the list of free records does not end: it loops after {found} records, but the heap has {expected}"
    FreeLive "free_live" "it is both in the chain and in the list of free records"
    Garbage "garbage" "the page header counts {found} bytes of free records, but there are {expected}"
    HeapSpace "heap_space" "the records take {found} bytes, but the page header says {expected}"
    HeapNumber "heap_number" "its heap number is {found}, but the largest possible is {expected}"
    HeapNumberTwice "heap_number_twice" "its heap number {found} is also that of another record"
    InfimumText "infimum_text" "the infimum does not have its fixed content"
    SupremumText "supremum_text" "the supremum does not have its fixed content"
    RecordStatus "record_status" "its status is {found}, but here it must be {expected}"
    MinRecMissing "min_rec_missing" "the lowest record of the level is not marked as the lowest"
    MinRec "min_rec" "it is marked as the lowest record of a level, but it is not"
    RecordHeader "record_header" "its header takes {found} bytes, but there is room for at most {expected}"
    RecordEnd "record_end" "its data end at byte {found}, but the limit is byte {expected}"
    RecordOverlap "record_overlap" "its bytes begin at {found}, but the record before it in the heap ends at {expected}"
    FieldCount "field_count" "it has {found} fields, but {expected} are possible"
    FieldOffsets "field_offsets" "a field ends at {found}, but the one before it ends at {expected}"
    FieldLength "field_length" "a field has {found} bytes, but must have {expected}"
    FieldTooLong "field_too_long" "a field has {found} bytes, but its column has at most {expected}"
    FieldNull "field_null" "field {found} is NULL, but must not be"
    ExternReference "extern_reference" "an off-page field has {found} bytes, but its reference alone has {expected}"
    ExternPlace "extern_place" "field {found} is stored off-page, but only fields of rows can be"
    ExternSpace "extern_space" "an off-page field is in space {found}, but the page is in space {expected}"
    KeyOrder "key_order" "its key is lower than that of the record before it, at byte {found}"
    KeyTwice "key_twice" "its key equals that of the record before it, at byte {found}"
}
