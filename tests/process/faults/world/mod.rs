//! A world of its own for a test: a network in which every address of IPv4 and IPv6 is this machine, so
//! that even those which nobody may contact answer ([`Everywhere`]), with [`names`] that mean what a
//! test wants. It is made of name spaces of Linux, and gone with the process that runs in it.

mod everywhere;
pub mod names;

use std::fs;
use std::net::SocketAddr;

use serde_json::Value;

pub use crate::testkit::inside;
pub use everywhere::Everywhere;

use crate::testkit::parties::{Client, Response};
use crate::testkit::processes::{Place, Serve};

/// The program in this world, as it comes: nothing private is allowed.
pub struct Proxy {
    place: Place,
    serve: Option<Serve>,
}

impl Proxy {
    /// One that trusts these origins' CA, PEM, besides the others.
    #[track_caller]
    pub fn start(settings: &str, ca: &str) -> Self {
        let place = Place::new(settings);
        fs::write(place.path().join("origins.pem"), ca)
            .expect("a directory that can be written to");
        let mut proxy = Self { place, serve: None };
        proxy.resume();
        proxy
    }

    /// Ends it, and starts it again with what it knows.
    #[track_caller]
    pub fn restart(&mut self) {
        self.stop();
        self.resume();
    }

    #[track_caller]
    fn resume(&mut self) {
        let mut command = self.place.command("serve --extra-root");
        command.arg(self.place.path().join("origins.pem"));
        self.serve = Some(Serve::start(command));
    }

    pub fn serve(&self) -> &Serve {
        self.serve.as_ref().expect("a running proxy")
    }

    pub fn address(&self) -> SocketAddr {
        self.serve().address()
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// What follows a GET for this URL, sent as it is written.
    #[track_caller]
    pub fn get(&self, url: &str) -> Response {
        self.ask(&format!("GET {url}"))
    }

    /// What follows a method and a target, sent as they are written.
    #[track_caller]
    pub fn ask(&self, line: &str) -> Response {
        let mut client = self.client();
        client.send(format!("{line} HTTP/1.1\r\nHost: x\r\nUser-Agent: ExampleBot/1.0\r\n\r\n"));
        client.read()
    }

    /// The certificates that its clients trust, PEM.
    pub fn trusted(&self) -> String {
        let output = self.place.run("ca export");
        String::from_utf8(output.stdout).expect("PEM")
    }

    /// Ends it and gives its records.
    #[track_caller]
    pub fn records(mut self) -> Vec<Value> {
        self.stop();
        let lines = self.place.log().lines;
        lines.into_iter().filter(|line| line.get("reason").is_some()).collect()
    }

    fn stop(&mut self) {
        self.serve.take().expect("a running proxy").stop();
    }
}
