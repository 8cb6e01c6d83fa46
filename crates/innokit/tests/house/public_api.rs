//! The public API of each library, kept in `docs/api/`, so that a change to it shows in the commit's diff.
//!
//! It is read from the sources. Rustdoc's JSON would tell more, but its format changes with the compiler, and one commit must give the same
//! text on every toolchain. Types are spelled as in the source. After an intended change run `INNOKIT_WRITE_API=1 cargo test -p innokit
//! --test house public_api`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::punctuated::Punctuated;
use syn::{Attribute, Fields, ImplItem, Item, ItemImpl, TraitItem, Type, UseTree, Visibility};

use crate::common::repository;

/// The published libraries by their folder in `crates`, and the fewest lines that each must have. Fewer would mean that this test no longer
/// finds the items.
const LIBRARIES: [(&str, usize); 13] = [
    ("arrow", 9),
    ("bench", 9),
    ("cloud", 9),
    ("datadir", 9),
    ("flow", 9),
    ("format", 9),
    ("innokit", 1),
    ("inspect", 9),
    ("logs", 9),
    ("recovery", 9),
    ("redo", 9),
    ("mount", 30),
    ("sql", 9),
];

/// The path of a module or item from the crate root.
type Names = Vec<String>;

/// What a module declares, except its inner modules.
#[derive(Default)]
struct Module {
    items: Vec<Item>,
    children: BTreeMap<String, Visibility>,
}

/// What a name in a `use` refers to.
enum Target {
    Module(Names),
    Item(Names, String),
}

/// A library's modules by name, and the items found public so far.
#[derive(Default)]
struct Library {
    modules: BTreeMap<Names, Module>,
    /// The shortest public name of each public item, by the place of its definition.
    public: BTreeMap<(Names, String), Names>,
    lines: BTreeSet<String>,
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_test(attributes: &[Attribute]) -> bool {
    let is = |attribute: &Attribute| attribute.path().is_ident("cfg") && text_of(attribute).contains("test");
    attributes.iter().any(is)
}

fn text_of(attribute: &Attribute) -> String {
    match &attribute.meta {
        syn::Meta::List(list) => list.tokens.to_string(),
        _ => String::new(),
    }
}

/// The attributes that matter to callers.
fn keep_visible(attributes: &mut Vec<Attribute>) {
    attributes.retain(|attribute| ["derive", "non_exhaustive"].iter().any(|name| attribute.path().is_ident(name)));
}

fn join(at: &[String], name: &str) -> Names {
    at.iter().cloned().chain([name.to_owned()]).collect()
}

/// An item's text on one line, without its body.
fn one_line(item: Item) -> String {
    let text = prettyplease::unparse(&syn::File { shebang: None, attrs: Vec::new(), items: vec![item] });
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = text.replace("( ", "(").replace(", )", ")").replace(" )", ")").replace("< ", "<").replace(", >", ">");
    text.trim_end_matches(';').trim_end_matches(" {}").to_owned()
}

/// The text between the braces of an item with one member.
fn member(item: Item) -> String {
    let text = one_line(item);
    let (_, inside) = text.split_once('{').expect("braces");
    let inside = inside.trim_end().strip_suffix('}').expect("its end").trim().trim_end_matches([',', ';']);
    inside.replace(", }", " }").trim_end_matches(" {}").to_owned()
}

/// Each name that a `use` imports and its path; `*` for all names of a module.
fn leaves(tree: &UseTree, before: &[String], found: &mut Vec<(String, Names)>) {
    match tree {
        UseTree::Path(path) => leaves(&path.tree, &join(before, &path.ident.to_string()), found),
        UseTree::Name(name) if name.ident == "self" => {
            found.push((before.last().expect("a module").clone(), before.to_vec()));
        }
        UseTree::Name(name) => found.push((name.ident.to_string(), join(before, &name.ident.to_string()))),
        UseTree::Rename(name) => found.push((name.rename.to_string(), join(before, &name.ident.to_string()))),
        UseTree::Glob(_) => found.push(("*".to_owned(), before.to_vec())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| leaves(tree, before, found)),
    }
}

fn uses(module: &Module) -> Vec<(String, Names)> {
    let mut found = Vec::new();
    for item in &module.items {
        if let Item::Use(item) = item {
            leaves(&item.tree, &[], &mut found);
        }
    }
    found
}

fn name_of(item: &Item) -> Option<(String, &Visibility)> {
    let (name, visibility) = match item {
        Item::Const(item) => (&item.ident, &item.vis),
        Item::Enum(item) => (&item.ident, &item.vis),
        Item::Fn(item) => (&item.sig.ident, &item.vis),
        Item::Static(item) => (&item.ident, &item.vis),
        Item::Struct(item) => (&item.ident, &item.vis),
        Item::Trait(item) => (&item.ident, &item.vis),
        Item::Type(item) => (&item.ident, &item.vis),
        _ => return None,
    };
    Some((name.to_string(), visibility))
}

impl Library {
    fn read(root: &Path) -> Self {
        let mut library = Self::default();
        library.add_file(root, &[]);
        library.walk(&[], &[]);
        library.add_impls();
        library
    }

    fn add_file(&mut self, file: &Path, at: &[String]) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let items = syn::parse_file(&text).expect("it compiles").items;
        let is_root = file.ends_with("lib.rs") || file.ends_with("mod.rs");
        let folder = if is_root { file.parent().expect("a folder").to_owned() } else { file.with_extension("") };
        self.add_module(items, &folder, at);
    }

    fn add_module(&mut self, items: Vec<Item>, folder: &Path, at: &[String]) {
        let mut module = Module::default();
        for item in items {
            let Item::Mod(inner) = item else {
                module.items.push(item);
                continue;
            };
            if is_test(&inner.attrs) {
                continue;
            }
            let name = inner.ident.to_string();
            module.children.insert(name.clone(), inner.vis);
            let file = [folder.join(format!("{name}.rs")), folder.join(&name).join("mod.rs")];
            match (inner.content, file.iter().find(|file| file.exists())) {
                (Some((_, items)), _) => self.add_module(items, &folder.join(&name), &join(at, &name)),
                (None, Some(file)) => self.add_file(file, &join(at, &name)),
                (None, None) => panic!("no file for {at:?} {name}"),
            }
        }
        self.modules.insert(at.to_vec(), module);
    }

    /// Resolves a path as seen from a module. None for paths into other crates.
    fn resolve(&self, from: &[String], names: &[String]) -> Option<Target> {
        let (first, rest) = names.split_first()?;
        let start = match first.as_str() {
            "crate" => Target::Module(Vec::new()),
            "self" => Target::Module(from.to_vec()),
            "super" => Target::Module(from.split_last()?.1.to_vec()),
            name => self.find(from, name, names)?,
        };
        rest.iter().try_fold(start, |target, name| match target {
            Target::Module(at) if name == "super" => Some(Target::Module(at.split_last()?.1.to_vec())),
            Target::Module(at) => self.find(&at, name, &[]),
            Target::Item(..) => None,
        })
    }

    /// What a name refers to in a module. `asked` is the whole path being resolved, so that a `use` is not resolved through itself.
    fn find(&self, at: &[String], name: &str, asked: &[String]) -> Option<Target> {
        let module = self.modules.get(at)?;
        if module.children.contains_key(name) {
            return Some(Target::Module(join(at, name)));
        }
        if module.items.iter().any(|item| name_of(item).is_some_and(|(defined, _)| defined == name)) {
            return Some(Target::Item(at.to_vec(), name.to_owned()));
        }
        let uses = uses(module);
        let named = uses.iter().filter(|(brought, names)| brought == name && names != asked && names[0] != name);
        let globs = uses.iter().filter(|(brought, names)| brought == "*" && names[0] != "super");
        let by_name = named.map(|(_, names)| names.clone());
        by_name.chain(globs.map(|(_, names)| join(names, name))).find_map(|names| self.resolve(at, &names))
    }

    /// Lists the public items of a module under its public name.
    fn walk(&mut self, module: &[String], shown: &[String]) {
        let children: Vec<_> =
            self.modules[module].children.iter().map(|(name, seen)| (name.clone(), seen.clone())).collect();
        for (name, _) in children.iter().filter(|(_, visibility)| is_public(visibility)) {
            self.walk(&join(module, name), &join(shown, name));
        }
        for item in self.modules[module].items.clone() {
            match &item {
                Item::Use(item) if is_public(&item.vis) => {
                    let mut found = Vec::new();
                    leaves(&item.tree, &[], &mut found);
                    found.into_iter().for_each(|(name, names)| self.show_use(module, shown, &name, &names));
                }
                item => {
                    if let Some((name, _)) = name_of(item).filter(|(_, visibility)| is_public(visibility)) {
                        self.show(module, &name, &join(shown, &name));
                    }
                }
            }
        }
    }

    fn show_use(&mut self, module: &[String], shown: &[String], name: &str, names: &[String]) {
        match self.resolve(module, names) {
            Some(Target::Module(at)) if name == "*" => self.walk(&at, shown),
            Some(Target::Module(at)) => self.walk(&at, &join(shown, name)),
            Some(Target::Item(at, item)) => self.show(&at, &item, &join(shown, name)),
            None => self.add_line(shown, &format!("pub use {}", names.join("::"))),
        }
    }

    fn add_line(&mut self, shown: &[String], text: &str) {
        self.lines.insert(format!("{}: {text}", if shown.is_empty() { "(root)".to_owned() } else { shown.join("::") }));
    }

    fn show(&mut self, module: &[String], name: &str, shown: &[String]) {
        // Compiled for the fuzz targets alone.
        if name.starts_with("fuzzed_") {
            return;
        }
        let known = self.public.entry((module.to_vec(), name.to_owned())).or_insert_with(|| shown.to_vec());
        if known.len() > shown.len() {
            *known = shown.to_vec();
        }
        let items = &self.modules[module].items;
        // There may be several, one per system: `cfg` chooses.
        let same = items.iter().filter(|item| name_of(item).is_some_and(|(defined, _)| defined == name));
        for item in same.cloned().collect::<Vec<_>>() {
            for line in lines_of(item) {
                self.add_line(shown, &line);
            }
        }
    }

    /// Lists the methods and trait implementations of all public types.
    fn add_impls(&mut self) {
        let mut lines = Vec::new();
        for (at, module) in &self.modules {
            for item in &module.items {
                let Item::Impl(item) = item else { continue };
                if let (false, Some(shown)) = (is_test(&item.attrs), self.owner(at, item)) {
                    lines.extend(lines_of_impl(item).into_iter().map(|line| (shown.clone(), line)));
                }
            }
        }
        lines.iter().for_each(|(shown, line)| self.add_line(shown, line));
    }

    /// The public name of an `impl`'s type, or of its trait if the type belongs to another crate.
    fn owner(&self, at: &[String], item: &ItemImpl) -> Option<Names> {
        let names = |path: &syn::Path| path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Names>();
        let public = |names: Names| match self.resolve(at, &names)? {
            Target::Item(at, name) => self.public.get(&(at, name)).cloned(),
            Target::Module(_) => None,
        };
        let of_type = match &*item.self_ty {
            Type::Path(path) => public(names(&path.path)),
            Type::Reference(reference) => match &*reference.elem {
                Type::Path(path) => public(names(&path.path)),
                _ => None,
            },
            _ => None,
        };
        of_type.or_else(|| public(names(&item.trait_.as_ref()?.1)))
    }
}

/// The item without its members, and one line per member.
fn lines_of(item: Item) -> Vec<String> {
    match item {
        Item::Fn(mut item) => {
            item.attrs.clear();
            item.block.stmts.clear();
            vec![one_line(Item::Fn(item))]
        }
        Item::Const(mut item) => {
            item.attrs.clear();
            let text = one_line(Item::Const(item));
            vec![text.split(" = ").next().expect("a part").to_owned()]
        }
        Item::Static(mut item) => {
            item.attrs.clear();
            let text = one_line(Item::Static(item));
            vec![text.split(" = ").next().expect("a part").to_owned()]
        }
        Item::Type(mut item) => {
            item.attrs.clear();
            vec![one_line(Item::Type(item))]
        }
        Item::Struct(item) => lines_of_struct(item),
        Item::Enum(item) => lines_of_enum(item),
        Item::Trait(item) => lines_of_trait(item),
        _ => Vec::new(),
    }
}

fn lines_of_struct(mut item: syn::ItemStruct) -> Vec<String> {
    keep_visible(&mut item.attrs);
    let fields = std::mem::replace(&mut item.fields, Fields::Unit);
    let mut lines = vec![one_line(Item::Struct(item.clone()))];
    item.attrs.clear();
    for (number, mut field) in fields.into_iter().enumerate().filter(|(_, field)| is_public(&field.vis)) {
        field.attrs.clear();
        let name = field.ident.get_or_insert_with(|| syn::Ident::new(&format!("_{number}"), item.ident.span())).clone();
        field.colon_token = Some(syn::token::Colon::default());
        let named = Punctuated::from_iter([field]);
        let fields = Fields::Named(syn::FieldsNamed { brace_token: syn::token::Brace::default(), named });
        let text = member(Item::Struct(syn::ItemStruct { fields, ..item.clone() }));
        // Tuple fields are named by number.
        lines.push(text.replacen(&format!("{name}: "), &format!("{}: ", name.to_string().trim_start_matches('_')), 1));
    }
    lines
}

fn lines_of_enum(mut item: syn::ItemEnum) -> Vec<String> {
    keep_visible(&mut item.attrs);
    let variants = std::mem::take(&mut item.variants);
    let mut lines = vec![one_line(Item::Enum(item.clone()))];
    item.attrs.clear();
    for mut variant in variants {
        variant.attrs.clear();
        variant.fields.iter_mut().for_each(|field| field.attrs.clear());
        let variants = Punctuated::from_iter([variant]);
        lines.push(member(Item::Enum(syn::ItemEnum { variants, ..item.clone() })));
    }
    lines
}

fn lines_of_trait(mut item: syn::ItemTrait) -> Vec<String> {
    item.attrs.clear();
    let members = std::mem::take(&mut item.items);
    let mut lines = vec![one_line(Item::Trait(item.clone()))];
    for mut inner in members {
        match &mut inner {
            TraitItem::Fn(function) => {
                function.attrs.clear();
                if let Some(body) = &mut function.default {
                    body.stmts.clear();
                }
            }
            TraitItem::Const(inner) => inner.attrs.clear(),
            TraitItem::Type(inner) => inner.attrs.clear(),
            _ => {}
        }
        lines.push(member(Item::Trait(syn::ItemTrait { items: vec![inner], ..item.clone() })));
    }
    lines
}

fn lines_of_impl(item: &ItemImpl) -> Vec<String> {
    let mut item = item.clone();
    item.attrs.clear();
    let members = std::mem::take(&mut item.items);
    if item.trait_.is_some() {
        return vec![one_line(Item::Impl(item))];
    }
    let mut lines = Vec::new();
    for mut inner in members {
        let is_shown = match &mut inner {
            ImplItem::Fn(function) => {
                function.attrs.clear();
                function.block.stmts.clear();
                is_public(&function.vis)
            }
            ImplItem::Const(inner) => {
                inner.attrs.clear();
                is_public(&inner.vis)
            }
            _ => false,
        };
        if is_shown {
            let text = member(Item::Impl(syn::ItemImpl { items: vec![inner], ..item.clone() }));
            lines.push(if text.contains("pub const ") && !text.contains("fn ") {
                text.split(" = ").next().expect("a part").to_owned()
            } else {
                text
            });
        }
    }
    lines
}

#[test]
fn the_public_interface_is_the_one_that_is_kept() {
    let kept = repository().join("docs/api");
    let is_writing = std::env::var_os("INNOKIT_WRITE_API").is_some();
    let mut changed = Vec::new();
    for (name, least) in LIBRARIES {
        let library = Library::read(&repository().join("crates").join(name).join("src/lib.rs"));
        assert!(library.lines.len() >= least, "{name}: {:?}", library.lines);
        let text: String = library.lines.iter().map(|line| format!("{line}\n")).collect();
        let path = kept.join(format!("{name}.txt"));
        if is_writing {
            fs::write(&path, &text).expect("written");
        }
        let before = fs::read_to_string(&path).unwrap_or_default();
        let before: BTreeSet<&str> = before.lines().collect();
        let now: BTreeSet<&str> = text.lines().collect();
        changed.extend(before.difference(&now).map(|line| format!("- {name}::{line}")));
        changed.extend(now.difference(&before).map(|line| format!("+ {name}::{line}")));
    }
    assert!(
        changed.is_empty(),
        "the public interface has changed. If that is meant, say so in CHANGELOG.md and run\n\
         INNOKIT_WRITE_API=1 cargo test -p innokit --test house public_api\n{}",
        changed.join("\n")
    );
}
