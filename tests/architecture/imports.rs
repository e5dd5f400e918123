//! Which file of the library names what stands in which other: `use`, and paths in code. A name is
//! followed through re-exports to the file that defines it, so that a `mod.rs` which only re-exports
//! stands in nobody's way.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::source::{Token, tokens};

/// How many re-exports a name may pass through.
const DEPTH_MAX: usize = 12;

/// All modules of the library but those of its tests.
pub struct Library {
    modules: Vec<Module>,
}

/// One file.
#[derive(Debug, Default)]
struct Module {
    /// The path within `src`.
    file: String,
    parent: usize,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// Paths in its code, as they are written.
    paths: Vec<Named>,
}

#[derive(Debug)]
struct Import {
    path: Vec<String>,
    /// The name that it has here; none for all names of a module (`*`).
    name: Option<String>,
    is_public: bool,
    line: usize,
}

#[derive(Debug)]
struct Named {
    path: Vec<String>,
    line: usize,
}

/// A file names what another defines.
#[derive(Clone, Debug)]
pub struct Edge {
    pub from: String,
    pub to: String,
    pub line: usize,
    pub name: String,
}

#[derive(Clone, Copy)]
enum Target {
    Module(usize),
    /// An item that this module defines.
    Item(usize),
}

impl Library {
    pub fn read(src: &Path) -> Self {
        let mut library = Self { modules: Vec::new() };
        library.add(src, "lib.rs".to_owned(), src, 0);
        library
    }

    /// Every time that one file names what stands in another.
    pub fn edges(&self) -> Vec<Edge> {
        (0..self.modules.len()).flat_map(|module| self.edges_from(module)).collect()
    }

    /// Adds a file and those of its `mod name;`, which stand in `dir`.
    fn add(&mut self, src: &Path, file: String, dir: &Path, parent: usize) -> usize {
        let text =
            fs::read_to_string(src.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let number = self.modules.len();
        let (module, children) = Module::read(&tokens(&text), file, parent);
        self.modules.push(module);
        for name in children {
            let flat = dir.join(format!("{name}.rs"));
            let path = if flat.exists() { flat } else { dir.join(&name).join("mod.rs") };
            let file = path.strip_prefix(src).expect("below src").to_string_lossy().into_owned();
            let child = self.add(src, file, &dir.join(&name), number);
            self.modules[number].children.insert(name, child);
        }
        number
    }

    fn edges_from(&self, from: usize) -> Vec<Edge> {
        let module = &self.modules[from];
        // What is made public again is not used by that; a module that is named is not used by that.
        let imported =
            module.imports.iter().filter(|import| !import.is_public && import.name.is_some());
        let imported = imported.map(|import| (&import.path, import.line));
        let named = module.paths.iter().map(|named| (&named.path, named.line));
        let mut edges = Vec::new();
        for (path, line) in imported.chain(named) {
            if let Some(Target::Item(to)) = self.resolve(from, path, 0)
                && to != from
            {
                let to = self.modules[to].file.clone();
                edges.push(Edge { from: module.file.clone(), to, line, name: path.join("::") });
            }
        }
        edges
    }

    fn resolve(&self, from: usize, path: &[String], depth: usize) -> Option<Target> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.within(0, rest, depth),
            "self" => self.within(from, rest, depth),
            "super" => self.beginning_with_super(self.modules[from].parent, rest, depth),
            _ => self.within(from, path, depth),
        }
    }

    fn beginning_with_super(&self, from: usize, path: &[String], depth: usize) -> Option<Target> {
        match path.split_first() {
            Some((first, rest)) if first == "super" => {
                self.beginning_with_super(self.modules[from].parent, rest, depth)
            }
            _ => self.within(from, path, depth),
        }
    }

    /// What a path means that begins with a name of this module.
    fn within(&self, number: usize, path: &[String], depth: usize) -> Option<Target> {
        if depth > DEPTH_MAX {
            return None;
        }
        let Some((first, rest)) = path.split_first() else { return Some(Target::Module(number)) };
        let module = &self.modules[number];
        let child = module.children.get(first);
        if let Some(child) = child.filter(|_| !rest.is_empty()) {
            return self.within(*child, rest, depth + 1);
        }
        if module.items.contains(first) {
            return Some(Target::Item(number));
        }
        for import in &module.imports {
            if import.name.as_ref() == Some(first) && import.path.first() != Some(first) {
                let path: Vec<String> = import.path.iter().chain(rest).cloned().collect();
                return self.resolve(number, &path, depth + 1);
            }
        }
        if let Some(child) = child {
            return Some(Target::Module(*child));
        }
        module.imports.iter().filter(|import| import.name.is_none()).find_map(|import| {
            match self.resolve(number, &import.path, depth + 1)? {
                // Its private names are not for others; no two have a private and a public name alike.
                Target::Module(all) if all != number => self.within(all, path, depth + 4),
                _ => None,
            }
        })
    }
}

impl Module {
    /// A module with the names of its child modules.
    fn read(tokens: &[Token], file: String, parent: usize) -> (Self, Vec<String>) {
        let mut module = Self { file, parent, ..Self::default() };
        let (mut children, mut code) = (Vec::new(), Vec::new());
        let (mut depth, mut item_depth) = (0_usize, 0_usize);
        let mut at = 0;
        while at < tokens.len() {
            let token = &tokens[at];
            let next =
                |ahead: usize| tokens.get(at + ahead).map_or("", |token| token.text.as_str());
            match token.text.as_str() {
                "use" if next(1) != "<" => {
                    let end =
                        at + tokens[at..].iter().position(|token| token.is(";")).expect("its end");
                    let is_public = is_public(&tokens[..at]);
                    let mut tree = Tree { tokens: &tokens[at + 1..end], at: 0, is_public };
                    tree.read(&[], &mut module.imports);
                    at = end + 1;
                    continue;
                }
                "mod" if depth == 0 && next(2) == ";" => children.push(next(1).to_owned()),
                "macro_rules" if depth == 0 => {
                    module.items.insert(next(2).to_owned());
                }
                "struct" | "enum" | "union" | "trait" | "type" | "fn" | "const" | "static"
                    if depth == item_depth
                        && next(1).starts_with(|char: char| char.is_alphabetic()) =>
                {
                    module.items.insert(next(1).to_owned());
                }
                // The items that a macro makes of what it is given.
                "!" if depth == 0 && next(1) == "{" => item_depth = 1,
                "{" | "(" | "[" => depth += 1,
                "}" | ")" | "]" => {
                    depth = depth.saturating_sub(1);
                    item_depth = if depth == 0 { 0 } else { item_depth };
                }
                _ => {}
            }
            code.push(token);
            at += 1;
        }
        module.paths = paths(&code);
        (module, children)
    }
}

/// Whether what comes before is `pub` or `pub(…)`.
fn is_public(before: &[Token]) -> bool {
    match before {
        [.., last] if last.is("pub") => true,
        [rest @ .., last] if last.is(")") => {
            let open = rest.iter().rposition(|token| token.is("("));
            open.is_some_and(|open| open > 0 && rest[open - 1].is("pub"))
        }
        _ => false,
    }
}

/// The paths in code: those of several names, and single names that are types or called.
fn paths(code: &[&Token]) -> Vec<Named> {
    let is_separator = |at: usize| code[at..].len() > 1 && code[at].is(":") && code[at + 1].is(":");
    let mut paths = Vec::new();
    let mut at = 0;
    while at < code.len() {
        let begin = at;
        at += 1;
        let is_part =
            begin > 0 && (code[begin - 1].is(".") || begin > 1 && is_separator(begin - 2));
        if !code[begin].is_word() || is_part {
            continue;
        }
        let mut path = vec![code[begin].text.clone()];
        while is_separator(at) && code.get(at + 2).is_some_and(|token| token.is_word()) {
            path.push(code[at + 2].text.clone());
            at += 3;
        }
        let is_called = code.get(at).is_some_and(|token| token.is("(") || token.is("!"));
        if path.len() > 1 || is_called || path[0].starts_with(char::is_uppercase) {
            paths.push(Named { path, line: code[begin].line });
        }
    }
    paths
}

/// What stands between `use` and its semicolon.
struct Tree<'a> {
    tokens: &'a [Token],
    at: usize,
    is_public: bool,
}

impl Tree<'_> {
    /// One branch, below `prefix`.
    fn read(&mut self, prefix: &[String], imports: &mut Vec<Import>) {
        let mut path = prefix.to_vec();
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        while let Some(token) = self.tokens.get(self.at) {
            match token.text.as_str() {
                ":" => self.at += 1,
                "*" => {
                    self.at += 1;
                    imports.push(Import { path, name: None, is_public: self.is_public, line });
                    return;
                }
                "{" => {
                    self.at += 1;
                    while !self.tokens[self.at].is("}") {
                        self.read(&path, imports);
                        if self.tokens[self.at].is(",") {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                "as" => {
                    let name = self.tokens[self.at + 1].text.clone();
                    self.at += 2;
                    return self.push(path, Some(name), line, imports);
                }
                "," | "}" => break,
                _ => {
                    path.push(token.text.clone());
                    self.at += 1;
                }
            }
        }
        self.push(path, None, line, imports);
    }

    fn push(
        &self,
        mut path: Vec<String>,
        name: Option<String>,
        line: usize,
        imports: &mut Vec<Import>,
    ) {
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let name = name.or_else(|| path.last().cloned());
        imports.push(Import { path, name, is_public: self.is_public, line });
    }
}
