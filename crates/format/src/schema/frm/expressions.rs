//! The expressions of a `.frm` file: for generated columns, and in MariaDB for defaults and checks too.

use std::collections::BTreeMap;

use super::error::FrmError;
use super::reader::Reader;
use crate::kind::Family;
use crate::schema::{CheckDef, Generated};

/// Bytes before the expressions in a MariaDB file.
const HEAD: usize = 16;
/// Bytes before each expression in a MySQL file.
const MYSQL_ENTRY: usize = 4;
const MARIADB_ENTRY: usize = 6;

/// A column's expressions.
#[derive(Default)]
pub(super) struct OfColumn {
    pub generated: Option<Generated>,
    pub default: Option<String>,
    pub check: Option<String>,
}

/// All expressions of a file.
#[derive(Default)]
pub(super) struct Expressions {
    pub columns: BTreeMap<usize, OfColumn>,
    /// Checks of the table.
    pub checks: Vec<CheckDef>,
}

/// Where the expressions are, and which columns MySQL marks as generated.
pub(super) struct ExpressionPlace {
    pub at: usize,
    pub len: usize,
    pub mysql_generated: Vec<usize>,
}

impl Expressions {
    pub fn read(frm: &Reader<'_>, family: Family, place: &ExpressionPlace) -> Result<Self, FrmError> {
        match family {
            Family::MariaDb => Self::of_mariadb(frm, place),
            Family::MySql => Self::of_mysql(frm, place),
        }
    }

    fn of_mariadb(frm: &Reader<'_>, place: &ExpressionPlace) -> Result<Self, FrmError> {
        let mut all = Self::default();
        if place.len <= HEAD {
            return Ok(all);
        }
        if frm.u8(2, "format")? < 11 {
            return Err(FrmError::Unknown { what: "generated columns of a server before MariaDB 10.2" });
        }
        let (mut at, end) = (place.at + HEAD, place.at + place.len);
        while at < end {
            let (kind, column) = (frm.u8(at, "expression")?, usize::from(frm.u16(at + 1, "expression")?));
            let text_len = usize::from(frm.u16(at + 3, "expression")?);
            let name_len = usize::from(frm.u8(at + 5, "expression")?);
            let name = text(frm, at + MARIADB_ENTRY, name_len)?;
            let expression = text(frm, at + MARIADB_ENTRY + name_len, text_len)?;
            let column = all.columns.entry(column).or_default();
            match kind {
                0 | 1 => column.generated = Some(Generated { stored: kind == 1, expression }),
                2 => column.default = Some(expression),
                3 => column.check = Some(expression),
                4 => all.checks.push(CheckDef { name, expression, enforced: true }),
                _ => return Err(FrmError::Unknown { what: "expressions of an unknown kind" }),
            }
            at += MARIADB_ENTRY + name_len + text_len;
        }
        Ok(all)
    }

    fn of_mysql(frm: &Reader<'_>, place: &ExpressionPlace) -> Result<Self, FrmError> {
        let mut all = Self::default();
        let mut at = place.at;
        for column in &place.mysql_generated {
            let len = usize::from(frm.u16(at + 1, "expression")?);
            let stored = frm.u8(at + 3, "expression")? != 0;
            let expression = text(frm, at + MYSQL_ENTRY, len)?;
            all.columns.entry(*column).or_default().generated = Some(Generated { stored, expression });
            at += MYSQL_ENTRY + len;
        }
        Ok(all)
    }
}

fn text(frm: &Reader<'_>, at: usize, len: usize) -> Result<String, FrmError> {
    Ok(String::from_utf8_lossy(frm.bytes(at, len, "expression")?).into_owned())
}
