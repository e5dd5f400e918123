//! The floor: it passes bytes on to one origin, and knows nothing of HTTP.

#![forbid(unsafe_code)]

use std::net::SocketAddr;

use clap::Parser;
use peers::Serving;
use tokio::net::{TcpListener, TcpStream};

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    serving: Serving,
    #[arg(long)]
    origin: SocketAddr,
}

fn main() {
    let args = Args::parse();
    args.serving.run(|listener| forward(listener, args.origin));
}

async fn forward(listener: TcpListener, origin: SocketAddr) {
    loop {
        let Ok((mut client, _)) = listener.accept().await else { continue };
        tokio::spawn(async move {
            let mut origin = TcpStream::connect(origin).await?;
            origin.set_nodelay(true)?;
            tokio::io::copy_bidirectional(&mut client, &mut origin).await
        });
    }
}
