//! The connection: a few statements, each with a typed answer.
//!
//! A server may be silent for as long as a lock lasts, and the client reads its socket until then. So each statement runs on a thread, and
//! the caller waits for its answer or for the wish to stop, whichever is first. A thread costs some 50 µs, a statement on a socket 100 µs.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{io, thread};

use datadir::server::{BinlogEvent, ServerError, ServerFacts};
use format::Lsn;
use mysql::prelude::{FromRow, Queryable};
use mysql::{Conn, DriverError, Error, OptsBuilder};

use crate::access::Access;
use crate::process::root_behind;

/// How long a server may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long it may take to answer, on top of the time that a statement may wait for a lock.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// How long a server may take to end a statement that was given up.
const KILLED_WITHIN: Duration = Duration::from_millis(500);
const PACKET_MAX: usize = 16 << 20;
/// How often a wait looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Error codes with a [`ServerError`] of their own: login refused, privilege missing, lock not granted, connection ended.
const LOGIN: [u16; 5] = [1044, 1045, 1130, 1251, 1698];
/// The server is there, but takes no login of this account, or of any, now: too many connections (of all, of the user), a limit of the
/// account is reached, the host is blocked, the password has expired or is of an old kind, the account is locked (MySQL, MariaDB), only TLS
/// is allowed (MySQL, MariaDB).
const REFUSED: [u16; 10] = [1040, 1129, 1203, 1226, 1275, 1820, 1862, 3118, 3159, 4151];
const PASSWORD_EXPIRED: u16 = 1820;
/// An account that requires TLS, and on MariaDB a server that does, gives the same words as a wrong password.
const MAY_BE_TLS: &str = " (also said where the account (REQUIRE SSL) or the server requires TLS, which innokit does not speak: take the socket, and an account that does not)";
const PRIVILEGE: [u16; 4] = [1044, 1142, 1227, 1370];
const LOCK_WAIT: [u16; 2] = [1205, 1213];
const ENDED: [u16; 4] = [1053, 1080, 1927, 3169];

/// Another connection: its number, its user, for how many seconds, its statement, and whether it does nothing.
type Waiter = (u64, String, i64, String, bool);

/// The statements that both kinds of servers answer alike.
#[derive(Debug)]
pub(crate) struct Connection {
    /// `None` once a statement was given up.
    connection: Option<Conn>,
    /// How it was made, and the server's number of it.
    made: (OptsBuilder, u32),
    stop: Arc<AtomicBool>,
    /// How long the server may take to answer.
    patience: Duration,
    socket: Option<PathBuf>,
    /// What the server calls the datadir, if the caller says so.
    datadir_as: Option<PathBuf>,
    /// The server's place, for messages.
    at: String,
}

impl Connection {
    pub fn open(access: &Access, lock_wait: Duration, stop: Arc<AtomicBool>) -> Result<Self, ServerError> {
        let patience = lock_wait + ANSWER_WITHIN;
        let options = OptsBuilder::new()
            .user(Some(access.user()))
            .pass(access.password.clone())
            .socket(access.socket().map(|socket| socket.display().to_string()))
            .ip_or_hostname(Some("127.0.0.1"))
            .tcp_port(access.port.unwrap_or_default())
            .prefer_socket(false)
            .max_allowed_packet(Some(PACKET_MAX))
            .tcp_connect_timeout(Some(CONNECT_WITHIN))
            .read_timeout(Some(patience))
            .write_timeout(Some(ANSWER_WITHIN));
        let at = access.place();
        let connecting = ServerError::Interrupted { statement: "the connection".to_owned() };
        let made = options.clone();
        let connection = unless_stopped(&stop, move || Conn::new(options)).ok_or(connecting)?;
        let connection = connection.map_err(|error| match error {
            Error::MySqlError(error) if LOGIN.contains(&error.code) => {
                let hint = if error.code == 1045 { MAY_BE_TLS } else { "" };
                ServerError::Login { at: at.clone(), says: format!("{}{hint}", error.message) }
            }
            Error::MySqlError(error) if REFUSED.contains(&error.code) => {
                ServerError::Login { at: at.clone(), says: error.message }
            }
            Error::MySqlError(error) => ServerError::Unreachable { at: at.clone(), why: error.message },
            error if waited_in_vain(&error) => ServerError::Unreachable {
                at: at.clone(),
                why: format!("the connection is open, but nothing came within {} s", patience.as_secs()),
            },
            Error::IoError(error) => ServerError::Unreachable { at: at.clone(), why: error.to_string() },
            Error::DriverError(error) if is_about_login(&error) => {
                ServerError::Login { at: at.clone(), says: format!("{error}{}", hint_about(&error)) }
            }
            Error::DriverError(error) => ServerError::Unreachable { at: at.clone(), why: error.to_string() },
            other => ServerError::Unreachable { at: at.clone(), why: other.to_string() },
        })?;
        let made = (made, connection.connection_id());
        let socket = access.socket().map(Path::to_path_buf);
        let datadir_as = access.datadir_as.clone();
        let mut connection = Self { connection: Some(connection), made, stop, patience, socket, datadir_as, at };
        // A server may be set to answer with no row at all.
        connection.run("SET SESSION sql_select_limit = 18446744073709551615")?;
        Ok(connection)
    }

    /// Sends a statement, and waits for its answer or for the wish to stop.
    fn send<T: Send + 'static>(
        &mut self,
        statement: &str,
        ask: impl FnOnce(&mut Conn, &str) -> mysql::Result<T> + Send + 'static,
    ) -> Result<T, ServerError> {
        let given_up = || ServerError::Interrupted { statement: statement.to_owned() };
        let mut connection = self.connection.take().ok_or_else(given_up)?;
        let text = statement.to_owned();
        let answered = unless_stopped(&self.stop, move || {
            let answer = ask(&mut connection, &text);
            (connection, answer)
        });
        let Some((connection, answer)) = answered else {
            self.end_on_server();
            return Err(given_up());
        };
        self.connection = Some(connection);
        let done = answer.map_err(|error| match error {
            // MariaDB lets an account with an expired password in, and refuses what it then asks.
            Error::MySqlError(error) if error.code == PASSWORD_EXPIRED => {
                ServerError::Login { at: self.at.clone(), says: format!("its password has expired: {}", error.message) }
            }
            error => failed(statement, self.patience, error),
        });
        done.map_err(|error| match error {
            ServerError::LockWait { statement, says } => ServerError::LockWait { statement, says: self.blamed(says) },
            other => other,
        })
    }

    /// Ends the statement that was given up. The server does not notice that its client has gone while it waits for a lock, and whatever comes
    /// later waits in the queue behind it. Accounts may end their own connections.
    fn end_on_server(&self) {
        let (options, number) = self.made.clone();
        let options = options.read_timeout(Some(KILLED_WITHIN)).tcp_connect_timeout(Some(KILLED_WITHIN));
        let begun = Instant::now();
        let is_late = move || begun.elapsed() > KILLED_WITHIN;
        // A server that is silent for another reason answers this no sooner.
        let kill = move || Conn::new(options).and_then(|mut other| other.query_drop(format!("KILL {number}")));
        drop(unless(is_late, kill));
    }

    /// The server's words, and what ran or held locks then, oldest first. Without the privilege PROCESS only the account's own threads.
    fn blamed(&mut self, says: String) -> String {
        const OTHERS: &str = "SELECT p.id, p.user, p.time, COALESCE(p.info, p.command), p.command = 'Sleep' AND t.trx_id IS NULL AS idle \
                              FROM information_schema.processlist p LEFT JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id \
                              WHERE p.id <> CONNECTION_ID() AND p.command NOT IN ('Daemon', 'Binlog Dump') \
                              ORDER BY idle, p.time DESC LIMIT 3";
        let Some(mut connection) = self.connection.take() else { return says };
        let asked = unless_stopped(&self.stop, move || {
            let rows: Vec<Waiter> = connection.query(OTHERS).unwrap_or_default();
            (connection, rows)
        });
        let Some((connection, rows)) = asked else { return says };
        self.connection = Some(connection);
        // An idle connection may have locked tables of engines without transactions: blamed only if there is no other.
        let is_any_busy = rows.iter().any(|(.., is_idle)| !is_idle);
        let rows = rows.into_iter().filter(|(.., is_idle)| !(is_any_busy && *is_idle));
        let one = |(id, user, seconds, statement, _): Waiter| {
            let statement: String =
                statement.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(80).collect();
            format!("thread {id} of {user}, for {seconds} s: {statement}")
        };
        let rows: Vec<String> = rows.map(one).collect();
        if rows.is_empty() { says } else { format!("{says}. In its way may be {}", rows.join("; ")) }
    }

    /// The root directory of the process that listens on the socket, as `/proc` shows it. `None` without a socket, or if the process is not
    /// to be seen from here: that takes root, or the server's own user.
    pub fn root(&self) -> Option<PathBuf> {
        root_behind(self.socket.as_deref()?)
    }

    /// What the server calls the datadir, if the caller says so.
    pub fn datadir_as(&self) -> Option<PathBuf> {
        self.datadir_as.clone()
    }

    /// Why the account may not run a statement, in the server's words. `None` if it may. That the statement then fails does not count.
    pub fn refusal(&mut self, statement: &str) -> Result<Option<String>, ServerError> {
        match self.run(statement) {
            Err(ServerError::Privilege { says, .. }) => Ok(Some(says)),
            Err(ServerError::Refused { .. }) | Ok(()) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// This account, as GRANT takes it.
    pub fn account(&mut self) -> Result<String, ServerError> {
        let named = self.ask::<String>("SELECT CURRENT_USER()")?.unwrap_or_default();
        let (user, host) = named.rsplit_once('@').unwrap_or((&named, "%"));
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        Ok(format!("{}@{}", quoted(user), quoted(host)))
    }

    /// Runs a statement and ignores its answer.
    pub fn run(&mut self, statement: &str) -> Result<(), ServerError> {
        self.send(statement, |connection, statement| connection.query_drop(statement))
    }

    /// The first row of the answer, if it has one.
    pub fn ask<T: FromRow + Send + 'static>(&mut self, statement: &str) -> Result<Option<T>, ServerError> {
        self.send(statement, |connection, statement| connection.query_first(statement))
    }

    /// All rows of the answer.
    pub fn ask_all<T: FromRow + Send + 'static>(&mut self, statement: &str) -> Result<Vec<T>, ServerError> {
        self.send(statement, |connection, statement| connection.query(statement))
    }

    /// A status variable.
    pub fn status(&mut self, name: &str) -> Result<String, ServerError> {
        let statement = format!("SHOW GLOBAL STATUS LIKE '{name}'");
        let row: Option<(String, String)> = self.ask(&statement)?;
        let nothing =
            || ServerError::Refused { statement, says: "nothing: is this a server of a known version?".to_owned() };
        row.map(|(_, value)| value).ok_or_else(nothing)
    }

    /// A status variable, as a number.
    pub fn number(&mut self, name: &str) -> Result<u64, ServerError> {
        let text = self.status(name)?;
        let no_number =
            |_| ServerError::Refused { statement: name.to_owned(), says: format!("{text}, which is no number") };
        text.parse().map_err(no_number)
    }

    /// A status variable, as an LSN.
    pub fn lsn(&mut self, name: &str) -> Result<Lsn, ServerError> {
        self.number(name).map(Lsn)
    }

    /// What a backup must know of the server. `directories` names the settings that may point outside the datadir.
    pub fn facts(&mut self, directories: &[&str]) -> Result<ServerFacts, ServerError> {
        let version = self.variable("version")?;
        let system_files = self.variable("innodb_data_file_path")?;
        let named = directories.iter().map(|name| Ok(((*name).to_owned(), PathBuf::from(self.variable(name)?))));
        let directories = named.collect::<Result<_, _>>()?;
        Ok(ServerFacts { version, system_files, directories, cipher: String::new() })
    }

    /// Events of a binary log file.
    pub fn binlog_events(&mut self, file: &str, from: u64, count: u32) -> Result<Vec<BinlogEvent>, ServerError> {
        let file = file.replace('\'', "''");
        let rows: Vec<mysql::Row> =
            self.ask_all(&format!("SHOW BINLOG EVENTS IN '{file}' FROM {from} LIMIT {count}"))?;
        // The columns: file, position, type, server, position behind it, what it says.
        let event = |row: &mysql::Row| {
            let text = |column: usize| row.get::<Option<Vec<u8>>, _>(column).flatten();
            let text = |column: usize| text(column).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            Some(BinlogEvent { kind: text(2)?, end: row.get(4)?, info: text(5).unwrap_or_default() })
        };
        Ok(rows.iter().filter_map(event).collect())
    }

    /// A system variable; empty if it has no value.
    pub fn variable(&mut self, name: &str) -> Result<String, ServerError> {
        let statement = format!("SELECT @@{name}");
        let row = self.ask::<Option<String>>(&statement)?;
        let nothing = || ServerError::Refused { statement, says: "nothing, not even a row".to_owned() };
        Ok(row.ok_or_else(nothing)?.unwrap_or_default())
    }
}

/// Does `work` on a thread. `None` once the caller is to stop: the thread then goes on until the process ends. Without a thread, it is
/// done here.
fn unless_stopped<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(stop: &AtomicBool, work: F) -> Option<T> {
    // Relaxed: a moment later will do.
    unless(|| stop.load(Ordering::Relaxed), work)
}

/// The same for any reason to stop.
fn unless<T: Send + 'static, F: FnOnce() -> T + Send + 'static>(is_over: impl Fn() -> bool, work: F) -> Option<T> {
    let (send, answers) = channel();
    // A thread that does not start drops its closure, and the work would be lost with it.
    let kept = Arc::new(Mutex::new(Some(work)));
    let work = |kept: &Mutex<Option<_>>| kept.lock().unwrap_or_else(PoisonError::into_inner).take();
    let there = Arc::clone(&kept);
    // No one listens any more if the caller has stopped.
    let run = move || drop(work(&there).map(|work: F| send.send(work())));
    if thread::Builder::new().spawn(run).is_err() {
        return work(&kept).map(|work| work());
    }
    loop {
        match answers.recv_timeout(LOOK_EVERY) {
            Ok(answer) => return Some(answer),
            Err(RecvTimeoutError::Timeout) if !is_over() => {}
            Err(_) => return None,
        }
    }
}

/// Whether the connection was open and silent. The client wraps the time limit of the socket in several ways.
fn waited_in_vain(error: &Error) -> bool {
    match error {
        Error::IoError(error) => is_timeout(error),
        Error::CodecError(error) => error.to_string().contains("os error 11"),
        _ => false,
    }
}

/// Whether a read or write took too long. The system reports this as a call that would block.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// Whether the client refuses how the server wants this account to log in.
fn is_about_login(error: &DriverError) -> bool {
    use DriverError::{CleartextPluginDisabled, OldMysqlPasswordDisabled, UnknownAuthPlugin};
    matches!(error, OldMysqlPasswordDisabled | UnknownAuthPlugin(_) | CleartextPluginDisabled)
}

fn hint_about(error: &DriverError) -> &'static str {
    match error {
        DriverError::OldMysqlPasswordDisabled => " (the account has a password from before MySQL 4.1: set a new one)",
        _ => " (name an account with another authentication plugin)",
    }
}

/// The job's error for a statement that failed, or was not answered within `patience`.
fn failed(statement: &str, patience: Duration, error: Error) -> ServerError {
    let statement = statement.to_owned();
    match error {
        Error::MySqlError(error) if PRIVILEGE.contains(&error.code) => {
            ServerError::Privilege { statement, says: error.message }
        }
        Error::MySqlError(error) if LOCK_WAIT.contains(&error.code) => {
            ServerError::LockWait { statement, says: error.message }
        }
        Error::MySqlError(error) if ENDED.contains(&error.code) => ServerError::Lost { statement, why: error.message },
        Error::MySqlError(error) => ServerError::Refused { statement, says: error.message },
        error if waited_in_vain(&error) => ServerError::Silent { statement, seconds: patience.as_secs() },
        Error::IoError(error) => ServerError::Lost { statement, why: error.to_string() },
        Error::DriverError(error) => ServerError::Lost { statement, why: error.to_string() },
        Error::CodecError(error) => ServerError::Lost { statement, why: error.to_string() },
        other => ServerError::Refused { statement, says: other.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_server_that_is_not_there_or_goes_away_is_told_with_its_place() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("server.sock");
        let access = Access { socket: Some(socket.clone()), ..Access::default() };
        let absent = Connection::open(&access, Duration::ZERO, Arc::default()).map(drop).expect_err("absent");
        assert!(matches!(&absent, ServerError::Unreachable { at, .. } if at.ends_with("server.sock")), "{absent}");
        let listener = UnixListener::bind(&socket).expect("bound");
        let server = std::thread::spawn(move || drop(listener.accept().expect("accepted")));
        let gone = Connection::open(&access, Duration::ZERO, Arc::default()).map(drop).expect_err("gone");
        assert!(matches!(gone, ServerError::Unreachable { .. }), "{gone}");
        server.join().expect("ended");
    }

    /// The server sends an error packet instead of a greeting.
    #[test]
    fn errors_of_the_server_keep_its_words() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("server.sock");
        let listener = UnixListener::bind(&socket).expect("bound");
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("accepted");
            let body = [&[0xFF, 0x15, 0x04][..], b"#28000Access denied for user 'x'"].concat();
            stream.write_all(&[body.len() as u8, 0, 0, 0]).and_then(|()| stream.write_all(&body)).expect("sent");
            drop(stream.read(&mut [0; 64]));
        });
        let access = Access { socket: Some(socket), ..Access::default() };
        let denied = Connection::open(&access, Duration::ZERO, Arc::default()).map(drop).expect_err("denied");
        assert!(denied.to_string().contains("Access denied for user 'x'"), "{denied}");
        server.join().expect("ended");
    }

    #[test]
    fn each_kind_of_error_is_told_from_the_others() {
        let of_server = |code| {
            let error = mysql::MySqlError { state: "HY000".into(), message: "its words".into(), code };
            failed("BACKUP STAGE START", ANSWER_WITHIN, Error::MySqlError(error))
        };
        let texts = [1227, 1205, 1927, 1064].map(|code| of_server(code).to_string());
        assert_eq!(
            texts,
            [
                "the account may not run BACKUP STAGE START: its words",
                "BACKUP STAGE START waited too long for a lock that another connection holds: its words",
                "the connection to the server was lost at BACKUP STAGE START: its words",
                "BACKUP STAGE START: the server says: its words",
            ]
        );
        let broken = Error::IoError(std::io::ErrorKind::BrokenPipe.into());
        assert!(matches!(failed("DO 1", ANSWER_WITHIN, broken), ServerError::Lost { .. }));
        // EAGAIN: what a socket with a time limit says.
        let late = failed("FLUSH TABLES", Duration::from_secs(75), Error::IoError(io::Error::from_raw_os_error(11)));
        assert!(late.to_string().starts_with("the server did not answer FLUSH TABLES within 75 s"), "{late}");
    }

    #[test]
    fn a_silent_server_is_given_up_within_a_second_once_the_caller_stops() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("server.sock");
        let _listener = UnixListener::bind(&socket).expect("bound");
        let (access, stop) = (Access { socket: Some(socket), ..Access::default() }, Arc::new(AtomicBool::new(false)));
        let asked = Arc::clone(&stop);
        let waiting = thread::spawn(move || Connection::open(&access, Duration::from_secs(600), asked).map(drop));
        thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished(), "the socket accepts, and nothing comes");
        stop.store(true, Ordering::Relaxed);
        let stopped = waiting.join().expect("ended").expect_err("stopped");
        assert!(matches!(stopped, ServerError::Interrupted { .. }), "{stopped}");
    }

    #[test]
    fn a_server_that_takes_no_login_now_is_there() {
        let codes = [
            ([0x10, 0x04], "Too many connections"),
            ([0x37, 0x10], "account is locked"),
            ([0xCA, 0x04], "User 'one' has exceeded the 'max_user_connections' resource"),
            ([0x57, 0x0C], "Connections using insecure transport are prohibited while --require_secure_transport=ON."),
            ([0x15, 0x04], "Access denied"),
        ];
        for (code, words) in codes {
            let dir = tempfile::tempdir().expect("a directory");
            let socket = dir.path().join("server.sock");
            let listener = UnixListener::bind(&socket).expect("bound");
            let server = thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("accepted");
                let body = [&[0xFF][..], &code, b"#08004", words.as_bytes()].concat();
                stream.write_all(&[body.len() as u8, 0, 0, 0]).and_then(|()| stream.write_all(&body)).expect("sent");
                drop(stream.read(&mut [0; 64]));
            });
            let access = Access { socket: Some(socket), ..Access::default() };
            let refused = Connection::open(&access, Duration::ZERO, Arc::default()).map(drop).expect_err("refused");
            assert!(matches!(&refused, ServerError::Login { says, .. } if says.contains(words)), "{refused}");
            assert_eq!(refused.to_string().contains("REQUIRE SSL"), words == "Access denied", "{refused}");
            server.join().expect("ended");
        }
    }
}
