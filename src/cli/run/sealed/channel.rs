//! The socket between the proxy's process and the one that seals itself and becomes the command:
//! texts with their length before them, and descriptors (`SCM_RIGHTS`, unix(7)).

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use super::mounts::Mount;
use crate::cli::exit::{Exit, Failure, OrExit};

/// Bytes of a text: variables and mounts of a command, of which the system takes 2 MiB at the most
/// (execve(2)).
const TEXT_BYTES_MAX: u32 = 8 << 20;

/// Descriptors of one message (`SCM_MAX_FD`, unix(7)).
pub const DESCRIPTORS_MAX: usize = 253;

/// One end of the socket.
#[derive(Debug)]
pub struct Channel(pub UnixStream);

impl Channel {
    /// Sends a text.
    pub fn send(&mut self, text: &str) -> io::Result<()> {
        let length = u32::try_from(text.len()).map_err(io::Error::other)?;
        self.0.write_all(&length.to_be_bytes())?;
        self.0.write_all(text.as_bytes())
    }

    /// Receives a text; `None`: the other end has been closed.
    pub fn receive(&mut self) -> io::Result<Option<String>> {
        let mut length = [0; 4];
        match self.0.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let length = u32::from_be_bytes(length);
        if length > TEXT_BYTES_MAX {
            return Err(io::Error::other("the text is too long"));
        }
        let mut text = vec![0; length as usize];
        self.0.read_exact(&mut text)?;
        String::from_utf8(text).map(Some).map_err(io::Error::other)
    }

    /// Sends descriptors, at most [`DESCRIPTORS_MAX`].
    pub fn send_descriptors(&self, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(io::Error::other("too many descriptors"));
        }
        sendmsg(&self.0, &[IoSlice::new(b"d")], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Receives descriptors; they are closed on exec.
    pub fn receive_descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let flags = RecvFlags::CMSG_CLOEXEC;
        recvmsg(&self.0, &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
        let mut received = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                received.extend(descriptors);
            }
        }
        Ok(received)
    }
}

/// What the proxy sends when it serves: the command may begin.
#[derive(Debug, Serialize, Deserialize)]
pub struct Release {
    pub variables: Vec<(String, String)>,
    pub mounts: Vec<Mount>,
}

/// The letters of the sockets that follow, or why there are none.
#[derive(Debug, Serialize, Deserialize)]
pub enum Sealing {
    Done(String),
    Refused(Refusal),
}

/// A step that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub step: String,
    pub kind: RefusalKind,
}

/// What the system refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefusalKind {
    Namespaces,
    /// The namespace of processes alone: it can be left out.
    Processes,
    Sockets,
}

/// Why the command has not been executed: a number of errno(3), and words.
#[derive(Debug, Serialize, Deserialize)]
pub struct NotExecuted {
    pub number: Option<i32>,
    pub words: String,
}

/// Tells the proxy what was refused.
pub fn send_refusal(channel: &mut Channel, refusal: Refusal) -> Result<Exit, Failure> {
    channel.send(&message_json(&Sealing::Refused(refusal))?)?;
    Ok(Exit::Unavailable)
}

/// A value as a text of the channel.
pub fn message_json(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).or_exit(Exit::Unavailable)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn texts_and_descriptors_arrive_in_their_order() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut one, mut other) = (Channel(one), Channel(other));
        one.send("first").unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        one.send_descriptors(&[writer.as_fd(), writer.as_fd()]).unwrap();
        one.send("").unwrap();
        drop((one, writer));
        assert_eq!(other.receive().unwrap().as_deref(), Some("first"));
        let mut received = other.receive_descriptors().unwrap();
        assert_eq!(received.len(), 2);
        let mut pipe = std::fs::File::from(received.remove(0));
        pipe.write_all(b"by a descriptor").unwrap();
        drop((pipe, received));
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "by a descriptor");
        assert_eq!(other.receive().unwrap().as_deref(), Some(""));
        assert_eq!(other.receive().unwrap(), None);
    }
}
