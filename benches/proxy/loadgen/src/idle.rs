//! Connections that have been used once and then do nothing, for the memory that they cost.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::args::Idle;
use crate::connection::Connection;
use crate::driver::{Client, Driver, runtime};
use crate::response::Response;

pub fn hold(idle: Idle) -> Result<(), String> {
    let driver = Rc::new(Driver::new(idle.asking.clone())?);
    let held = Rc::new(RefCell::new(Vec::new()));
    let left = Rc::new(Cell::new(idle.asking.connections));
    let openers = LocalSet::new();
    for _ in 0..idle.opening {
        openers.spawn_local(open(Rc::clone(&driver), Rc::clone(&held), Rc::clone(&left)));
    }
    let runtime = runtime();
    runtime.block_on(openers);
    report(&driver, &held.borrow());
    runtime.block_on(async {
        let mut rest = Vec::new();
        // Whoever measures closes it; if it fails, there is nobody to wait for either.
        let _ = timeout(idle.duration, tokio::io::stdin().read_to_end(&mut rest)).await;
    });
    report(&driver, &held.borrow());
    // Not by way of destructors: the read of standard input may still be under way.
    std::process::exit(0);
}

async fn open(driver: Rc<Driver>, held: Rc<RefCell<Vec<Connection>>>, left: Rc<Cell<usize>>) {
    let mut response = Response::new();
    while left.get() > 0 {
        left.set(left.get() - 1);
        let mut client = Client::default();
        match driver.one(&mut client, &mut response).await {
            Ok(()) => held.borrow_mut().extend(client.connection),
            Err(failure) => driver.tally.borrow_mut().failed(failure),
        }
    }
}

fn report(driver: &Driver, held: &[Connection]) {
    let mut json = driver.tally.borrow().json();
    let alive = held.iter().filter(|connection| !connection.is_closed()).count();
    json.insert("alive".to_owned(), json!(alive));
    println!("{}", Value::Object(json));
}
