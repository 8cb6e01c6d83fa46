//! Options that a program gives with a URL: how to reach its bucket, in the words that such programs use for it.

use std::env;

use datadir::remote::StorageOptions;
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;

use crate::place::Scheme;
use crate::profile;

/// A storage option by the name that the clients' builders have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Setting {
    /// The profile of AWS's command line that the credentials come from.
    Profile,
    S3(AmazonS3ConfigKey),
    Gcs(GoogleConfigKey),
    Azure(AzureConfigKey),
}

impl Setting {
    /// Whether it leaves requests unsigned.
    pub(crate) fn is_unsigned(self) -> bool {
        matches!(
            self,
            Self::S3(AmazonS3ConfigKey::SkipSignature)
                | Self::Gcs(GoogleConfigKey::SkipSignature)
                | Self::Azure(AzureConfigKey::SkipSignature)
        )
    }

    /// Whether it says who asks. With one such option, the environment's credentials count no more: half a pair of each opens nothing.
    pub(crate) fn signs_in(self) -> bool {
        use {AmazonS3ConfigKey as S3, AzureConfigKey as Azure, GoogleConfigKey as Gcs};
        match self {
            Self::Profile => true,
            Self::S3(key) => matches!(
                key,
                S3::AccessKeyId
                    | S3::SecretAccessKey
                    | S3::Token
                    | S3::SkipSignature
                    | S3::WebIdentityTokenFile
                    | S3::ContainerCredentialsRelativeUri
                    | S3::ContainerCredentialsFullUri
            ),
            Self::Gcs(key) => matches!(
                key,
                Gcs::ServiceAccount
                    | Gcs::ServiceAccountKey
                    | Gcs::ApplicationCredentials
                    | Gcs::BearerToken
                    | Gcs::SkipSignature
            ),
            Self::Azure(key) => matches!(
                key,
                Azure::AccessKey
                    | Azure::SasKey
                    | Azure::Token
                    | Azure::ClientId
                    | Azure::ClientSecret
                    | Azure::SkipSignature
                    | Azure::FederatedTokenFile
                    | Azure::UseAzureCli
            ),
        }
    }
}

/// What an option of that name sets. Besides the builders' names it has those of fsspec: `key`, `secret`, `anon`.
///
/// # Errors
/// There is none, as a sentence.
pub(crate) fn setting(scheme: Scheme, name: &str) -> Result<Setting, String> {
    let lower = name.to_ascii_lowercase();
    let found = match (scheme, lower.as_str()) {
        (Scheme::S3, "profile" | "aws_profile") => Some(Setting::Profile),
        (Scheme::S3, "key") => Some(Setting::S3(AmazonS3ConfigKey::AccessKeyId)),
        (Scheme::S3, "secret") => Some(Setting::S3(AmazonS3ConfigKey::SecretAccessKey)),
        (Scheme::S3, "anon") => Some(Setting::S3(AmazonS3ConfigKey::SkipSignature)),
        (Scheme::S3, known) => known.parse().ok().map(Setting::S3),
        (Scheme::Gcs, "anon") => Some(Setting::Gcs(GoogleConfigKey::SkipSignature)),
        (Scheme::Gcs, known) => known.parse().ok().map(Setting::Gcs),
        (Scheme::Azure, "anon") => Some(Setting::Azure(AzureConfigKey::SkipSignature)),
        (Scheme::Azure, known) => known.parse().ok().map(Setting::Azure),
        (Scheme::Https, _) => return Err("a web server takes no storage options: a signed URL says it all".to_owned()),
    };
    found.ok_or_else(|| format!("there is no storage option `{name}`"))
}

/// All that is set, where the last of a kind counts: by the environment, by a profile of AWS's command line, by the options. Options without a
/// name that is known were refused before.
pub(crate) fn settings_of(scheme: Scheme, options: &StorageOptions) -> Vec<(Setting, String)> {
    let given = given(scheme, options);
    let mut settings = others(&given, environment(scheme));
    if scheme == Scheme::S3 {
        settings.extend(of_profile(&given));
    }
    settings.extend(given);
    settings
}

fn given(scheme: Scheme, options: &StorageOptions) -> Vec<(Setting, String)> {
    options.iter().filter_map(|(name, value)| Some((setting(scheme, name).ok()?, value.clone()))).collect()
}

/// What the environment says, without its credentials if the options have others.
fn others(
    given: &[(Setting, String)],
    environment: impl IntoIterator<Item = (Setting, String)>,
) -> Vec<(Setting, String)> {
    let is_signed_in = given.iter().any(|(setting, _)| setting.signs_in());
    environment.into_iter().filter(|(setting, _)| !(is_signed_in && setting.signs_in())).collect()
}

fn environment(scheme: Scheme) -> Vec<(Setting, String)> {
    // Names used by Azure's command line but not known to the crate. They come first so that the crate's own names override them.
    const OF_AZURE: [(&str, AzureConfigKey); 3] = [
        ("AZURE_STORAGE_ACCOUNT", AzureConfigKey::AccountName),
        ("AZURE_STORAGE_KEY", AzureConfigKey::AccessKey),
        ("AZURE_STORAGE_SAS_TOKEN", AzureConfigKey::SasKey),
    ];
    let prefix = match scheme {
        Scheme::S3 => "AWS_",
        Scheme::Gcs => "GOOGLE_",
        Scheme::Azure => "AZURE_",
        Scheme::Https => return Vec::new(),
    };
    let known = OF_AZURE.into_iter().filter(|_| scheme == Scheme::Azure);
    let known = known.filter_map(|(name, key)| Some((Setting::Azure(key), env::var(name).ok()?)));
    let named = variables(prefix).filter_map(|(name, value)| Some((setting(scheme, &name).ok()?, value)));
    // The variable that names a profile is `profile.rs`'s.
    known.chain(named.filter(|(setting, _)| *setting != Setting::Profile)).collect()
}

/// The variables with this prefix. `env::vars` would panic on any variable that is not UTF-8, even an unrelated one.
fn variables(prefix: &str) -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(move |(name, value)| {
        let name = name.into_string().ok().filter(|name| name.starts_with(prefix))?;
        Some((name, value.into_string().ok()?))
    })
}

/// What the profile says that the options name, or else the one that the environment does.
fn of_profile(given: &[(Setting, String)]) -> Vec<(Setting, String)> {
    let named = given.iter().find(|(setting, _)| *setting == Setting::Profile).map(|(_, name)| name);
    let is_signed_in = given.iter().any(|(setting, _)| *setting != Setting::Profile && setting.signs_in());
    // A profile that the options name is asked for all that it has, whatever the environment says.
    let found = profile::settings(|name| match (name, named) {
        ("AWS_PROFILE", Some(named)) => Some(named.clone()),
        ("AWS_SKIP_SIGNATURE", _) if is_signed_in => Some("as the options say".to_owned()),
        (name, Some(_)) if name.starts_with("AWS_") && !name.ends_with("_FILE") => None,
        (name, _) => env::var(name).ok(),
    });
    found.into_iter().filter_map(|(name, value)| Some((setting(Scheme::S3, &name).ok()?, value))).collect()
}

/// Who asks for objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signer {
    /// An account that the environment, a profile or the options name.
    Named,
    /// The machine's own account, if it has one.
    Machine,
    /// Requests are not signed.
    Anonymous,
}

impl Signer {
    /// Who asks, with these options.
    pub fn of(scheme: Scheme, options: &StorageOptions) -> Self {
        let settings = settings_of(scheme, options);
        let is_off = |(setting, value): &(Setting, String)| setting.is_unsigned() && value.eq_ignore_ascii_case("true");
        let is_named = |(setting, _): &(Setting, String)| setting.signs_in() && !setting.is_unsigned();
        match (settings.iter().any(is_off), settings.iter().any(is_named)) {
            (true, _) => Self::Anonymous,
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
            Self::Anonymous => "the request was not signed, and it is not public",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_has_a_name_that_its_storage_knows() {
        assert_eq!(setting(Scheme::S3, "AWS_ACCESS_KEY_ID"), Ok(Setting::S3(AmazonS3ConfigKey::AccessKeyId)));
        assert_eq!(setting(Scheme::S3, "key"), Ok(Setting::S3(AmazonS3ConfigKey::AccessKeyId)));
        assert_eq!(setting(Scheme::Gcs, "anon"), Ok(Setting::Gcs(GoogleConfigKey::SkipSignature)));
        assert_eq!(setting(Scheme::Azure, "sas_token"), Ok(Setting::Azure(AzureConfigKey::SasKey)));
        assert_eq!(setting(Scheme::Azure, "secret"), Err("there is no storage option `secret`".to_owned()));
        assert!(setting(Scheme::Https, "anon").is_err());
    }

    #[test]
    fn who_asks_is_said_by_the_options_or_by_the_environment_never_by_both() {
        use AmazonS3ConfigKey as S3;
        let environment = || {
            [(S3::AccessKeyId, "mine"), (S3::Region, "mars")].map(|(key, value)| (Setting::S3(key), value.to_owned()))
        };
        let kept = |options: &[(&str, &str)]| {
            let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            others(&given(Scheme::S3, &options), environment())
        };
        assert_eq!(kept(&[("endpoint_url", "http://here")]), environment());
        assert_eq!(kept(&[("secret", "yours")]), [(Setting::S3(S3::Region), "mars".to_owned())]);
        assert_eq!(kept(&[("profile", "backup")]), [(Setting::S3(S3::Region), "mars".to_owned())]);
    }
}
