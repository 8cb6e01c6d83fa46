//! What is there, before anything is decided: what the log says, from one read of it (`wanted`), and which tablespaces the datadir has
//! (`tablespaces`). Nothing is written here.

pub(super) mod definitions;
mod fresh;
pub(super) mod later_files;
pub(super) mod load;
pub(super) mod needs;
pub(super) mod prefetch;
pub(super) mod rest;
pub(super) mod tablespaces;
mod voids;
pub(super) mod wanted;
