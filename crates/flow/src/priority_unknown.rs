//! Systems without I/O priorities.

use std::io;

/// Does nothing here.
///
/// # Errors
/// None.
pub fn set_io_idle(_: bool) -> io::Result<()> {
    Ok(())
}
