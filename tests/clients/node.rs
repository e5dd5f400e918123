//! Clients of Node.

use crate::support::{Run, Site, node, with_modules};

/// Node as it was before 22.21, when it followed no variable: the others are still there.
const OLD: [&str; 3] = ["env", "-u", "NODE_USE_ENV_PROXY"];

fn old_node() -> impl Iterator<Item = String> {
    OLD.map(str::to_owned).into_iter().chain([node()])
}

#[test]
fn node_fetch() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four([node(), with_modules("fetch.mjs", run.directory())], "node");
}

#[test]
fn undici_env_http_proxy_agent() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four(old_node().chain([with_modules("undici_env.mjs", run.directory())]), "undici");
}

/// The way for `fetch` where Node is too old.
#[test]
fn undici_proxy_agent() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four(old_node().chain([with_modules("undici_fetch.mjs", run.directory())]), "undici");
}

#[test]
fn axios() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four(old_node().chain([with_modules("axios.mjs", run.directory())]), "axios/");
}

#[test]
fn got() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four([node(), with_modules("got.mjs", run.directory())], "got ");
}

#[test]
fn got_with_agents() {
    let site = Site::start();
    let run = Run::of(&site);
    let got = [with_modules("got.mjs", run.directory()), "--agents".into()];
    run.four(old_node().chain(got), "got ");
}
