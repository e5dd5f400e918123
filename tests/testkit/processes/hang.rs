//! A disk that hangs: calls of the program under test that do not return until they may.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::{Place, Serve, until};

/// The calls that can be made to hang, by a library that is loaded into the program.
pub struct Hang {
    dir: PathBuf,
}

impl Hang {
    /// Makes the library, in `place`.
    #[track_caller]
    pub fn new(place: &Place) -> Self {
        let dir = place.path().join("hang");
        fs::create_dir(&dir).expect("a directory that can be written to");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testkit/processes/hang.c");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .arg(dir.join("hang.so"))
            .arg(source)
            .arg("-ldl");
        let output = compiler.output().expect("cc, which tests/run installs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { dir }
    }

    /// Starts the proxy with it.
    #[track_caller]
    pub fn serve(&self, place: &Place) -> Serve {
        let mut command = place.command("serve --allow-private");
        command.env("LD_PRELOAD", self.dir.join("hang.so")).env("HANG_DIR", &self.dir);
        Serve::start(command)
    }

    /// From now on `call` hangs on files whose names contain `name`.
    pub fn begin(&self, call: &str, name: &str) {
        let whole = self.dir.join(format!("{call}.tmp"));
        fs::write(&whole, name).expect("a directory that can be written to");
        fs::rename(&whole, self.dir.join(call)).expect("a directory that can be written to");
    }

    /// Whether a call hangs.
    pub fn hangs(&self, call: &str) -> bool {
        self.dir.join(format!("{call}.hung")).exists()
    }

    /// Waits until a call hangs.
    #[track_caller]
    pub fn wait(&self, call: &str) {
        until("the call hangs", || self.hangs(call));
    }

    /// All return, and none hangs any more.
    pub fn end(&self) {
        for entry in fs::read_dir(&self.dir).expect("the directory").flatten() {
            if entry.path().extension().is_none_or(|extension| extension == "hung") {
                fs::remove_file(entry.path()).expect("a file of ours");
            }
        }
    }
}

impl Drop for Hang {
    fn drop(&mut self) {
        self.end();
    }
}
