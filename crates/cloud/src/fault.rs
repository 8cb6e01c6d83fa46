//! Why a request failed, whether to retry it, and what to tell the user.

use std::error::Error as _;
use std::io;

use flow::WholeFile;
use object_store::client::HttpError;

use crate::guard::ListingFault;

/// A permanent failure, of an object or a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub kind: io::ErrorKind,
    /// A clause: "access is denied (403) ...".
    pub words: String,
}

impl Fault {
    pub fn new(kind: io::ErrorKind, words: impl Into<String>) -> Self {
        Self { kind, words: words.into() }
    }

    /// Recovers the fault from an error made by [`Fault::to_io`].
    pub fn of_io(error: &io::Error) -> Self {
        Self::new(error.kind(), error.to_string())
    }

    /// As an I/O error that tells the reader that no other part of the object can be read either.
    pub fn to_io(&self) -> io::Error {
        io::Error::new(self.kind, WholeFile(self.words.clone()))
    }
}

/// Why one attempt failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A retry would get the same answer.
    Final(Fault),
    /// A retry may succeed; the reason.
    Passing(String),
}

impl Trouble {
    /// Classifies a client's error.
    pub fn of(error: &object_store::Error) -> Self {
        use object_store::Error as E;
        match error {
            E::NotFound { .. } => Self::Final(not_found(&error.to_string())),
            E::Precondition { .. } | E::NotModified { .. } => Self::Final(replaced()),
            E::PermissionDenied { .. } | E::Unauthenticated { .. } => Self::Final(denied(&error.to_string())),
            _ => Self::of_other(error),
        }
    }

    /// Classifies errors that the client does not distinguish.
    fn of_other(error: &object_store::Error) -> Self {
        let text = error.to_string();
        match status_of(&text) {
            // 429 is too many requests; 408 means that the server gave up waiting for ours.
            Some(408 | 429 | 500..) => Self::Passing(answer(&text)),
            Some(400) if code_of(&text).is_some_and(|code| code == "RequestTimeout") => Self::Passing(answer(&text)),
            // The client does not distinguish these for listings.
            Some(404) => Self::Final(not_found(&text)),
            Some(401 | 403) => Self::Final(denied(&text)),
            Some(_) => Self::Final(Fault::new(io::ErrorKind::Other, answer(&text))),
            None if text.contains("without LOCATION") => {
                let words = "the bucket is in another region: set AWS_REGION to that region";
                Self::Final(Fault::new(io::ErrorKind::Other, words))
            }
            None => match deepest(error) {
                (true, reason) => Self::Passing(reason),
                (false, reason) => Self::Final(Fault::new(io::ErrorKind::Other, reason)),
            },
        }
    }
}

/// The object has been replaced since it was listed.
pub(crate) fn replaced() -> Fault {
    let words = "it changed while it was read: another object has taken its name since it was listed; start again";
    Fault::new(io::ErrorKind::StaleNetworkFileHandle, words)
}

fn not_found(text: &str) -> Fault {
    let words = match code_of(text) {
        Some("NoSuchBucket" | "ContainerNotFound") => "there is no such bucket (404)",
        _ => "there is no such object (404)",
    };
    Fault::new(io::ErrorKind::NotFound, words)
}

fn denied(text: &str) -> Fault {
    let status = status_of(text).unwrap_or(403);
    let words = match code_of(text) {
        Some(code) if code != "AccessDenied" => {
            let message = between(text, "<Message>", "</Message>").unwrap_or_default().trim_end_matches('.');
            format!("access is denied ({status} {code}): {message}")
        }
        // Who may not read it says the store, which knows who asks.
        _ => format!("access is denied ({status})"),
    };
    Fault::new(io::ErrorKind::PermissionDenied, words)
}

/// The server's answer in brief: status, code, message.
fn answer(text: &str) -> String {
    if let Some(status @ 300..400) = status_of(text) {
        return format!(
            "the server redirects ({status}) to another host or port, which would get the credentials: set the endpoint to it if it is meant"
        );
    }
    let status = status_of(text).map(|status| status.to_string()).unwrap_or_default();
    let code = code_of(text).map(|code| format!(" {code}")).unwrap_or_default();
    let message =
        between(text, "<Message>", "</Message>").map(|message| format!(": {}", message.trim_end_matches('.')));
    format!("the server answers {status}{code}{}", message.unwrap_or_default())
}

/// Extracts the status from the client's message, because the error type is private.
fn status_of(text: &str) -> Option<u16> {
    let after = text.split_once("status code: ")?.1;
    after.get(..3)?.parse().ok()
}

/// The error code in the body of an S3 or Azure response.
fn code_of(text: &str) -> Option<&str> {
    between(text, "<Code>", "</Code>")
}

fn between<'t>(text: &'t str, from: &str, to: &str) -> Option<&'t str> {
    Some(text.split_once(from)?.1.split_once(to)?.0.trim())
}

/// The innermost cause, if the network failed rather than the request.
fn deepest(error: &object_store::Error) -> (bool, String) {
    let mut is_transport = false;
    let mut reason = error.to_string();
    let mut inner = error.source();
    while let Some(error) = inner {
        if let Some(fault) = error.downcast_ref::<ListingFault>() {
            return (false, fault.to_string());
        }
        is_transport |= error.is::<HttpError>() || error.is::<io::Error>();
        reason = error.to_string();
        inner = error.source();
    }
    // Drop the error number: the text says the same.
    let words = reason.split(" (os error").next().unwrap_or(&reason);
    // Reasons follow a colon, so they start in lower case.
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_ascii_lowercase());
    (is_transport, first.into_iter().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_told_by_status_code_and_message() {
        let text = "Generic S3 error: Error performing GET http://x in 1ms - Server returned non-2xx status code: 503 Service \
                    Unavailable: <Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>";
        assert_eq!(status_of(text), Some(503));
        assert_eq!(answer(text), "the server answers 503 SlowDown: Reduce your request rate");
        assert_eq!(answer("status code: 502 Bad Gateway: "), "the server answers 502");
        assert_eq!(status_of("connection reset"), None);
    }
}
