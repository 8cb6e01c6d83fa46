//! Verifies the pages of one tablespace: `cargo run -p innokit-format --example verify -- t.ibd`

use std::error::Error;

use innokit_format::{PageId, PageNo, SpaceFormat, Verdict, verify_page};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("name a tablespace")?;
    let bytes = std::fs::read(path)?;
    let format = SpaceFormat::from_page0(&bytes)?;
    let mut damaged = 0;
    for (number, page) in (0..).zip(bytes.chunks_exact(format.physical().bytes())) {
        let id = PageId { space: format.space(), page_no: PageNo(number) };
        if let Verdict::Corrupt(why) = verify_page(page, id, &format) {
            println!("page {number}: {why}");
            damaged += 1;
        }
    }
    println!("{damaged} damaged pages of {} bytes", format.physical().bytes());
    Ok(())
}
