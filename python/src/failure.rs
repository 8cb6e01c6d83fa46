//! Errors as Python exceptions. The classes are in `innokit/_errors.py`.

use std::io;

use datadir::remote::{self, Missed};
use inspect::rows::RowDamage;
use pyo3::exceptions::{PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;

/// Why a job failed.
#[derive(Debug)]
pub enum Failure {
    /// The files cannot be used.
    Job(datadir::Error),
    /// An object cannot be read, which says nothing about what is in it.
    Storage(Missed),
    /// Rows cannot be read: the first place, and how many more there are.
    Damage(RowDamage, usize),
    /// Impossible for another reason than damage.
    Refused(String),
    /// An invalid argument.
    Usage(String),
    /// A bug in innokit.
    Panic(String),
}

impl Failure {
    /// The first damaged place.
    pub fn of_damage(damage: &[RowDamage]) -> Option<Self> {
        damage.first().map(|first| Self::Damage(first.clone(), damage.len() - 1))
    }

    /// What `catch_unwind` caught.
    pub fn of_panic(panic: &(dyn std::any::Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::Panic(text.unwrap_or_else(|| "a panic without a message".to_owned()))
    }

    /// The message, in one sentence.
    pub fn text(&self) -> String {
        match self {
            Self::Job(error) => error.to_string(),
            Self::Storage(missed) => format!("{}: {}", missed.path.display(), missed.why),
            Self::Damage(damage, 0) => place(damage),
            Self::Damage(damage, more) => format!("{} (and {more} more)", place(damage)),
            Self::Refused(why) | Self::Usage(why) => why.clone(),
            Self::Panic(text) => format!("a defect of innokit, please report it: {text}"),
        }
    }
}

/// `t.ibd, byte 114688: page 7 is damaged: ...`
fn place(damage: &RowDamage) -> String {
    match damage.offset {
        Some(offset) => format!("{}, byte {offset}: {}", damage.path.display(), damage.why),
        None => damage.to_string(),
    }
}

impl From<datadir::Error> for Failure {
    fn from(error: datadir::Error) -> Self {
        match error {
            datadir::Error::Usage(why) => Self::Usage(why),
            datadir::Error::Io { path, source, .. } if remote::is_url(&path) => {
                Self::Storage(Missed { path, why: source.to_string(), kind: source.kind() })
            }
            other => Self::Job(other),
        }
    }
}

/// The stable code of `StorageError.reason`.
fn storage_reason(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => "missing",
        io::ErrorKind::PermissionDenied => "denied",
        io::ErrorKind::StaleNetworkFileHandle => "changed",
        io::ErrorKind::TimedOut => "unreachable",
        _ => "other",
    }
}

/// An exception of `innokit/_errors.py`.
fn of_class(class: &str, build: impl FnOnce(Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>>) -> PyErr {
    Python::attach(|py| {
        let made = py.import("innokit._errors").and_then(|module| module.getattr(class)).and_then(build);
        made.map_or_else(|error| error, PyErr::from_value)
    })
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        let text = failure.text();
        match failure {
            Failure::Job(datadir::Error::Interrupted) => PyKeyboardInterrupt::new_err(()),
            Failure::Job(datadir::Error::Io { path, source, .. }) if source.raw_os_error().is_some() => {
                // Python turns it into a FileNotFoundError or PermissionError by its errno.
                let said = source.to_string();
                let said = said.split(" (os error").next().unwrap_or(&said).to_owned();
                PyOSError::new_err((source.raw_os_error(), said, path.into_os_string()))
            }
            Failure::Usage(why) => PyValueError::new_err(why),
            Failure::Damage(damage, _) => of_class("DamageError", |class| {
                let RowDamage { path, page_no, offset, keys, .. } = damage;
                // Python's `Path` would turn `s3://` into `s3:/`.
                class.call1((text, path.into_os_string(), page_no, offset, keys))
            }),
            Failure::Storage(missed) => of_class("StorageError", |class| {
                let Missed { path, kind, .. } = missed;
                class.call1((text, path.into_os_string(), storage_reason(kind)))
            }),
            Failure::Panic(_) => of_class("InternalError", |class| class.call1((text,))),
            Failure::Job(_) | Failure::Refused(_) => of_class("InnokitError", |class| class.call1((text,))),
        }
    }
}
