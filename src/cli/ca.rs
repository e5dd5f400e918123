//! `courtesy ca`: manages the certificate authority that clients of intercepted connections trust.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;

use super::environment;
use super::exit::{Exit, Failure, OrExit};
use super::flags::ConfigFlags;
use super::output::{print, quoted};
use crate::ca::{Authority, Certificate, Client, LEAF_LIFETIME, Source, TABLE, print_date};
use crate::runtime::clock::{Clock, SystemClock};
use crate::types::timestamp::Timestamp;

/// The arguments of `courtesy ca`.
#[derive(Args, Debug)]
pub struct CaArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Show the CA; it is made when there is none yet
    Show(ShowArgs),
    /// Print the certificate for clients to trust, never the key
    Export(ExportArgs),
    /// Make a new CA; clients should trust both until all know the new one
    Rotate(RotateArgs),
    /// Tell how to make a client trust the CA
    InstallHelp(InstallHelpArgs),
}

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy ca rotate            make a new CA, then do what it prints
  courtesy ca rotate --finish   when every client trusts the new one")]
struct RotateArgs {
    /// End the overlap: the former CA is no longer handed out
    #[arg(long)]
    finish: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

/// Runs `courtesy ca`.
pub fn run(args: CaArgs) -> Result<Exit, Failure> {
    match args.command {
        Command::Show(args) => run_show(&args),
        Command::Export(args) => run_export(&args),
        Command::Rotate(args) if args.finish => finish(&args),
        Command::Rotate(args) => rotate(&args),
        Command::InstallHelp(args) => run_install_help(&args),
    }?;
    Ok(Exit::Done)
}

fn rotate(args: &RotateArgs) -> Result<(), Failure> {
    let ca = Authority::rotate(&source(&args.config)?, SystemClock.wall())?;
    let new = format!("{} is the CA from now on, until {}.\n", name(&ca), date(&ca));
    let Some(old) = ca.previous().first() else {
        return print(new + "Clients are to trust it: courtesy ca install-help\n");
    };
    print(format!(
        "{new}\
         {old} stays trusted until {until}, when it expires, or until you end the overlap.\n\
         \n\
         1. Give both to every client:   courtesy ca export --out courtesy-ca.pem\n\
         2. Then let the proxy sign with the new one: reload it (courtesy reload, systemctl reload courtesy, SIGHUP)\n   \
            or restart it. Until then a running proxy signs with the old one.\n\
         3. When all that is done:       courtesy ca rotate --finish\n",
        old = old.subject(),
        until = print_date(old.not_after()),
    ))
}

fn finish(args: &RotateArgs) -> Result<(), Failure> {
    let now = SystemClock.wall();
    let ca = Authority::end_overlap(&source(&args.config)?, now)?;
    let made_long_ago = now.since(ca.certificate().not_before()) > LEAF_LIFETIME;
    let warning = if made_long_ago {
        ""
    } else {
        "It is new: a proxy that has not been reloaded since still signs with the former one.\n"
    };
    print(format!("{} is the only CA that is handed out now.\n{warning}", name(&ca)))
}

fn name(ca: &Authority) -> &str {
    ca.certificate().subject()
}

fn date(ca: &Authority) -> String {
    print_date(ca.certificate().not_after())
}

/// The CA of the settings.
pub fn source(config: &ConfigFlags) -> Result<Source, Failure> {
    let settings = config.load(None)?.settings;
    Ok(settings.ca(environment::credentials_directory().as_deref()))
}

/// The CA itself; the proxy's own is made if there is none.
pub fn open_authority(config: &ConfigFlags) -> Result<Authority, Failure> {
    Ok(Authority::open(&source(config)?, SystemClock.wall())?)
}

/// The arguments of `courtesy ca show`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy ca show
  courtesy ca show --json | jq .days_left")]
pub struct ShowArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    config: ConfigFlags,
}

/// A CA as printed.
#[derive(Serialize)]
struct Shown {
    subject: String,
    /// SHA-256.
    fingerprint: String,
    not_before: String,
    not_after: String,
    days_left: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// Earlier CAs that clients should continue to trust.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    previous: Vec<Shown>,
}

/// Runs `courtesy ca show`.
pub fn run_show(args: &ShowArgs) -> Result<(), Failure> {
    let shown = Shown::of(&open_authority(&args.config)?, SystemClock.wall());
    print(if args.json {
        serde_json::to_string_pretty(&shown).expect("texts and numbers") + "\n"
    } else {
        shown.text()
    })
}

impl Shown {
    fn of(ca: &Authority, now: Timestamp) -> Self {
        let previous = ca.previous().iter().map(|former| Self::certificate(former, now)).collect();
        let file = Some(ca.file().display().to_string());
        Self { file, previous, ..Self::certificate(ca.certificate(), now) }
    }

    fn certificate(certificate: &Certificate, now: Timestamp) -> Self {
        Self {
            subject: certificate.subject().to_owned(),
            fingerprint: certificate.fingerprint(),
            not_before: print_date(certificate.not_before()),
            not_after: print_date(certificate.not_after()),
            days_left: certificate.days_left(now),
            file: None,
            previous: Vec::new(),
        }
    }

    fn text(&self) -> String {
        let file =
            self.file.iter().map(|file| format!("file         {file}\n")).collect::<String>();
        let previous: String = self
            .previous
            .iter()
            .map(|former| format!("\nto be trusted, too:\n{}", former.text()))
            .collect();
        format!(
            "subject      {}\nfingerprint  SHA-256 {}\nvalid        {} to {}, {} days left\n{file}{previous}",
            self.subject, self.fingerprint, self.not_before, self.not_after, self.days_left
        )
    }
}

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
pub fn run_export(args: &ExportArgs) -> Result<(), Failure> {
    let ca = open_authority(&args.config)?;
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

/// The arguments of `courtesy ca install-help`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  courtesy ca install-help curl
  courtesy ca export --out /srv/ca.pem && courtesy ca install-help --file /srv/ca.pem")]
pub struct InstallHelpArgs {
    /// The client, such as curl or java [default: all of them]
    client: Option<String>,
    /// The exported certificate [default: the file of the CA itself, which only its owner can read]
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigFlags,
}

const NOTE: &str = "\
Most of these variables replace the roots of the system. A client that also goes around the proxy
(NO_PROXY, tunnelled hosts) needs both in one file:
  cat /etc/ssl/certs/ca-certificates.crt {file} > courtesy-bundle.pem
";

/// Runs `courtesy ca install-help`.
pub fn run_install_help(args: &InstallHelpArgs) -> Result<(), Failure> {
    let clients = match &args.client {
        None => TABLE.clients.iter().collect(),
        Some(name) => vec![Client::named(name).ok_or_else(|| unknown(name))?],
    };
    let ca = open_authority(&args.config)?;
    let file = std::path::absolute(args.file.as_deref().unwrap_or(ca.file()))?;
    let sections: String = clients.iter().map(|client| format!("{client}\n")).collect();
    print((sections + NOTE).replace("{file}", &quoted(&file.display().to_string())))
}

fn unknown(name: &str) -> Failure {
    let known: Vec<_> = TABLE.clients.iter().map(|client| &*client.names[0]).collect();
    let error =
        anyhow::anyhow!("there is no help for \"{name}\"; there is for {}", known.join(", "));
    Failure { exit: Exit::Usage, error }
}
