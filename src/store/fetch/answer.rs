//! Reads a final response: which ones carry a robots.txt, and whether it is complete.

use std::error::Error;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ETAG, HeaderName, LAST_MODIFIED};
use http::response::Parts;
use http::{HeaderValue, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use sha2::{Digest, Sha256};

use super::decode::{Decoded, Decoder, Undecodable, Wanted};
use super::freshness::freshness;
use super::redirect::Chain;
use crate::policy::access::{AccessResult, Capture, Cause, NetworkFailure, Snapshot};
use crate::types::http_time::retry_after;
use crate::types::timestamp::Timestamp;

pub(super) async fn read<B>(
    response: Response<B>,
    chain: &Chain,
    now: Timestamp,
    max_size: usize,
) -> AccessResult
where
    B: Body<Data = Bytes, Error: Error + 'static> + Unpin,
{
    let (head, body) = response.into_parts();
    match head.status {
        // RFC 9309 §2.3.1.1 names 2xx in general; 204 is a file without rules. RFC 9110 §15.3.7: a
        // 206 is a partial response, which was not requested; to use it as the whole file would
        // widen access.
        status if status.is_success() && status != StatusCode::PARTIAL_CONTENT => {
            match read_body(&head, body, max_size).await {
                Ok(decoded) => successful(&head, decoded, chain, now),
                Err(cause) => AccessResult::Without(cause),
            }
        }
        status => AccessResult::Without(Cause::Status {
            code: status.as_u16(),
            retry_after: retry_after(&head.headers, now),
        }),
    }
}

fn successful(head: &Parts, decoded: Decoded, chain: &Chain, now: Timestamp) -> AccessResult {
    let snapshot = Snapshot {
        sha256: Sha256::digest(&decoded.body).into(),
        // Without the spare capacity.
        body: decoded.body.into_boxed_slice().into(),
        cut: decoded.cut,
        status: head.status.as_u16(),
        url: chain.url(),
        hops: chain.hops(),
        fetched_at: now,
        content_type: own(head, &CONTENT_TYPE),
        etag: own(head, &ETAG),
        last_modified: own(head, &LAST_MODIFIED),
        // Set when the whole fetch has ended.
        capture: Capture::none(),
    };
    AccessResult::Successful {
        snapshot: Arc::new(snapshot),
        freshness: freshness(&head.headers, now),
    }
}

/// A copy of a header value. The original is a slice of the buffer that the head was read into,
/// which is many times larger and would stay in memory as long as the file.
fn own(head: &Parts, name: &HeaderName) -> Option<HeaderValue> {
    let value = head.headers.get(name)?;
    Some(HeaderValue::from_bytes(value.as_bytes()).expect("a field value"))
}

/// Reads frames up to the limit; does not download what exceeds it.
async fn read_body<B>(head: &Parts, mut body: B, max_size: usize) -> Result<Decoded, Cause>
where
    B: Body<Data = Bytes, Error: Error + 'static> + Unpin,
{
    // One byte more than the limit shows whether the last line within it is complete.
    let kept_max = max_size.saturating_add(1);
    let mut decoder = Decoder::new(&head.headers, kept_max).map_err(undecodable)?;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken(&error))?;
        let Some(chunk) = frame.data_ref() else { continue };
        if decoder.push(chunk).map_err(undecodable)? == Wanted::Nothing {
            break;
        }
    }
    decoder.finish().map_err(undecodable)
}

fn undecodable(error: Undecodable) -> Cause {
    Cause::failed(NetworkFailure::Undecodable, error.to_string())
}

/// A body that ends early (RFC 9112 §8: incomplete), stalls, or has invalid framing.
fn broken(error: &(dyn Error + 'static)) -> Cause {
    let causes = || std::iter::successors(Some(error), |&error| error.source());
    let kinds = causes().filter_map(|error| error.downcast_ref::<io::Error>()).map(io::Error::kind);
    let failures = kinds.filter_map(|kind| match kind {
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData => {
            Some(NetworkFailure::InvalidResponse)
        }
        io::ErrorKind::TimedOut => Some(NetworkFailure::Timeout),
        _ => None,
    });
    let failure = failures.last().unwrap_or(NetworkFailure::CutShort);
    let detail = causes().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    Cause::failed(failure, detail)
}
