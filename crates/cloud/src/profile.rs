//! Profiles of AWS's command line: `~/.aws/credentials` and `~/.aws/config`.
//!
//! Only keys written in these files are used. Profiles that run a program or sign in on a web page need `aws configure export-credentials`.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Settings named like the equivalent environment variables, without those that the environment sets.
pub(crate) fn settings(env: impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let profile = env("AWS_PROFILE").or_else(|| env("AWS_DEFAULT_PROFILE")).unwrap_or_else(|| "default".to_owned());
    let home = env("HOME").unwrap_or_default();
    let file = |variable: &str, name: &str| {
        let path = env(variable).map_or_else(|| PathBuf::from(&home).join(".aws").join(name), PathBuf::from);
        std::fs::read_to_string(path).unwrap_or_default()
    };
    let mut found = section(&file("AWS_CONFIG_FILE", "config"), &[&profile, &format!("profile {profile}")]);
    found.extend(section(&file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), &[&profile]));
    // Never combine a key from the environment with a secret or token from a file. The same goes for the other ways to sign in.
    let signs_in = ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SKIP_SIGNATURE"];
    let is_signed_in = signs_in.iter().any(|name| env(name).is_some());
    let wanted: [(&str, &[&str], bool); 5] = [
        ("aws_access_key_id", &["AWS_ACCESS_KEY_ID"], true),
        ("aws_secret_access_key", &["AWS_SECRET_ACCESS_KEY"], true),
        ("aws_session_token", &["AWS_SESSION_TOKEN"], true),
        ("region", &["AWS_REGION", "AWS_DEFAULT_REGION"], false),
        ("endpoint_url", &["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT"], false),
    ];
    let taken = wanted.into_iter().filter(|(_, variables, is_secret)| {
        let is_said = if *is_secret { is_signed_in } else { variables.iter().any(|name| env(name).is_some()) };
        !is_said
    });
    let taken = taken.filter_map(|(name, variables, _)| {
        Some(((*variables.first()?).to_owned(), found.get(name).filter(|value| !value.is_empty())?.clone()))
    });
    taken.collect()
}

/// The settings of the sections with one of these names.
fn section(text: &str, names: &[&str]) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut is_in = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            is_in = names.contains(&name.trim());
            continue;
        }
        // An indented line belongs to a nested setting; none of those matter here.
        let is_setting = is_in && !line.starts_with([' ', '\t', '#', ';']);
        if let Some((name, value)) = trimmed.split_once('=').filter(|_| is_setting) {
            found.insert(name.trim().to_lowercase(), value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;

    fn settings_with(variables: &[(&str, &str)]) -> Vec<(String, String)> {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir(home.path().join(".aws")).unwrap();
        let credentials = "[default]\naws_access_key_id = one\naws_secret_access_key=first/+=\n\n[backup]\n# aws_access_key_id = no\n\
                           aws_access_key_id=two\naws_secret_access_key=second\naws_session_token = token\n";
        let config = "[default]\nregion = eu-west-1\ns3 =\n  region = nested\n[profile backup]\nregion=eu-north-1\n\
                      endpoint_url = https://minio.example\n";
        std::fs::write(home.path().join(".aws/credentials"), credentials).unwrap();
        std::fs::write(home.path().join(".aws/config"), config).unwrap();
        let home = home.path().to_str().unwrap().to_owned();
        settings(|name| match name {
            "HOME" => Some(home.clone()),
            _ => variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()),
        })
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_profile_gives_what_the_environment_does_not() {
        let default =
            [("AWS_ACCESS_KEY_ID", "one"), ("AWS_SECRET_ACCESS_KEY", "first/+="), ("AWS_REGION", "eu-west-1")];
        assert_eq!(settings_with(&[]), pairs(&default));
        let backup = [
            ("AWS_ACCESS_KEY_ID", "two"),
            ("AWS_SECRET_ACCESS_KEY", "second"),
            ("AWS_SESSION_TOKEN", "token"),
            ("AWS_REGION", "eu-north-1"),
            ("AWS_ENDPOINT_URL", "https://minio.example"),
        ];
        assert_eq!(settings_with(&[("AWS_PROFILE", "backup")]), pairs(&backup));
        let mixed = settings_with(&[("AWS_PROFILE", "backup"), ("AWS_ACCESS_KEY_ID", "mine"), ("AWS_REGION", "mars")]);
        assert_eq!(mixed, pairs(&[("AWS_ENDPOINT_URL", "https://minio.example")]));
        assert_eq!(settings_with(&[("AWS_PROFILE", "nobody")]), []);
    }
}
