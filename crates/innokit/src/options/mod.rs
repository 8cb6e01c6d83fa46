//! Options that several commands share, and what their values are read with.

pub mod keys;
pub mod output;
pub mod reading;
pub mod selection;
pub mod sizes;

pub use self::keys::key_paths;
pub use self::output::Progress;
pub use self::reading::ReadingArgs;
#[cfg(feature = "bench")]
pub use self::sizes::{bytes, size};
