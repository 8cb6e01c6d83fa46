//! No import cycle spans two folders, and a cycle within a folder has at most two files. Folders are held to more than files: what is below
//! one may import what is below another although no two of their files form a cycle, and the two folders would still be one.
//!
//! Imports are read from the source text: `use` items, and paths in the code that begin with `crate`, `super`, `self` or an imported
//! module. A path resolves to the file that defines the item, through any number of re-exports; a re-export itself is no import. `x.rs`
//! next to a folder `x` belongs to that folder, as `x/mod.rs` does. `#[cfg(test)]` code does not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::common::repository;

/// The path of a module from the crate root.
type Module = Vec<String>;

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    PathSeparator,
    Other(char),
}

impl Token {
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(text) if text == word)
    }

    fn word(&self) -> Option<&str> {
        if let Self::Word(word) = self { Some(word) } else { None }
    }
}

/// The length in characters of a comment, string or character literal at the start of `text`, or 0.
fn passed_over(text: &[char]) -> usize {
    let until = |end: &str, from: usize| {
        let end: Vec<char> = end.chars().collect();
        let at = (from..text.len()).find(|at| text[*at..].starts_with(&end));
        at.map_or(text.len(), |at| at + end.len())
    };
    let prefix = text.iter().take_while(|letter| matches!(letter, 'b' | 'c' | 'r')).count().min(2);
    let hashes = text[prefix..].iter().take_while(|letter| **letter == '#').count();
    let is_raw = text[..prefix].contains(&'r');
    match text {
        ['/', '/', ..] => until("\n", 2),
        ['/', '*', ..] => until("*/", 2),
        ['\'', '\\', _, ..] => until("'", 3),
        ['\'', _, '\'', ..] => 3,
        ['\'', ..] => 1 + text[1..].iter().take_while(|letter| letter.is_alphanumeric() || **letter == '_').count(),
        _ if is_raw && text.get(prefix + hashes) == Some(&'"') => {
            until(&format!("\"{}", "#".repeat(hashes)), prefix + hashes + 1)
        }
        _ if hashes == 0 && text.get(prefix) == Some(&'"') => {
            let mut at = prefix + 1;
            while text.get(at).is_some_and(|letter| *letter != '"') {
                at += 1 + usize::from(text[at] == '\\');
            }
            at + 1
        }
        _ => 0,
    }
}

fn tokens(text: &str) -> Vec<Token> {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut tokens) = (0, Vec::new());
    while at < text.len() {
        let is_part = |letter: &char| letter.is_alphanumeric() || *letter == '_';
        let passed = passed_over(&text[at..]);
        let word: String = text[at..].iter().copied().take_while(is_part).collect();
        if passed > 0 {
            at += passed;
        } else if !word.is_empty() {
            at += word.chars().count();
            tokens.push(Token::Word(word));
        } else if text[at..].starts_with(&[':', ':']) {
            at += 2;
            tokens.push(Token::PathSeparator);
        } else {
            if !text[at].is_whitespace() {
                tokens.push(Token::Other(text[at]));
            }
            at += 1;
        }
    }
    tokens
}

/// The tokens without `#[cfg(test)]` items.
fn without_tests(tokens: &[Token]) -> Vec<Token> {
    let mark = self::tokens("#[cfg(test)]");
    let (mut at, mut kept) = (0, Vec::new());
    while at < tokens.len() {
        if !tokens[at..].starts_with(&mark) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        at += mark.len();
        let is_use = tokens[at..].iter().take(5).any(|token| token.is("use"));
        let mut depth = 0;
        while at < tokens.len() {
            let token = &tokens[at];
            at += 1;
            match token {
                Token::Other('{' | '(' | '[') => depth += 1,
                Token::Other('}' | ')' | ']') => depth -= 1,
                _ => {}
            }
            let ends = *token == Token::Other(';') || (!is_use && *token == Token::Other('}'));
            if ends && depth == 0 {
                break;
            }
        }
    }
    kept
}

/// One name of a `use` item: its path, its name here, and whether it is re-exported.
#[derive(Debug)]
struct Import {
    path: Vec<String>,
    name: String,
    is_handed_on: bool,
}

/// Reads a `use` tree below the prefix `before`. Returns the remaining tokens.
fn read_tree<'t>(mut rest: &'t [Token], before: &[String], found: &mut Vec<(Vec<String>, String)>) -> &'t [Token] {
    let mut path = before.to_vec();
    loop {
        match rest {
            [Token::Other('{'), inner @ ..] => {
                rest = inner;
                while rest[0] != Token::Other('}') {
                    rest = read_tree(rest, &path, found);
                    rest = if rest[0] == Token::Other(',') { &rest[1..] } else { rest };
                }
                return &rest[1..];
            }
            [Token::Other('*'), after @ ..] => {
                path.push("*".to_owned());
                found.push((path, "*".to_owned()));
                return after;
            }
            [Token::Word(last), Token::Word(keyword), Token::Word(alias), after @ ..] if keyword == "as" => {
                path.push(last.clone());
                found.push((path, alias.clone()));
                return after;
            }
            [Token::Word(word), Token::PathSeparator, after @ ..] => {
                path.push(word.clone());
                rest = after;
            }
            [Token::PathSeparator, after @ ..] => rest = after,
            [Token::Word(last), after @ ..] => {
                if last != "self" {
                    path.push(last.clone());
                }
                let name = path.last().cloned().unwrap_or_default();
                found.push((path, name));
                return after;
            }
            _ => panic!("not a `use` item: {:?}", &rest[..rest.len().min(8)]),
        }
    }
}

/// A parsed source file.
#[derive(Debug, Default)]
struct Source {
    imports: Vec<Import>,
    /// Paths of two or more names in its code.
    paths: Vec<Vec<String>>,
    /// Names that it defines.
    items: BTreeSet<String>,
    /// Every word of its code outside `use` items.
    words: BTreeSet<String>,
}

impl Source {
    fn parse(text: &str) -> Self {
        const DEFINES: [&str; 8] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union"];
        let tokens = without_tests(&tokens(text));
        let (mut source, mut rest, mut is_handed_on) = (Self::default(), tokens.as_slice(), false);
        while let [first, after @ ..] = rest {
            if first.is("use") && !matches!(after, [Token::Other('<'), ..]) {
                let mut found = Vec::new();
                rest = read_tree(after, &[], &mut found);
                source.imports.extend(found.into_iter().map(|(path, name)| Import { path, name, is_handed_on }));
                continue;
            }
            is_handed_on = first.is("pub") || (is_handed_on && !matches!(first, Token::Other(';' | '{' | '}' | '=')));
            if let [Token::Word(word), Token::Word(name), ..] = rest
                && DEFINES.contains(&word.as_str())
            {
                source.items.insert(name.clone());
            }
            let mut path: Vec<String> = first.word().map(str::to_owned).into_iter().collect();
            source.words.extend(path.iter().cloned());
            rest = after;
            while let [Token::PathSeparator, Token::Word(next), after @ ..] = rest
                && !path.is_empty()
            {
                path.push(next.clone());
                source.words.insert(next.clone());
                rest = after;
            }
            if path.len() > 1 {
                source.paths.push(path);
            }
        }
        source
    }
}

/// Whether this is the binary of a crate that also has a library. The binary uses it as any other crate would.
fn is_caller_of_library(path: &Path) -> bool {
    path.ends_with("main.rs") && path.with_file_name("lib.rs").exists()
}

/// Groups of two or more that reach each other by arrows, directly or through others.
fn circles(arrows: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<Vec<Module>> {
    let reached = |from: &Module| {
        let (mut reached, mut left) = (BTreeSet::new(), vec![from]);
        while let Some(module) = left.pop() {
            left.extend(arrows[module].iter().filter(|target| reached.insert((*target).clone())));
        }
        reached
    };
    let reached: BTreeMap<&Module, BTreeSet<Module>> = arrows.keys().map(|module| (module, reached(module))).collect();
    let circle = |module: &Module| -> Vec<Module> {
        reached[module].iter().filter(|other| reached[other].contains(module)).cloned().collect()
    };
    arrows.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// The source files of a crate.
#[derive(Debug, Default)]
struct Sources(BTreeMap<Module, Source>);

impl Sources {
    fn read(folder: &Path) -> Self {
        let mut all = Self::default();
        all.read_below(folder, &mut Vec::new());
        assert!(!all.0.is_empty(), "{}", folder.display());
        all
    }

    fn read_below(&mut self, folder: &Path, module: &mut Module) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_stem().expect("a name").to_str().expect("UTF-8").to_owned();
            let is_own = matches!(name.as_str(), "mod" | "lib" | "main");
            if !is_own {
                module.push(name);
            }
            if path.is_dir() {
                self.read_below(&path, module);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_caller_of_library(&path) {
                self.0.insert(module.clone(), Source::parse(&fs::read_to_string(&path).expect("a source")));
            }
            if !is_own {
                module.pop();
            }
        }
    }

    /// The files that define what `path` names, as seen from `from`. None for modules and for other crates.
    fn defining(&self, from: &[String], path: &[String], depth: usize) -> BTreeSet<Module> {
        let (mut module, mut rest) = (from.to_vec(), path);
        while let [first, after @ ..] = rest {
            match first.as_str() {
                "crate" => module.clear(),
                "super" => drop(module.pop()),
                "self" => {}
                _ => break,
            }
            rest = after;
        }
        let is_relative = rest.len() == path.len();
        while let [name, after @ ..] = rest {
            let child = [module.as_slice(), std::slice::from_ref(name)].concat();
            let here = &self.0[&module];
            if self.0.contains_key(&child) && !(after.is_empty() && here.items.contains(name)) {
                (module, rest) = (child, after);
                continue;
            }
            let imports = here.imports.iter().filter(|import| import.name == *name && import.path[0] != *name);
            let handed: Vec<Vec<String>> = imports.map(|import| [import.path.as_slice(), after].concat()).collect();
            if !handed.is_empty() && depth < 12 {
                return handed.iter().flat_map(|path| self.defining(&module, path, depth + 1)).collect();
            }
            // A name that is neither defined nor imported here belongs to another crate or comes from a macro in this file.
            let is_known = here.items.contains(name) || !(is_relative && module == from);
            return if is_known { BTreeSet::from([module]) } else { BTreeSet::new() };
        }
        BTreeSet::new()
    }

    /// The files that each file imports from.
    fn imports(&self) -> BTreeMap<&Module, BTreeSet<Module>> {
        let of = |(module, source): (&'_ Module, &'_ Source)| {
            let used =
                source.imports.iter().filter(|import| !import.is_handed_on || source.words.contains(&import.name));
            let paths = used.map(|import| &import.path).chain(&source.paths);
            let mut targets: BTreeSet<Module> = paths.flat_map(|path| self.defining(module, path, 0)).collect();
            targets.remove(module);
            targets
        };
        self.0.iter().map(|(module, source)| (module, of((module, source)))).collect()
    }

    /// Of two files, the children of their nearest common folder that each belongs to. None if one is above the other: a folder and what is
    /// in it may see each other.
    fn rooms(from: &[String], to: &[String]) -> Option<(Module, Module)> {
        let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        let room = |module: &[String]| module.get(..=shared).map(<[String]>::to_vec);
        room(from).zip(room(to))
    }

    fn is_folder(&self, room: &[String]) -> bool {
        self.0.keys().any(|module| module.len() > room.len() && module.starts_with(room))
    }

    /// Cycles among the files and folders of one folder, other than those of two files.
    fn bad_circles(&self) -> Vec<String> {
        let mut arrows: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
        for (from, targets) in self.imports() {
            for (from, to) in targets.iter().filter_map(|to| Self::rooms(from, to)) {
                arrows.entry(to.clone()).or_default();
                arrows.entry(from).or_default().insert(to);
            }
        }
        let is_bad = |circle: &Vec<Module>| circle.len() > 2 || circle.iter().any(|room| self.is_folder(room));
        let shown = |circle: &Vec<Module>| circle.iter().map(|room| room.join("/")).collect::<Vec<_>>().join(", ");
        circles(&arrows).iter().filter(|circle| is_bad(circle)).map(shown).collect()
    }
}

fn of_crate(name: &str) -> Sources {
    Sources::read(&repository().join("crates").join(name).join("src"))
}

#[test]
fn no_circle_of_imports_has_a_folder_or_more_than_two_files() {
    let mut bad = Vec::new();
    for entry in fs::read_dir(repository().join("crates")).expect("the crates") {
        let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
        bad.extend(of_crate(&name).bad_circles().into_iter().map(|circle| format!("{name}: {circle}")));
    }
    assert!(bad.is_empty(), "move what these share into a file below them:\n{}", bad.join("\n"));
}

#[test]
fn imports_lead_to_the_file_that_defines_what_they_name() {
    let module = |path: &str| path.split('/').map(str::to_owned).collect::<Module>();
    let (inspect, recovery, datadir) = (of_crate("inspect"), of_crate("recovery"), of_crate("datadir"));
    let imports = inspect.imports();
    let has = |from: &str, to: &str| imports[&module(from)].contains(&module(to));
    assert!(has("check/stream", "check/archive"), "by a `use` item");
    assert!(!has("check/archive", "check/stream"), "what it is handed it does not import");
    let imports = recovery.imports();
    let has = |from: &str, to: &str| imports[&module(from)].contains(&module(to));
    assert!(has("recover/run", "recover/place/unfinished"), "by a path in the code");
    let imports = datadir.imports();
    let has = |from: &str, to: &str| imports[&module(from)].contains(&module(to));
    assert!(has("catalog/whole", "tablespace/space"), "through a module that hands it on");
    assert!(!has("tablespace", "tablespace/space"), "to hand on is no import");
}

fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a directory");
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    Sources::read(dir.path()).bad_circles()
}

#[test]
fn circles_of_files_are_found() {
    let pair = [
        ("lib.rs", "mod a; mod b;"),
        ("a.rs", "use crate::b::B; pub struct A;"),
        ("b.rs", "use super::a::A; pub struct B;"),
    ];
    assert!(circles_of(&pair).is_empty(), "two files of one folder");
    let across = [pair[0], pair[1], ("b/mod.rs", "mod c; pub use c::B;"), ("b/c.rs", "pub struct B(crate::a::A);")];
    assert_eq!(circles_of(&across), ["a, b"], "a file and a folder, through a module that hands on");
    let in_tests =
        [pair[0], pair[1], ("b/mod.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; }"), ("b/d.rs", "")];
    assert!(circles_of(&in_tests).is_empty(), "tests may import anything");
    let in_words = [
        pair[0],
        pair[1],
        ("b/mod.rs", "pub struct B; // use crate::a::A;\nconst C: &str = \"crate::a::A\";"),
        ("b/d.rs", ""),
    ];
    assert!(circles_of(&in_words).is_empty(), "comments and strings are no imports");
    let beside_a_program = [
        ("lib.rs", "mod a; mod b; pub use b::B;"),
        ("main.rs", "use it::run; fn main() { run() }"),
        ("a.rs", "use crate::B; pub struct A;"),
        ("b/mod.rs", "mod c; pub use c::B;"),
        across[3],
    ];
    assert_eq!(circles_of(&beside_a_program), ["a, b"], "through the library's root, which the program is not");
    let three = [
        ("lib.rs", "mod a; mod b; mod c;"),
        pair[1],
        ("b.rs", "use crate::{a::A, c::C as D}; pub struct B;"),
        ("c.rs", "use super::{b}; pub fn c() { b::B } pub struct C;"),
    ];
    assert_eq!(circles_of(&three), ["a, b, c"], "three files of one folder");
}

#[test]
fn circles_of_folders_are_found() {
    let folders = |back: &str| {
        let back = format!("use crate::{back}; pub struct E;");
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a/mod.rs", "pub mod c; mod d;"),
            ("a/c.rs", "pub struct C;"),
            ("a/d.rs", "use super::super::b::e::E; pub struct D;"),
            ("b/mod.rs", "pub mod e; pub struct B;"),
            ("b/e.rs", back.as_str()),
        ];
        circles_of(&files)
    };
    assert_eq!(folders("a::c::C"), ["a, b"], "two folders, of which no two files form a circle");
    assert!(folders("b::B").is_empty(), "a folder and what is in it");
    let through_a_file = [
        ("lib.rs", "mod a; mod b; mod f;"),
        ("a/mod.rs", "mod c;"),
        ("a/c.rs", "use crate::f::F; pub struct C;"),
        ("a/d.rs", "pub struct D;"),
        ("f.rs", "use crate::b::e::E; pub struct F;"),
        ("b/mod.rs", "pub mod e;"),
        ("b/e.rs", "use crate::a::d::D; pub struct E;"),
    ];
    assert_eq!(circles_of(&through_a_file), ["a, b, f"], "two folders and a file between them");
    let deep = [
        ("lib.rs", "mod z;"),
        ("z/mod.rs", "mod a; mod b;"),
        ("z/a/mod.rs", "mod c; pub struct A;"),
        ("z/a/c.rs", "use crate::z::b::B; pub struct C;"),
        ("z/b.rs", "use super::a::A; pub struct B;"),
    ];
    assert_eq!(circles_of(&deep), ["z/a, z/b"], "in a folder");
}

/// How many lines above a memory ordering a comment may be that explains it.
const REASON_ABOVE: usize = 10;

/// Uses of an ordering weaker than `SeqCst` without a comment that names it, as `file:line`.
fn orderings_without_reason(path: &Path, text: &str) -> Vec<String> {
    let product = text.split("\nmod tests {").next().expect("the first part");
    let lines: Vec<(&str, &str)> = product.lines().map(|line| line.split_once("//").unwrap_or((line, ""))).collect();
    let is_unfounded = |at: usize| {
        ["Relaxed", "Acquire", "Release", "AcqRel"].iter().any(|ordering| {
            let above = &lines[at.saturating_sub(REASON_ABOVE)..=at];
            lines[at].0.contains(&format!("Ordering::{ordering}"))
                && !above.iter().any(|line| line.1.contains(ordering))
        })
    };
    (0..lines.len()).filter(|at| is_unfounded(*at)).map(|at| format!("{}:{}", path.display(), at + 1)).collect()
}

fn rust_files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_weak_ordering_has_its_reason_beside_it() {
    let planted =
        "fn f() {\n    // Relaxed: only a number.\n    a.load(Ordering::Relaxed);\n    b.load(Ordering::Acquire);\n}";
    assert_eq!(orderings_without_reason(Path::new("planted"), planted), ["planted:4"]);
    let mut files = Vec::new();
    for entry in fs::read_dir(repository().join("crates")).expect("the crates") {
        rust_files(&entry.expect("an entry").path().join("src"), &mut files);
    }
    rust_files(&repository().join("python/src"), &mut files);
    let without: Vec<String> = files
        .iter()
        .flat_map(|path| orderings_without_reason(path, &fs::read_to_string(path).expect("source")))
        .collect();
    assert!(without.is_empty(), "say why no stronger ordering is needed:\n{}", without.join("\n"));
}
