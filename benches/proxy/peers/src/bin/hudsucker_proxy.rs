//! hudsucker with a handler that does nothing: what interception costs with the crate for it.

#![forbid(unsafe_code)]

use clap::Parser;
use hudsucker::{HttpHandler, Proxy};
use hyper_util::client::legacy::connect::HttpConnector;
use peers::Interception;

#[derive(Clone)]
struct Nothing;

impl HttpHandler for Nothing {}

fn main() {
    let args = Interception::parse();
    let authority = args.certificates.authority();
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    let connector = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(args.certificates.towards_origins())
        .https_or_http()
        .enable_http1()
        .wrap_connector(connector);
    args.serving.run(async |listener| {
        let proxy = Proxy::builder()
            .with_listener(listener)
            .with_ca(authority)
            .with_http_connector(connector)
            .with_http_handler(Nothing)
            .build()
            .expect("a proxy");
        proxy.start().await.expect("it serves until it is killed");
    });
}
