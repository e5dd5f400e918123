//! What pages of a large audit log cost: `cargo bench --bench pages -- DIR [RECORDS]`. Makes the log in DIR unless there is
//! one, in segments as the writer leaves them, and asks each question in a process of its own.

mod records;

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use courtesy::audit::read::archive::LineInPlace;
use courtesy::audit::read::filter::Place;
use courtesy::audit::read::page::{PageRequest, one, page};
use courtesy::audit::read::{CompiledFilter, Filter, Log, Scan, ScanItem};
use courtesy::audit::summary::{MEMBER_BYTES, Needs, compress};
use courtesy::audit::{Content, FILE_NAME, Head, segment};
use courtesy::runtime::clock::monotonic;
use courtesy::types::origin::host::Glob;
use records::record;

/// The default of `audit.rotate_size`.
const SEGMENT_BYTES: usize = 128 << 20;

/// As the console asks.
const ROWS: usize = 50;
const PAGE_BYTES_MAX: u64 = 256 << 20;

const RECORDS: u64 = 5_000_000;
const RARE: u64 = 5;

const QUESTIONS: [&str; 8] = [
    "nothing",
    "first page",
    "one in ten",
    "line by number",
    "record by id",
    "5 of a host",
    "no match",
    "whole scan",
];

fn main() -> io::Result<()> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|text| !text.starts_with("--")).collect();
    let number = |text: &String| text.parse::<u64>().expect("RECORDS is a number");
    match arguments.as_slice() {
        // `cargo bench` without arguments runs every bench: then there is nothing to read.
        [] => Ok(()),
        [dir, records, question] => ask(Path::new(dir), number(records), question),
        [dir, records @ ..] => compare(Path::new(dir), records.first().map_or(RECORDS, number)),
    }
}

/// Makes the log; a few records in the middle are of a host that no other is of.
fn make(dir: &Path, records: u64) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    let mut head = Head::genesis();
    while head.seq < records {
        let first = head.seq + 1;
        let active = dir.join(FILE_NAME);
        let mut file = BufWriter::new(File::create(&active)?);
        let (mut lines, mut bytes) = (Vec::new(), 0);
        while head.seq < records && bytes < SEGMENT_BYTES {
            let mut record = record(head.seq);
            if (records / 2..records / 2 + RARE).contains(&head.seq) {
                record.origin = "https://rare.example.net".into();
            }
            lines.clear();
            head.push(Content::Record(Box::new(record)), &mut lines);
            file.write_all(&lines)?;
            bytes += lines.len();
        }
        file.flush()?;
        if head.seq < records {
            let closed = dir.join(segment::closed_name(first));
            fs::rename(active, &closed)?;
            compress(&closed, &closed.with_added_extension("gz"), MEMBER_BYTES, &|| false)?;
            fs::remove_file(closed)?;
        }
    }
    Ok(())
}

fn compare(dir: &Path, records: u64) -> io::Result<()> {
    if !dir.join(FILE_NAME).exists() {
        make(dir, records)?;
    }
    let files: Vec<PathBuf> = segment::files(dir)?.into_iter().map(|(path, _)| path).collect();
    let size = |end: &str| -> io::Result<u64> {
        let entries = fs::read_dir(dir)?.map(|entry| entry.map(|entry| entry.path()));
        let paths = entries.collect::<io::Result<Vec<_>>>()?;
        let of_kind = paths.iter().filter(|path| path.to_string_lossy().ends_with(end));
        of_kind.map(|path| Ok(fs::metadata(path)?.len())).sum()
    };
    println!(
        "{records} records in {} segments; compressed {} MiB, summaries {} KiB in all",
        files.len(),
        size(".gz")? >> 20,
        size(".summary")? >> 10
    );
    // Once through, so that all of it is in memory for each; and it is what the whole scan stands beside.
    let mut zcat = f64::MAX;
    println!("question|rows|pages|segments|read KiB|memory KiB|ms");
    for question in QUESTIONS {
        if question == "no match" {
            zcat = seconds(&files)?.min(seconds(&files)?);
        }
        let arguments =
            [dir.as_os_str(), records.to_string().as_ref(), question.as_ref()].map(Into::into);
        let arguments: [std::ffi::OsString; 3] = arguments;
        let output = Command::new(std::env::current_exe()?).args(arguments).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        print!("{text}");
        let millis = text.trim().rsplit('|').next().and_then(|text| text.parse::<f64>().ok());
        if matches!(question, "no match" | "whole scan") {
            println!("  to zcat: {:.2}", millis.unwrap_or(f64::MAX) / 1e3 / zcat);
        }
    }
    Ok(())
}

/// That `zcat -f` takes.
fn seconds(files: &[PathBuf]) -> io::Result<f64> {
    let begun = monotonic();
    let mut zcat = Command::new("zcat").arg("-f").args(files).stdout(Stdio::piped()).spawn()?;
    let mut output = zcat.stdout.take().expect("piped");
    let mut buffer = vec![0; 1 << 20];
    while output.read(&mut buffer)? > 0 {}
    zcat.wait()?;
    Ok(begun.elapsed().as_secs_f64())
}

fn ask(dir: &Path, records: u64, question: &str) -> io::Result<()> {
    let log = Log::Dir(dir.to_owned());
    let middle = records / 2;
    let filter = match question {
        "one in ten" => Filter { reasons: vec!["robots_unreachable".into()], ..Filter::default() },
        "record by id" => Filter { ids: vec![format!("01K{:023}", middle)], ..Filter::default() },
        "5 of a host" => {
            let place = Place::parse("rare.example.net").expect("a host");
            Filter { origins: vec![place], ..Filter::default() }
        }
        "no match" | "whole scan" => {
            Filter { urls: vec![Glob::new("*/nothing-of-that*")], ..Filter::default() }
        }
        _ => Filter::default(),
    };
    let (read, held, begun) = (read_bytes()?, memory("VmRSS:")?, monotonic());
    let (mut rows, mut pages, mut segments) = (0, 0, 0);
    match question {
        "nothing" => {}
        "record by id" => {
            let (needs, compiled) = (&filter.needs(), CompiledFilter::new(filter));
            let found = one(&log, None, needs, |line| compiled.admits(line));
            rows = usize::from(found.map_err(io::Error::other)?.is_some());
        }
        "line by number" => {
            let found = LineInPlace::find(&log, middle).map_err(io::Error::other)?;
            rows = usize::from(found.is_some());
        }
        "whole scan" => {
            let compiled = CompiledFilter::new(filter);
            let mut scan = Scan::new(log).map_err(io::Error::other)?;
            while let Some(item) = scan.next().map_err(io::Error::other)? {
                if let ScanItem::Lines(block) = item {
                    rows += block.lines().filter(|line| compiled.admits(line.bytes)).count();
                }
            }
        }
        _ => {
            let needs: &Needs = &filter.needs();
            let compiled = CompiledFilter::new(filter);
            let mut before = None;
            loop {
                let request = PageRequest {
                    before,
                    after: 0,
                    limit: ROWS,
                    bytes_max: PAGE_BYTES_MAX,
                    needs,
                    summarised_only: false,
                };
                let found = page(log.clone(), request, |line| compiled.admits(line));
                let found = found.map_err(io::Error::other)?;
                (rows, pages, segments) =
                    (rows + found.lines.len(), pages + 1, segments + found.segments);
                before = found.older;
                if before.is_none() || !found.lines.is_empty() {
                    break;
                }
            }
        }
    }
    let millis = begun.elapsed().as_secs_f64() * 1e3;
    let (read, held) = (read_bytes()? - read, memory("VmHWM:")?.saturating_sub(held));
    println!("{question}|{rows}|{pages}|{segments}|{}|{held}|{millis:.0}", read >> 10);
    Ok(())
}

/// Bytes that this process has read from files, by the system's count.
fn read_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/io")?;
    let value = text.lines().find_map(|line| line.strip_prefix("rchar: "));
    Ok(value.and_then(|text| text.parse().ok()).unwrap_or_default())
}

/// KiB of memory that this process holds, or has held at most.
fn memory(name: &str) -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/status")?;
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let number = value.and_then(|text| text.split_whitespace().next());
    Ok(number.and_then(|text| text.parse().ok()).unwrap_or_default())
}
