//! Options that a program gives with a URL: how to reach its bucket, in the words that such programs use for it.

use datadir::remote::StorageOptions;
use object_store::aws::AmazonS3ConfigKey;
use object_store::azure::AzureConfigKey;
use object_store::gcp::GoogleConfigKey;

use crate::place::Scheme;

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

    /// Whether it says who asks. With one such option, the environment's credentials count no more: half a pair of each is nobody's.
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

/// The options as settings. Those without a name that is known were refused before.
pub(crate) fn given(scheme: Scheme, options: &StorageOptions) -> Vec<(Setting, &str)> {
    options.iter().filter_map(|(name, value)| Some((setting(scheme, name).ok()?, value.as_str()))).collect()
}

/// What the environment says, without its credentials if the options have others.
pub(crate) fn others<K: Copy>(
    options: &[(Setting, &str)],
    environment: impl Iterator<Item = (K, String)>,
    of: fn(K) -> Setting,
) -> Vec<(K, String)> {
    let is_signed_in = options.iter().any(|(setting, _)| setting.signs_in());
    environment.filter(|(key, _)| !(is_signed_in && of(*key).signs_in())).collect()
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
        let environment = || [(S3::AccessKeyId, "mine".to_owned()), (S3::Region, "mars".to_owned())].into_iter();
        let kept = |options: &[(&str, &str)]| {
            let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            others(&given(Scheme::S3, &options), environment(), Setting::S3)
        };
        assert_eq!(kept(&[("endpoint_url", "http://here")]), environment().collect::<Vec<_>>());
        assert_eq!(kept(&[("secret", "yours")]), [(S3::Region, "mars".to_owned())]);
        assert_eq!(kept(&[("profile", "backup")]), [(S3::Region, "mars".to_owned())]);
    }
}
