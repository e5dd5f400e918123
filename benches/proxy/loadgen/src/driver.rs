//! The closed loop: each connection asks again as soon as it is answered.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

use crate::args::{Asking, Run};
use crate::connection::{Connection, Dialer, Failure};
use crate::response::Response;
use crate::tally::Tally;
use crate::target::{Target, targets};

/// What all connections share.
pub struct Driver {
    asking: Asking,
    targets: Vec<Target>,
    dialer: Dialer,
    next_target: Cell<usize>,
    next_connection: Cell<u64>,
    pub tally: RefCell<Tally>,
}

/// A client, with its connection while it has one.
#[derive(Default)]
pub struct Client {
    pub connection: Option<Connection>,
    /// The target that the connection belongs to. One to a plain proxy belongs to none.
    bound: Option<usize>,
}

/// When what is measured begins and ends.
#[derive(Clone, Copy)]
struct Window {
    from: Instant,
    until: Instant,
}

pub fn run(run: Run) -> Result<(), String> {
    let driver = Rc::new(Driver::new(run.asking.clone())?);
    let left = Rc::new(Cell::new(run.requests.unwrap_or(u64::MAX)));
    let from = Instant::now() + run.warmup;
    let window = Window { from, until: from + run.duration };
    let clients = LocalSet::new();
    for _ in 0..run.asking.connections {
        let (driver, left) = (Rc::clone(&driver), Rc::clone(&left));
        clients.spawn_local(async move {
            driver.drive(window, &left, run.requests_per_connection).await;
        });
    }
    runtime().block_on(clients);
    // By count it may have ended before its time.
    let seconds = run.duration.min(from.elapsed()).as_secs_f64();
    let mut json = driver.tally.borrow().json();
    let per_second = json["requests"].as_f64().unwrap_or_default() / seconds.max(f64::MIN_POSITIVE);
    json.insert("seconds".to_owned(), json!(seconds));
    json.insert("requests_per_second".to_owned(), json!(per_second));
    println!("{}", Value::Object(json));
    Ok(())
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

impl Driver {
    pub fn new(asking: Asking) -> Result<Self, String> {
        Ok(Self {
            targets: targets(&asking)?,
            dialer: Dialer::new(&asking)?,
            asking,
            next_target: Cell::new(0),
            next_connection: Cell::new(0),
            tally: RefCell::new(Tally::new()),
        })
    }

    async fn drive(&self, window: Window, left: &Cell<u64>, per_connection: Option<u64>) {
        let mut client = Client::default();
        let mut response = Response::new();
        let mut pause = Duration::from_millis(1);
        while left.get() > 0 {
            let sent = Instant::now();
            if sent >= window.until {
                break;
            }
            left.set(left.get() - 1);
            let outcome = self.one(&mut client, &mut response).await;
            let done = Instant::now();
            match outcome {
                Ok(()) => {
                    let inside = (window.from..window.until).contains(&done);
                    let took = inside.then(|| done - sent);
                    self.tally.borrow_mut().answered(response.body, took);
                    pause = Duration::from_millis(1);
                }
                Err(failure) => {
                    self.tally.borrow_mut().failed(failure);
                    // What is broken is not asked as fast as it can refuse.
                    sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(100));
                }
            }
            if client.connection.as_ref().is_some_and(|it| Some(it.used) == per_connection) {
                client.connection = None;
            }
        }
    }

    /// One request, on a connection that is made if there is none.
    pub async fn one(&self, client: &mut Client, response: &mut Response) -> Result<(), Failure> {
        let outcome = timeout(self.asking.timeout, self.ask(client, response)).await;
        let outcome = outcome.unwrap_or(Err(Failure::Timeout));
        if outcome.is_err() || !response.keep_alive {
            client.connection = None;
        }
        outcome?;
        self.tally.borrow_mut().status(response.status);
        if response.status != self.asking.expect_status {
            return Err(Failure::Status);
        }
        match self.asking.expect_bytes {
            Some(length) if length != response.body => Err(Failure::Length),
            _ => Ok(()),
        }
    }

    async fn ask(&self, client: &mut Client, response: &mut Response) -> Result<(), Failure> {
        let number = match client.bound {
            Some(number) if client.connection.is_some() => number,
            _ => self.pick(),
        };
        let target = &self.targets[number];
        let any = self.asking.proxy.is_some() && target.connect.is_none();
        client.bound = (!any).then_some(number);
        if let Some(connection) = &mut client.connection {
            match connection.exchange(target, response).await {
                // It was closed while it was idle: nothing of an answer has come.
                Err(Failure::ClosedEarly | Failure::Io) if !response.started() => {
                    self.tally.borrow_mut().stale();
                }
                outcome => return outcome,
            }
        }
        let connection = client.connection.insert(self.open(target, response).await?);
        connection.exchange(target, response).await
    }

    /// The targets take turns.
    fn pick(&self) -> usize {
        let number = self.next_target.get();
        self.next_target.set((number + 1) % self.targets.len());
        number
    }

    async fn open(&self, target: &Target, response: &mut Response) -> Result<Connection, Failure> {
        let number = self.next_connection.get();
        self.next_connection.set(number + 1);
        let began = Instant::now();
        let connection = self.dialer.open(target, number, response).await?;
        self.tally.borrow_mut().connected(began.elapsed(), connection.resumed);
        Ok(connection)
    }
}
