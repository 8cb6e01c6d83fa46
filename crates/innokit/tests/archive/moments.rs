//! Ten moments in a server's life, each recorded while commits were blocked, restored from one backup and the redo archive.

use std::fs;
use std::time::Duration;

use crate::archive_lab::{Archiver, Load, assert_same_bytes, assert_viewed_alike, options_at, wait_for};
use crate::backup_lab::Server;
use crate::view_lab::is_refused;

const TABLES: [&str; 7] = ["shop.a", "shop.b", "shop.z", "shop.parts", "shop.left_0", "shop.right_0", "other.c"];
/// Moments during a load, and moments between changes that fill the log more than once.
const BUSY: usize = 6;
const CALM: usize = 4;
/// The smallest log that the server accepts, bytes.
const LOG_MIN: u64 = 4 << 20;

/// The server's state while commits were blocked.
struct Moment {
    lsn: u64,
    /// File, position and GTID.
    binlog: [String; 3],
    /// The tables' names and checksums, as the server prints them.
    sums: String,
    counts: String,
}

fn moment(server: &Server) -> Moment {
    let sums = format!("CHECKSUM TABLE {}", TABLES.join(", "));
    let counts: String = TABLES.iter().map(|table| format!("SELECT COUNT(*) FROM {table};")).collect();
    let answer = server.script_on(
        "data",
        "sql",
        &["-N"],
        &format!(
            "FLUSH TABLES WITH READ LOCK; SHOW GLOBAL STATUS LIKE 'Innodb_lsn_current'; SHOW MASTER STATUS; SELECT @@gtid_binlog_pos; \
             {sums}; {counts} UNLOCK TABLES;"
        ),
    );
    let lines: Vec<&str> = answer.lines().collect();
    let last = |line: &str| line.rsplit('\t').next().expect("a value").to_owned();
    let mut status = lines[1].split('\t').map(str::to_owned);
    let binlog = [status.next().expect("a file"), status.next().expect("a position"), lines[2].to_owned()];
    let (sums, counts) = (lines[3..3 + TABLES.len()].join("\n"), lines[3 + TABLES.len()..].join("\n"));
    assert_eq!(counts.lines().count(), TABLES.len(), "{answer}");
    Moment { lsn: last(lines[0]).parse().expect("an LSN"), binlog, sums, counts }
}

/// Ten moments: the first during a load, in a log that is resized, the others between changes that take the server around its log.
fn ten_moments(server: &Server) -> Vec<Moment> {
    let socket = server.socket().display().to_string();
    let asking = ["--user", "root", "--socket", socket.as_str()];
    let mut archiver = Archiver::start_with(server, &asking);
    let load = Load::start(server, "");
    let mut moments = Vec::new();
    for round in 0..BUSY {
        std::thread::sleep(Duration::from_millis(250));
        moments.push(moment(server));
        if round == BUSY / 2 {
            drop(archiver);
            archiver = Archiver::start_with(server, &asking);
        }
    }
    load.stop();
    // The old file may hold redo that the new one lacks. A running archiver still has it open.
    server.script("sql", &[], &format!("SET GLOBAL innodb_log_file_size = {LOG_MIN};"));
    wait_for(server, moment(server).lsn);
    drop(archiver);
    for round in 0..CALM {
        let mut now = moment(server);
        // Half of the log each, so that the moments span more than one lap.
        let enough = now.lsn + LOG_MIN / 2;
        for part in (0..12).cycle() {
            if now.lsn >= enough {
                break;
            }
            server.script(
                "sql",
                &[],
                &format!(
                    "UPDATE shop.b SET a = a + {part}, c = REPEAT('{round}', 100 + (a + id) % 400) WHERE id % 12 = {part};"
                ),
            );
            // Wait for the archive, or the server would overwrite redo that is not yet archived.
            server.archive();
            now = moment(server);
        }
        moments.push(now);
    }
    moments
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn ten_moments_are_restored_each_as_it_was() {
    let folder = tempfile::TempDir::new().expect("a folder");
    // A log cannot be smaller than its buffer.
    let options = ["--log-bin=bin", "--server-id=7", "--innodb-log-buffer-size=2M"].map(str::to_owned);
    let server = Server::start_in(folder, "mariadb", &options);
    server.archive();
    let socket = server.socket().display().to_string();
    let taken = server.run(&["backup", "--user", "root", "--socket", &socket, "--to", "set", "data"]);
    assert_eq!(taken.status, 0, "{}", taken.errors);
    let moments = ten_moments(&server);
    let log = fs::metadata(server.data().join("ib_logfile0")).expect("is there").len();
    assert!(log == LOG_MIN && moments[BUSY].lsn + log < moments[BUSY + CALM - 1].lsn, "the log is not once around");
    server.archive();
    let verified = server.run(&["redo", "verify", "redo"]);
    let [_, _, gtid] = &moments.last().expect("ten").binlog;
    let says = ["marks     20", &format!(", GTID {gtid} by the last mark")];
    assert!(verified.status == 0 && says.iter().all(|words| verified.text.contains(words)), "{}", verified.text);
    server.script("stop", &[], "");
    // Archive what the server wrote during its shutdown.
    assert_eq!(server.run(&["redo", "archive", "--until-caught-up", "--to", "redo", "data"]).status, 0);
    let compared = assert_same_bytes(&server);
    assert!(compared > LOG_MIN / 2, "{compared} bytes");
    for (number, moment) in moments.iter().enumerate() {
        restored(&server, moment, number == 0 || number == BUSY, number == BUSY + CALM - 1);
    }
}

/// `starts`: a server must also confirm the result. `is_last`: the archiver asked the server at this moment.
fn restored(server: &Server, moment: &Moment, starts: bool, is_last: bool) {
    let lsn = moment.lsn.to_string();
    let words = ["restore", "--json", "--redo", "redo", "--until", &lsn, "--to", "out", "set"];
    let done = server.run(&words);
    assert_eq!(done.status, 0, "LSN {lsn}: {}", done.errors);
    // The last commit recorded its position in the binary log. The GTID of that position is known only if the server was asked just then.
    let (binlog, [file, position, gtid]) = (done.json()["binlog"].clone(), &moment.binlog);
    assert_eq!((binlog["file"].as_str(), binlog["position"].to_string()), (Some(file.as_str()), position.clone()));
    let known = binlog["gtid"].as_str().expect("a text");
    assert!(known == gtid || (known.is_empty() && !is_last), "LSN {lsn}: {known} is not {gtid}");
    fs::write(server.of("sums.txt"), format!("{}\n", moment.sums)).expect("written");
    let compared = server.run(&["table", "checksum", "--compare", "sums.txt", "out"]);
    let equal = compared.text.lines().filter(|line| line.ends_with("\tequal")).count();
    assert_eq!((compared.status, equal), (0, TABLES.len()), "LSN {lsn}: {}{}", compared.text, compared.errors);
    if starts {
        let rows = server.tables("out");
        for (table, line) in TABLES.iter().zip(moment.counts.lines().zip(moment.sums.lines())) {
            let counted = format!("`{}`\t{}", table.replace('.', "`.`"), line.0);
            assert!(rows.lines().any(|row| row == counted) && rows.lines().any(|row| row == line.1), "{table}: {rows}");
        }
    }
    if !starts {
        // A server on the copy would have changed it.
        is_viewed_alike(server, moment);
    }
    fs::remove_dir_all(server.of("out")).expect("removed");
}

/// A view of the backup at the moment has what the recovery wrote, unless it is one that a view does not show yet.
fn is_viewed_alike(server: &Server, moment: &Moment) {
    let options = options_at(server, moment.lsn);
    if is_refused(&server.of("set"), &options, "a definition changed at LSN") {
        println!("LSN {}: a view does not show definitions of later moments yet", moment.lsn);
        return;
    }
    assert_viewed_alike(server, &options, &moment.sums);
}
