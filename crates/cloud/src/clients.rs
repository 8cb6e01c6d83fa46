//! Clients for buckets, with the credentials that the clouds' own command lines would use.
//!
//! The clients never retry: `store.rs` does, and counts the tries.

use std::env;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use datadir::remote::StorageOptions;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::guard::{Guard, Odd};
use crate::options::{Setting, settings_of};
use crate::place::{Place, Scheme};
use crate::policy::Policy;

/// What no report shows: parts of a web server's URL, and options that a program gave with a bucket's.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    /// The query string of a signed URL. It goes with every request.
    pub query: Option<String>,
    /// `user:password`.
    pub login: Option<String>,
    /// They go before the environment.
    pub options: StorageOptions,
}

/// Shows nothing of them.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

/// A client for the bucket of `place`. Names in its listings that are no paths go to `odd`.
///
/// # Errors
/// What is missing or unusable, as a clause.
pub(crate) fn connect(
    place: &Place,
    secrets: &Secrets,
    policy: &Policy,
    odd: &Odd,
) -> Result<Arc<dyn ObjectStore>, String> {
    // rustls needs a process-wide cryptography provider. An error means that one is installed already, which is fine.
    drop(rustls::crypto::ring::default_provider().install_default());
    let guard = Guard { odd: Arc::clone(odd), connect_timeout: connect_timeout(policy) };
    let client = match place.scheme {
        Scheme::S3 => s3(place, &secrets.options, policy, guard),
        Scheme::Gcs => gcs(place, &secrets.options, policy, guard),
        Scheme::Azure => azure(place, &secrets.options, policy, guard),
        Scheme::Https => https(place, secrets, policy),
    };
    client.map_err(|error| {
        let why = match error {
            object_store::Error::Generic { source, .. } => source.to_string(),
            other => other.to_string(),
        };
        let why = secrets.login.as_ref().map_or(why.clone(), |login| why.replace(login, "***"));
        format!("the settings do not work: {why}")
    })
}

/// A hash of the environment variables that [`connect`] depends on. A process may change them while it runs.
pub(crate) fn settings() -> u64 {
    let is_one = |name: &str| {
        ["AWS_", "GOOGLE_", "AZURE_", "SSL_CERT_", "IDENTITY_", "MSI_"].iter().any(|first| name.starts_with(first))
            || name == "HOME"
            || name.to_ascii_lowercase().ends_with("_proxy")
    };
    let mut variables: Vec<_> = env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_one)).collect();
    variables.sort();
    let mut hasher = DefaultHasher::new();
    variables.hash(&mut hasher);
    hasher.finish()
}

type Connected = Result<Arc<dyn ObjectStore>, object_store::Error>;

fn once() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, retry_timeout: Duration::ZERO }
}

fn connect_timeout(policy: &Policy) -> Duration {
    policy.timeout.min(Duration::from_secs(10))
}

fn client(policy: &Policy) -> ClientOptions {
    // A slow connection is not a dead one: limit each wait for data (`fetch.rs`), not the whole request.
    ClientOptions::new().with_timeout_disabled().with_connect_timeout(connect_timeout(policy))
}

fn s3(place: &Place, options: &StorageOptions, policy: &Policy, guard: Guard) -> Connected {
    let mut builder =
        AmazonS3Builder::new().with_client_options(client(policy)).with_retry(once()).with_http_connector(guard);
    let mut has_endpoint = None;
    for (setting, value) in settings_of(Scheme::S3, options) {
        let Setting::S3(key) = setting else { continue };
        if matches!(key, AmazonS3ConfigKey::Endpoint | AmazonS3ConfigKey::S3Endpoint) {
            has_endpoint = Some(value.clone());
        }
        builder = builder.with_config(key, value);
    }
    if has_endpoint.is_some_and(|endpoint| endpoint.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    Ok(Arc::new(builder.with_bucket_name(&place.bucket).build()?))
}

fn gcs(place: &Place, options: &StorageOptions, policy: &Policy, guard: Guard) -> Connected {
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_client_options(client(policy))
        .with_retry(once())
        .with_http_connector(guard);
    for (setting, value) in settings_of(Scheme::Gcs, options) {
        if let Setting::Gcs(key) = setting {
            builder = builder.with_config(key, value);
        }
    }
    Ok(Arc::new(builder.with_bucket_name(&place.bucket).build()?))
}

fn azure(place: &Place, options: &StorageOptions, policy: &Policy, guard: Guard) -> Connected {
    let mut builder =
        MicrosoftAzureBuilder::new().with_client_options(client(policy)).with_retry(once()).with_http_connector(guard);
    for (setting, value) in settings_of(Scheme::Azure, options) {
        if let Setting::Azure(key) = setting {
            builder = builder.with_config(key, value);
        }
    }
    Ok(Arc::new(builder.with_container_name(&place.bucket).build()?))
}

fn https(place: &Place, secrets: &Secrets, policy: &Policy) -> Connected {
    let query = secrets.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
    let login = secrets.login.as_ref().map(|login| format!("{login}@")).unwrap_or_default();
    let builder = HttpBuilder::new().with_url(format!("https://{login}{}/{query}", place.bucket));
    Ok(Arc::new(builder.with_client_options(client(policy)).with_retry(once()).build()?))
}
