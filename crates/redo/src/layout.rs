//! A table of fields for each structure in redo logs, like `format::layout` for pages.

use format::fields;
use format::layout::Structure;

use crate::{block, mariadb, mysql};

/// Log block.
pub const LOG_BLOCK: Structure = Structure {
    name: "log block",
    fields: fields![block:
        LOG_BLOCK_HDR_NO Some(4), LOG_BLOCK_HDR_DATA_LEN Some(2), LOG_BLOCK_FIRST_REC_GROUP Some(2),
        LOG_BLOCK_EPOCH_NO Some(4), LOG_BLOCK_HDR_SIZE None, LOG_BLOCK_CHECKSUM Some(4),
    ],
};

/// Header of MySQL's redo log files.
pub const MYSQL_LOG_HEADER: Structure = Structure {
    name: "MySQL redo log header",
    fields: fields![mysql:
        LOG_HEADER_FORMAT Some(4), LOG_HEADER_LOG_UUID Some(4), LOG_HEADER_START_LSN Some(8), LOG_HEADER_CREATOR Some(32),
        LOG_HEADER_FLAGS Some(4), LOG_HEADER_CHECKSUM Some(4), LOG_CHECKPOINT_1 Some(512), LOG_ENCRYPTION Some(512),
        LOG_CHECKPOINT_2 Some(512), LOG_FILE_HDR_SIZE None,
    ],
};

/// Checkpoint slot of MySQL's redo log files.
pub const MYSQL_CHECKPOINT: Structure = Structure {
    name: "MySQL checkpoint",
    fields: fields![mysql:
        LOG_CHECKPOINT_NO Some(8), LOG_CHECKPOINT_LSN Some(8), LOG_CHECKPOINT_OFFSET Some(8),
        LOG_CHECKPOINT_BUF_SIZE Some(8),
    ],
};

/// Header of MariaDB's redo log file.
pub const MARIADB_LOG_HEADER: Structure = Structure {
    name: "MariaDB redo log header",
    fields: fields![mariadb:
        LOG_HEADER_FORMAT Some(4), LOG_HEADER_START_LSN Some(8), LOG_HEADER_CREATOR Some(32), LOG_HEADER_KEY Some(28),
        LOG_HEADER_CHECKSUM Some(4), CHECKPOINT_1 Some(64), CHECKPOINT_2 Some(64), START_OFFSET None,
    ],
};

/// Checkpoint slot of MariaDB's redo log file.
pub const MARIADB_CHECKPOINT: Structure = Structure {
    name: "MariaDB checkpoint",
    fields: fields![mariadb: CHECKPOINT_LSN Some(8), CHECKPOINT_END_LSN Some(8), CHECKPOINT_CHECKSUM Some(4)],
};

/// Checkpoint slot of the redo log file of MariaDB 10.5 to 10.7.
pub const MARIADB_BLOCKS_CHECKPOINT: Structure = Structure {
    name: "MariaDB 10.5 checkpoint",
    fields: fields![mariadb:
        BLOCKS_CHECKPOINT_NO Some(8), BLOCKS_CHECKPOINT_LSN Some(8), BLOCKS_CHECKPOINT_OFFSET Some(8),
        BLOCKS_END_LSN Some(8), BLOCKS_CHECKPOINT_CHECKSUM Some(4),
    ],
};
