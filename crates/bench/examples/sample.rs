//! Prints the sample organization as LDIF, which any server can load:
//! `cargo run -p bench --example sample -- dc=example,dc=com | ldapadd -M ...`. The option `-M` is needed because the
//! sample contains a referral.

use std::io::{self, BufWriter, Write as _};

fn main() -> io::Result<()> {
    let suffix = std::env::args().nth(1).unwrap_or_else(|| "dc=example,dc=com".to_owned());
    let mut out = BufWriter::new(io::stdout().lock());
    bench::sample::write_ldif(&mut out, &suffix)?;
    out.flush()
}
