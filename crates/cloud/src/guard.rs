//! What stands between a storage's client and its server, which may be anybody's: no credentials go to another host, and no listing is endless.
//!
//! The client of `object_store` follows redirects, with the session token in a header that it does not know as a secret. It takes a listing
//! that says it is cut, but not where it continues, for the end, follows a token that comes again for ever, and gives up a whole listing for one
//! name that is no path. Its interface shows none of this, so it is seen to one level below, where requests and answers pass.

use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::path::Path as Location;
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::redirect;

/// No page of a listing is longer: a thousand names of a kilobyte, escaped, and what is said about each.
const PAGE_MAX: usize = 16 << 20;
/// Pages of a thousand names.
const PAGES_MAX: u32 = 2000;
/// Names that are no paths: this many are told.
const ODD_MAX: usize = 100;

/// A listing that leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the listing {0}")]
pub(crate) struct ListingFault(String);

/// Names in listings that are no paths.
pub(crate) type Odd = Arc<Mutex<Vec<String>>>;

/// Makes guarded clients.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    pub odd: Odd,
    pub connect_timeout: Duration,
}

impl HttpConnector for Guard {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let failed = |error: reqwest::Error| object_store::Error::Generic { store: "HTTP", source: Box::new(error) };
        let set = |key| options.get_config_value(&key);
        let is_on = |key| set(key).is_some_and(|value| matches!(value.as_str(), "true" | "1"));
        let same_host = redirect::Policy::custom(|attempt| {
            let place = |url: &reqwest::Url| {
                (url.scheme().to_owned(), url.host_str().map(str::to_owned), url.port_or_known_default())
            };
            let is_same = attempt.previous().first().is_some_and(|first| place(first) == place(attempt.url()));
            // The answer itself is then the error.
            if is_same && attempt.previous().len() < 10 { attempt.follow() } else { attempt.stop() }
        });
        let mut builder = reqwest::ClientBuilder::new()
            .user_agent(concat!("innokit/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.connect_timeout)
            .https_only(!is_on(ClientConfigKey::AllowHttp))
            .redirect(same_host);
        if set(ClientConfigKey::Http1Only).is_none_or(|value| value != "false") {
            builder = builder.http1_only();
        }
        if is_on(ClientConfigKey::AllowInvalidCertificates) {
            builder = builder.danger_accept_invalid_certs(true);
        }
        if let Some(url) = set(ClientConfigKey::ProxyUrl) {
            let mut proxy = reqwest::Proxy::all(url).map_err(failed)?;
            if let Some(excludes) = set(ClientConfigKey::ProxyExcludes) {
                proxy = proxy.no_proxy(reqwest::NoProxy::from_string(&excludes));
            }
            builder = builder.proxy(proxy);
        }
        if let Some(pem) = set(ClientConfigKey::ProxyCaCertificate) {
            let certificate = reqwest::tls::Certificate::from_pem(pem.as_bytes()).map_err(failed)?;
            builder = builder.tls_certs_merge([certificate]);
        }
        let client = builder.build().map_err(failed)?;
        Ok(HttpClient::new(Guarded { client, odd: Arc::clone(&self.odd), listings: Mutex::default() }))
    }
}

/// A client whose answers are looked at.
struct Guarded {
    client: reqwest::Client,
    odd: Odd,
    /// For each listing, by its query without the token: the token that was given last, and the number of pages.
    listings: Mutex<HashMap<String, (String, u32)>>,
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Guarded")
    }
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Guarded {
    fn call<'s, 'a>(&'s self, request: HttpRequest) -> Answer<'a>
    where
        's: 'a,
        Self: 'a,
    {
        Box::pin(self.answer(request))
    }
}

impl Guarded {
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // Of the clouds only S3 has this parameter.
        let query = request.uri().query().filter(|query| query.split('&').any(|part| part == "list-type=2"));
        let query = query.map(|query| format!("{}?{query}", request.uri().path()));
        let answer = self.client.call(request).await?;
        let Some(query) = query.filter(|_| answer.status().is_success()) else { return Ok(answer) };
        let (parts, body) = answer.into_parts();
        let mut page = Vec::new();
        let mut stream = body.bytes_stream();
        while let Some(piece) = stream.next().await {
            page.extend_from_slice(&piece?);
            if page.len() > PAGE_MAX {
                return Err(fault(ListingFault(format!("has a page of more than {PAGE_MAX} bytes"))));
            }
        }
        let page = String::from_utf8_lossy(&page).into_owned();
        self.progressed(&query, &page).map_err(fault)?;
        let (page, odd) = without_odd(page);
        let mut all = lock(&self.odd);
        for name in odd {
            if all.len() < ODD_MAX && !all.contains(&name) {
                all.push(name);
            }
        }
        drop(all);
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(page)))
    }

    /// Whether the listing still leads to its end.
    fn progressed(&self, query: &str, page: &str) -> Result<(), ListingFault> {
        let token = between(page, "<NextContinuationToken>", "</NextContinuationToken>").unwrap_or_default();
        let is_cut = between(page, "<IsTruncated>", "</IsTruncated>").is_some_and(|value| value.trim() == "true");
        if is_cut && token.is_empty() {
            return Err(ListingFault("is cut, and the server does not say where it continues".to_owned()));
        }
        let is_first = !query.contains("continuation-token=");
        let name: Vec<&str> = query.split('&').filter(|part| !part.starts_with("continuation-token=")).collect();
        let mut listings = lock(&self.listings);
        let (last, pages) = listings.entry(name.join("&")).or_default();
        if is_first {
            (*last, *pages) = (String::new(), 0);
        }
        *pages += 1;
        if !token.is_empty() && *last == token {
            return Err(ListingFault(
                "does not go on: the server names the same place to continue at again".to_owned(),
            ));
        }
        if *pages > PAGES_MAX {
            return Err(ListingFault(format!("has more than {PAGES_MAX} pages: name a longer prefix")));
        }
        token.clone_into(last);
        Ok(())
    }
}

/// A page of a listing without the names that are no paths, and these names. They would make the client refuse all others too.
fn without_odd(page: String) -> (String, Vec<String>) {
    let (mut kept, mut odd) = (String::new(), Vec::new());
    let mut rest = page.as_str();
    loop {
        let next = [("<Contents>", "</Contents>", "Key"), ("<CommonPrefixes>", "</CommonPrefixes>", "Prefix")]
            .into_iter()
            .filter_map(|(from, to, name)| Some((rest.find(from)?, to, name)))
            .min_by_key(|(at, ..)| *at);
        let Some((at, end, name)) = next else { break };
        let (before, from) = rest.split_at(at);
        let Some(len) = from.find(end).map(|at| at + end.len()) else { break };
        let (entry, after) = from.split_at(len);
        kept.push_str(before);
        let key = between(entry, &format!("<{name}>"), &format!("</{name}>")).map(unescaped).unwrap_or_default();
        if Location::parse(&key).is_ok() {
            kept.push_str(entry)
        } else {
            odd.push(key)
        }
        rest = after;
    }
    if odd.is_empty() {
        return (page, odd);
    }
    kept.push_str(rest);
    (kept, odd)
}

/// The text of an element of XML, which may name its characters by numbers: a store names all those that XML has no other way for.
fn unescaped(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, after)) = rest.split_once('&') {
        plain.push_str(before);
        let named = after.split_once(';').and_then(|(name, behind)| Some((character(name)?, behind)));
        let (character, behind) = named.unwrap_or(('&', after));
        plain.push(character);
        rest = behind;
    }
    plain.push_str(rest);
    plain
}

fn character(name: &str) -> Option<char> {
    Some(match name {
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "amp" => '&',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = number.strip_prefix('x').map_or_else(|| number.parse(), |hex| u32::from_str_radix(hex, 16));
            char::from_u32(code.ok()?)?
        }
    })
}

fn between<'t>(text: &'t str, from: &str, to: &str) -> Option<&'t str> {
    Some(text.split_once(from)?.1.split_once(to)?.0)
}

fn fault(fault: ListingFault) -> HttpError {
    HttpError::new(HttpErrorKind::Decode, fault)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Lists and maps stay valid if another thread panics.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
