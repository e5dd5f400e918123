//! Writes a log of many denials, for `benches/query.sh`: `cargo bench --bench log -- DIR RECORDS`.
//! The same every time, in closed segments of a million lines as the writer would leave them.

mod records;

use std::fs::{File, create_dir_all, rename};
use std::io::{BufWriter, Write};
use std::path::Path;

use courtesy::audit::{Content, FILE_NAME, Head, segment};
use records::record;

const SEGMENT_LINES: u64 = 1_000_000;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|text| !text.starts_with("--")).collect();
    // `cargo bench` without arguments runs every bench: then there is nothing to write.
    let [dir, records] = arguments.as_slice() else { return Ok(()) };
    let (dir, records) = (Path::new(dir), records.parse().expect("RECORDS is a number"));
    create_dir_all(dir)?;
    let mut head = Head::genesis();
    while head.seq < records {
        let first = head.seq + 1;
        let path = dir.join(FILE_NAME);
        let mut file = BufWriter::new(File::create(&path)?);
        let mut lines = Vec::new();
        while head.seq < records && head.seq < first + SEGMENT_LINES - 1 {
            lines.clear();
            head.push(Content::Record(Box::new(record(head.seq))), &mut lines);
            file.write_all(&lines)?;
        }
        file.flush()?;
        if head.seq < records {
            rename(path, dir.join(segment::closed_name(first)))?;
        }
    }
    Ok(())
}
