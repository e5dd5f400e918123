//! Files and paths made so that a decision takes long: as many rules as a robots.txt has room for, each with as
//! much of the longest path to pass over as can be had. None has a rule that matches.

/// Bytes of a file that are read (RFC 9309 §2.5).
const FILE_BYTES: usize = 500 * 1024;
/// Bytes of a path that a request head has room for.
const PATH_BYTES: usize = 60 * 1024;

/// A robots.txt for everybody, and the path that makes it dear.
pub struct Shape {
    pub name: &'static str,
    pub file: String,
    pub path: String,
}

/// Words over two letters that look random and are always the same.
struct Words(u64);

impl Words {
    fn next(&mut self, length: usize) -> String {
        let letter = |_| {
            // Knuth's multiplier: the high bits are what counts.
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            if self.0 >> 63 == 0 { 'a' } else { 'b' }
        };
        (0..length).map(letter).collect()
    }
}

/// All of them.
pub fn shapes() -> Vec<Shape> {
    let mut shapes = searches();
    shapes.extend(orders());
    shapes.extend(forms());
    shapes.extend(prefixes());
    shapes
}

/// Literals that are nearly there, everywhere.
fn searches() -> Vec<Shape> {
    let ab = || path("ab");
    let mut words = Words(1);
    let random = words.next(PATH_BYTES);
    vec![
        one("abab, random, aa", |_, words| format!("*{}{}aa", "ab".repeat(6), words.next(8)), ab()),
        one("short words", |_, words| format!("*{}aa", words.next(6)), ab()),
        one("words of 64", |_, words| format!("*{}{}aa", "ab".repeat(27), words.next(8)), ab()),
        one("words of 1,000", |_, words| format!("*{}{}aa", "ab".repeat(495), words.next(8)), ab()),
        one(
            "words of 8,000, the last byte wrong",
            |_, _| format!("*{}aa", "ab".repeat(4_000)),
            ab(),
        ),
        one(
            "the first byte wrong",
            |_, words| format!("*aa{}{}", words.next(8), "ab".repeat(8)),
            ab(),
        ),
        one(
            "random words in a random path",
            |_, words| format!("*{}", words.next(40)),
            rooted(&random),
        ),
        one(
            "random words, anchored",
            |_, words| format!("*{}ab$", words.next(12)),
            rooted(&(random + "bbbbbbbb")),
        ),
        one("each ends with another", |n, _| format!("*b{}", "a".repeat(n % 900 + 2)), path("ab")),
        one(
            "runs that end too soon",
            |n, _| format!("*{}", "a".repeat(n % 900 + 100)),
            path(&("a".repeat(99) + "b")),
        ),
    ]
}

/// Literals that are all there, in another order.
fn orders() -> Vec<Shape> {
    let ab = || path("ab");
    let halves = || rooted(&("b".repeat(PATH_BYTES / 2) + &"a".repeat(PATH_BYTES / 2)));
    vec![
        one(
            "a short word first",
            |_, words| format!("*a*{}{}aa", "ab".repeat(4), words.next(8)),
            ab(),
        ),
        one(
            "the second word first",
            |n, _| format!("*{}*{}", "a".repeat(n % 40 + 1), "b".repeat(n % 37 + 1)),
            halves(),
        ),
        one(
            "the last word twice",
            |n, _| format!("*b{}*{}b", "a".repeat(n % 40 + 1), "a".repeat(n % 37 + 1)),
            halves(),
        ),
        one("a word a star", |n, _| format!("/{}b{n}", "*a*b".repeat(200)), ab()),
        one("stars without end", |_, _| format!("/{}bb", "*ab".repeat(2_000)), ab()),
        one("the end is another", |n, _| format!("*ab*{}aa$", "ba".repeat(n % 9)), ab()),
        one(
            "one short word for all",
            |_, words| format!("*a*b*{}{}aa", "ab".repeat(3), words.next(8)),
            ab(),
        ),
    ]
}

/// Paths and rules of two forms, and in many groups.
fn forms() -> Vec<Shape> {
    let file = |rule: fn(usize, &mut Words) -> String| {
        filled(|n, words| format!("user-agent: *\ndisallow: {}\n", rule(n, words)))
    };
    vec![
        one(
            "encoded slashes",
            |_, words| format!("*%2F{}%2F{}aa", "ab".repeat(4), words.next(8)),
            path("%2Fab"),
        ),
        one(
            "in the query",
            |_, words| format!("*?*%2F{}{}aa", "ab".repeat(4), words.next(8)),
            rooted(&("?".to_owned() + &"/ab".repeat(PATH_BYTES / 3))),
        ),
        one(
            "bytes beyond ASCII",
            |_, words| format!("*%C3%A9{}aa", words.next(8).replace('b', "%C3%A9")),
            path("%C3%A9a"),
        ),
        one(
            "a path that is all encoded",
            |_, words| format!("*{}{}aa", "ab".repeat(4), words.next(8)),
            path("%61%62"),
        ),
        Shape {
            name: "a group for each rule",
            file: file(|_, words| format!("*{}{}aa", "ab".repeat(4), words.next(8))),
            path: path("ab"),
        },
    ]
}

/// Rules that begin as the path does.
fn prefixes() -> Vec<Shape> {
    vec![
        one(
            "behind a long beginning",
            |_, words| format!("/{}*{}aa", "ab".repeat(100), words.next(8)),
            path("ab"),
        ),
        one(
            "beginnings of one another",
            |n, _| format!("/{}c", "a".repeat(n % 900)),
            path(&("a".repeat(899) + "b")),
        ),
        one(
            "dot segments",
            |_, words| format!("*{}/{}aa", "ab".repeat(4), words.next(8)),
            path("ab/./"),
        ),
    ]
}

fn one(name: &'static str, rule: impl Fn(usize, &mut Words) -> String, path: String) -> Shape {
    let rules = filled(|n, words| format!("disallow: {}\n", rule(n, words)));
    Shape { name, file: format!("user-agent: *\n{rules}"), path }
}

/// As many as there is room for.
fn filled(piece: impl Fn(usize, &mut Words) -> String) -> String {
    let (mut file, mut words) = (String::new(), Words(7));
    for n in 0.. {
        let piece = piece(n, &mut words);
        if file.len() + piece.len() > FILE_BYTES - 14 {
            break;
        }
        file += &piece;
    }
    file
}

fn path(piece: &str) -> String {
    rooted(&piece.repeat(PATH_BYTES / piece.len()))
}

fn rooted(path: &str) -> String {
    format!("/{path}")
}
