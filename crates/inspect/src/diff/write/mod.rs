//! Differences as text: for people, as JSON lines, as SQL.

mod json;
mod spool;
mod sql;
mod text;

pub use self::json::JsonChanges;
pub use self::sql::SqlChanges;
pub use self::text::TextChanges;
