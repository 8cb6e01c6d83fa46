//! What to measure, and for how long.

use std::time::Duration;

use super::super::pattern::{Access, Carrier, Order, Way};
use super::super::search;

/// What to measure, and for how long.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// Size of the file, bytes.
    pub size: u64,
    /// Duration of one measurement.
    pub time: Duration,
    /// How often each row is measured, at least 1. Limits, which the search has measured anyway, have at least as many figures.
    pub rounds: usize,
    /// What to do with the blocks.
    pub accesses: Vec<Access>,
    /// Orders to measure.
    pub orders: Vec<Order>,
    /// Ways to measure.
    pub ways: Vec<Way>,
    /// The engine, if fixed.
    pub engine: Option<Carrier>,
    /// Bytes of a request, if fixed.
    pub block_size: Option<u32>,
    /// Requests in flight for each thread, if fixed.
    pub depth: Option<u32>,
    /// Threads, if fixed.
    pub threads: Option<u32>,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self {
            size: 1 << 30,
            time: Duration::from_millis(500),
            rounds: search::ROUNDS,
            accesses: vec![Access::Read, Access::Write],
            orders: vec![Order::Sequential, Order::Random],
            ways: vec![Way::Direct, Way::Buffered],
            engine: None,
            block_size: None,
            depth: None,
            threads: None,
        }
    }
}

/// Bytes of an InnoDB page, the default block of random patterns.
pub(super) const PAGE: u32 = 16 << 10;
