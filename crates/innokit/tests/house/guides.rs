//! Every command in the guides runs and prints what they show, and every option is documented in one of them.
//! `guide/mod.rs` explains how a block states what it needs.

use crate::common::innokit;
use crate::guide::{Block, agree, blocks, guides};

/// Fewer blocks than this would mean that this test no longer finds them.
const BLOCKS_AT_LEAST: usize = 25;

fn run_all(blocks: &[Block]) {
    let failures: Vec<String> = blocks.iter().flat_map(Block::failures).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

fn runnable(needs_servers: bool) -> Vec<Block> {
    let mut blocks = blocks();
    blocks.retain(|block| block.is_of_commands() && block.excuse().is_none());
    blocks.retain(|block| block.needs_servers() == needs_servers);
    assert!(!blocks.is_empty());
    blocks
}

#[test]
fn commands_on_fixtures_print_what_the_guides_show() {
    run_all(&runnable(false));
}

#[test]
#[cfg_attr(not(servers), ignore = "needs real servers: make test")]
fn commands_on_datadirs_print_what_the_guides_show() {
    run_all(&runnable(true));
}

#[test]
fn every_block_is_run_or_says_why_not() {
    let blocks: Vec<Block> = blocks().into_iter().filter(Block::is_of_commands).collect();
    assert!(blocks.len() >= BLOCKS_AT_LEAST, "only {} blocks were found", blocks.len());
    for block in &blocks {
        match block.excuse() {
            Some(why) => assert!(why.split(' ').count() >= 3, "{}: `{why}` is no reason", block.place),
            None => assert!(!block.steps().is_empty(), "{}: no command in it", block.place),
        }
    }
}

#[test]
fn a_line_that_a_guide_shows_wrong_is_told_from_one_that_varies() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let agrees = |shown: &str, printed: &str| agree(&lines(shown), &lines(printed));
    assert!(agrees("time    0.03 s, 382.3 MB/s, 0% I/O wait", "time    11.20 s, 1,382.3 MB/s, 72% I/O wait"));
    assert!(!agrees("time    0.03 s", "time    0.03 s, 4.0 MB/s"));
    assert!(!agrees("pages   3 ok", "pages   4 ok"));
    assert!(!agrees("bytes   3 ok", "bytes  3 ok"));
    assert!(agrees("a\n...\nz", "a\nb\nc\nz") && agrees("a\n...\nz", "a\nz"));
    assert!(!agrees("a\n...\nz", "a\nb"));
    assert!(!agrees("a", "a\nb") && !agrees("a\nb", "a"));
    assert!(agrees("size …, of … on disk", "size 3 MB, of 2 MB on disk"));
    assert!(!agrees("size …, of … on disk", "size 3 MB, of 2 MB in memory"));
    assert!(!agrees("a…a", "a"));
}

fn help(command: &[&str]) -> String {
    let output = innokit().args(command).arg("--help").output().expect("innokit runs");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The commands without subcommands, each as its words. `innochecksum` is left out: its options and help are MySQL's to the letter, and its
/// own tests compare them.
fn commands() -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut open: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(command) = open.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let help = help(&words);
        let listed = help.split_once("\nCommands:\n").map_or("", |(_, list)| list.split("\n\n").next().unwrap_or(""));
        let names = listed.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
        let below: Vec<&str> = names.filter(|name| !["", "help", "innochecksum"].contains(name)).collect();
        if below.is_empty() {
            found.push(command.clone());
        }
        open.extend(below.iter().map(|name| [command.clone(), vec![(*name).to_owned()]].concat()));
    }
    found
}

/// The options in a help text, each with whether it has a description.
fn options(help: &str) -> Vec<(String, bool)> {
    let lines: Vec<&str> = help.lines().collect();
    let listed = lines.iter().enumerate().filter_map(|(at, line)| {
        let indent = line.len() - line.trim_start().len();
        let option = line.split_whitespace().take(2).find(|word| word.starts_with("--"))?.trim_end_matches(',');
        let is_option = line.trim_start().starts_with('-') && (2..=8).contains(&indent);
        let beside = line.trim_start().split_once("  ").is_some_and(|(_, said)| !said.trim().is_empty());
        let below = lines.get(at + 1).is_some_and(|next| next.starts_with("        ") && !next.trim().is_empty());
        is_option.then(|| (option.to_owned(), beside || below))
    });
    listed.collect()
}

fn names_option(text: &str, option: &str) -> bool {
    let ends = |after: &str| !after.starts_with(|c: char| c == '-' || c.is_ascii_alphanumeric());
    text.match_indices(option).any(|(at, _)| ends(&text[at + option.len()..]))
}

#[test]
fn every_option_has_a_help_line_and_is_in_a_guide() {
    let guides = guides();
    let commands = commands();
    assert!(commands.len() >= 15, "only these were found: {commands:?}");
    let mut count = 0;
    for command in &commands {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        for (option, has_help) in options(&help(&words)) {
            count += 1;
            assert!(has_help, "innokit {} {option} has no help", command.join(" "));
            let is_common = ["--help", "--version"].contains(&option.as_str());
            let is_named = guides.iter().any(|(_, text)| names_option(text, &option));
            assert!(is_common || is_named, "innokit {} {option} is in no guide", command.join(" "));
        }
    }
    assert!(count >= 100, "only {count} options were found");
}

/// `innokit ...` in backquotes in running text. It need not be a complete command line, but everything it names must exist.
#[test]
fn commands_in_running_text_exist_with_their_options() {
    let commands = commands();
    for (guide, text) in guides() {
        let spans = text.split('`').filter(|span| span.starts_with("innokit ") && !span.contains("\n\n"));
        for span in spans {
            let words: Vec<&str> = span.split_whitespace().skip(1).collect();
            let names: Vec<&str> =
                words.iter().copied().take_while(|word| word.chars().all(char::is_alphabetic)).collect();
            let is_of = |command: &&Vec<String>| command.iter().zip(&names).all(|(known, named)| known == named);
            let Some(command) = commands.iter().filter(|command| command.len() <= names.len()).find(is_of) else {
                let is_group = commands.iter().any(|command| command.iter().zip(&names).all(|(a, b)| a == b));
                assert!(is_group || names.first() == Some(&"innochecksum"), "{guide}: `{span}`: no such command");
                continue;
            };
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            let known = options(&help(&command));
            let end = words.iter().position(|word| ["|", "&&", "#"].contains(word)).unwrap_or(words.len());
            for option in words[..end].iter().filter(|word| word.starts_with("--")) {
                let option = option.split(['=', '/']).next().unwrap_or(option);
                assert!(known.iter().any(|(name, _)| name == option), "{guide}: `{span}`: no option {option}");
            }
        }
    }
}
