//! `innokit unpack`: archives in, files out.

use std::error::Error;
use std::io::{self, Write};
use std::time::SystemTime;

use datadir::Outcome;
use recovery::Unpacked;

use crate::args::UnpackArgs;
use crate::document;
use crate::print::{grouped, written};
use crate::progress::Bar;
use crate::terminal::{self, shown};

/// Part of the work was not done.
const NOT_ALL: u8 = 2;

/// Unpacks the archives. Returns the exit status.
pub fn run(args: &UnpackArgs) -> Result<u8, Box<dyn Error>> {
    let started = SystemTime::now();
    let unpack = || recovery::unpack_at_most(&args.archives, &args.dir, args.max_size);
    let done = match Bar::following(args.progress, unpack) {
        Ok(done) => done,
        Err(error) if error.is_damage() => {
            document::fail(started, Outcome::Damage.exit_status(), &error, args.json);
            return Ok(Outcome::Damage.exit_status());
        }
        Err(error) => return Err(error.into()),
    };
    let is_all = done.left_out.is_empty() && done.still_packed.is_empty();
    let status = if is_all { 0 } else { NOT_ALL };
    written(print(&done, args, (started, status)), status)
}

fn print(done: &Unpacked, args: &UnpackArgs, head: (SystemTime, u8)) -> io::Result<()> {
    let mut out = terminal::out();
    if args.json {
        return document::write(head, false, done, &mut out);
    }
    for name in &done.left_out {
        writeln!(out, "left out      {}: a link or a device, not a file", shown(name))?;
    }
    for name in &done.still_packed {
        writeln!(out, "still packed  {}: in a format that innokit does not read", shown(name))?;
    }
    writeln!(out, "{} files, {} bytes, in {}", grouped(done.files), grouped(done.bytes), args.dir.display())?;
    out.flush()
}
