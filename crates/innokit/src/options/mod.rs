//! Options that several commands share, and what their values are read with.

mod civil;
pub mod keys;
pub mod memory;
pub mod moment;
pub mod output;
mod posix_zone;
pub mod reading;
pub mod selection;
pub mod sizes;
pub mod until;
pub mod view;
mod zone;

pub use self::keys::key_paths;
pub use self::output::Progress;
pub use self::reading::ReadingArgs;
#[cfg(feature = "bench")]
pub use self::sizes::{bytes, size};
pub use self::until::Until;
pub use self::view::ViewArgs;
