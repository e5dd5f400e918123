//! `courtesy ca export`: the certificate in the formats of trust stores; never the key.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::open::open;
use crate::ca::{Authority, Certificate};
use crate::cli::exit::{Exit, Failure, OrExit};
use crate::cli::flags::ConfigFlags;
use crate::cli::output::print;

/// The arguments of `courtesy ca export`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy ca export --out courtesy-ca.pem
  courtesy ca export --format p12-instructions | sh   a trust store for Java")]
pub struct ExportArgs {
    /// pem has every certificate to be trusted, der the one of the CA that signs
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Write to FILE instead of standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFlags,
}

#[derive(ValueEnum, Clone, Copy, Debug, Default)]
enum Format {
    #[default]
    Pem,
    Der,
    /// The commands that create a PKCS #12 trust store
    P12Instructions,
}

/// Runs `courtesy ca export`.
pub fn run(args: &ExportArgs) -> Result<(), Failure> {
    let ca = open(&args.config)?;
    let bytes = match args.format {
        Format::Pem => ca.bundle().into_bytes(),
        Format::Der => der(&ca),
        Format::P12Instructions => p12_instructions(&ca).into_bytes(),
    };
    match &args.out {
        None => print(bytes),
        Some(file) => std::fs::write(file, bytes)
            .map_err(|error| anyhow::anyhow!("{}: {error}", file.display()))
            .or_exit(Exit::InputOutput),
    }
}

/// The format has room for one certificate only.
fn der(ca: &Authority) -> Vec<u8> {
    for former in ca.previous() {
        eprintln!(
            "note: {} is to be trusted, too, and not in it; --format pem has both",
            former.subject()
        );
    }
    ca.certificate().der().to_vec()
}

/// A script, because Java's own tool is the most reliable way to create a PKCS #12 trust store that
/// Java accepts.
fn p12_instructions(ca: &Authority) -> String {
    let all = std::iter::once(ca.certificate()).chain(ca.previous());
    let imports: String =
        all.enumerate().map(|(index, certificate)| import(index + 1, certificate)).collect();
    format!(
        "# Makes courtesy-ca.p12, a trust store with the CA of courtesy. Its password is \"changeit\".\n\
         # For use: -Djavax.net.ssl.trustStore=courtesy-ca.p12 -Djavax.net.ssl.trustStorePassword=changeit\n\
         {imports}"
    )
}

fn import(number: usize, certificate: &Certificate) -> String {
    format!(
        "\n# {}\nkeytool -importcert -noprompt -storetype PKCS12 -keystore courtesy-ca.p12 \
         -storepass changeit -alias courtesy-{number} <<'PEM'\n{}PEM\n",
        certificate.subject(),
        certificate.pem()
    )
}
