//! PHP, which takes what it needs from a directory of settings that `courtesy run` adds to its own.

use crate::clients::support::{Run, Site, apt, program};

/// As it would be without that directory.
const WITHOUT: &str = "env -u PHP_INI_SCAN_DIR php";

/// file_get_contents and every other stream that is opened without a context of its own.
#[test]
#[ignore = "nightly"]
fn php_streams() {
    apt("php", "php-cli");
    let site = Site::start();
    let run = Run::of(&site);
    // It calls itself nothing.
    run.four_by(
        run.client(["php".to_owned(), program("streams.php")].into_iter().chain(site.four())),
        "",
    );
    run.assert_refuses(&format!("php -d openssl.cafile= {}", program("streams.php")));
}

#[test]
#[ignore = "nightly"]
fn php_curl() {
    apt("php", "php-cli");
    let site = Site::start();
    let run = Run::of(&site);
    run.four_by(
        run.client(["php".to_owned(), program("curl.php")].into_iter().chain(site.four())),
        "php-test",
    );
    run.assert_refuses(&format!("{WITHOUT} {}", program("curl.php")));
}
