//! What the log says about a page: the checksums computed, and those found. Each page gets the same lines as in the original, since
//! programs read them.

use std::io::{self, Write};

use format::bytes::be;
use format::checksum::{self, NO_CHECKSUM_MAGIC};
use format::{Algorithm, Scheme};

use recovery::innochecksum::{ChecksumKind, Examined, PageOutcome};

/// Writes the lines of the page at `position`.
pub fn page(
    log: &mut impl Write,
    examined: &Examined<'_>,
    position: u64,
    scheme: Scheme,
    strict: Option<ChecksumKind>,
) -> io::Result<()> {
    let lines =
        Lines { page: examined.page, number: be::u32_at(examined.page, 4).unwrap_or(0), outcome: examined.outcome };
    match (examined.outcome, scheme) {
        (PageOutcome::NotInflated, _) => writeln!(log, "Fail; page {position} invalid (cannot be decompressed)"),
        (_, Scheme::Zip) => lines.zip(log, strict),
        (_, Scheme::Classic) => lines.classic(log, position, strict),
        (_, Scheme::FullCrc32) => lines.full_crc32(log, position),
    }
}

struct Lines<'a> {
    page: &'a [u8],
    /// The number in the page itself, which the original uses from here on.
    number: u32,
    outcome: PageOutcome,
}

impl Lines<'_> {
    /// The 32-bit field that starts this many bytes before the end of the page.
    fn at_end(&self, offset: usize) -> u32 {
        be::u32_at(self.page, self.page.len().saturating_sub(offset)).unwrap_or(0)
    }

    fn field(&self, offset: usize) -> u32 {
        be::u32_at(self.page, offset).unwrap_or(0)
    }

    /// Writes the line about the LSN halves. Returns whether they agree.
    fn halves(&self, log: &mut impl Write, position: u64, trailer: u32) -> io::Result<bool> {
        let header = self.field(20);
        writeln!(log, "page::{position}; log sequence number:first = {header}; second = {trailer}")?;
        if header != trailer {
            writeln!(log, "Fail; page {position} invalid (fails log sequence number check)")?;
        }
        Ok(header == trailer)
    }

    fn classic(&self, log: &mut impl Write, position: u64, strict: Option<ChecksumKind>) -> io::Result<()> {
        if self.outcome == PageOutcome::Encrypted {
            return writeln!(log, "page::{position}; encrypted, not verified");
        }
        if !self.halves(log, position, self.at_end(4))? {
            return Ok(());
        }
        if self.outcome == PageOutcome::Empty {
            return writeln!(log, "Page::{} is empty and uncorrupted", self.number);
        }
        let unwritten = self.field(0) == 0 && self.at_end(8) == 0 && be::u64_at(self.page, 16) == Some(0);
        if unwritten {
            // A page without checksums and LSN that is not all zeros: the original logs nothing more for it.
            return Ok(());
        }
        match strict {
            None => self.all(log),
            Some(ChecksumKind::Crc32) => self.strict_crc32(log),
            Some(ChecksumKind::Innodb) => self.strict_innodb(log),
            Some(ChecksumKind::None) => self.strict_none(log),
        }
    }

    fn all(&self, log: &mut impl Write) -> io::Result<()> {
        self.both_styles(log)?;
        match self.outcome {
            PageOutcome::Sound(Algorithm::None) => self.innodb_again(log),
            PageOutcome::Corrupt => {
                writeln!(log, "Fail; page {} invalid (fails innodb and crc32 checksum", self.number)
            }
            _ => Ok(()),
        }
    }

    fn both_styles(&self, log: &mut impl Write) -> io::Result<()> {
        let (number, header, trailer) = (self.number, self.field(0), self.at_end(8));
        let (old, new, crc32) =
            (checksum::innodb_old(self.page), checksum::innodb_new(self.page), checksum::crc32(self.page));
        writeln!(log, "page::{number}; old style: calculated = {old}; recorded = {trailer}")?;
        writeln!(log, "page::{number}; new style: calculated = {new}; crc32 = {crc32}; recorded = {header}")
    }

    fn innodb_again(&self, log: &mut impl Write) -> io::Result<()> {
        let (number, header, trailer) = (self.number, self.field(0), self.at_end(8));
        let (old, new) = (checksum::innodb_old(self.page), checksum::innodb_new(self.page));
        writeln!(log, "page::{number}; old style: calculated = {old}; recorded checksum = {trailer}")?;
        writeln!(log, "page::{number}; new style: calculated = {new}; recorded checksum = {header}")
    }

    fn strict_crc32(&self, log: &mut impl Write) -> io::Result<()> {
        let (number, header, trailer) = (self.number, self.field(0), self.at_end(8));
        let mut line = |crc32: u32| {
            writeln!(
                log,
                "page::{number}; crc32 calculated = {crc32}; recorded checksum field1 = {header} recorded checksum field2 = {trailer}"
            )
        };
        let comparable = header == trailer;
        if comparable {
            line(checksum::crc32(self.page))?;
        }
        match self.outcome {
            PageOutcome::Sound(Algorithm::None) => return self.both_styles(log),
            PageOutcome::Sound(Algorithm::Crc32BigEndian) | PageOutcome::Corrupt if comparable => {
                line(checksum::crc32_big_endian(self.page))?;
            }
            _ => {}
        }
        if self.outcome == PageOutcome::Corrupt {
            writeln!(log, "Fail; page {number} invalid (fails crc32 checksum)")?;
        }
        Ok(())
    }

    fn strict_innodb(&self, log: &mut impl Write) -> io::Result<()> {
        self.innodb_again(log)?;
        match self.outcome {
            PageOutcome::Sound(Algorithm::None) => self.innodb_again(log),
            PageOutcome::Corrupt => {
                writeln!(log, "Fail; page {} invalid (fails innodb and crc32 checksum", self.number)
            }
            _ => Ok(()),
        }
    }

    fn strict_none(&self, log: &mut impl Write) -> io::Result<()> {
        let (number, header, trailer) = (self.number, self.field(0), self.at_end(8));
        writeln!(
            log,
            "page::{number}; none checksum: calculated = {NO_CHECKSUM_MAGIC}; recorded checksum_field1 = {header} recorded checksum_field2 = {trailer}"
        )?;
        if self.outcome == PageOutcome::Corrupt {
            writeln!(log, "Fail; page {number} invalid (fails none checksum)")?;
        }
        Ok(())
    }

    fn zip(&self, log: &mut impl Write, strict: Option<ChecksumKind>) -> io::Result<()> {
        let (number, recorded) = (self.number, self.field(0));
        match self.outcome {
            PageOutcome::Encrypted => return writeln!(log, "page::{number}; encrypted, not verified"),
            PageOutcome::Empty => return writeln!(log, "Page::{number} is empty and uncorrupted"),
            _ => {}
        }
        if recorded == 0 && be::u64_at(self.page, 16) == Some(0) {
            return Ok(());
        }
        let (name, calculated) = match strict {
            None => ("innodb", checksum::zip_adler(self.page)),
            Some(ChecksumKind::Innodb) => ("strict_innodb", checksum::zip_adler(self.page)),
            Some(ChecksumKind::Crc32) => ("strict_crc32", checksum::zip_crc32(self.page)),
            Some(ChecksumKind::None) => ("strict_none", NO_CHECKSUM_MAGIC),
        };
        writeln!(log, "page::{number}; {name} checksum: calculated = {calculated}; recorded = {recorded}")?;
        if matches!(strict, Some(ChecksumKind::Innodb | ChecksumKind::None)) {
            let crc32 = checksum::zip_crc32(self.page);
            writeln!(log, "page::{number}: crc32 checksum: calculated = {crc32}; recorded = {recorded}")?;
            writeln!(log, "page::{number}: none checksum: calculated = {NO_CHECKSUM_MAGIC}; recorded = {recorded}")?;
        }
        Ok(())
    }

    /// MySQL has no such pages, so these lines are modelled on those for its own.
    fn full_crc32(&self, log: &mut impl Write, position: u64) -> io::Result<()> {
        if self.outcome == PageOutcome::Empty {
            return writeln!(log, "Page::{} is empty and uncorrupted", self.number);
        }
        let compressed = self.page.get(24).is_some_and(|byte| byte & 0x80 != 0);
        if self.field(0) == 0 && !compressed && !self.halves(log, position, self.at_end(8))? {
            return Ok(());
        }
        let (calculated, recorded) = (checksum::full_crc32(self.page), self.at_end(4));
        if !compressed {
            writeln!(log, "page::{}; full_crc32: calculated = {calculated}; recorded = {recorded}", self.number)?;
        }
        if self.outcome == PageOutcome::Corrupt {
            writeln!(log, "Fail; page {position} invalid (fails full_crc32 checksum)")?;
        }
        Ok(())
    }
}
