//! Verifiers at their strictest that are no clients of their own. Python's is in `python`; Go, Java and
//! NSS, strict as they come, are tried by their clients.

use crate::clients::support::{Run, Site, apt};

/// With -x509_strict, which asks for what RFC 5280 asks of a conforming authority.
#[test]
#[ignore = "nightly"]
fn openssl_at_its_strictest() {
    apt("openssl", "openssl");
    let site = Site::start();
    let run = Run::of(&site);
    let url = site.url("https", "");
    let host = url.trim_start_matches("https://");
    for path in ["/page", "/private/page"] {
        let script = format!(
            "printf 'GET {path} HTTP/1.1\\r\\nHost: {host}\\r\\nConnection: close\\r\\n\\r\\n' | \
             openssl s_client -proxy \"${{https_proxy#http://}}\" -connect {host} -quiet -ign_eof \
             -x509_strict -verify_return_error -verify_hostname site.localhost -servername site.localhost \
             -CAfile \"$NODE_EXTRA_CA_CERTS\""
        );
        let ended = run.client(["sh", "-c", &script]);
        let status = if path == "/page" { "HTTP/1.1 200 " } else { "HTTP/1.1 403 " };
        assert!(ended.stdout.starts_with(status), "{ended:#?}");
        assert!(!ended.stderr.contains("verify error"), "{ended:#?}");
    }
}
