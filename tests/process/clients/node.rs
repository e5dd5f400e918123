//! Clients of Node.

use serde_json::json;

use crate::clients::support::{Run, Site, apt, assert_denied, node, with_modules};

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
#[ignore = "nightly"]
fn undici_env_http_proxy_agent() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four(old_node().chain([with_modules("undici_env.mjs", run.directory())]), "undici");
}

/// The way for `fetch` where Node is too old.
#[test]
#[ignore = "nightly"]
fn undici_proxy_agent() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four(old_node().chain([with_modules("undici_fetch.mjs", run.directory())]), "undici");
}

#[test]
#[ignore = "nightly"]
fn axios() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four(old_node().chain([with_modules("axios.mjs", run.directory())]), "axios/");
}

#[test]
#[ignore = "nightly"]
fn got() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four([node(), with_modules("got.mjs", run.directory())], "got ");
}

#[test]
#[ignore = "nightly"]
fn got_with_agents() {
    let site = Site::start();
    let run = Run::of(&site);
    let got = [with_modules("got.mjs", run.directory()), "--agents".into()];
    run.four(old_node().chain(got), "got ");
}

/// `http` and `https`, which every client without a way of its own uses.
#[test]
#[ignore = "nightly"]
fn node_http() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four([node(), with_modules("http.mjs", run.directory())], "node-http");
}

#[test]
#[ignore = "nightly"]
fn node_fetch_package() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four([node(), with_modules("node_fetch.mjs", run.directory())], "node-fetch");
}

/// Its agents are its own: it is given others.
#[test]
#[ignore = "nightly"]
fn superagent_with_agents() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four(
        old_node().chain([with_modules("superagent.mjs", run.directory())]),
        "node-superagent/",
    );
}

/// It follows the proxy variables itself, and breaks where Node does, too. By a proxy it verifies nothing.
#[test]
#[ignore = "nightly"]
fn needle() {
    let site = Site::start();
    let run = Run::of(&site);
    let client = [with_modules("needle.mjs", run.directory())];
    run.four_by(run.client(old_node().chain(client.clone()).chain(site.four())), "Needle/");
    let ended = run.client([node()].into_iter().chain(client).chain([site.url("http", "/page")]));
    assert!(ended.stderr.contains("ERR_INVALID_ARG_VALUE"), "{ended:#?}");
}

#[test]
#[ignore = "nightly"]
fn ky() {
    let site = Site::start();
    let run = Run::of(&site);
    run.four([node(), with_modules("ky.mjs", run.directory())], "node");
}

/// Not a crawler, but what installs them. It trusts what an npmrc names before any other variable's word.
#[test]
#[ignore = "nightly"]
fn npm() {
    let npm = apt("npm", "npm");
    let site = Site::start();
    let run = Run::of(&site);
    let package = json!({
        "name": "page",
        "dist-tags": { "latest": "1.0.0" },
        "versions": { "1.0.0": { "name": "page", "version": "1.0.0" } },
    });
    site.publish_text("/page", &package.to_string());
    std::fs::write(run.directory().join("nobody.pem"), std::fs::read(site.root()).expect("a root"))
        .expect("a file");
    std::fs::write(run.directory().join(".npmrc"), "cafile=nobody.pem\n").expect("a file");
    let view = |registry: &str| -> [String; 6] {
        let registry = format!("--registry={}", site.url("https", registry));
        [
            npm.clone(),
            "view".into(),
            "page".into(),
            "version".into(),
            registry,
            "--fetch-retries=0".into(),
        ]
    };
    let ended = run.client(view("/"));
    assert_eq!(ended.stdout.trim(), "1.0.0", "{ended:#?}");
    let ended = run.client(view("/private/"));
    assert!(ended.stderr.contains("403"), "{ended:#?}");
    assert_denied(&run.records()[0], &site.url("https", "/private/page"), "npm/");
    run.client(
        ["env".into(), "-u".into(), "NPM_CONFIG_CAFILE".into()].into_iter().chain(view("/")),
    );
    assert_eq!(run.summary()["requests"], 0, "it trusts what the npmrc names");
}
