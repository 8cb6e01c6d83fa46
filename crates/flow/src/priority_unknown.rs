//! Systems without I/O priorities.

use std::io;

/// The I/O priority of a thread: there is one only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoPriority;

impl IoPriority {
    /// The same as any other.
    pub const NONE: Self = Self;

    /// The same as any other.
    pub const IDLE: Self = Self;

    /// The calling thread's priority.
    ///
    /// # Errors
    /// None.
    pub fn now() -> io::Result<Self> {
        Ok(Self)
    }

    /// Does nothing here.
    ///
    /// # Errors
    /// None.
    pub fn set(self) -> io::Result<()> {
        Ok(())
    }
}
