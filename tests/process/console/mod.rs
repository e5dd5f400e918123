//! `courtesy console` as a browser sees it: who gets in, pages that say what the commands say, and texts of strangers.

mod browser;
mod guard;
mod hostile;
mod pages;
mod proxy;
mod support;
