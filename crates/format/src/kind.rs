//! The kinds of tablespaces: vendor, checksum scheme, encryption.

/// The vendor whose server writes the tablespace; the two accept different checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// MySQL, and servers indistinguishable from it.
    MySql,
    /// MariaDB.
    MariaDb,
}

/// Where the pages of a tablespace keep their checksums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Two checksum fields, at byte 0 and 8 bytes before the end.
    Classic,
    /// ROW_FORMAT=COMPRESSED: one field at byte 0, no trailer.
    Zip,
    /// MariaDB's full_crc32: one field in the last 4 bytes.
    FullCrc32,
}

/// Whether the tablespace says that its pages are encrypted. Individual pages may still be plain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encryption {
    /// It does not say so.
    None,
    /// MySQL's flag is set.
    MySql,
    /// MariaDB's crypt data are present and not switched off.
    MariaDb,
}
