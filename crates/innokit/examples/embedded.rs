//! The command line inside another program, as in the Python package: `cargo run -p innokit --example embedded -- check FILE`

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    // The first word is the name that help and messages show.
    let words = [OsString::from("innokit")].into_iter().chain(std::env::args_os().skip(1));
    ExitCode::from(innokit::run(words))
}
