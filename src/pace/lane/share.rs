//! This proxy's part of the pace of an origin that several proxies request.

/// This proxy's part of the pace of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// So many times as long are the delays: while the engine is away, each of the proxies takes its
    /// part of the pace.
    pub delays: u32,
    /// So many proxies are at the origin: each has its part of the places, and they take turns.
    pub here: u32,
}

impl Share {
    /// Of one proxy alone.
    pub const ALONE: Self = Self { delays: 1, here: 1 };
}
