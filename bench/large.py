#!/usr/bin/python3
"""A large directory on one machine: the load, the start, searches at random and of a hot tenth, a backup, a check.

The smallest entries (template m-vault) are generated and piped into the import; no LDIF is kept. Then the server runs
on processor 0 and the load on processor 1, 64 clients with one request outstanding each: searches (cn=) with keys at
random over all entries, over a tenth of them, and over all again; changes; then a restart, and searches from its first
second on. At the end a backup is made of the stopped directory, and `pando verify` reads all of it.

Every step prints a line: its time, the memory of the process alone (RssAnon, the highest seen), and the space on disk.
A data file of 100,000,000 entries takes about 60 GB, and the backup a fifth of that; the folder is removed at the end.

    ./dev bench large --entries 50000000
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

from shared import free_port, measurement, start

PASSWORD = "large-password"
SETTINGS = """suffixes = ["c=BA"]
anonymous_read = true

[indexes]
cn = ["equality"]
sn = ["equality"]
"""
WORKLOAD = """title = "{title}"

[data]
template = "m-vault"
rdn = "cn"
dn = "cn={{cn}},o=Test,c=BA"

[needs]
indexes = ["cn:equality"]

[[job]]
clients = 64

[[job.operation]]
kind = "{kind}"
dn = "cn={{cn}},o=Test,c=BA"
share = {share}
{rest}
"""
SEARCH = 'base = "o=Test,c=BA"\nscope = "sub"\nfilter = "(cn={cn})"\nattributes = ["*"]'
MODIFY = 'changes = ["replace sn: changed-{n}"]'


def options():
    parser = measurement("Load and serve a large directory, and measure each step.", "large", seconds=30)
    parser.add_argument("--program", default="target/release/pando")
    parser.add_argument("--entries", type=int, default=50_000_000)
    parser.add_argument("--memory", type=int, default=2048, help="memory of the import, in MiB")
    parser.add_argument("--no-backup", action="store_true", help="leave out the backup")
    return parser.parse_args()


def gigabytes(folder):
    """Returns the disk space that a folder uses."""
    blocks = (os.stat(path).st_blocks for path in folder.rglob("*") if path.is_file())
    return round(sum(blocks) * 512 / 1e9, 2)


class Memory(threading.Thread):
    """Samples the private memory of a process, and stores the maximum."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.status = pathlib.Path(f"/proc/{pid}/status")
        self.highest = 0
        self.start()

    def run(self):
        while True:
            try:
                lines = self.status.read_text().splitlines()
            except OSError:
                return
            found = [line for line in lines if line.startswith("RssAnon:")]
            if not found:
                return
            self.highest = max(self.highest, int(found[0].split()[1]))
            time.sleep(0.2)


class Run:
    def __init__(self, given):
        self.given = given
        self.folder = given.folder
        self.data = given.folder / "data"
        self.steps = {"entries": given.entries}
        self.servers = []

    def report(self, step, **figures):
        self.steps[step] = figures
        print(f"{step}: " + ", ".join(f"{name} {value}" for name, value in figures.items()), flush=True)

    def timed(self, step, words, reader=None, before=None):
        """Runs a command to its end, which must be a success, and reports it."""
        start = time.monotonic()
        with open(self.folder / f"{step}.log", "wb") as log:
            process = subprocess.Popen(words, stdin=reader, stdout=log, stderr=log)
            memory = Memory(process.pid)
            _, status, usage = os.wait4(process.pid, 0)
        if status != 0:
            sys.exit((self.folder / f"{step}.log").read_text())
        self.report(
            step,
            seconds=round(time.monotonic() - start, 1),
            cpu_seconds=round(usage.ru_utime + usage.ru_stime, 1),
            memory_mb=memory.highest // 1000,
            disk_gb=gigabytes(before or self.data),
        )

    def load(self):
        settings = self.folder / "settings.toml"
        settings.write_text(SETTINGS)
        words = [self.given.program, "generate", "m-vault", "--entries", str(self.given.entries)]
        with subprocess.Popen(words, stdout=subprocess.PIPE) as source:
            self.timed("import", [
                self.given.program, "import", "--data", str(self.data), "--settings", str(settings),
                "--keep-clear-passwords", "--memory", str(self.given.memory), "-",
            ], reader=source.stdout)
        if source.returncode != 0:
            sys.exit("the generator failed")

    def serve(self, step):
        """Starts a server, and waits for its first answer."""
        password = self.folder / "password"
        password.write_text(PASSWORD + "\n")
        password.chmod(0o600)
        begun = time.monotonic()
        port = free_port()
        target = f"ldap://127.0.0.1:{port}"
        process = start(
            [self.given.program, "serve", "--data", str(self.data), "--listen", target,
             "--admin-password-file", str(password)],
            port, self.folder / f"{step}.log", said_when_ready=target,
        )
        self.servers.append(process)
        self.report(step, seconds_to_listen=round(time.monotonic() - begun, 2))
        return process, target

    def measure(self, step, server, target, kind, rest, share=1.0, seconds=None):
        workload = self.folder / f"{step}.toml"
        workload.write_text(WORKLOAD.format(title=step, kind=kind, rest=rest, share=share))
        result = self.folder / f"{step}.json"
        done = subprocess.run(
            [self.given.program, "bench", "run", "--workload", str(workload), "--target", target,
             "--entries", str(self.given.entries), "--duration", f"{seconds or self.given.seconds}s",
             "--warmup", "0s", "--load-cpus", "1", "--no-limit", "--no-check", "-D", "cn=admin", "-w", PASSWORD,
             "--server-pid", str(server.pid), "-o", str(result)],
            capture_output=True, text=True, check=False,
        )
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        figures = {}
        collect(json.loads(result.read_text()), figures)
        self.report(step, **figures)

    def stop(self, server):
        start = time.monotonic()
        server.send_signal(signal.SIGTERM)
        if server.wait() != 0:
            sys.exit("the server did not stop cleanly")
        return round(time.monotonic() - start, 2)

    def all(self):
        self.load()
        server, target = self.serve("first start")
        memory = Memory(server.pid)
        self.measure("search, first", server, target, "search", SEARCH)
        self.measure("search, hot tenth", server, target, "search", SEARCH, share=0.1)
        self.measure("search, again", server, target, "search", SEARCH)
        self.measure("modify", server, target, "modify", MODIFY)
        stopped = self.stop(server)
        self.report("stop", seconds=stopped, memory_mb=memory.highest // 1000, disk_gb=gigabytes(self.data))
        server, target = self.serve("restart")
        self.measure("search, after the restart", server, target, "search", SEARCH, seconds=10)
        self.stop(server)
        if not self.given.no_backup:
            backup = self.folder / "backup"
            self.timed("backup", [self.given.program, "backup", "make", "--data", str(self.data), str(backup)],
                       before=backup)
            shutil.rmtree(backup)
        self.timed("verify", [self.given.program, "verify", "--data", str(self.data)])


def collect(result, figures):
    """Returns the relevant figures in a result of the load generator, at any depth."""
    wanted = {"per_second": "per_second", "cpu_micros_per_operation": "cpu_us", "p50_micros": "p50_us",
              "p99_micros": "p99_us"}
    if isinstance(result, dict):
        for key, value in result.items():
            if key in wanted and wanted[key] not in figures and isinstance(value, (int, float)):
                figures[wanted[key]] = round(value, 1)
            else:
                collect(value, figures)
    elif isinstance(result, list):
        for value in result:
            collect(value, figures)


def main():
    given = options()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    run = Run(given)
    try:
        run.all()
    finally:
        for server in run.servers:
            server.kill()
        if given.output:
            given.output.write_text(json.dumps(run.steps, indent=2) + "\n")
    shutil.rmtree(given.folder)


main()
