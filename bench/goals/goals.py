"""The table of goals as one command: see ../goals.sh."""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
import traceback
import zlib

import figures
import special
from rows import FEW, GROUPS, PAGES, PEOPLE, PHOTO, ROWS, SALFORD
from servers import KINDS, PASSWORD, Data, Failed, versions

HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLE = "dc=example,dc=com"
# What makes one row fail and lets the others go on.
FAILURES = (Failed, figures.Unclean, OSError, KeyError, ValueError, ZeroDivisionError, subprocess.SubprocessError)


def say(text):
    print(f"goals: {text}", file=sys.stderr, flush=True)


def data_sets(entries, group_entries):
    """What is loaded, by name. No index that one server has and another has not."""
    people = ("uid:equality", "cn:equality", "sn:equality", "mail:equality", "employeeNumber:equality,substring")
    template = lambda name: os.path.join(HERE, f"{name}.template")
    return {
        PEOPLE: Data(PEOPLE, "people", entries, EXAMPLE, people, "password"),
        PAGES: Data(PAGES, template(PAGES), entries // 100, EXAMPLE, ("uid:equality",), "password"),
        PHOTO: Data(PHOTO, template(PHOTO), entries, EXAMPLE, ("uid:equality",), "password"),
        SALFORD: Data(SALFORD, "directorymark", entries, "c=GB", ("cn:equality,presence,substring",), "password"),
        GROUPS: Data(GROUPS, template(GROUPS), group_entries, EXAMPLE, ("uid:equality",), "password"),
        FEW: Data(FEW, template(GROUPS), 10_000, EXAMPLE, ("uid:equality",), "password"),
    }


def seed(row, number):
    """The same for all servers in a round, another for every row: no row must find the random values of another."""
    return zlib.crc32(row.name.encode()) + number


class Bench:
    """What rows are measured with."""

    def __init__(self, arguments):
        self.__dict__.update(vars(arguments))
        self.chosen = [row.name for row in arguments.rows]
        self.raw = os.path.join(self.output, "raw")
        self.data = data_sets(self.entries, self.group_entries)
        self.servers, self.loads = {}, {}
        os.makedirs(self.raw, exist_ok=True)
        os.makedirs(self.folder, exist_ok=True)
        self.password_file = os.path.join(self.folder, "password")
        with open(self.password_file, "w") as file:
            file.write(PASSWORD)

    def server(self, kind, data):
        """A server with its data, at work and primed; all others are held."""
        key = (kind, data)
        for other, held in self.servers.items():
            if other != key:
                held.hold()
        if key not in self.servers:
            server = KINDS[kind](self.pando, self.folder, self.data[data], self.server_cpu)
            server.load(say)
            server.start()
            self.servers[key] = server
        elif self.servers[key].is_held:
            server = self.servers[key]
            server.go_on()
        else:
            return self.servers[key]
        if kind != "null":
            server.read_data()
            self.prime(server)
        return server

    def prime(self, server):
        """Reads all over the data, so that what is measured does not pay for cold memory: that of a new server, or of
        one that was held for so long that the system has put its memory to other use."""
        workload = {PAGES: "page.toml", SALFORD: "salford-s1"}.get(server.data.name, "people-search-all")
        output = os.path.join(self.raw, "prime.json")
        command = self.run_command(server, workload, output, 0)
        command += ["--duration", f"{3 * self.warmup}s", "--outstanding", "16"]
        self.command(command, "prime.log", accepted=(0, 7))

    def end_servers(self, keep=()):
        for key in [key for key in self.servers if key not in keep]:
            self.servers.pop(key).stop()

    def command(self, command, log, accepted=(0,)):
        with open(os.path.join(self.raw, log), "ab") as file:
            file.write(f"$ {' '.join(command)}\n".encode())
            file.flush()
            code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file).returncode
        if code not in accepted:
            raise Failed(f"`{' '.join(command[:3])} ...` ended with {code}: see {os.path.join(self.raw, log)}")

    def workload_text(self, workload):
        if workload.endswith(".toml"):
            with open(os.path.join(HERE, workload)) as file:
                return file.read()
        return subprocess.run(
            [self.pando, "bench", "list", workload], capture_output=True, text=True, check=True
        ).stdout

    def run_command(self, server, workload, output, seed):
        which = ["--workload", os.path.join(HERE, workload)] if workload.endswith(".toml") else [workload]
        command = [self.pando, "bench", "run", *which, "--target", server.uri, "-D", server.admin]
        command += ["-y", self.password_file, "--load-cpus", self.load_cpu, "--no-limit", "-o", output]
        command += ["--entries", str(server.data.entries), "--seed", str(seed), "--warmup", f"{self.warmup}s"]
        return command + ["--server-pid", str(server.process.pid)]

    def run_once(self, row, name, run, number):
        """One round of one run: its figures, and those of the floor."""
        server = self.server(run.server, run.data)
        output = os.path.join(self.raw, f"{row.name}-{name}-{number}.json")
        command = self.run_command(server, run.workload, output, seed(row, number))
        seconds = max(self.seconds, row.seconds)
        command += ["--duration", f"{seconds}s"]
        for option, value in (("--clients", run.clients), ("--outstanding", run.outstanding), ("--rate", run.rate)):
            if value:
                command += [option, str(value)]
        if run.unchecked:
            command.append("--no-check")
        if run.floor:
            command.remove("--no-limit")
            command += ["--server-cpus", self.server_cpu]
        beside = self.begin_beside(row, name, run, server, number, seconds) if run.beside else None
        try:
            self.command(command, f"{row.name}.log", accepted=(0, 7))
        finally:
            if beside:
                beside[0].wait()
        result = figures.read(output)
        found = {name: figures.of_workload(result["workloads"][0])}
        if beside:
            figures.of_workload(figures.read(beside[1])["workloads"][0])
        if run.floor:
            found["floor"] = figures.of_workload(result["limits"][0])
        rate, cpu, p99 = found[name].rate, found[name].cpu, found[name].p99
        say(f"{row.name}, round {number}: {name} {rate:,.0f}/s, {cpu:.2f} us CPU, p99 {p99:,.0f} us")
        return found

    def begin_beside(self, row, name, run, server, number, seconds):
        """Another load on the same server, from before the warm-up to the end of the measured time."""
        output = os.path.join(self.raw, f"{row.name}-{name}-beside-{number}.json")
        command = self.run_command(server, run.beside, output, seed(row, number) + 1000)
        command[command.index("--warmup") + 1] = "0s"
        command += ["--duration", f"{self.warmup + seconds + 1}s"]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(0.5)
        return process, output

    def in_rounds(self, row):
        """Rounds in which the runs of a row take turns, each beginning with another; medians."""
        found = {}
        names = list(row.runs)
        for number in range(1, self.rounds + 1):
            turn = (number - 1) % len(names)
            for name in names[turn:] + names[:turn]:
                for key, run in self.run_once(row, name, row.runs[name], number).items():
                    found.setdefault(key, []).append(run)
        return {key: figures.median(runs) for key, runs in found.items()}

    def measure(self, row):
        """The outcome of a row, whatever happens."""
        try:
            if row.special:
                needs = [("pando", PEOPLE)] if row.special == "index_online" else []
                self.end_servers(keep=needs)
                medians = getattr(special, row.special)(self, row)
            else:
                self.end_servers(keep=[(run.server, run.data) for run in row.runs.values()])
                medians = self.in_rounds(row)
            return outcome(row, medians)
        except FAILURES as error:
            if not isinstance(error, (Failed, figures.Unclean)):
                traceback.print_exc()
            say(f"{row.name}: {error}")
            line = {"row": row.name, "title": row.title, "verdict": "FAILED", "why": str(error)}
            return [{**line, "goal": goal.text} for goal in row.goals]


def outcome(row, medians):
    lines = []
    plain = {name: vars(value) if hasattr(value, "__dict__") else value for name, value in medians.items()}
    for goal in row.goals:
        line = {"row": row.name, "title": row.title, "goal": goal.text, "sign": goal.sign}
        line |= {"wanted": goal.wanted, "medians": plain}
        try:
            value = goal.value(medians)
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            why = f"not everything was measured: {error!r}; {medians.get('note', '')}"
            lines.append({**line, "verdict": "FAILED", "why": why})
            continue
        is_reached = value <= goal.wanted if goal.sign == "<=" else value >= goal.wanted
        verdict = "reached" if is_reached else "MISSED"
        lines.append({**line, "value": value, "shown": goal.shown.format(value), "verdict": verdict})
    return lines


def figures_shown(line):
    """What a row measured, in short: CPU and rate of each of its runs."""
    parts = []
    for name, value in line.get("medians", {}).items():
        if name == "note":
            parts.append(value)
        elif isinstance(value, dict) and "cpu" in value:
            cpu = f"{value['cpu']:.2f} us, " if value["cpu"] else ""
            parts.append(f"{name} {cpu}{value['rate']:,.0f}/s")
    return line.get("why") or "; ".join(parts)


def table(lines):
    text = [
        "| work | goal | measured | | figures (server CPU an operation, operations a second) |",
        "|---|---|---|---|---|",
    ]
    previous = None
    for line in lines:
        title = line["title"] if line["row"] != previous else ""
        shown = figures_shown(line) if line["row"] != previous or "why" in line else ""
        text.append(
            f"| {title} | {line['goal']} | {line.get('shown', '-')} | {line['verdict']} | {shown.replace('|', '/')} |"
        )
        previous = line["row"]
    return "\n".join(text) + "\n"


def head(bench):
    own, slapd = versions(bench.pando)
    with open("/proc/cpuinfo") as file:
        model = next(
            (line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine()
        )
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    return (
        f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} processors, {model}, Linux {platform.release()};"
        f" {own} ({commit}), {slapd}\n"
        f"`{' '.join(sys.argv)}`\n\n"
        f"{bench.entries:,} entries, {bench.group_entries:,} users in ten groups, "
        f"{bench.small_entries:,} small entries; server on processor {bench.server_cpu}, load on {bench.load_cpu};"
        f" {bench.rounds} rounds of {bench.seconds} s in turn after {bench.warmup} s of warm-up, medians;"
        " keys uniform over all entries; all are asked as their administrator; every change is synced.\n\n"
    )


def parse():
    known = {row.name: row for row in ROWS}
    rows = lambda text: [row for row in ROWS if row.name in picked(text.split(","), known)]
    parser = argparse.ArgumentParser(prog="bench/goals.sh", description="Measures the table of goals.")
    parser.add_argument(
        "--rows",
        type=rows,
        default=list(ROWS),
        help="names with commas between; a star at the end takes all that begin so",
    )
    parser.add_argument("--list", action="store_true", help="print the rows' names and end")
    parser.add_argument("--entries", type=int, default=1_000_000, help="a multiple of 1,000")
    parser.add_argument(
        "--group-entries", type=int, default=1_000_000, help="users in the ten groups; 10000000 for groups of a million"
    )
    parser.add_argument("--small-entries", type=int, default=10_000_000, help="of the import of small ones")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", default=".dev/goals", help="where loaded data is kept")
    parser.add_argument("--output", default=".dev/goals/result", help="where goals.json and goals.md go")
    parser.add_argument("--peers", default="openldap,opendj", help="beside durable writes; ds389 as well")
    parser.add_argument("--opendj", default=os.environ.get("PANDO_OPENDJ", ".dev/peers/opendj"))
    parser.add_argument("--server-cpu", default="0")
    parser.add_argument("--load-cpu", default="1")
    parser.add_argument("--pando", default="target/release/pando")
    arguments = parser.parse_args()
    if arguments.entries % 1000:
        parser.error("--entries is a multiple of 1,000")
    for name in ("folder", "output", "opendj", "pando"):
        setattr(arguments, name, os.path.abspath(getattr(arguments, name)))
    return arguments


def picked(words, known):
    names = set()
    for word in words:
        found = [name for name in known if name == word or (word.endswith("*") and name.startswith(word[:-1]))]
        if not found:
            raise argparse.ArgumentTypeError(f"no row {word}; --list shows them")
        names.update(found)
    return names


def main():
    arguments = parse()
    if arguments.list:
        print("\n".join(f"{row.name:<20} {row.title}" for row in ROWS))
        return 0
    bench = Bench(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    lines = []
    try:
        for row in arguments.rows:
            say(row.title)
            lines += bench.measure(row)
            # Written anew after every row: what is measured is kept whatever comes.
            with open(os.path.join(bench.output, "goals.json"), "w") as file:
                json.dump(lines, file, indent=1)
            with open(os.path.join(bench.output, "goals.md"), "w") as file:
                file.write(head(bench) + table(lines))
    finally:
        bench.end_servers()
    print(head(bench) + table(lines))
    print(f"{bench.output}/goals.md, goals.json; single results in raw/, for `pando bench report`")
    return 0 if all(line["verdict"] == "reached" for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
