//! The product token of a crawler, from its User-Agent header (RFC 9309 §2.2.1, D-HEADER).
//!
//! A header is read by its structure (RFC 9110 §10.1.5), never searched for names: a browser that
//! mentions a crawler in passing is not that crawler.

/// What browsers and those who imitate them begin with; it says nothing of who it is.
const MOZILLA: &str = "Mozilla";

/// The token that robots.txt files may name this client by. `None`: the header has none, so only the
/// default group can apply.
///
/// It is the first product, unless that is Mozilla; then the item after `compatible;` in a comment;
/// else the item before a URL in a comment; else Mozilla.
pub fn product_token(user_agent: &[u8]) -> Option<&str> {
    let product = name(user_agent.trim_ascii_start());
    match product {
        Some(product) if !product.eq_ignore_ascii_case(MOZILLA) => Some(product),
        _ => after_compatible(user_agent).or_else(|| before_url(user_agent)).or(product),
    }
}

fn after_compatible(user_agent: &[u8]) -> Option<&str> {
    comments(user_agent).find_map(|comment| {
        let mut items = items(comment);
        items.find(|item| item.eq_ignore_ascii_case(b"compatible"))?;
        name(items.next()?)
    })
}

fn before_url(user_agent: &[u8]) -> Option<&str> {
    comments(user_agent).find_map(|comment| {
        let urls = items(comment).skip(1);
        items(comment).zip(urls).find(|(_, next)| is_url(next)).and_then(|(item, _)| name(item))
    })
}

/// The outermost comments. One that is not closed reaches to the end.
fn comments(user_agent: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = user_agent;
    std::iter::from_fn(move || {
        let start = rest.iter().position(|&octet| octet == b'(')? + 1;
        let end = closing(&rest[start..]);
        let comment = &rest[start..start + end];
        rest = &rest[start + end..];
        Some(comment)
    })
}

/// Where the comment that `octets` begin with ends; comments may be nested.
fn closing(octets: &[u8]) -> usize {
    let mut depth = 1usize;
    for (at, octet) in octets.iter().enumerate() {
        match octet {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    octets.len()
}

fn items(comment: &[u8]) -> impl Iterator<Item = &[u8]> {
    comment.split(|&octet| octet == b';').map(<[u8]>::trim_ascii)
}

fn is_url(item: &[u8]) -> bool {
    let item = item.strip_prefix(b"+").unwrap_or(item);
    [&b"http://"[..], b"https://"]
        .iter()
        .any(|scheme| item.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme)))
}

/// The octets an item begins with that a robots.txt can name: letters, digits, `-`, `_`, `.`. A URL
/// is nobody's name.
fn name(item: &[u8]) -> Option<&str> {
    let belongs = |octet: &u8| octet.is_ascii_alphanumeric() || b"-_.".contains(octet);
    let length = item.iter().position(|octet| !belongs(octet)).unwrap_or(item.len());
    let name = str::from_utf8(&item[..length]).ok()?;
    (!name.is_empty() && !is_url(item)).then_some(name)
}
