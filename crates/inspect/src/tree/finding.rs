//! Faults of a tree: rules that take several pages to check, besides those of a single page ([`format::page::index::IndexRule`]).

use format::Corruption;
use format::page::index::{IndexFinding, IndexRule};

use datadir::finding_code::FindingCode;

format::rules! {
    /// A rule that a tree, a segment or a table breaks.
    Rule(found, expected):
    Unreadable "unreadable_page" "the page cannot be read"
    ZeroPage "zero_page" "the page is all zeros, but the tree needs it"
    MissingPage "missing_page" "the tree leads to page {found}, but the files end before page {expected}"
    NoImage "unopened_page" "the page cannot be opened"
    NotIndex "not_an_index_page" "the page has type {found}, but the tree needs an index page"
    Level "page_level" "the page says that it is at level {found}, but it is linked at level {expected}"
    OtherIndex "index_id" "the page says that it belongs to index {found}, but it is linked in index {expected}"
    SiblingPrev "sibling_prev" "the page names {found} as the one before it, but {expected}"
    SiblingNext "sibling_next" "the page names {found} as the one after it, but {expected}"
    TwiceLinked "twice_linked" "the tree leads to page {found} twice"
    FatherKey "father_key" "the key of the node pointer on page {found} is greater than the first key of the page it points to"
    FatherOrder "father_order" "the node pointer on page {found} is not greater than the keys of the page before the one it points to"
    FatherRectangle "father_rectangle" "the rectangle of the node pointer on page {found} does not contain that of the record"
    PageOrder "page_order" "the first key is not greater than the last key of page {found}, the page before"
    NodePointer "node_pointer" "neither the node pointer's fields nor the page it points to can be found"
    FreedPage "freed_page" "the tree uses the page, but the extent descriptors mark it as free"
    OtherSegment "other_segment" "the page belongs to segment {found}, but it is linked in the tree of segment {expected}"
    LostPage "lost_page" "the page belongs to segment {expected}, but no page of its tree points to it"
    SegmentHeader "segment_missing" "the root names a segment that does not exist"
    SegmentTwice "segment_page_twice" "the page is a single page of segment {found} and also of segment {expected}"
    SegmentFreed "segment_page_free" "segment {found} lists the page as a single page, but the extent descriptors mark it as free"
    FragmentExtent "fragment_extent" "segment {found} lists the page as a single page, but its extent has no single pages (it belongs to segment {expected})"
    MapFreed "map_page_free" "the page holds extent descriptors, an insert buffer bitmap or segment inodes, but the extent descriptors mark it as free"
    ListLength "list_length" "a list counts {found} members, but has {expected}"
    ListPointer "list_pointer" "a list leads to the wrong place"
    ListMember "list_member" "a list has a member that does not belong in it"
    ListMissing "list_missing" "extents are in no list"
    FragmentsUsed "fragments_used" "the space header counts {found} used pages in the extents of list FREE_FRAG, but they have {expected}"
    SegmentUsed "segment_used" "an inode counts {found} used pages in the extents of its list NOT_FULL, but they have {expected}"
    SegmentId "segment_id" "segment id {found} is not lower than the next id in the space header, {expected}"
    SegmentIdTwice "segment_id_twice" "two segments have the id {found}"
    SegmentMagic "segment_magic" "an inode has the magic number {found} instead of {expected}"
    NotInodes "not_an_inode_page" "the page has type {found}, but inodes are on pages of type {expected}"
    FreeLimit "free_limit" "the free limit in the space header is page {found}, which is beyond its {expected} pages or within an extent"
    NoRoot "segment_without_root" "segment {found} has pages, but no root of an index names it"
    SpaceSize "space_size" "the space header counts {found} pages, but page {expected} is in use"
    Truncated "truncated" "the space header counts {found} pages, but the files have {expected}"
    Descriptors "descriptors" "the extent descriptors on this page cannot be read"
    OffPage "off_page" "an off-page value cannot be followed"
    OffPageFreed "off_page_freed" "an off-page value uses page {found}, but the extent descriptors mark it as free"
    OffPageTwice "off_page_twice" "an off-page value uses page {found}, but another value uses it too"
    RowCount "row_count" "the index has {found} entries that are not deleted, but the table has {expected} rows"
    EntryWithoutRow "entry_without_row" "the entry has no row"
    RowWithoutEntry "row_without_entry" "the row has no entry in an index"
    EntryDiffers "entry_differs" "the entry does not match its row"
    EntriesUnmatched "entries_unmatched" "entries and rows differ in {found} of {expected} parts of the index, too many to list"
    Misplaced "misplaced_row" "the row belongs in another partition"
    RootLost "root_lost" "the dictionary names the page as the root of the index, but it is not a root"
}

impl Rule {
    /// The finding code of this rule.
    #[must_use]
    pub fn code(self) -> FindingCode {
        self.name().into()
    }
}

/// One broken rule, at one place of one index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeFinding {
    /// The page.
    pub page_no: Option<u32>,
    /// Origin of the record on the page, bytes.
    pub record: Option<u16>,
    /// Level of the page in its tree.
    pub level: Option<u16>,
    /// Stable finding code.
    pub rule: FindingCode,
    /// The message.
    pub message: String,
    /// The value found, if the finding is about one.
    pub found: Option<u64>,
    /// The expected value.
    pub expected: Option<u64>,
}

impl TreeFinding {
    /// A finding of this rule about a page.
    #[must_use]
    pub fn new(rule: Rule, page_no: u32, found: u64, expected: u64) -> Self {
        let is_none = |number: u64| number == u64::from(u32::MAX);
        let page = |number: u64| if is_none(number) { "none".to_owned() } else { number.to_string() };
        let a_page = |number: u64| if is_none(number) { "no page".to_owned() } else { format!("page {number}") };
        let there =
            |number: u64| if is_none(number) { "there is none".to_owned() } else { format!("that is page {number}") };
        let message = match rule {
            Rule::SiblingPrev | Rule::SiblingNext => rule.sentence(a_page(found), there(expected)),
            _ => rule.sentence(page(found), page(expected)),
        };
        Self {
            page_no: Some(page_no),
            record: None,
            level: None,
            rule: rule.code(),
            message,
            found: rule.tells_found().then_some(found),
            expected: rule.tells_expected().then_some(expected),
        }
    }

    /// Whether the page's content is unusable, rather than merely in conflict with other pages or within itself.
    #[must_use]
    pub fn is_loss(&self) -> bool {
        const LOSSES: [Rule; 7] = [
            Rule::Unreadable,
            Rule::ZeroPage,
            Rule::MissingPage,
            Rule::NoImage,
            Rule::NotIndex,
            Rule::OtherIndex,
            Rule::RootLost,
        ];
        let is_rule = Rule::ALL.iter().any(|rule| rule.code() == self.rule);
        let is_page_rule = IndexRule::ALL.iter().any(|rule| FindingCode::from(rule.name()) == self.rule);
        LOSSES.iter().any(|rule| rule.code() == self.rule) || !(is_rule || is_page_rule)
    }

    /// The damaged page, which is not always the page where the damage shows.
    #[must_use]
    pub fn hurt_page(&self) -> Option<u32> {
        if self.rule == Rule::MissingPage.code() {
            return self.found.and_then(|page_no| u32::try_from(page_no).ok());
        }
        // The row is intact; its index lacks an entry.
        self.page_no.filter(|_| self.rule != Rule::RowWithoutEntry.code())
    }

    /// A finding about a whole file or tree.
    #[must_use]
    pub fn told(code: FindingCode, message: String) -> Self {
        Self { page_no: None, record: None, level: None, rule: code, message, found: None, expected: None }
    }

    /// Adds the origin of the record.
    #[must_use]
    pub fn at(mut self, origin: u16) -> Self {
        self.record = Some(origin);
        self
    }

    /// Adds a reason to the message.
    #[must_use]
    pub fn because(mut self, why: &str) -> Self {
        self.message = format!("{}: {why}", self.message);
        self
    }

    /// Wraps a single-page finding.
    #[must_use]
    pub fn of_page(finding: &IndexFinding, page_no: u32) -> Self {
        Self {
            page_no: Some(page_no),
            record: finding.record,
            level: None,
            rule: finding.rule.name().into(),
            // The record's origin has a field of its own, so leave it out of the message.
            message: finding.rule.sentence(finding.found, finding.expected),
            found: finding.rule.tells_found().then_some(finding.found),
            expected: finding.rule.tells_expected().then_some(finding.expected),
        }
    }

    /// Wraps a wrong checksum or a page in the wrong place.
    #[must_use]
    pub fn of_corruption(corruption: &Corruption, page_no: u32) -> Self {
        Self {
            page_no: Some(page_no),
            record: None,
            level: None,
            rule: corruption.reason().into(),
            message: corruption.to_string(),
            found: None,
            expected: None,
        }
    }
}
