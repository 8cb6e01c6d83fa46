//! Clients for buckets, with the credentials that the clouds' own command lines would use.
//!
//! The clients never retry: `store.rs` does, and counts the tries.

use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::place::{Place, Scheme};
use crate::policy::Policy;
use crate::profile;

/// A client for the bucket of `place`; `query` goes with every request to a web server.
///
/// # Errors
/// What is missing or unusable, as a clause.
pub(crate) fn connect(place: &Place, query: Option<&str>, policy: &Policy) -> Result<Arc<dyn ObjectStore>, String> {
    // rustls needs a process-wide cryptography provider. An error means that one is installed already, which is fine.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = match place.scheme {
        Scheme::S3 => s3(place, policy),
        Scheme::Gcs => gcs(place, policy),
        Scheme::Azure => azure(place, policy),
        Scheme::Https => https(place, query, policy),
    };
    client.map_err(|error| match error {
        object_store::Error::Generic { source, .. } => format!("the settings do not work: {source}"),
        other => format!("the settings do not work: {other}"),
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

fn options(policy: &Policy) -> ClientOptions {
    // A slow connection is not a dead one: limit each wait for data (`fetch.rs`), not the whole request.
    ClientOptions::new().with_timeout_disabled().with_connect_timeout(policy.timeout.min(Duration::from_secs(10)))
}

/// The variables with this prefix. `env::vars` would panic on any variable that is not UTF-8, even an unrelated one.
fn variables(prefix: &str) -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(move |(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with(prefix))?;
        Some((name, value.into_string().ok()?))
    })
}

fn s3(place: &Place, policy: &Policy) -> Connected {
    let mut builder = AmazonS3Builder::new().with_client_options(options(policy)).with_retry(once());
    let mut has_endpoint = None;
    let settings = profile::settings(|name| env::var(name).ok());
    for (name, value) in variables("AWS_").chain(settings) {
        let Ok(key) = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() else { continue };
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

fn gcs(place: &Place, policy: &Policy) -> Connected {
    let mut builder = GoogleCloudStorageBuilder::new().with_client_options(options(policy)).with_retry(once());
    for (name, value) in variables("GOOGLE_") {
        if let Ok(key) = name.to_ascii_lowercase().parse::<GoogleConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    Ok(Arc::new(builder.with_bucket_name(&place.bucket).build()?))
}

fn azure(place: &Place, policy: &Policy) -> Connected {
    let mut builder = MicrosoftAzureBuilder::new().with_client_options(options(policy)).with_retry(once());
    // Names used by Azure's command line but not known to the crate. They come first so that the crate's own names override them.
    let known = [
        ("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName),
        ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
        ("AZURE_STORAGE_SAS_TOKEN", AzureConfigKey::SasKey),
    ];
    for (name, key) in known {
        if let Ok(value) = env::var(name) {
            builder = builder.with_config(key, value);
        }
    }
    for (name, value) in variables("AZURE_") {
        if let Ok(key) = name.to_ascii_lowercase().parse::<AzureConfigKey>() {
            builder = builder.with_config(key, value);
        }
    }
    Ok(Arc::new(builder.with_container_name(&place.bucket).build()?))
}

fn https(place: &Place, query: Option<&str>, policy: &Policy) -> Connected {
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let builder = HttpBuilder::new().with_url(format!("{}/{query}", place.root()));
    Ok(Arc::new(builder.with_client_options(options(policy)).with_retry(once()).build()?))
}
