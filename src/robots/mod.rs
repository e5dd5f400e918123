//! Placeholder for the parser that is being written beside this branch.

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Dialect(u8);

impl Dialect {
    pub const RFC9309: Self = Self(0);
    pub const GOOGLE: Self = Self(1);
    pub const GOOGLE_2019: Self = Self(2);
    pub const DRAFT_REP_00: Self = Self(3);
    pub const KOSTER_1996: Self = Self(4);
}

#[derive(Debug)]
pub struct RobotsTxt(usize);

impl RobotsTxt {
    pub fn parse(body: &[u8], _dialect: &Dialect) -> Self {
        Self(body.len())
    }

    pub fn weight(&self) -> usize {
        self.0
    }
}
