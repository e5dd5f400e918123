//! An absolute URL has one origin: written out it is the same again, its host is made of what host
//! names are made of, and a browser's parser, where it takes the URL too, sees the same host and port.

use courtesy::types::origin::{Host, split_url};

/// A URL.
pub fn holds(bytes: &[u8]) {
    let Ok((origin, path)) = split_url(bytes) else { return };
    assert!(path.starts_with(b"/") && !path.contains(&b'#'));
    assert_eq!(
        split_url(origin.to_string().as_bytes()).map(|(again, _)| again),
        Ok(origin.clone())
    );
    if let Host::Name(name) = origin.host() {
        let belongs =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-._".contains(&byte);
        assert!(name.bytes().all(belongs), "{name}");
    }
    let Some(url) = std::str::from_utf8(bytes).ok().and_then(|text| url::Url::parse(text).ok())
    else {
        return;
    };
    let host = match url.host().expect("what we take has a host") {
        url::Host::Domain(name) => name.strip_suffix('.').unwrap_or(name).to_owned(),
        url::Host::Ipv4(address) => address.to_string(),
        url::Host::Ipv6(address) => format!("[{address}]"),
    };
    assert_eq!(host, origin.host().to_string());
    assert_eq!(url.port_or_known_default(), Some(origin.port()));
}
