//! How parents are used: where names are resolved, and how `http://` origins are asked for.

use crate::types::words::words;

words! {
    /// Where the names of origins are resolved when a parent makes the connection.
    #[derive(Default)]
    pub enum ParentResolve {
        /// Here, and the addresses are judged; the parent is given the name and resolves it again.
        #[default]
        Check = "check",
        /// Here, and the parent is given the address that was judged.
        Pin = "pin",
        /// By the parent alone: only addresses that a client names are judged.
        Parent = "parent",
    }
}

words! {
    /// How `http://` origins are reached by a parent that speaks HTTP.
    #[derive(Default)]
    pub enum ParentHttp {
        /// By CONNECT, as `https://` origins are: the parent's answers stay apart from the
        /// origin's.
        #[default]
        Connect = "connect",
        /// By requests in absolute-form (RFC 9112 §3.2.2), which the parent forwards.
        Absolute = "absolute",
    }
}
