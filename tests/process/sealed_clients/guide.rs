//! The column "sealed" of the table in `docs/guide/clients.md` is what these tests show.

use std::collections::BTreeMap;

use super::table::{BROWSERS, COMPILED, NODE, PYTHON, SCRIPTS, TERMINAL};
use crate::clients::table::rows;

#[test]
fn the_guide_says_what_each_client_gets_in_a_sealed_run() {
    let groups = [TERMINAL, PYTHON, NODE, SCRIPTS, COMPILED].concat();
    let shown = groups.iter().filter(|client| !client.row.starts_with('+'));
    let shown = shown.map(|client| (client.row, client.in_the_guide()));
    let browsers = BROWSERS.iter().map(|browser| (browser.row, "yes, with that trust"));
    let shown: BTreeMap<_, _> = shown.chain(browsers).collect();
    let written: BTreeMap<_, _> = rows().iter().map(|row| (row[0], row[3])).collect();
    assert_eq!(written, shown);
}
