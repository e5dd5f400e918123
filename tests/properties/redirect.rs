//! A redirect that is followed leads to a plain web address: what is asked, of whom and with which
//! `Host` agree with one another and with the URL that is written down, which leads to itself again.

use courtesy::store::fetch::probe::redirect;
use courtesy::types::origin::{Origin, Scheme, split_url};
use http::HeaderValue;

/// The value of a `Location` field.
pub fn holds(bytes: &[u8]) {
    let Ok(location) = HeaderValue::from_bytes(bytes) else { return };
    for scheme in [Scheme::Http, Scheme::Https] {
        let here = Origin::from_authority(scheme, "here.example:8080").expect("an authority");
        let Some(next) = redirect(&here, location.clone()) else { continue };
        assert!(matches!(next.origin.scheme(), Scheme::Http | Scheme::Https));
        assert_eq!(next.host.as_bytes(), next.origin.authority().as_bytes());
        let (target, url) = (next.target.to_string(), next.url.as_bytes());
        assert!(
            target.starts_with('/') && target.is_ascii() && !target.contains(['#', ' ']),
            "{target}"
        );
        let (origin, path) = split_url(url).expect("what is asked has a URL");
        assert_eq!((&origin, &*path), (&next.origin, target.as_bytes()));
        let there = HeaderValue::from_bytes(url).expect("a URL is a field value");
        assert_eq!(redirect(&here, there), Some(next), "it leads to itself");
    }
}
