//! Runs queries concurrently and prints their results in order: a bounded number is in flight, and
//! with none free it waits for the first of them.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, TryRecvError};

/// Results in flight. Most wait for robots.txt files of different origins.
const IN_FLIGHT_MAX: usize = 64;

/// The text to print, and a note for the caller.
pub struct Rendered<T> {
    pub text: String,
    pub note: T,
}

/// A result in its place of the output.
pub enum Slot<T> {
    Ready(Rendered<T>),
    Pending(Receiver<Rendered<T>>),
}

/// Prints results in the order of their questions, whatever order they come in.
pub struct OrderedOutput<W, T> {
    slots: VecDeque<Slot<T>>,
    out: W,
    notes: Vec<T>,
}

impl<W: Write, T: PartialEq> OrderedOutput<W, T> {
    /// Prints to `out`; nothing is waited for yet.
    pub fn new(out: W) -> Self {
        Self { slots: VecDeque::new(), out, notes: Vec::new() }
    }

    /// Text before all results.
    pub fn head(&mut self, text: &str) -> io::Result<()> {
        self.out.write_all(text.as_bytes())
    }

    /// Adds the next one, and prints those that are ready.
    pub fn push(&mut self, slot: Slot<T>) -> io::Result<()> {
        self.slots.push_back(slot);
        while let Some(slot) = self.slots.pop_front() {
            match slot {
                Slot::Ready(result) => self.print(result)?,
                Slot::Pending(receiver) => match receiver.try_recv() {
                    Ok(result) => self.print(result)?,
                    Err(TryRecvError::Empty) if self.slots.len() < IN_FLIGHT_MAX => {
                        self.slots.push_front(Slot::Pending(receiver));
                        return Ok(());
                    }
                    Err(_) => self.wait(&receiver)?,
                },
            }
        }
        Ok(())
    }

    /// Prints all in flight, and flushes the output.
    pub fn settle(&mut self) -> io::Result<()> {
        while let Some(slot) = self.slots.pop_front() {
            match slot {
                Slot::Ready(result) => self.print(result)?,
                Slot::Pending(receiver) => self.wait(&receiver)?,
            }
        }
        self.out.flush()
    }

    /// Every note, once.
    pub fn notes(&self) -> &[T] {
        &self.notes
    }

    fn wait(&mut self, receiver: &Receiver<Rendered<T>>) -> io::Result<()> {
        // A sender dropped without a result has panicked: later results would be printed out of
        // order.
        let result = receiver.recv().map_err(|_| io::Error::other("an answer was lost"))?;
        self.print(result)
    }

    fn print(&mut self, result: Rendered<T>) -> io::Result<()> {
        if !self.notes.contains(&result.note) {
            self.notes.push(result.note);
        }
        self.out.write_all(result.text.as_bytes())
    }
}
