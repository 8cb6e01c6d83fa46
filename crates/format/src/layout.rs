//! A table of fields for each structure. Dumps print it; tests compare it with the byte maps in `docs/`.

use crate::page::{fsp, index, inode, lob, xdes};
use crate::{fil, record};

/// A field of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The server's name for it.
    pub name: &'static str,
    /// Offset in bytes from the start of the structure; for parts of a page, from the start of the page.
    pub offset: usize,
    /// Length in bytes; `None` if the length depends on the page.
    pub size: Option<usize>,
}

/// A structure and its fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Structure {
    /// Its name.
    pub name: &'static str,
    /// Its fields, in order.
    pub fields: &'static [Field],
}

/// The fields of a structure, from a module's offset constants.
#[macro_export]
macro_rules! fields {
    ($module:ident: $($name:ident $size:expr),+ $(,)?) => {
        &[$($crate::layout::Field { name: stringify!($name), offset: $module::$name, size: $size }),+]
    };
}

/// Header of every page.
pub const FIL_HEADER: Structure = Structure {
    name: "page header",
    fields: fields![fil:
        FIL_PAGE_SPACE_OR_CHKSUM Some(4), FIL_PAGE_OFFSET Some(4), FIL_PAGE_PREV Some(4), FIL_PAGE_NEXT Some(4),
        FIL_PAGE_LSN Some(8), FIL_PAGE_TYPE Some(2), FIL_PAGE_FILE_FLUSH_LSN Some(8), FIL_PAGE_SPACE_ID Some(4),
        FIL_PAGE_DATA None,
    ],
};

/// Space header on page 0.
pub const SPACE_HEADER: Structure = Structure {
    name: "space header",
    fields: fields![fsp:
        FSP_SPACE_ID Some(4), FSP_NOT_USED Some(4), FSP_SIZE Some(4), FSP_FREE_LIMIT Some(4), FSP_SPACE_FLAGS Some(4),
        FSP_FRAG_N_USED Some(4), FSP_FREE Some(16), FSP_FREE_FRAG Some(16), FSP_FULL_FRAG Some(16), FSP_SEG_ID Some(8),
        FSP_SEG_INODES_FULL Some(16), FSP_SEG_INODES_FREE Some(16), XDES_ARR_OFFSET None,
    ],
};

/// Extent descriptor.
pub const EXTENT_DESCRIPTOR: Structure = Structure {
    name: "extent descriptor",
    fields: fields![xdes: XDES_ID Some(8), XDES_FLST_NODE Some(12), XDES_STATE Some(4), XDES_BITMAP None],
};

/// Segment inode.
pub const SEGMENT_INODE: Structure = Structure {
    name: "segment inode",
    fields: fields![inode:
        FSEG_ID Some(8), FSEG_NOT_FULL_N_USED Some(4), FSEG_FREE Some(16), FSEG_NOT_FULL Some(16), FSEG_FULL Some(16),
        FSEG_MAGIC_N Some(4), FSEG_FRAG_ARR None,
    ],
};

/// Header of index pages.
pub const PAGE_HEADER: Structure = Structure {
    name: "index page header",
    fields: fields![index:
        PAGE_N_DIR_SLOTS Some(2), PAGE_HEAP_TOP Some(2), PAGE_N_HEAP Some(2), PAGE_FREE Some(2), PAGE_GARBAGE Some(2),
        PAGE_LAST_INSERT Some(2), PAGE_DIRECTION Some(2), PAGE_N_DIRECTION Some(2), PAGE_N_RECS Some(2),
        PAGE_MAX_TRX_ID Some(8), PAGE_LEVEL Some(2), PAGE_INDEX_ID Some(8), PAGE_BTR_SEG_LEAF Some(10),
        PAGE_BTR_SEG_TOP Some(10), PAGE_DATA None,
    ],
};

/// Fixed header of compact records.
pub const COMPACT_RECORD: Structure = Structure {
    name: "compact record header",
    fields: fields![record: REC_NEW_INFO_BITS Some(1), REC_NEW_HEAP_NO Some(2), REC_NEW_NEXT Some(2)],
};

/// Fixed header of REDUNDANT records.
pub const REDUNDANT_RECORD: Structure = Structure {
    name: "REDUNDANT record header",
    fields: fields![record: REC_OLD_INFO_BITS Some(1), REC_OLD_HEAP_NO Some(3), REC_OLD_NEXT Some(2)],
};

/// Reference to an off-page value.
pub const REFERENCE: Structure = Structure {
    name: "reference",
    fields: fields![lob:
        BTR_EXTERN_SPACE_ID Some(4), BTR_EXTERN_PAGE_NO Some(4), BTR_EXTERN_OFFSET Some(4), BTR_EXTERN_LEN Some(8),
    ],
};

/// Header of a part of an off-page value.
pub const BLOB_PART: Structure = Structure {
    name: "BLOB part",
    fields: fields![lob: BTR_BLOB_HDR_PART_LEN Some(4), BTR_BLOB_HDR_NEXT_PAGE_NO Some(4), BTR_BLOB_HDR_SIZE None],
};

/// First page of an off-page value of MySQL 8.
pub const LOB_FIRST: Structure = Structure {
    name: "LOB first page",
    fields: fields![lob:
        LOB_FIRST_VERSION Some(4), LOB_FIRST_DATA_LEN Some(4), LOB_FIRST_INDEX_LIST Some(16), LOB_FIRST_DATA None,
    ],
};

/// Entry of the list of pieces of an off-page value of MySQL 8.
pub const LOB_ENTRY: Structure = Structure {
    name: "LOB entry",
    fields: fields![lob:
        LOB_ENTRY_NEXT Some(6), LOB_ENTRY_VERSIONS Some(16), LOB_ENTRY_PAGE_NO Some(4), LOB_ENTRY_DATA_LEN Some(2),
        LOB_ENTRY_VERSION Some(4), LOB_ENTRY_SIZE None,
    ],
};

/// Page with a piece of an off-page value of MySQL 8.
pub const LOB_DATA_PAGE: Structure =
    Structure { name: "LOB data page", fields: fields![lob: LOB_DATA_LEN Some(4), LOB_DATA None] };

/// First page of a value stored in compressed pieces.
pub const ZLOB_FIRST: Structure = Structure {
    name: "ZLOB first page",
    fields: fields![lob:
        ZLOB_FIRST_DATA_LEN Some(4), ZLOB_FIRST_INDEX_LIST Some(16), ZLOB_FIRST_ENTRIES None,
    ],
};

/// Entry of the list of pieces of a value stored in compressed pieces.
pub const ZLOB_ENTRY: Structure = Structure {
    name: "ZLOB entry",
    fields: fields![lob:
        ZLOB_ENTRY_PAGE_NO Some(4), ZLOB_ENTRY_FRAGMENT Some(2), ZLOB_ENTRY_DATA_LEN Some(4),
        ZLOB_ENTRY_ZLIB_LEN Some(4), ZLOB_ENTRY_SIZE None,
    ],
};
