//! Options that name a server. The password is never one of them: every user of the machine can read a command line.

use std::path::PathBuf;

use clap::Args;

/// Options that name a server.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// The socket on which the server listens.
    #[arg(long, value_name = "PATH", help_heading = "Server", conflicts_with = "port")]
    pub socket: Option<PathBuf>,

    /// The port on which the server listens at 127.0.0.1.
    #[arg(long, value_name = "PORT", help_heading = "Server")]
    pub port: Option<u16>,

    /// The account. The password comes from the option files or from INNOKIT_PASSWORD.
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    pub user: Option<String>,

    /// Read this option file instead of /etc/my.cnf, /etc/mysql/my.cnf and ~/.my.cnf. Its groups `client` and `innokit` count.
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub defaults_file: Option<PathBuf>,

    /// What the server calls DATADIR (`SELECT @@datadir`), where its process cannot be seen: from a container beside that of the server,
    /// which has the same volume under another name. That it is the same directory is still proved, by what the server writes to it.
    #[arg(long, value_name = "PATH", help_heading = "Server")]
    pub datadir_as: Option<PathBuf>,
}

impl ServerArgs {
    /// Whether there is a server to ask: option files exist on every machine, so they alone name none.
    pub const fn is_named(&self) -> bool {
        self.socket.is_some() || self.port.is_some()
    }
}
