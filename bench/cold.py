#!/usr/bin/python3
"""Data larger than memory: how much of a disk a server gets out of it, and what readers of resident entries feel.

1,000,000 people on Pando and slapd, each in a control group that has a third of Pando's data file as memory, page cache
included; the server on core 0, the load on core 1. In turn:
  probe   fio reads 4 KiB blocks of the data file at random, past the page cache, 32 at a time
  cold    64 clients search, keys uniform over everybody, all attributes: nearly every answer needs pages that are not
          there
  hot     8 clients compare entries among the first 500, which stay in memory
  both    cold and hot at the same time

Wanted (docs/explanation/performance.md): pages that Pando has read a second at least 60% of the probe's; p99 of the hot
at most 3 times that without the cold. ./dev bench cold installs what is needed. Takes root, and control groups that may
be written.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "goals"))
import servers  # noqa: E402

PANDO = "target/release/pando"
PAGE = 4096
COLD = f"""
[[job]]
clients = 64
{servers.BY_UID}attributes = ["*"]
"""
HOT = """
[[job]]
clients = 8
rate = 1000.0

[[job.operation]]
kind = "compare"
dn = "uid=user.{n},ou=people,dc=example,dc=com"
attribute = "uid"
value = "user.{n}"
share = SHARE
"""


class Group:
    """A control group with a limit of memory."""

    def __init__(self, limit):
        root = pathlib.Path("/sys/fs/cgroup")
        is_second = (root / "cgroup.controllers").exists()
        self.path = root / ("" if is_second else "memory") / f"pando-cold-{os.getpid()}"
        self.path.mkdir()
        (self.path / ("memory.max" if is_second else "memory.limit_in_bytes")).write_text(str(limit))

    def entering(self, command):
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.path / "cgroup.procs"), *command]

    def remove(self):
        self.path.rmdir()


def limited(kind, group):
    """A server like `kind` that runs in the group."""
    return type(kind.__name__, (kind,), {"command": lambda self: group.entering(kind.command(self))})


def data_file(server):
    files = [path for path in pathlib.Path(server.folder, "data").rglob("*") if path.is_file()]
    return max(files, key=lambda path: path.stat().st_blocks)


def forget(file):
    """Takes a file out of the page cache."""
    descriptor = os.open(file, os.O_RDONLY)
    os.fsync(descriptor)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def probe(file, seconds):
    """Reads a second that the disk gives. Only blocks that are there are read: the end of a sparse file is left out."""
    size = min(file.stat().st_blocks * 512, file.stat().st_size) // PAGE * PAGE
    command = ["fio", "--name=probe", f"--filename={file}", f"--size={size}", "--rw=randread", "--bs=4k", "--direct=1"]
    command += ["--ioengine=psync", "--numjobs=32", "--thread", f"--runtime={seconds}", "--time_based"]
    command += ["--group_reporting", "--readonly", "--output-format=json"]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(said)["jobs"][0]["read"]["iops"]


def run(server, name, jobs, arguments):
    file, output = arguments.folder / f"{name}.toml", arguments.folder / f"{name}.json"
    jobs = jobs.replace("SHARE", str(500 / arguments.entries))
    return servers.run_load(
        server, f"Data larger than memory: {name}", jobs, file, f"{arguments.seconds}s", "5s", output
    )


def measure(kind, data, arguments):
    loaded = kind(PANDO, str(arguments.folder), data, "0")
    loaded.load(lambda text: print(text, file=sys.stderr))
    file = data_file(loaded)
    if arguments.memory is None:
        # Pando comes first: the others get what it got.
        arguments.memory = file.stat().st_blocks * 512 // 3
    reads = probe(file, arguments.seconds)
    forget(file)
    group = Group(arguments.memory)
    server = limited(kind, group)(PANDO, str(arguments.folder), data, "0")
    server.start()
    try:
        hot = run(server, "hot", HOT, arguments)
        cold = run(server, "cold", COLD, arguments)
        both = run(server, "both", COLD + HOT, arguments)
    finally:
        server.stop()
        group.remove()
    p99 = lambda result: result["operations"]["compare"]["latency"]["p99_micros"]
    return {
        "server": server.name,
        "memory_bytes": arguments.memory,
        "file_bytes": file.stat().st_blocks * 512,
        "probe_reads_per_second": reads,
        "searches_per_second": cold["per_second"],
        "search_p99_micros": cold["operations"]["search"]["latency"]["p99_micros"],
        "cpu_micros_per_search": cold["cost"]["cpu_micros_per_operation"],
        "reads_per_second": cold["cost"]["disk_read_bytes"] / PAGE / cold["measured_seconds"],
        "hot_p99_micros": p99(hot),
        "hot_p99_micros_beside_cold": p99(both),
    }


def main():
    parser = argparse.ArgumentParser(description="Pando and slapd with data larger than memory.")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--memory", type=int, help="octets of memory; a third of Pando's data file otherwise")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(".dev/cold"))
    parser.add_argument("-o", "--output", type=pathlib.Path, help="results as JSON")
    arguments = parser.parse_args()
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    arguments.folder = arguments.folder.resolve()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    data = servers.people(arguments.entries)
    results = [measure(kind, data, arguments) for kind in (servers.Pando, servers.Slapd)]
    for r in results:
        share = r["reads_per_second"] / r["probe_reads_per_second"]
        slower = r["hot_p99_micros_beside_cold"] / r["hot_p99_micros"]
        print(
            f"{r['server']:6} {r['file_bytes'] / 1e6:,.0f} MB in {r['memory_bytes'] / 1e6:,.0f} MB of memory:"
            f" {r['searches_per_second']:,.0f} searches/s, p99 {r['search_p99_micros'] / 1000:.1f} ms,"
            f" {r['cpu_micros_per_search']:.1f} us of CPU; {r['reads_per_second']:,.0f} reads/s of the probe's"
            f" {r['probe_reads_per_second']:,.0f} ({share:.0%}); hot p99 {r['hot_p99_micros']} us,"
            f" beside the cold {r['hot_p99_micros_beside_cold']} us ({slower:.1f} x)"
        )
    own = results[0]
    reached = lambda is_so: "reached" if is_so else "missed"
    print("60% of the probe:", reached(own["reads_per_second"] >= 0.6 * own["probe_reads_per_second"]))
    print("hot p99 at most 3 x:", reached(own["hot_p99_micros_beside_cold"] <= 3 * own["hot_p99_micros"]))
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
