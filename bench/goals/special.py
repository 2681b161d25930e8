"""Rows that are not a workload on a kept server: durable writes beside OpenDJ, loads, an index made online."""

import os
import re
import statistics
import subprocess
import threading
import time
from dataclasses import dataclass

import figures
from rows import PEOPLE, ROWS
from servers import Failed

PRODUCTS = {"Pando": "pando", "OpenLDAP": "slapd", "OpenDJ": "opendj", "389": "ds389"}
# What else than uid all servers index while adding and deleting.
WRITE_INDEXES = ["sn", "mail", "cn:equality,substring,presence"]
# A sync of the probe that takes this long is a spike of the disk: two such, the one in hand and its own, a modify may
# have to wait for.
SPIKE_SECONDS = 0.005


class SyncProbe:
    """Syncs a block of a file again and again, and remembers the seconds in which that took long."""

    def __init__(self, folder, cpu):
        self.path, self.cpu = os.path.join(folder, "sync-probe"), cpu
        self.spikes, self.stopping = [], threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.thread.join()
        os.remove(self.path)

    def run(self):
        os.sched_setaffinity(0, {int(self.cpu)})  # of this thread only
        file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        os.pwrite(file, bytes(4096), 0)
        os.fsync(file)
        while not self.stopping.wait(0.02):
            began = time.time()
            os.pwrite(file, os.urandom(16), 0)
            os.fdatasync(file)
            if time.time() - began >= SPIKE_SECONDS:
                self.spikes.append((began, time.time()))
        os.close(file)

    def is_clean(self, since, until):
        return not any(began < until and ended > since for began, ended in self.spikes)


def writes(bench, row):
    """All chosen rows of durable writes in one comparison: run for the first of them, kept for the others."""
    if not hasattr(bench, "written"):
        try:
            bench.written = compare_writes(bench)
        except Exception as error:
            bench.written = error
            raise
    if isinstance(bench.written, Exception):
        raise Failed(f"the comparison of writes failed: {bench.written}")
    result, probe = bench.written
    found = {}
    for workload in result["workloads"]:
        server = next(
            (name for product, name in PRODUCTS.items() if workload["server"]["product"].startswith(product)), None
        )
        if workload["workload"] != row.name or server is None:
            continue
        found.setdefault(server, []).append(workload)
    if "pando" not in found:
        raise Failed("Pando was not measured")
    clean_seconds, all_seconds = [], 0
    for workload in found["pando"]:
        began = figures.started(workload)
        all_seconds += len(workload["seconds"])
        clean_seconds += [
            s for s in workload["seconds"] if probe.is_clean(began + s["second"], began + s["second"] + 1)
        ]
    medians = {
        name: figures.median([figures.of_workload(workload) for workload in runs]) for name, runs in found.items()
    }
    if row.name.startswith("modify"):
        medians["p99.9"] = figures.percentile(clean_seconds, 99.9)
        left_out = f"{all_seconds - len(clean_seconds)} of {all_seconds} seconds of Pando"
        medians["note"] = f"{left_out} left out of p99.9 for spikes of the disk"
    return medians


def compare_writes(bench):
    chosen = [row.name for row in ROWS if row.special == "writes" and row.name in bench.chosen]
    files = []
    for name in chosen:
        kind, clients = name.rsplit("-", 1)
        text = bench.workload_text("people-modify" if kind == "modify" else f"{kind}.toml")
        text = re.sub(r"(?m)^clients = \d+", f"clients = {clients}", text)
        if kind != "delete":  # which would use up its entries unmeasured
            text = re.sub(r"(?m)^title = ", f"warm_up_seconds = {bench.warmup}\ntitle = ", text, count=1)
        path = os.path.join(bench.raw, f"{name}.toml")
        with open(path, "w") as file:
            file.write(text)
        files += ["--workload", path]
    output = os.path.join(bench.raw, "writes.json")
    indexes = [word for index in WRITE_INDEXES for word in ("--index", index)]
    command = [bench.pando, "bench", "peers", *files, *indexes, "--peers", bench.peers, "--opendj", bench.opendj]
    command += ["--entries", str(bench.entries), "--rounds", str(bench.rounds), "--duration", f"{bench.seconds}s"]
    command += ["--folder", bench.folder, "--server-cpus", bench.server_cpu, "--load-cpus", bench.load_cpu]
    command += ["--keep-histograms", "--no-limit", "-o", output]
    with SyncProbe(bench.folder, bench.load_cpu) as probe:
        bench.command(command, "writes.log", accepted=(0, 7))
    return figures.read(output), probe


@dataclass
class Load:
    """A load by `pando import`, and the export of it."""

    entries_a_second: float
    private_mib: float
    disk_share: float
    export_megabytes: float


def load(bench, name, template, entries):
    if name not in bench.loads:
        found = []
        for number in range(1, bench.rounds + 1):
            output = os.path.join(bench.raw, f"load-{name}-{number}.json")
            command = [bench.pando, "bench", "peers", "--load-only", "--template", template, "--entries", str(entries)]
            command += ["--peers", "pando", "--folder", bench.folder, "-o", output]
            bench.command(command, f"load-{name}.log")
            result = next(w for w in figures.read(output)["workloads"] if w["workload"] == "bulk-load")
            if result.get("unsupported"):
                raise Failed(result["unsupported"])
            found.append(result["server"]["bulk_load"])
        middle = lambda value: statistics.median(value(loaded) for loaded in found)
        bench.loads[name] = Load(
            middle(lambda loaded: loaded["entries"] / loaded["seconds"]),
            middle(lambda loaded: loaded["rss_anon_peak_bytes"] / 2**20),
            middle(lambda loaded: loaded["disk_bytes"] / loaded["ldif_bytes"]),
            middle(lambda loaded: loaded["export_bytes"] / 1e6 / loaded["export_seconds"]),
        )
    return bench.loads[name]


def import_people(bench, _):
    return {"import": load(bench, "people", "people", bench.entries)}


def import_small(bench, _):
    tenth, large = bench.small_entries // 10, bench.small_entries
    return {"tenth": load(bench, "small-tenth", "m-vault", tenth), "large": load(bench, "small", "m-vault", large)}


def index_online(bench, row):
    """Seconds until the index is complete, and what others waited meanwhile and before."""
    server = bench.server("pando", PEOPLE)
    before, seconds = max(bench.seconds, 3), bench.seconds + 30
    output = os.path.join(bench.raw, f"{row.name}.json")
    data = ["--data", os.path.join(server.folder, "data")]
    index = [bench.pando, "index"]
    command = bench.run_command(server, "people-search", output, 1)
    command += ["--rate", "20000", "--duration", f"{seconds}s", "--keep-histograms"]
    load = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        time.sleep(bench.warmup + before + 1)
        began = time.time()
        bench.command([*index, "add", *data, "telephoneNumber", "--kinds", "equality"], f"{row.name}.log")
        ended = time.time()
    finally:
        load.wait()
        bench.command([*index, "drop", *data, "telephoneNumber"], f"{row.name}.log")
    result = figures.read(output)["workloads"][0]
    figures.of_workload(result)
    start = figures.started(result)
    of = lambda since, until: [
        s for s in result["seconds"] if start + s["second"] < until and start + s["second"] + 1 > since
    ]
    during, quiet = of(began, ended), of(start, began - 1)
    return {
        "seconds": ended - began,
        "p99 during": figures.percentile(during, 99),
        "p99 before": figures.percentile(quiet, 99),
        "note": f"p99 of {len(quiet)} seconds before and {len(during)} with the index in the making",
    }
