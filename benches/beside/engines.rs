//! Each engine by the two things that all of them do: read a file, and decide on a path.

use std::any::Any;
use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};

use courtesy::robots::{Dialect, RobotsTxt, Verdict};
use robotstxt::{DefaultMatcher, RobotsParseHandler, parse_robotstxt};

/// Which engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// With the crawler's group found for each decision.
    Courtesy,
    /// With the group found beforehand, as those have it that keep a file for one crawler.
    CourtesyOfGroup,
    Robotxt,
    TextingRobots,
    Robotstxt,
}

pub const ENGINES: [Engine; 5] = [
    Engine::Courtesy,
    Engine::CourtesyOfGroup,
    Engine::Robotxt,
    Engine::TextingRobots,
    Engine::Robotstxt,
];

/// Those that read a file in a way of their own.
pub const READERS: [Engine; 4] =
    [Engine::Courtesy, Engine::Robotxt, Engine::TextingRobots, Engine::Robotstxt];

/// Decides on a path so many times: whether it is allowed. The repetition is in here, so that no
/// indirect call is timed.
pub type Decide<'a> = Box<dyn Fn(&str, u32) -> bool + 'a>;

impl Engine {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Courtesy => "courtesy",
            Self::CourtesyOfGroup => "of its group",
            Self::Robotxt => "robotxt",
            Self::TextingRobots => "texting_robots",
            Self::Robotstxt => "robotstxt",
        }
    }

    /// Whether the engine can read the file at all: `texting_robots` gives up on some, and `robotstxt`
    /// panics where its longest line would end within a character.
    pub fn takes(self, text: &str, token: &str) -> bool {
        match self {
            Self::Courtesy | Self::CourtesyOfGroup | Self::Robotxt => true,
            Self::TextingRobots => texting_robots::Robot::new(token, text.as_bytes()).is_ok(),
            Self::Robotstxt => quietly(|| self.parses(text, token)).is_ok(),
        }
    }

    /// What the engine keeps of a file that it takes, for decisions about one crawler.
    pub fn keep<'a>(self, text: &'a str, token: &'a str) -> Decide<'a> {
        match self {
            Self::Courtesy => {
                let robots = RobotsTxt::parse(text.as_bytes(), &dialect());
                repeated(move |path| {
                    robots.decide(Some(black_box(token)), path.as_bytes()).verdict == Verdict::Allow
                })
            }
            Self::CourtesyOfGroup => {
                let robots = RobotsTxt::parse(text.as_bytes(), &dialect());
                Box::new(move |path, times| {
                    let group = black_box(robots.group(Some(token)));
                    let decide = |path: &str| robots.decide_in(group, path.as_bytes()).verdict;
                    repeat(path, times, |path| decide(path) == Verdict::Allow)
                })
            }
            Self::Robotxt => {
                let robots = robotxt::Robots::parse(text.as_bytes(), token);
                repeated(move |path| robots.is_allowed(path))
            }
            Self::TextingRobots => {
                let robot =
                    texting_robots::Robot::new(token, text.as_bytes()).expect("it takes the file");
                repeated(move |path| robot.allowed(path))
            }
            Self::Robotstxt => repeated(move |path| {
                DefaultMatcher::default().one_agent_allowed_by_robots(text, token, path)
            }),
        }
    }

    /// Reads a file; the answer is only there so that the work cannot be left out.
    pub fn parses(self, text: &str, token: &str) -> bool {
        match self {
            Self::Courtesy | Self::CourtesyOfGroup => {
                RobotsTxt::parse(text.as_bytes(), &dialect()).rule_count() > 0
            }
            Self::Robotxt => !robotxt::Robots::parse(text.as_bytes(), token).rules().is_empty(),
            Self::TextingRobots => texting_robots::Robot::new(token, text.as_bytes()).is_ok(),
            Self::Robotstxt => {
                let mut lines = Lines(0);
                parse_robotstxt(text, &mut lines);
                lines.0 > 0
            }
        }
    }
}

/// What `work` gives, and nothing on the terminal where it panics.
fn quietly<T>(work: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    let usual = take_hook();
    set_hook(Box::new(|_| {}));
    let done = catch_unwind(AssertUnwindSafe(work));
    set_hook(usual);
    done
}

fn repeated<'a>(decide: impl Fn(&str) -> bool + 'a) -> Decide<'a> {
    Box::new(move |path, times| repeat(path, times, &decide))
}

fn repeat(path: &str, times: u32, decide: impl Fn(&str) -> bool) -> bool {
    (0..times).fold(false, |_, _| black_box(decide(black_box(path))))
}

/// As the product reads a file, but to its end however large, for two of the others have no limit.
fn dialect() -> Dialect {
    Dialect { size_limit: usize::MAX, ..Dialect::RFC9309 }
}

/// Counts the records that `robotstxt` finds.
struct Lines(usize);

impl RobotsParseHandler for Lines {
    fn handle_robots_start(&mut self) {}
    fn handle_robots_end(&mut self) {}
    fn handle_user_agent(&mut self, _: u32, _: &str) {
        self.0 += 1;
    }
    fn handle_allow(&mut self, _: u32, _: &str) {
        self.0 += 1;
    }
    fn handle_disallow(&mut self, _: u32, _: &str) {
        self.0 += 1;
    }
    fn handle_sitemap(&mut self, _: u32, _: &str) {
        self.0 += 1;
    }
    fn handle_unknown_action(&mut self, _: u32, _: &str, _: &str) {
        self.0 += 1;
    }
}
