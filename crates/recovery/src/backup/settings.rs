//! Server settings that rule out a backup by innokit, whatever the vendor.

use std::path::Path;

use super::error::{Result, refused};
use super::others::tables_without_redo;
use crate::server_home::ServerHome;
use datadir::server::{BackupServer, ServerFacts};

/// Refuses a server that keeps files outside of this datadir, its own.
pub(super) fn check(facts: &ServerFacts, home: &ServerHome, datadir: &Path) -> Result<()> {
    let names = facts.system_files.split(';').map(|file| file.split(':').next().unwrap_or_default());
    if names.collect::<Vec<_>>() != ["ibdata1"] {
        return refused(format!(
            "innodb_data_file_path is {}: a system tablespace of other files than ibdata1 is not backed up yet",
            facts.system_files
        ));
    }
    for (setting, place) in &facts.directories {
        if !place.as_os_str().is_empty() && !home.is(place, datadir) {
            return refused(format!(
                "{setting} is {}: a server with files outside its datadir is not backed up yet",
                place.display()
            ));
        }
    }
    Ok(())
}

/// Refuses an account that lacks a privilege which a backup needs now or later, and names all that it lacks: else the next one would show only
/// after the next attempt, or after the whole copy.
pub(super) fn refuse_missing_privileges(server: &mut dyn BackupServer, datadir: &Path) -> Result<()> {
    let missing = server.missing_privileges(&tables_without_redo(datadir)?)?;
    if missing.is_empty() {
        return Ok(());
    }
    refused(format!("the account lacks privileges that a backup needs: {}", missing.join("; ")))
}
