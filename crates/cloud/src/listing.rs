//! Lists all objects below a prefix, or only its direct children. A listing is complete or fails.

use futures_util::StreamExt;
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::fault::Fault;
use crate::fetch::within;
use crate::store::Store;
use crate::tally::Tally;

/// Lists the whole subtree of a non-empty prefix. A listing that breaks off resumes after the last name received.
pub(crate) async fn below(store: &Store, prefix: Option<&Path>) -> Result<Vec<ObjectMeta>, Fault> {
    let (client, mut tries) = (store.client()?, store.begin()?);
    let mut found: Vec<ObjectMeta> = Vec::new();
    loop {
        Tally::count(&store.tally.lists, 1);
        let mut stream = match found.last() {
            None => client.list(prefix),
            Some(last) => client.list_with_offset(prefix, &last.location),
        };
        let trouble = loop {
            match within(store, async { stream.next().await.transpose() }).await {
                Ok(Some(meta)) => {
                    store.answered();
                    found.push(meta);
                }
                Ok(None) => return Ok(found),
                Err(trouble) => break trouble,
            }
        };
        drop(stream);
        tries.after(trouble).await?;
    }
}

/// Lists a prefix's direct children: objects, and the names of longer prefixes.
pub(crate) async fn beside(store: &Store, prefix: Option<&Path>) -> Result<(Vec<ObjectMeta>, Vec<Path>), Fault> {
    let (client, mut tries) = (store.client()?, store.begin()?);
    loop {
        Tally::count(&store.tally.lists, 1);
        match within(store, client.list_with_delimiter(prefix)).await {
            Ok(result) => {
                store.answered();
                return Ok((result.objects, result.common_prefixes));
            }
            Err(trouble) => tries.after(trouble).await?,
        }
    }
}
