#!/usr/bin/python3
"""Replicas of Pando: the first copy, the lag, and what consumers of the log cost their supplier.

The supplier runs on processor 0; replica, consumers and load on processor 1. The entries are those of the template
m-vault; changes replace one value of an entry at random, by 64 clients.

- `copy`: a new replica starts without data. Time until it answers searches, and until it has all records.
- `lag`: --rate changes a second at the supplier. A probe changes one entry 50 times a second; its value is the time
  before the request, and a persistent search at the replica returns it. The lag includes the change itself, whose time
  is a line of its own, and the notification.
- `rate`: as many changes as the supplier makes, with 0, 1, 10 and 100 consumers that read its log, in turn in each
  round. The consumers take the load's processor, so the share of the supplier's rate is that of its processor time for
  a change: what its own processor could do.

Wanted: a copy of 1,000,000 entries in 20 s; lag below 20 ms (p99) at 1,000 changes a second; with 1, 10 and 100
consumers at least 97%, 93% and 80% of the rate.

    ./dev bench replicas -o results.json
"""

import json
import os
import pathlib
import re
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time

from shared import bind_request, cpu_seconds, element, end, finish, free_port, head, listening, measurement, start

ADMIN = "cn=admin"
PASSWORD = "replicas-password"
SETTINGS = """suffixes = ["c=BA"]
anonymous_read = true

[indexes]
cn = ["equality"]
"""
WORKLOAD = """title = "changes"

[data]
template = "m-vault"
rdn = "cn"
dn = "cn={cn},o=Test,c=BA"

[needs]
indexes = ["cn:equality"]

[[job]]
clients = 64

[[job.operation]]
kind = "modify"
dn = "cn={cn},o=Test,c=BA"
changes = ["replace sn: {random:alphanumeric:11}"]
"""
PROBE = "o=Test,c=BA"
PROBE_INTERVAL = 0.02
READ_LOG = b"1.3.6.1.4.1.99999.5.7"
PERSISTENT_SEARCH = b"2.16.840.1.113730.3.4.3"
BLOCK_BYTES = 512 << 10
GOALS = {1: 97, 10: 93, 100: 80}


def options():
    parser = measurement("First copy, lag and cost of replicas.", "replicas", seconds=20)
    parser.add_argument("--program", default="target/release/pando")
    parser.add_argument("--only", default="copy,lag,rate")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=1_000, help="changes a second while the lag is measured")
    parser.add_argument("--consumers", default="0,1,10,100")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


class Connection:
    """A connection as the administrator."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()
        self.send(bind_request(ADMIN, PASSWORD))
        self.succeed()

    def send(self, request, *controls):
        controls = element(0xA0, *controls) if controls else b""
        self.socket.sendall(element(0x30, b"\x02\x01\x01", request, controls))

    def receive(self):
        """Reads the available octets, and returns the complete messages."""
        read = self.socket.recv(1 << 20)
        if not read:
            sys.exit("the server closed a connection")
        self.received += read
        messages = []
        while (place := head(self.received)) and place[1] <= len(self.received):
            messages.append(bytes(self.received[slice(*place)]))
            del self.received[: place[1]]
        return messages

    def succeed(self):
        while not (messages := self.receive()):
            pass
        if b"\x0a\x01\x00" not in messages[0]:
            sys.exit(f"refused: {messages[0]}")

    def root(self, name):
        """The value of an attribute of the root DSE."""
        listed = element(0x30, element(4, name.encode()))
        limits = b"\x0a\x01\x00\x0a\x01\x00\x02\x01\x00\x02\x01\x00\x01\x01\x00"
        self.send(element(0x63, element(4), limits, element(0x87, b"objectClass"), listed))
        found = b""
        while b"\x65\x07\x0a\x01\x00" not in found:
            found += b"".join(self.receive())
        value = re.search(name.encode() + rb"\x31.\x04(.)", found, re.DOTALL)
        return found[value.end() : value.end() + value[1][0]].decode()


def integer(number):
    return element(2, number.to_bytes(number.bit_length() // 8 + 1, "big"))


class Consumer(Connection):
    """Reads the log as a replica does, and discards the records."""

    def __init__(self, port):
        super().__init__(port)
        self.generation = bytes.fromhex(self.root("pandoGeneration").rjust(32, "0"))
        self.position = int(self.root("pandoPosition"))
        self.ask()

    def ask(self):
        value = element(0x30, element(4, self.generation), integer(self.position), element(4), element(4),
                        integer(2_000), integer(BLOCK_BYTES), element(4, b"bench"), element(4))
        self.send(element(0x77, element(0x80, READ_LOG), element(0x81, value)))

    def take(self):
        for message in self.receive():
            response, _ = head(message, len(b"\x02\x01\x01"))
            success = b"\x0a\x01\x00\x04\x00\x04\x00"
            if message[response : response + len(success)] != success:
                sys.exit(f"the log is refused: {message[:200]}")
            at = response + len(success)
            if message[at] == 0x8A:
                _, at = head(message, at)
            value, _ = head(message, at)
            begin, _ = head(message, value)
            begin, stop = head(message, begin)
            newest = int.from_bytes(message[begin:stop], "big")
            if len(message) < BLOCK_BYTES:
                self.position = newest
            else:
                self.position += records(message, stop)
            self.ask()


def records(message, at):
    """How many records an answer has, whose lineage begins at a place."""
    _, at = head(message, at)
    at, stop = head(message, at)
    _, at = head(message, at)
    count = 0
    while at < stop:
        _, at = head(message, at)
        count += 1
    return count


def consume(port, count, sender):
    """Reads the log over a number of connections, until the process is killed."""
    os.sched_setaffinity(0, {1})
    with selectors.DefaultSelector() as ready:
        for _ in range(count):
            consumer = Consumer(port)
            ready.register(consumer.socket, selectors.EVENT_READ, consumer)
        sender.write(b"ready\n")
        sender.close()
        while True:
            for key, _ in ready.select():
                key.data.take()


class Consumers:
    """Runs a process with consumers while the context lasts."""

    def __init__(self, port, count):
        reader, writer = os.pipe()
        self.process = os.fork() if count else 0
        if count and self.process == 0:
            try:
                os.close(reader)
                consume(port, count, os.fdopen(writer, "wb"))
            finally:
                os._exit(1)
        os.close(writer)
        with os.fdopen(reader, "rb") as said:
            if count and said.read() != b"ready\n":
                sys.exit("the consumers do not read the log")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            if os.waitpid(self.process, os.WNOHANG)[0]:
                sys.exit("the consumers stopped reading the log")
            os.kill(self.process, 9)
            os.waitpid(self.process, 0)


class Run:
    def __init__(self, arguments):
        self.arguments, self.folder, self.results = arguments, arguments.folder, {"entries": arguments.entries}
        self.password = self.folder / "password"
        self.password.write_text(PASSWORD)
        self.password.chmod(0o600)
        (self.folder / "changes.toml").write_text(WORKLOAD)

    def report(self, name, figures):
        self.results[name] = figures
        print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in figures.items()), flush=True)
        if self.arguments.output:
            self.arguments.output.write_text(json.dumps(self.results, indent=1) + "\n")

    def load(self):
        settings = self.folder / "settings.toml"
        settings.write_text(SETTINGS)
        generate = [self.arguments.program, "generate", "m-vault", "--entries", str(self.arguments.entries)]
        with subprocess.Popen(generate, stdout=subprocess.PIPE) as source:
            finish([self.arguments.program, "import", "--data", str(self.folder / "supplier"), "--settings",
                    str(settings), "--keep-clear-passwords", "-"], self.folder / "import.log", source.stdout)

    def serve(self, name, more=()):
        """The command of a server, and its port."""
        port = free_port()
        return [self.arguments.program, "serve", "--data", str(self.folder / name), "--listen",
                f"ldap://127.0.0.1:{port}", "--admin-dn", ADMIN, "--admin-password-file", str(self.password),
                *more], port

    def start_replica(self, supplier):
        node = self.folder / "node.toml"
        node.write_text(f'[replica]\nsupplier = "ldap://127.0.0.1:{supplier}"\nname = "bench"\nbind_dn = "{ADMIN}"\n'
                        f'password_file = "{self.password.absolute()}"\n')
        command, port = self.serve("replica", ["--node", str(node)])
        begun = time.monotonic()
        ready = f"ldap://127.0.0.1:{port}"
        process = start(command, port, self.folder / "replica.log", "1", patience=3_600, said_when_ready=ready)
        took = time.monotonic() - begun
        wanted, connection = int(Connection(supplier).root("pandoPosition")), Connection(port)
        while int(connection.root("pandoPosition")) < wanted:
            time.sleep(0.01)
        copied = sum(path.stat().st_size for path in (self.folder / "replica").rglob("*") if path.is_file())
        self.report("copy", {"seconds": round(took, 2), "until_complete_seconds": round(time.monotonic() - begun, 2),
                             "megabytes": copied // 1_000_000})
        return process, port

    def changes(self, server, rate=None):
        """Makes changes at the supplier; returns the result of the load generator."""
        port, process = server
        output = self.folder / "run.json"
        limit = ["--rate", str(rate)] if rate else []
        done = subprocess.run(
            [self.arguments.program, "bench", "run", "--workload", str(self.folder / "changes.toml"), "--target",
             f"ldap://127.0.0.1:{port}", "--entries", str(self.arguments.entries), "--duration",
             f"{self.arguments.seconds}s", "--warmup", "2s", "--load-cpus", "1", "--no-limit", "--no-check", "-D",
             ADMIN, "-y", str(self.password), "--server-pid", str(process), "-o", str(output), *limit],
            capture_output=True, text=True, check=False,
        )
        if done.returncode != 0:
            sys.exit(done.stdout + done.stderr)
        return json.loads(output.read_text())["workloads"][0]

    def lag(self, server, replica):
        seen, own, is_over = [], [], threading.Event()
        watcher = threading.Thread(target=watch, args=(replica, seen), daemon=True)
        watcher.start()
        prober = threading.Thread(target=probe, args=(server[0], own, is_over))
        prober.start()
        result = self.changes(server, self.arguments.rate)
        is_over.set()
        prober.join()
        time.sleep(1)
        done = result["operations"]["modify"]["operations"] / result["measured_seconds"]
        figures = {"changes_per_second": round(done), "probes": len(seen)}
        for name, times in [("lag", seen), ("change", own)]:
            times = sorted(times)
            figures |= {f"{name}_p50_ms": times[len(times) // 2], f"{name}_p99_ms": times[len(times) * 99 // 100],
                        f"{name}_max_ms": times[-1]}
        self.report("lag", figures)

    def rate(self, server):
        counts = [int(count) for count in self.arguments.consumers.split(",")]
        measured = {count: [] for count in counts}
        for _ in range(self.arguments.rounds):
            for count in counts:
                with Consumers(server[0], count):
                    result = self.changes(server)
                modify = result["operations"]["modify"]
                done = modify["operations"] / result["measured_seconds"]
                measured[count].append((result["cost"]["cpu_micros"] / modify["operations"], done,
                                        modify["latency"]["p99_micros"]))
        base = None
        for count in counts:
            cpu, done, late = (statistics.median(column) for column in zip(*measured[count]))
            base = base or cpu
            share = round(base / cpu * 100, 1)
            goal = GOALS.get(count)
            verdict = "" if goal is None else "reached" if share >= goal else f"missed, wanted {goal}"
            self.report(f"{count} consumers", {
                "per_second": round(done), "cpu_us": round(cpu, 1), "p99_us": round(late),
                "percent_of_capacity": share, "goal": verdict or "none",
            })


def watch(port, seen):
    """Records the age of each change of the probe when a persistent search returns it."""
    connection = Connection(port)
    value = element(0x30, b"\x02\x01\x04\x01\x01\xff\x01\x01\x00")
    control = element(0x30, element(4, PERSISTENT_SEARCH), b"\x01\x01\xff", element(4, value))
    limits = b"\x0a\x01\x00\x0a\x01\x00\x02\x01\x00\x02\x01\x00\x01\x01\x00"
    listed = element(0x30, element(4, b"description"))
    connection.send(element(0x63, element(4, PROBE.encode()), limits, element(0x87, b"objectClass"), listed), control)
    while True:
        for message in connection.receive():
            now = time.time_ns()
            if found := re.search(rb"probe-(\d+)", message):
                seen.append(round((now - int(found[1])) / 1e6, 2))


def probe(port, own, is_over):
    """Changes the probe, and records the duration of each change."""
    connection = Connection(port)
    while not is_over.wait(PROBE_INTERVAL):
        begun = time.time_ns()
        values = element(0x31, element(4, f"probe-{begun}".encode()))
        changed = element(0x30, element(10, b"\x02"), element(0x30, element(4, b"description"), values))
        connection.send(element(0x66, element(4, PROBE.encode()), element(0x30, changed)))
        connection.succeed()
        own.append(round((time.time_ns() - begun) / 1e6, 2))


def main():
    arguments = options()
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True)
    run, parts = Run(arguments), arguments.only.split(",")
    run.load()
    command, port = run.serve("supplier")
    with listening(command, port, run.folder / "supplier.log") as server:
        if "copy" in parts or "lag" in parts:
            process, replica = run.start_replica(port)
            try:
                if "lag" in parts:
                    run.lag(server, replica)
            finally:
                end(process)
        if "rate" in parts:
            run.rate(server)
    shutil.rmtree(arguments.folder)


if __name__ == "__main__":
    main()
