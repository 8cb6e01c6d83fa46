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
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::http::HttpBuilder;
use object_store::{BackoffConfig, ClientOptions, ObjectStore, RetryConfig};

use crate::guard::{Guard, Odd};
use crate::options::{self, Setting};
use crate::place::{Place, Scheme};
use crate::policy::Policy;
use crate::profile;

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

/// The variables with this prefix. `env::vars` would panic on any variable that is not UTF-8, even an unrelated one.
fn variables(prefix: &str) -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(move |(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with(prefix))?;
        Some((name, value.into_string().ok()?))
    })
}

/// Who asks for objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signer {
    /// Whoever the environment, a profile or the options name.
    Named,
    /// Whoever the machine is, if it is somebody.
    Machine,
    /// Nobody: requests are not signed.
    Nobody,
}

impl Signer {
    /// Who asks, with these options.
    pub fn of(scheme: Scheme, options: &StorageOptions) -> Self {
        let settings: Vec<(Setting, String)> = match scheme {
            Scheme::S3 => s3_settings(options).into_iter().map(|(key, value)| (Setting::S3(key), value)).collect(),
            Scheme::Gcs => gcs_settings(options).into_iter().map(|(key, value)| (Setting::Gcs(key), value)).collect(),
            Scheme::Azure => {
                azure_settings(options).into_iter().map(|(key, value)| (Setting::Azure(key), value)).collect()
            }
            Scheme::Https => Vec::new(),
        };
        let is_off = |(setting, value): &(Setting, String)| setting.is_unsigned() && value.eq_ignore_ascii_case("true");
        let is_named = |(setting, _): &(Setting, String)| setting.signs_in() && !setting.is_unsigned();
        match (settings.iter().any(is_off), settings.iter().any(is_named)) {
            (true, _) => Self::Nobody,
            (_, true) => Self::Named,
            _ if scheme == Scheme::Https => Self::Named,
            _ => Self::Machine,
        }
    }

    /// Why an object may not be read, as a clause.
    pub const fn why_denied(self) -> &'static str {
        match self {
            Self::Named => "the credentials in use may not read it",
            Self::Machine => {
                "no credentials were given (environment, profile or options), and those of this machine, if it has any, may not read it"
            }
            Self::Nobody => "the request was not signed, and it is not public",
        }
    }
}

/// What the environment, a profile and the options say, the last of a kind counts.
fn s3_settings(options: &StorageOptions) -> Vec<(AmazonS3ConfigKey, String)> {
    let given = options::given(Scheme::S3, options);
    let profile = given.iter().find(|(setting, _)| *setting == Setting::Profile).map(|(_, name)| (*name).to_owned());
    let is_signed_in = given.iter().any(|(setting, _)| *setting != Setting::Profile && setting.signs_in());
    // A named profile is asked for all that it has, whoever the environment says to be.
    let from_profile = profile::settings(|name| match (name, &profile) {
        ("AWS_PROFILE", Some(profile)) => Some(profile.clone()),
        ("AWS_SKIP_SIGNATURE", _) if is_signed_in => Some("as the options say".to_owned()),
        (name, Some(_)) if name.starts_with("AWS_") && !name.ends_with("_FILE") => None,
        (name, _) => env::var(name).ok(),
    });
    let named =
        |(name, value): (String, String)| Some((name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>().ok()?, value));
    let environment = variables("AWS_").filter_map(named);
    let environment = options::others(&given, environment, Setting::S3);
    let own = given.iter().filter_map(|(setting, value)| match setting {
        Setting::S3(key) => Some((*key, (*value).to_owned())),
        _ => None,
    });
    environment.into_iter().chain(from_profile.into_iter().filter_map(named)).chain(own).collect()
}

fn s3(place: &Place, options: &StorageOptions, policy: &Policy, guard: Guard) -> Connected {
    let mut builder =
        AmazonS3Builder::new().with_client_options(client(policy)).with_retry(once()).with_http_connector(guard);
    let mut has_endpoint = None;
    for (key, value) in s3_settings(options) {
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

fn gcs_settings(options: &StorageOptions) -> Vec<(GoogleConfigKey, String)> {
    let given = options::given(Scheme::Gcs, options);
    let named =
        |(name, value): (String, String)| Some((name.to_ascii_lowercase().parse::<GoogleConfigKey>().ok()?, value));
    let environment = options::others(&given, variables("GOOGLE_").filter_map(named), Setting::Gcs);
    let own = given.iter().filter_map(|(setting, value)| match setting {
        Setting::Gcs(key) => Some((*key, (*value).to_owned())),
        _ => None,
    });
    environment.into_iter().chain(own).collect()
}

fn gcs(place: &Place, options: &StorageOptions, policy: &Policy, guard: Guard) -> Connected {
    let builder = GoogleCloudStorageBuilder::new()
        .with_client_options(client(policy))
        .with_retry(once())
        .with_http_connector(guard);
    let settings = gcs_settings(options).into_iter();
    let builder = settings.fold(builder, |builder, (key, value)| builder.with_config(key, value));
    Ok(Arc::new(builder.with_bucket_name(&place.bucket).build()?))
}

fn azure_settings(options: &StorageOptions) -> Vec<(AzureConfigKey, String)> {
    let given = options::given(Scheme::Azure, options);
    // Names used by Azure's command line but not known to the crate. They come first so that the crate's own names override them.
    let known = [
        ("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName),
        ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
        ("AZURE_STORAGE_SAS_TOKEN", AzureConfigKey::SasKey),
    ];
    let known = known.into_iter().filter_map(|(name, key)| Some((key, env::var(name).ok()?)));
    let named =
        |(name, value): (String, String)| Some((name.to_ascii_lowercase().parse::<AzureConfigKey>().ok()?, value));
    let environment = known.chain(variables("AZURE_").filter_map(named));
    let environment = options::others(&given, environment, Setting::Azure);
    let own = given.iter().filter_map(|(setting, value)| match setting {
        Setting::Azure(key) => Some((*key, (*value).to_owned())),
        _ => None,
    });
    environment.into_iter().chain(own).collect()
}

fn azure(place: &Place, options: &StorageOptions, policy: &Policy, guard: Guard) -> Connected {
    let builder =
        MicrosoftAzureBuilder::new().with_client_options(client(policy)).with_retry(once()).with_http_connector(guard);
    let settings = azure_settings(options).into_iter();
    let builder = settings.fold(builder, |builder, (key, value)| builder.with_config(key, value));
    Ok(Arc::new(builder.with_container_name(&place.bucket).build()?))
}

fn https(place: &Place, secrets: &Secrets, policy: &Policy) -> Connected {
    let query = secrets.query.as_ref().map(|query| format!("?{query}")).unwrap_or_default();
    let login = secrets.login.as_ref().map(|login| format!("{login}@")).unwrap_or_default();
    let builder = HttpBuilder::new().with_url(format!("https://{login}{}/{query}", place.bucket));
    Ok(Arc::new(builder.with_client_options(client(policy)).with_retry(once()).build()?))
}
