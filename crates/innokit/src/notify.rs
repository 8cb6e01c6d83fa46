//! What a service of `Type=notify` tells systemd: that it is ready, and what it is doing.

use std::ffi::OsStr;
use std::io;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends lines of `KEY=value` to the socket that systemd named, if it named one. Nothing depends on their arrival.
pub fn tell(lines: &str) {
    if let Some(socket) = std::env::var_os("NOTIFY_SOCKET") {
        send(&socket, lines).ok();
    }
}

fn send(socket: &OsStr, lines: &str) -> io::Result<()> {
    let address = abstract_address(socket).map_or_else(|| SocketAddr::from_pathname(socket), Ok)?;
    UnixDatagram::unbound()?.send_to_addr(lines.as_bytes(), &address).map(drop)
}

/// Linux also has sockets without a file. Names of these begin with `@` in `NOTIFY_SOCKET`.
#[cfg(target_os = "linux")]
fn abstract_address(socket: &OsStr) -> Option<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::ffi::OsStrExt;
    SocketAddr::from_abstract_name(socket.as_bytes().strip_prefix(b"@")?).ok()
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_: &OsStr) -> Option<SocketAddr> {
    None
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;

    /// The next datagram from a socket, as text.
    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 100];
        let len = socket.recv(&mut bytes).expect("received");
        String::from_utf8_lossy(bytes.get(..len).unwrap_or_default()).into_owned()
    }

    #[test]
    fn lines_arrive_at_sockets_with_a_file_and_without() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("s");
        let with_file = UnixDatagram::bind(&path).expect("bound");
        send(path.as_os_str(), "READY=1").expect("sent");
        assert_eq!(received(&with_file), "READY=1");
        assert!(send(OsStr::new("/nowhere/s"), "READY=1").is_err());
        #[cfg(target_os = "linux")]
        {
            use std::os::linux::net::SocketAddrExt;
            let name = format!("innokit-{}", path.display());
            let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a name");
            let without = UnixDatagram::bind_addr(&address).expect("bound");
            send(&OsString::from(format!("@{name}")), "STATUS=x").expect("sent");
            assert_eq!(received(&without), "STATUS=x");
        }
    }
}
