//! What to measure, and how long.

use std::time::Duration;

use super::super::pattern::{Access, Carrier, Order, Way};

/// What to measure, and how long.
#[derive(Clone, Debug)]
pub struct DeviceOptions {
    /// Bytes of the file that is read and written.
    pub size: u64,
    /// Time of one measurement.
    pub time: Duration,
    /// What to do with the blocks.
    pub accesses: Vec<Access>,
    /// Orders to measure.
    pub orders: Vec<Order>,
    /// Ways to measure.
    pub ways: Vec<Way>,
    /// The engine, where it shall not be searched.
    pub engine: Option<Carrier>,
    /// Bytes of a request, where they shall not be searched.
    pub block_size: Option<u32>,
    /// Requests in flight for each thread, where they shall not be searched.
    pub depth: Option<u32>,
    /// Threads, where they shall not be searched.
    pub threads: Option<u32>,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self {
            size: 1 << 30,
            time: Duration::from_millis(500),
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

/// Bytes of an InnoDB page, the block of random patterns unless another is asked for.
pub(super) const PAGE: u32 = 16 << 10;
/// Measurements of each typical pattern.
pub(super) const REPEATS: usize = 3;
