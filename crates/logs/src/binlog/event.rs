//! The header of an event, and the names of its types.

use std::fmt;

use format::bytes::le;

pub(super) const POS_TYPE: usize = 4;
const POS_SERVER_ID: usize = 5;
pub(super) const POS_LEN: usize = 9;
pub(super) const POS_NEXT: usize = 13;
pub(super) const POS_FLAGS: usize = 17;
/// Length of the header.
pub(super) const HEADER_LEN: usize = 19;
/// Length of a checksum.
pub(super) const CRC_LEN: usize = 4;

/// `LOG_EVENT_BINLOG_IN_USE_F`, in the flags of a format description.
pub(super) const FLAG_IN_USE: u8 = 1;
/// `LOG_EVENT_RELAY_LOG_F`: written by a replica for its relay log.
pub(super) const FLAG_RELAY: u8 = 0x40;

/// The type of an event, by the servers' number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventType(pub u8);

impl EventType {
    /// `START_EVENT_V3`: first event of a log from before MySQL 5.0.
    pub const START_V3: Self = Self(1);
    /// `STOP_EVENT`: the server was shut down.
    pub const STOP: Self = Self(3);
    /// `FORMAT_DESCRIPTION_EVENT`.
    pub const FORMAT_DESCRIPTION: Self = Self(15);
    /// `START_ENCRYPTION_EVENT`: everything after it is encrypted (MariaDB).
    pub const START_ENCRYPTION: Self = Self(164);

    /// The servers' name for it, in lower case, if it has one.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            1 => "start_v3",
            2 => "query",
            3 => "stop",
            4 => "rotate",
            5 => "intvar",
            6 => "load",
            7 => "slave",
            8 => "create_file",
            9 => "append_block",
            10 => "exec_load",
            11 => "delete_file",
            12 => "new_load",
            13 => "rand",
            14 => "user_var",
            15 => "format_description",
            16 => "xid",
            17 => "begin_load_query",
            18 => "execute_load_query",
            19 => "table_map",
            20 => "write_rows_v0",
            21 => "update_rows_v0",
            22 => "delete_rows_v0",
            23 => "write_rows_v1",
            24 => "update_rows_v1",
            25 => "delete_rows_v1",
            26 => "incident",
            27 => "heartbeat",
            28 => "ignorable",
            29 => "rows_query",
            30 => "write_rows",
            31 => "update_rows",
            32 => "delete_rows",
            33 => "gtid",
            34 => "anonymous_gtid",
            35 => "previous_gtids",
            36 => "transaction_context",
            37 => "view_change",
            38 => "xa_prepare",
            39 => "partial_update_rows",
            40 => "transaction_payload",
            41 => "heartbeat_v2",
            42 => "gtid_tagged",
            160 => "annotate_rows",
            161 => "binlog_checkpoint",
            162 => "mariadb_gtid",
            163 => "gtid_list",
            164 => "start_encryption",
            165 => "query_compressed",
            166 => "write_rows_compressed_v1",
            167 => "update_rows_compressed_v1",
            168 => "delete_rows_compressed_v1",
            169 => "write_rows_compressed",
            170 => "update_rows_compressed",
            171 => "delete_rows_compressed",
            _ => return None,
        })
    }

    /// Whether a log may contain such an event, allowing for types of future servers.
    pub(super) const fn is_plausible(self) -> bool {
        matches!(self.0, 1..=63 | 160..=191)
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "type {}", self.0),
        }
    }
}

/// The header of an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Header {
    pub(super) bytes: [u8; HEADER_LEN],
    pub(super) kind: EventType,
    /// Length of the whole event.
    pub(super) len: u32,
    /// Next position, modulo 2^32; 0 if the event has none.
    pub(super) next: u32,
    /// The lower byte of the flags.
    pub(super) flags: u8,
}

impl Header {
    /// Parses the first [`HEADER_LEN`] bytes of an event.
    pub(super) fn parse(head: &[u8]) -> Option<Self> {
        let bytes = *head.first_chunk::<HEADER_LEN>()?;
        Some(Self {
            bytes,
            kind: EventType(*bytes.get(POS_TYPE)?),
            len: le::u32_at(&bytes, POS_LEN)?,
            next: le::u32_at(&bytes, POS_NEXT)?,
            flags: *bytes.get(POS_FLAGS)?,
        })
    }

    /// Id of the server that the event comes from.
    pub(super) fn server_id(&self) -> u32 {
        le::u32_at(&self.bytes, POS_SERVER_ID).unwrap_or_default()
    }

    /// The bytes covered by the checksum: in a format description, without the "in use" flag, which changes after writing.
    pub(super) fn summed(&self) -> [u8; HEADER_LEN] {
        let mut bytes = self.bytes;
        if self.kind == EventType::FORMAT_DESCRIPTION
            && let Some(flags) = bytes.get_mut(POS_FLAGS)
        {
            *flags &= !FLAG_IN_USE;
        }
        bytes
    }

    /// Like [`Header::summed`], with `value` written at `at`.
    pub(super) fn summed_with(&self, at: usize, value: u32) -> [u8; HEADER_LEN] {
        let mut bytes = self.summed();
        le::put_u32(&mut bytes, at, value);
        bytes
    }
}
