//! Verifies the events of one binary log: `cargo run -p innokit-logs --example binlog -- binlog.000001`

use std::error::Error;

use innokit_logs::binlog::{Verdict, Verifier};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("name a binary log")?;
    let bytes = std::fs::read(path)?;
    let (mut verifier, mut rest) = (Verifier::new(), bytes.as_slice());
    while let Some(event) = verifier.next_event(&mut rest)? {
        if let Verdict::Corrupt(why) = event.verdict {
            println!("event at {}: {why}", event.position);
        }
    }
    verifier.end()?;
    println!("{} events", verifier.finish()?.events);
    Ok(())
}
