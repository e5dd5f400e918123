//! Types of the settings of the program's own log that are one word out of a few.

use crate::types::words::words;

words! {
    /// The format of log lines on standard error.
    pub enum LogFormat {
        Text = "text",
        Json = "json",
    }

    /// The least important lines that are logged.
    pub enum LogLevel {
        Error = "error",
        Warn = "warn",
        Info = "info",
        /// As `info`, and a line for each request.
        Access = "access",
        Debug = "debug",
        Trace = "trace",
    }
}
