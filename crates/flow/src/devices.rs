//! Files on several devices: each device has a cursor of its own, and workers that are at home there.
//!
//! One cursor over all files would have all workers read one device while the others rest, and then the next. Here each device has
//! requests in flight from the start, as many as its workers have, until it has no more blocks; then its workers help where the most
//! blocks are left. A worker hands its blocks over in the order in which it took them, so as long as it has a device of its own, no slow
//! device holds up a fast one.

use crate::{Block, Cursor, FileId, FileRange, FileSet, Plan};

/// The blocks of all files, device by device.
#[derive(Debug)]
pub struct Devices<'f> {
    /// At least one.
    cursors: Box<[Cursor<'f>]>,
}

impl<'f> Devices<'f> {
    /// Stretches of files, each in the cursor of its device. `device_of` gives any number that is the same for files on the same device;
    /// within a device, stretches keep their order. `block_size` as for [`Cursor::over`].
    #[must_use]
    pub fn over(
        files: &'f FileSet,
        stretches: impl IntoIterator<Item = FileRange>,
        block_size: u32,
        device_of: impl Fn(FileId) -> u64,
    ) -> Self {
        let mut devices: Vec<(u64, Vec<FileRange>)> = Vec::new();
        for stretch in stretches {
            let device = device_of(stretch.file);
            match devices.iter_mut().find(|(known, _)| *known == device) {
                Some((_, of_device)) => of_device.push(stretch),
                None => devices.push((device, vec![stretch])),
            }
        }
        if devices.is_empty() {
            devices.push((0, Vec::new()));
        }
        let cursors = devices.into_iter().map(|(_, stretches)| Cursor::over(files, stretches, block_size));
        Self { cursors: cursors.collect() }
    }

    /// How many devices there are, at least 1.
    #[must_use]
    pub fn count(&self) -> usize {
        self.cursors.len()
    }

    /// Total number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.cursors.iter().map(Cursor::blocks).sum()
    }

    /// Stops handing out blocks. Blocks already handed out are not affected.
    pub fn stop(&self) {
        self.cursors.iter().for_each(Cursor::stop);
    }

    /// The blocks for a worker, numbered from 0: those of its own device first.
    #[must_use]
    pub fn of_worker(&self, worker: usize) -> DeviceShare<'_, 'f> {
        DeviceShare { devices: self, home: worker % self.cursors.len().max(1) }
    }
}

/// One worker's view of [`Devices`].
#[derive(Debug, Clone, Copy)]
pub struct DeviceShare<'d, 'f> {
    devices: &'d Devices<'f>,
    home: usize,
}

impl Plan for DeviceShare<'_, '_> {
    fn next(&self) -> Option<Block> {
        let cursors = &self.devices.cursors;
        if let Some(block) = cursors.get(self.home)?.next() {
            return Some(block);
        }
        // Another worker may take a cursor's last block between the look and the addition, so look again.
        loop {
            let fullest = cursors.iter().max_by_key(|cursor| cursor.left()).filter(|cursor| cursor.left() > 0)?;
            if let Some(block) = fullest.next() {
                return Some(block);
            }
        }
    }

    fn block_size(&self) -> u32 {
        self.devices.cursors.first().map_or(0, Cursor::block_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> FileSet {
        FileSet::new([0, 1, 2, 3].map(|number| (format!("{number}").into(), 65536 * (4 - number))))
    }

    fn all(files: &FileSet, device_of: fn(FileId) -> u64) -> Devices<'_> {
        let whole = (0..4).map(|file| FileRange { file: FileId(file), from: 0, to: u64::MAX });
        Devices::over(files, whole, 65536, device_of)
    }

    fn taken(share: DeviceShare<'_, '_>, count: usize) -> Vec<(u32, u64)> {
        std::iter::from_fn(|| share.next()).take(count).map(|block| (block.file.0, block.offset / 65536)).collect()
    }

    #[test]
    fn workers_take_from_their_own_device_and_then_where_the_most_is_left() {
        let files = files();
        // Files 0 and 2 on one device, with 6 blocks; 1 on another, with 3; 3 on a third, with 1.
        let devices = all(&files, |file| [7, 9, 7, 8][file.0 as usize]);
        assert_eq!((devices.count(), devices.blocks()), (3, 10));
        let [first, second, third] = [0, 1, 2].map(|worker| devices.of_worker(worker));
        assert_eq!(taken(first, 1), [(0, 0)]);
        assert_eq!(taken(second, 1), [(1, 0)], "both devices are read from the start");
        assert_eq!(taken(third, 2), [(3, 0), (0, 1)], "its own device is done, and the first has the most left");
        assert_eq!(taken(second, 9), [(1, 1), (1, 2), (0, 2), (0, 3), (2, 0), (2, 1)], "in the order of the files");
        assert_eq!([first, second, third].map(|share| share.next()), [None; 3]);
    }

    #[test]
    fn one_device_is_swept_as_by_one_cursor() {
        let files = files();
        let devices = all(&files, |_| 3);
        let cursor = Cursor::sweep(&files, 65536);
        let whole: Vec<_> = std::iter::from_fn(|| cursor.next()).collect();
        let shared: Vec<_> = (0..10).filter_map(|number| devices.of_worker(number % 4).next()).collect();
        assert_eq!(shared, whole);
        assert_eq!(devices.of_worker(5).next(), None);
    }

    #[test]
    fn every_block_is_taken_once_by_many_threads_and_none_after_a_stop() {
        let files = FileSet::new((0..40).map(|number| (format!("{number}").into(), 65536 * (number % 7))));
        let whole = || (0..40).map(|file| FileRange { file: FileId(file), from: 0, to: u64::MAX });
        let devices = Devices::over(&files, whole(), 65536, |file| u64::from(file.0 % 3));
        let all = crate::run_workers(4, |worker| taken(devices.of_worker(worker), usize::MAX)).concat();
        let unique: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!((all.len() as u64, unique.len() as u64), (devices.blocks(), devices.blocks()));
        let stopped = Devices::over(&files, whole(), 65536, |file| u64::from(file.0 % 3));
        stopped.stop();
        assert_eq!(taken(stopped.of_worker(1), usize::MAX), []);
    }
}
