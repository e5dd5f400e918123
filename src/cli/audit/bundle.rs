//! `courtesy audit export --format bundle`, and `verify` of a bundle.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

use super::filters;
use super::progress::Progress;
use crate::audit::Head;
use crate::audit::read::bundle::{self, Lacks, Manifest, ReadError, WriteError};
use crate::audit::read::verify::{Findings, GivenHead};
use crate::audit::read::{Filter, Log};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::output::create_private;
use crate::cli::temporary_dir::{Purpose, TemporaryDir};

/// Evidence that cannot be read and is named; the rest is counted.
const NAMED: usize = 20;

/// Writes the part of the only log in `logs` from the first line that matches to the last.
pub fn export(logs: &[Log], filter: &Filter, output: Option<&Path>) -> Result<Exit, Failure> {
    let [log] = logs else {
        let why = "a bundle is of one log, for each has its own chain: give one --dir at a time";
        return Err(anyhow::anyhow!(why)).or_exit(Exit::Usage);
    };
    filters::check(filter.since, filter.until)?;
    let Some(manifest) = bundle::find(log, filter)? else {
        return Err(anyhow::anyhow!("no line matches, so there is nothing to bundle"))
            .or_exit(Exit::No);
    };
    let lacks = match output {
        None => write(log, &manifest, io::stdout().lock()),
        Some(path) => match create_private(path) {
            Err(error) => Err(Failure::from(error)),
            Ok(file) => write(log, &manifest, file),
        }
        .map_err(|Failure { exit, error }| Failure {
            exit,
            error: error.context(format!("cannot write {}", path.display())),
        }),
    }?;
    Ok(said(&lacks))
}

fn write(log: &Log, manifest: &Manifest, output: impl Write) -> Result<Lacks, Failure> {
    let mut progress = Progress::new();
    let output = BufWriter::with_capacity(64 << 10, output);
    let lacks =
        bundle::write(log, manifest, output, &mut |extent, lines| progress.at(|| extent, lines))?;
    progress.clear();
    Ok(lacks)
}

/// Reports faults of a bundle that was just written.
fn said(Lacks { damaged, evidence }: &Lacks) -> Exit {
    if *damaged > 0 {
        let lines = if *damaged == 1 { "1 line is" } else { &format!("{damaged} lines are") };
        eprintln!(
            "warning: {lines} damaged or changed; in the bundle, too, the chain does not hold there"
        );
    }
    evidence
        .iter()
        .take(NAMED)
        .for_each(|name| eprintln!("warning: evidence is not in the bundle: {name}"));
    if evidence.len() > NAMED {
        eprintln!(
            "warning: and {} more; courtesy audit verify counts them all",
            evidence.len() - NAMED
        );
    }
    if *damaged == 0 && evidence.is_empty() { Exit::Done } else { Exit::No }
}

/// The result of verifying a bundle. Files are named as in it.
pub struct Checked {
    pub manifest: Manifest,
    pub findings: Findings,
    /// Where it was unpacked.
    dir: String,
}

/// Unpacks a bundle and checks it.
pub fn check(path: &Path, heads: &[GivenHead], with_evidence: bool) -> Result<Checked, Failure> {
    let dir = TemporaryDir::new(Purpose::Bundle)?;
    let unpacked = bundle::unpack(path, dir.path()).map_err(|error| {
        let Failure { exit, error } = Failure::from(error);
        Failure { exit, error: error.context(format!("{}", path.display())) }
    })?;
    let manifest = unpacked.manifest.clone();
    let mut progress = Progress::new();
    let mut tell = |extent, lines| progress.at(|| extent, lines);
    let findings = bundle::verify_bundle(dir.path(), unpacked, heads, with_evidence, &mut tell)?;
    let dir = format!("{}/", dir.path().display());
    Ok(Checked { manifest, findings, dir })
}

impl Checked {
    /// `text` of the findings, with remarks for a part.
    pub fn text(&self, text: &str) -> String {
        let Manifest { first, last, noted_head, .. } = &self.manifest;
        let mut said = text.replace(&self.dir, "");
        said.push_str(&format!(
            "It is a part of a log: lines {} to {}. What comes before them hangs on {}:{}.\n",
            first.seq,
            last.seq,
            first.seq.saturating_sub(1),
            first.prev
        ));
        if let Some(Head { hash, seq }) = noted_head.as_ref().filter(|head| head.seq > last.seq) {
            said.push_str(&format!(
                "When it was made the log went on to line {seq} at least ({seq}:{hash}).\n"
            ));
        }
        said
    }

    /// `object` of the findings, with `bundle`.
    pub fn object(&self, mut object: Value) -> Value {
        for list in ["faults", "notes"] {
            let found = object.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
            for text in found.filter_map(Value::as_object_mut).flat_map(|it| it.values_mut()) {
                if let Value::String(text) = text {
                    *text = text.replace(&self.dir, "");
                }
            }
        }
        object["bundle"] = json!(self.manifest);
        object
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Read(error) => error.into(),
            WriteError::Output(error) => error.into(),
            WriteError::TooLarge => Self { exit: Exit::Usage, error: error.into() },
            WriteError::Changed => Self { exit: Exit::InputOutput, error: error.into() },
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error.into(),
            ReadError::NotAsWritten(_) => Self { exit: Exit::No, error: error.into() },
            ReadError::Newer(_) => Self { exit: Exit::Unavailable, error: error.into() },
        }
    }
}
