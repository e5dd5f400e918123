//! Real clients, as a crawler has them, under `courtesy run`: by HTTP and HTTPS each gets the page
//! that the site's robots.txt allows, is told why it does not get the other, and the record says so.
//! Where a client needs more than the variables, its test shows what.

pub mod support;

mod around;
mod browsers;
mod compiled;
mod curl;
mod git;
mod gnutls;
mod node;
mod parents;
mod perl;
mod php;
mod python;
mod ruby;
mod strict;
pub mod table;
mod terminal;
mod warning;
