//! What a job hands back, as data with stable names.

pub mod report;
