//! What the reference proxies share: options, listener, runtime.

#![forbid(unsafe_code)]

use std::future::Future;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

/// Where a reference proxy listens, and on how many threads it runs.
#[derive(Debug, clap::Args)]
pub struct Serving {
    #[arg(long)]
    listen: SocketAddr,
    #[arg(long)]
    threads: usize,
    /// Set TCP_NODELAY on the listener, from which accepted connections inherit it.
    #[arg(long)]
    nodelay: bool,
}

impl Serving {
    /// Runs `proxy` on the listener, on one runtime over all threads.
    ///
    /// # Panics
    ///
    /// When the listener or the runtime cannot be made: there is nothing to measure then.
    pub fn run<F: Future<Output = ()>>(&self, proxy: impl FnOnce(TcpListener) -> F) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.threads)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async { proxy(self.listener()).await });
    }

    fn listener(&self) -> TcpListener {
        let socket = Socket::new(Domain::for_address(self.listen), Type::STREAM, Some(Protocol::TCP));
        let socket = socket.expect("a socket");
        socket.set_reuse_address(true).expect("SO_REUSEADDR");
        socket.set_tcp_nodelay(self.nodelay).expect("TCP_NODELAY");
        socket.bind(&self.listen.into()).expect("a free address");
        // A backlog as large as that of the others, for the workloads of new connections.
        socket.listen(4096).expect("a listener");
        socket.set_nonblocking(true).expect("O_NONBLOCK");
        TcpListener::from_std(socket.into()).expect("a runtime")
    }
}
