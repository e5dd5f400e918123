//! Clients of Ruby's own library. They leave loopback out by themselves, wherever it is: the site is known
//! by a name that nothing but the proxy resolves.

use crate::clients::support::{Run, Site, apt, program};

#[test]
#[ignore = "nightly"]
fn ruby_net_http() {
    let site = Site::start();
    Run::of(&site).four([apt("ruby", "ruby"), program("net_http.rb")], "Ruby");
}

#[test]
#[ignore = "nightly"]
fn ruby_open_uri() {
    let site = Site::start();
    Run::of(&site).four([apt("ruby", "ruby"), program("open_uri.rb")], "Ruby");
}
