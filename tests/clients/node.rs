//! Clients of Node. Before 22.21 it follows no variable by itself, so what is tried with the system's
//! Node takes an agent; what is tried without one takes a Node that is new enough, from npm.

use crate::support::{Run, Site, apt, node_24, with_modules};

fn node() -> String {
    apt("node", "nodejs")
}

#[test]
fn node_fetch() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four([node_24(), with_modules("fetch.mjs", run.directory())], "node");
}

#[test]
fn undici_env_http_proxy_agent() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four([node(), with_modules("undici_env.mjs", run.directory())], "undici");
}

/// The way for `fetch` where Node is too old to follow the variables.
#[test]
fn undici_proxy_agent() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four([node(), with_modules("undici_fetch.mjs", run.directory())], "undici");
}

#[test]
fn axios() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four([node(), with_modules("axios.mjs", run.directory())], "axios/");
}

#[test]
fn got() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four([node_24(), with_modules("got.mjs", run.directory())], "got ");
}

#[test]
fn got_with_agents() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four([node(), with_modules("got.mjs", run.directory()), "--agents".into()], "got ");
}
