//! The proxy that one writes on a first afternoon with hyper: its HTTP/1 server on one side, the pooling
//! client of hyper-util on the other, tunnels by copying both ways.

#![forbid(unsafe_code)]

use clap::Parser;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use peers::{Serving, strip};
use tokio::net::{TcpListener, TcpStream};

type Origins = Client<HttpConnector, Incoming>;
type Body = BoxBody<Bytes, hyper::Error>;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    serving: Serving,
}

fn main() {
    Args::parse().serving.run(serve);
}

async fn serve(listener: TcpListener) {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let origins: Origins = Client::builder(TokioExecutor::new()).build(connector);
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        let origins = origins.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| handle(request, origins.clone()));
            let connection = http1::Builder::new().serve_connection(TokioIo::new(client), service);
            // How a connection ends is the client's business; the generator counts what it lacks.
            let _ = connection.with_upgrades().await;
        });
    }
}

async fn handle(mut request: Request<Incoming>, origins: Origins) -> Result<Response<Body>, hyper::Error> {
    if request.method() == Method::CONNECT {
        return Ok(tunnel(request).await);
    }
    strip(request.headers_mut());
    Ok(match origins.request(request).await {
        Ok(mut response) => {
            strip(response.headers_mut());
            response.map(BodyExt::boxed)
        }
        Err(_) => empty(StatusCode::BAD_GATEWAY),
    })
}

async fn tunnel(request: Request<Incoming>) -> Response<Body> {
    let Some(authority) = request.uri().authority().map(ToString::to_string) else {
        return empty(StatusCode::BAD_REQUEST);
    };
    let Ok(mut origin) = TcpStream::connect(authority).await else {
        return empty(StatusCode::BAD_GATEWAY);
    };
    tokio::spawn(async move {
        let client = hyper::upgrade::on(request).await?;
        origin.set_nodelay(true)?;
        tokio::io::copy_bidirectional(&mut TokioIo::new(client), &mut origin).await?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    });
    empty(StatusCode::OK)
}

fn empty(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Empty::new().map_err(|never| match never {}).boxed());
    *response.status_mut() = status;
    response
}
