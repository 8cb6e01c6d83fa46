//! `innokit restore`: options in, what was restored and what to do next out.

use std::error::Error;
use std::io::{self, Write};
use std::time::SystemTime;

use datadir::Outcome;
use datadir::keys::KeyFiles;
use recovery::{RecoverOptions, RestoreOptions, Restored};

use crate::args::RestoreArgs;
use crate::document;
use crate::options::memory::WorkingMemory;
use crate::print::{grouped, human, written};
use crate::progress::Bar;
use crate::recover::{
    limits, print_binlog, print_increments, print_moment, print_not_in_redo, print_outside, print_recovered,
    tell_outside,
};
use crate::terminal::{self, shown};

/// Restores the backup. Returns the exit status.
pub fn run(args: &RestoreArgs) -> Result<u8, Box<dyn Error>> {
    let started = SystemTime::now();
    let (until, until_time) = limits(args.until.as_ref());
    let keys = KeyFiles { keyrings: args.keyring.clone(), key_file: args.key_file.clone() };
    keys.hold_pipes()?;
    let memory = args.memory.choose();
    let (redo, increments) = (args.redo.clone(), args.increment.clone());
    let recover = RecoverOptions {
        until,
        until_time,
        require_until: args.require_until,
        stale_tables: args.stale_tables,
        allow_damage: args.allow_damage,
        redo,
        increments,
        outside: args.with_outside,
        on_outside: Some(tell_outside),
        places: args.outside.clone(),
        keys,
        memory: memory.bytes,
        ..RecoverOptions::default()
    };
    let options = RestoreOptions {
        to: args.to.clone(),
        owner: args.owner,
        moves: args.moves,
        max_size: args.max_size,
        trusted: args.trusted.clone(),
        recover,
    };
    let restored = match Bar::following(args.progress, || recovery::restore(&args.backup, &options)) {
        Ok(restored) => restored,
        Err(error) if error.is_damage() => {
            document::fail(started, Outcome::Damage.exit_status(), &error, args.json);
            return Ok(Outcome::Damage.exit_status());
        }
        Err(error) => return Err(error.into()),
    };
    written(print(&restored, (args, memory), started), 0)
}

fn print(restored: &Restored, (args, memory): (&RestoreArgs, WorkingMemory), started: SystemTime) -> io::Result<()> {
    let mut out = terminal::out();
    if args.json {
        return document::write((started, 0), false, restored, &mut out);
    }
    if restored.files_verified > 0 {
        writeln!(out, "verified  {} files are as they were backed up", grouped(restored.files_verified))?;
    }
    for key in &restored.signed_by {
        writeln!(out, "signed    with key {}, and as it was signed", shown(key))?;
    }
    print_increments(&restored.recovered, &mut out)?;
    print_recovered(&restored.recovered, false, &mut out)?;
    if !restored.recovered.was_clean {
        memory.tell(&mut out)?;
    }
    print_moment(args.until.as_ref(), &restored.recovered, &mut out)?;
    let (bytes, files, to) = (human(restored.bytes as f64), grouped(restored.files), args.to.display());
    if args.moves {
        writeln!(out, "moved     {bytes} in {files} files, from {} to {to}", args.backup.display())?;
    } else {
        writeln!(out, "restored  {bytes} in {files} files, in {to}")?;
    }
    print_outside(&restored.recovered, &mut out)?;
    print_not_in_redo(&restored.recovered, &mut out)?;
    print_binlog(restored.binlog.as_ref(), &restored.replica, &mut out)?;
    let give = if args.owner.is_none() { format!("chown -R mysql: {to}, then ") } else { String::new() };
    let version =
        restored.server_version.as_ref().map_or_else(String::new, |version| format!(" of {} or later", shown(version)));
    writeln!(out, "Next: {give}start a server{version} on it (datadir={to}). It rolls back what was not committed.")?;
    out.flush()
}
