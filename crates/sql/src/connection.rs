//! The connection: a few statements, each with a typed answer.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use format::Lsn;
use jobs::{ServerError, ServerFacts};
use mysql::prelude::{FromRow, Queryable};
use mysql::{Conn, Error, OptsBuilder};

use crate::access::Access;

/// How long a server may take to accept a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long it may take to answer, on top of the time that a statement may wait for a lock.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
const PACKET_MAX: usize = 16 << 20;
/// Error codes with a [`ServerError`] of their own: login refused, privilege missing, lock not granted, connection ended.
const LOGIN: [u16; 5] = [1044, 1045, 1130, 1251, 1698];
const PRIVILEGE: [u16; 3] = [1142, 1227, 1370];
const LOCK_WAIT: [u16; 2] = [1205, 1213];
const ENDED: [u16; 4] = [1053, 1080, 1927, 3169];

/// The statements that both kinds of servers answer alike.
#[derive(Debug)]
pub(crate) struct Connection {
    connection: Conn,
    /// How long the server may take to answer.
    patience: Duration,
}

impl Connection {
    pub fn open(access: &Access, lock_wait: Duration) -> Result<Self, ServerError> {
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
        let connection = Conn::new(options).map_err(|error| match error {
            Error::MySqlError(error) if LOGIN.contains(&error.code) => {
                ServerError::Login { at: at.clone(), says: error.message }
            }
            Error::MySqlError(error) => ServerError::Unreachable { at: at.clone(), why: error.message },
            Error::IoError(error) if error.kind() == io::ErrorKind::WouldBlock => ServerError::Unreachable {
                at: at.clone(),
                why: format!("the connection is open, but nothing came within {} s", patience.as_secs()),
            },
            Error::IoError(error) => ServerError::Unreachable { at: at.clone(), why: error.to_string() },
            Error::DriverError(error) => ServerError::Unreachable { at: at.clone(), why: error.to_string() },
            other => ServerError::Unreachable { at: at.clone(), why: other.to_string() },
        })?;
        Ok(Self { connection, patience })
    }

    /// Runs a statement and ignores its answer.
    pub fn run(&mut self, statement: &str) -> Result<(), ServerError> {
        self.connection.query_drop(statement).map_err(|error| failed(statement, self.patience, error))
    }

    /// The first row of the answer, if it has one.
    pub fn ask<T: FromRow>(&mut self, statement: &str) -> Result<Option<T>, ServerError> {
        self.connection.query_first(statement).map_err(|error| failed(statement, self.patience, error))
    }

    /// All rows of the answer.
    pub fn ask_all<T: FromRow>(&mut self, statement: &str) -> Result<Vec<T>, ServerError> {
        self.connection.query(statement).map_err(|error| failed(statement, self.patience, error))
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

    /// A system variable; empty if it has no value.
    pub fn variable(&mut self, name: &str) -> Result<String, ServerError> {
        Ok(self.ask::<Option<String>>(&format!("SELECT @@{name}"))?.flatten().unwrap_or_default())
    }
}

/// Whether a read or write took too long. The system reports this as a call that would block.
fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
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
        Error::IoError(error) if is_timeout(&error) => ServerError::Silent { statement, seconds: patience.as_secs() },
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
        let absent = Connection::open(&access, Duration::ZERO).map(drop).expect_err("absent");
        assert!(matches!(&absent, ServerError::Unreachable { at, .. } if at.ends_with("server.sock")), "{absent}");
        let listener = UnixListener::bind(&socket).expect("bound");
        let server = std::thread::spawn(move || drop(listener.accept().expect("accepted")));
        let gone = Connection::open(&access, Duration::ZERO).map(drop).expect_err("gone");
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
        let denied = Connection::open(&access, Duration::ZERO).map(drop).expect_err("denied");
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
}
