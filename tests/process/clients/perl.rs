//! Clients of Perl. LWP and Mojo follow no proxy variable by themselves; `courtesy run` sets those that
//! make them.

use crate::clients::support::{Run, Site, apt, program};

#[track_caller]
fn assert_perl(script: &str, user_agent: &str) {
    let site = Site::start();
    Run::of(&site).four([apt("perl", "perl"), program(script)], user_agent);
}

/// libwww-perl and liblwp-protocol-https-perl.
#[test]
#[ignore = "nightly"]
fn perl_lwp() {
    assert_perl("lwp.pl", "libwww-perl/");
}

#[test]
#[ignore = "nightly"]
fn perl_http_tiny() {
    assert_perl("http_tiny.pl", "HTTP-Tiny/");
}

/// libmojolicious-perl and libio-socket-ssl-perl.
#[test]
#[ignore = "nightly"]
fn perl_mojo() {
    assert_perl("mojo.pl", "Mojolicious (Perl)");
}
