//! Measures the generator alone: `generate TEMPLATE ENTRIES THREADS`. Discards the output.
#![allow(clippy::unwrap_used, reason = "an example may panic")]

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let entries = arguments[1].parse().ok();
    let template = bench::template::Template::read(
        &arguments[0],
        &bench::template::Parameters { entries, ..Default::default() },
    )
    .unwrap();
    let started = std::time::Instant::now();
    let octets = template.generate(1, arguments[2].parse().unwrap(), &mut std::io::sink()).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    println!("{octets} octets, {:.0} MB/s", octets as f64 / 1e6 / seconds);
}
