//! Where the server is and who connects: from the command line, option files and the environment. Passwords never come from the command
//! line, where every user of the machine can read them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::option_file;

/// The environment variable that holds the password.
pub const PASSWORD_VARIABLE: &str = "INNOKIT_PASSWORD";
/// The socket that distributions configure.
const SOCKET: &str = "/run/mysqld/mysqld.sock";
/// Read in this order, and `.my.cnf` in the home directory last.
const OPTION_FILES: [&str; 2] = ["/etc/my.cnf", "/etc/mysql/my.cnf"];

/// Why innokit does not know how to connect.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// An option file cannot be read.
    #[error("{}: reading the option file: {source}", path.display())]
    OptionFile {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// An option file holds a password, and others can read it.
    #[error("{}: it holds a password, and others than its owner can read it: chmod 600 {}", path.display(), path.display())]
    Readable {
        /// The file.
        path: PathBuf,
    },
    /// The port in an option file is not a port number.
    #[error("the port in the option files, `{0}`, is no number from 1 to 65535")]
    Port(String),
}

/// How to reach a server.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Access {
    /// The socket that the server listens on. It takes precedence over the port.
    pub socket: Option<PathBuf>,
    /// The port that the server listens on, at 127.0.0.1.
    pub port: Option<u16>,
    /// The account. `None` stands for the name of the user who runs this.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<String>,
    /// What the server calls the datadir that is named to innokit, where its process is not to be seen.
    pub datadir_as: Option<PathBuf>,
}

/// Leaves out the password.
impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {}", self.user, self.place())
    }
}

impl Access {
    /// Completes what the command line says from option files (`file` alone, or the usual ones that exist) and from the environment, whose
    /// password wins over theirs.
    ///
    /// # Errors
    /// [`AccessError`].
    pub fn completed(self, file: Option<&Path>) -> Result<Self, AccessError> {
        let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".my.cnf"));
        let usual = OPTION_FILES.into_iter().map(PathBuf::from).chain(home).filter(|path| path.exists());
        let files = file.map_or_else(|| usual.collect(), |file| vec![file.to_path_buf()]);
        self.with(&files, std::env::var(PASSWORD_VARIABLE).ok())
    }

    fn with(self, files: &[PathBuf], password: Option<String>) -> Result<Self, AccessError> {
        let (mut read, mut port) = (Self::default(), None);
        for file in files {
            option_file::read(file, &mut |name, value| match name {
                "socket" => read.socket = Some(PathBuf::from(value)),
                "port" => port = Some(value),
                "user" => read.user = Some(value),
                "password" => read.password = Some(value),
                _ => {}
            })?;
        }
        // As in the clients, a port in a file counts only if no socket is given.
        let is_named = self.socket.is_some() || self.port.is_some();
        let port_of_file = port.filter(|_| !is_named && read.socket.is_none());
        let port_of_file = port_of_file
            .map(|text| text.parse().ok().filter(|port| *port > 0).ok_or(AccessError::Port(text)))
            .transpose()?;
        Ok(Self {
            socket: self.socket.or(read.socket.filter(|_| !is_named)),
            port: self.port.or(port_of_file),
            user: self.user.or(read.user),
            password: password.or(self.password).or(read.password),
            datadir_as: self.datadir_as,
        })
    }

    /// The socket to connect to. `None` if the port is to be used.
    pub(crate) fn socket(&self) -> Option<&Path> {
        match (&self.socket, self.port) {
            (Some(socket), _) => Some(socket),
            (None, Some(_)) => None,
            (None, None) => Some(Path::new(SOCKET)),
        }
    }

    /// The socket or the address, for messages.
    pub(crate) fn place(&self) -> String {
        match self.socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("127.0.0.1:{}", self.port.unwrap_or_default()),
        }
    }

    pub(crate) fn user(&self) -> String {
        let own = || ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
        self.user.clone().or_else(own).unwrap_or_else(|| "root".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(command_line: Access, text: &str, password: Option<&str>) -> Result<Access, AccessError> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("my.cnf");
        std::fs::write(&path, text).expect("written");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).expect("a mode");
        command_line.with(&[path], password.map(str::to_owned))
    }

    #[test]
    fn the_command_line_wins_over_files_and_the_environment_over_their_password() {
        let text = "[client]\nsocket=/of/client\nuser=u\npassword=p\n[innokit]\nuser=backup\n";
        let of_file = access(Access::default(), text, None).expect("read");
        assert_eq!((of_file.place(), of_file.user()), ("/of/client".to_owned(), "backup".to_owned()));
        assert_eq!(of_file.password.as_deref(), Some("p"));
        let port = Access { port: Some(3307), ..Access::default() };
        let given = access(port, text, Some("of env")).expect("read");
        assert_eq!((given.place(), given.password.as_deref()), ("127.0.0.1:3307".to_owned(), Some("of env")));
        let named = Access { socket: Some("/named".into()), user: Some("me".into()), ..Access::default() };
        let named = access(named, text, None).expect("read");
        assert_eq!((named.place(), named.user()), ("/named".to_owned(), "me".to_owned()));
    }

    #[test]
    fn a_file_may_name_a_port_and_its_default_is_the_usual_socket() {
        let place = |text: &str| access(Access::default(), text, None).map(|access| access.place());
        assert_eq!(place("[client]\nport=3310").expect("read"), "127.0.0.1:3310");
        assert_eq!(place("").expect("read"), SOCKET);
        assert_eq!(place("[client]\nport=3310\nsocket=/s").expect("read"), "/s");
        let wrong = place("[client]\nport=70000").expect_err("no port").to_string();
        assert_eq!(wrong, "the port in the option files, `70000`, is no number from 1 to 65535");
    }

    #[test]
    fn a_missing_file_that_was_named_is_an_error_and_passwords_are_never_shown() {
        let missing = Access::default().completed(Some(Path::new("/does/not/exist.cnf"))).expect_err("missing");
        assert!(missing.to_string().starts_with("/does/not/exist.cnf: reading the option file: "), "{missing}");
        let secret = Access { password: Some("hidden".into()), ..Access::default() };
        assert!(!format!("{secret:?}").contains("hidden"));
    }
}
