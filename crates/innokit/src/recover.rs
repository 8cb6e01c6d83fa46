//! `innokit recover`: options in, an account of the recovery out.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use datadir::Outcome;
use datadir::keys::KeyFiles;
use datadir::server::BinlogPosition;
use format::Lsn;
use recovery::{BeyondKind, ReachedMoment, RecoverOptions, Recovered, Waiting};

use crate::args::RecoverArgs;
use crate::options::Until;
use crate::options::memory::WorkingMemory;
use crate::options::moment::Moment;
use crate::print::{grouped, peak_memory, position, written};
use crate::progress::Bar;
use crate::terminal::{self, shown};
use crate::{document, wall};

/// The LSN and the time at which a recovery ends.
pub fn limits(until: Option<&Until>) -> (Option<Lsn>, Option<SystemTime>) {
    match until {
        Some(Until::Lsn(lsn)) => (Some(Lsn(*lsn)), None),
        Some(Until::Time(moment)) => (None, Some(moment.time)),
        None => (None, None),
    }
}

/// The moment that was asked for, and how much of what was committed before it is there.
pub fn print_moment(until: Option<&Until>, done: &Recovered, out: &mut dyn Write) -> io::Result<()> {
    let (Some(Until::Time(asked)), Some(reached)) = (until, &done.moment) else { return Ok(()) };
    print_reached(asked, reached, done.end_lsn, out)
}

/// The same of a time that led to an LSN.
pub fn print_reached(asked: &Moment, reached: &ReachedMoment, lsn: u64, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "moment    {}: LSN {lsn}", asked.in_both())?;
    match reached.complete_us {
        None => writeln!(
            out,
            "          complete up to an unknown time: an older innokit archived this, and did not note how far the server was"
        ),
        Some(complete) if complete < reached.until_us => writeln!(
            out,
            "          complete up to {}: what was committed between that time and the moment may be missing",
            asked.like(complete)
        ),
        Some(_) => Ok(()),
    }
}

/// Recovers the datadir. Returns the exit status.
pub fn run(args: &RecoverArgs) -> Result<u8, Box<dyn Error>> {
    let started = SystemTime::now();
    let memory = args.memory.choose();
    let (until, until_time) = limits(args.until.as_ref());
    let to = args.to.clone();
    if args.in_place && !args.dry_run {
        let datadir = args.datadir.display();
        writeln!(
            terminal::err(),
            "recovering {datadir} in place: its files change (--to DIR would leave them as they are)"
        )?;
    }
    let keys = KeyFiles { keyrings: args.keyring.clone(), key_file: args.key_file.clone() };
    keys.hold_pipes()?;
    let (increments, dry_run, warm) = (args.increment.clone(), args.dry_run, !args.no_warm);
    let redo = args.redo.clone();
    let options = RecoverOptions {
        to,
        increments,
        dry_run,
        until,
        until_time,
        require_until: args.require_until,
        stale_tables: args.stale_tables,
        allow_damage: args.allow_damage,
        redo,
        outside: args.with_outside,
        on_outside: Some(tell_outside),
        places: args.outside.clone(),
        warm,
        keys,
        memory: memory.bytes,
        ..RecoverOptions::default()
    };
    let done = match Bar::following(args.progress, || recovery::recover(&args.datadir, &options)) {
        Ok(done) => done,
        Err(error) if error.is_damage() => {
            document::fail(started, Outcome::Damage.exit_status(), &error, args.json);
            return Ok(Outcome::Damage.exit_status());
        }
        Err(error) => return Err(error.into()),
    };
    if args.verbose {
        peak_memory(&mut terminal::err())?;
        wall::tell(&mut terminal::err())?;
    }
    written(print(&done, (args, memory), started), 0)
}

fn print(done: &Recovered, (args, memory): (&RecoverArgs, WorkingMemory), started: SystemTime) -> io::Result<()> {
    let mut out = terminal::out();
    if args.json {
        return document::write((started, 0), false, done, &mut out);
    }
    for name in &done.not_in_backup {
        writeln!(out, "left out  {}: the log changes it, and the backup does not hold it", shown(name))?;
    }
    print_increments(done, &mut out)?;
    print_recovered(done, args.dry_run, &mut out)?;
    if !done.was_clean {
        memory.tell(&mut out)?;
    }
    print_moment(args.until.as_ref(), done, &mut out)?;
    print_outside(done, &mut out)?;
    print_not_in_redo(done, &mut out)?;
    print_binlog(done.binlog.as_ref(), &done.replica, &mut out)?;
    if done.was_clean {
        return out.flush();
    }
    if done.was_backup && !args.dry_run {
        writeln!(out, "The backup is prepared: copy it to the server's datadir.")?;
    }
    if !args.dry_run {
        writeln!(out, "The server starts without crash recovery. It will roll back what was not committed.")?;
    }
    out.flush()
}

/// The increments that were merged, one line each.
pub fn print_increments(done: &Recovered, out: &mut dyn Write) -> io::Result<()> {
    done.increments.iter().try_for_each(|put| {
        let (dir, pages, files) =
            (shown(&put.directory.to_string_lossy()).into_owned(), grouped(put.pages), grouped(put.files));
        writeln!(out, "increment {dir}: {pages} pages of {files} files, to LSN {}", put.to_lsn)
    })
}

/// Where this datadir stands in the binary log of the server that it came from, and how it becomes that server's replica.
pub fn print_binlog(binlog: Option<&BinlogPosition>, replica: &[String], out: &mut dyn Write) -> io::Result<()> {
    if let Some(binlog) = binlog {
        writeln!(out, "binlog    {}: where a replica starts", position(binlog))?;
        if replica.iter().any(|statement| statement.contains("MASTER_LOG_FILE")) {
            let (file, position) = (shown(&binlog.file), binlog.position);
            writeln!(out, "          its GTID, as the source knows it: SELECT BINLOG_GTID_POS('{file}', {position})")?;
        }
    }
    let mut label = "replica   ";
    for statement in replica {
        writeln!(out, "{label}{}", shown(statement))?;
        label = "          ";
    }
    Ok(())
}

/// Says which files outside a run in place is about to write to. The work goes on if that cannot be printed.
pub fn tell_outside(paths: &[PathBuf]) {
    let mut err = terminal::err();
    for path in paths {
        writeln!(err, "outside   {}: it changes too, as --with-outside says", shown(&path.display().to_string())).ok();
    }
}

/// Tablespaces of a copy that were put outside of it.
pub fn print_outside(done: &Recovered, out: &mut dyn Write) -> io::Result<()> {
    done.outside.iter().try_for_each(|path| writeln!(out, "outside   {}", shown(path)))?;
    if done.outside.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "          MySQL finds them if innodb_directories names that directory, and not the original's; MariaDB by link files"
    )
}

/// What the server did since the base copy and no redo holds.
pub fn print_not_in_redo(done: &Recovered, out: &mut dyn Write) -> io::Result<()> {
    const SHOWN_MAX: usize = 10;
    for note in done.not_in_redo.iter().take(SHOWN_MAX) {
        let what = match note.kind {
            BeyondKind::Rows => format!("rows of {}", shown(&note.what)),
            _ => shown(&note.what).into_owned(),
        };
        writeln!(out, "missing   {what}: it is in no redo (binary log {} at {})", shown(&note.file), note.position)?;
    }
    let more = done.not_in_redo.len().saturating_sub(SHOWN_MAX);
    if more > 0 {
        writeln!(out, "          and {} more (--json lists all)", grouped(more as u64))?;
    }
    if let Some(files) = done.definitions.filter(|files| *files > 0) {
        writeln!(
            out,
            "defined   {} files of definitions changed since the base copy: they are those of the moment",
            grouped(files)
        )?;
    }
    if done.is_position_unknown {
        writeln!(
            out,
            "binlog    unknown: definitions changed, and the archive does not say where in the binary log (redo archive --socket notes that, \
             within a second)"
        )?;
    }
    Ok(())
}

/// What a recovery did, or would do in a trial.
pub fn print_recovered(done: &Recovered, is_trial: bool, out: &mut dyn Write) -> io::Result<()> {
    if done.was_clean {
        writeln!(out, "nothing to recover: the log ends at its checkpoint, LSN {}", done.checkpoint_lsn)?;
        return print_waiting(done.waiting, out);
    }
    let would = if is_trial { "would be " } else { "" };
    let (mtrs, from, to) = (grouped(done.mtrs), done.checkpoint_lsn, done.end_lsn);
    writeln!(out, "redo      {mtrs} mini-transactions, LSN {from} to {to}")?;
    if done.mtrs_dropped > 0 {
        writeln!(out, "          {} later ones {would}discarded", grouped(done.mtrs_dropped))?;
    }
    let (changed, spaces) = (grouped(done.pages_changed), grouped(done.tablespaces));
    let rounds =
        if done.rounds > 1 && !is_trial { format!(", in {} parts", grouped(done.rounds)) } else { String::new() };
    writeln!(out, "pages     {changed} {would}changed in {spaces} tablespaces{rounds}")?;
    let have = grouped(done.pages_unchanged);
    writeln!(out, "          {have} had their redo already, {} are no longer in use", grouped(done.pages_freed))?;
    if done.pages_restored + done.pieces_replayed > 0 {
        let (torn, cut_off) = (grouped(done.pages_restored), grouped(done.pieces_replayed));
        writeln!(out, "          {torn} torn ones {would}restored, {cut_off} pieces of an interrupted run rewritten")?;
    }
    let (renamed, made, resized) = (done.files_renamed, done.files_made, done.files_resized);
    if renamed + made + resized > 0 {
        writeln!(out, "files     {renamed} {would}renamed, {made} {would}created, {resized} {would}resized")?;
    }
    print_waiting(done.waiting, out)?;
    if done.pages_to_load > 0 {
        let pages = grouped(done.pages_to_load);
        writeln!(
            out,
            "warm      {pages} pages {would}listed in ib_buffer_pool, for the server to load when it starts"
        )?;
    }
    Ok(())
}

/// The transactions that waited for the binary log when the server ended.
fn print_waiting(waiting: Waiting, out: &mut dyn Write) -> io::Result<()> {
    let Waiting { given_up, left, for_server, for_own_log } = waiting;
    if given_up > 0 {
        let waited = if given_up == 1 { "1 transaction" } else { &format!("{} transactions", grouped(given_up)) };
        writeln!(out, "prepared  {waited} waited for the binary log, which is not here: the server rolls back")?;
    }
    if for_server > 0 {
        writeln!(
            out,
            "prepared  {} transactions wait for the binary log in the backup: start the server with it (log_bin), or they stay undecided",
            grouped(for_server)
        )?;
    }
    if for_own_log > 0 {
        writeln!(
            out,
            "prepared  {count} transactions wait for the server's binary log: start it with that log in its place (log_bin), and it decides \
             about them. With a new binary log or none, MariaDB does not start (\"Found {count} prepared transactions\"): then give it \
             --tc-heuristic-recover=ROLLBACK for one start",
            count = grouped(for_own_log)
        )?;
    }
    if left > 0 {
        writeln!(
            out,
            "prepared  {} transactions wait for the binary log, which is not here: start the server once with \
             --tc-heuristic-recover=ROLLBACK",
            grouped(left)
        )?;
    }
    Ok(())
}
