#!/usr/bin/python3
"""Size: what an operation costs with 10,000 entries and with 10,000,000, in groups of 1,000 members and of 10,000,000.

  bench/scale.py bench-runs/2026-01-31-scale                                    # entries and groups, Pando alone
  bench/scale.py bench-runs/2026-01-31-scale --parts servers                    # the main workloads on every server
  bench/scale.py bench-runs/2026-01-31-scale --parts groups --groups 1x10000000 # one group of ten million
  bench/scale.py /tmp/try --parts entries,groups,servers --sizes 2000,4000 --groups 10x100,10x200 \\
      --server-entries 2000 --seconds 1 --warmup 1

Three parts, the server on core 0 and the load on core 1:
  entries  M-Vault's entry of four attributes, 10,000 to 10,000,000 of them, generator piped into `pando import`: search
           by (cn=), base read, compare, modify, keys uniform over all entries
  groups   ten groups of 1,000, 100,000 and 1,000,000 members: search by (member=) beside (uid=), members that leave and
           come back
  servers  M-Vault's workloads with 10,000,000 entries on Pando and every peer, one server's data on disk at a time
           (`pando bench peers --one-at-a-time`, which generates the LDIF once, 2.3 GB, so that no loader shares the
           cores with the generator)

Before anything is measured the server of entries and groups is primed: 64 clients with 16 requests outstanding read
uniformly all over the data, in windows as long as a measurement, until there were as many reads as entries and the CPU
time a read of two successive windows differs by less than 3%, or 60 s have passed; the table says which. With more than
1,000,000 entries windows and time are twice as long. Modifies come last. The peers of the third part, and Pando there,
are warmed up for --server-warmup before each workload instead.

Every single result is a file of the folder, written when it is there. The same command again measures only what is
missing, and one that would take longer than --minutes ends by itself (code 3) and goes on in the same way. scale.md has
the tables of all that is in the folder, scale.html the curves. Wanted (docs/explanation/performance.md): CPU time a
search with the most entries at most 1.5 times that with the fewest.

Entries and groups take about 22 minutes, at most 27, and 8 GB of disk; servers half an hour without 389 DS, whose own
loader takes ten minutes more, on a busy machine an hour, and 20 GB.
./dev bench scale builds and installs what is needed.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import time
import zlib

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "goals"))
import figures  # noqa: E402
import servers  # noqa: E402

PARTS = ("entries", "groups", "servers")
MAIN_WORKLOADS = (
    "m-vault-load,m-vault-search-no-attributes,m-vault-search-all-attributes,"
    "m-vault-modify,m-vault-search-and-modify,m-vault-bind"
)
STEADY, PRIME_SECONDS, MANY_ENTRIES = 0.03, 60, 1_000_000
GROWTH_WANTED = 1.5

M_VAULT = """title = "{title}"

[data]
template = "m-vault"
rdn = "cn"
dn = "cn={{cn}},o=Test,c=BA"
"""
GROUPS = """title = "{title}"

[data]
template = "bench/goals/groups.template"
rdn = "uid"
dn = "uid=user.{{n}},ou=people,dc=example,dc=com"
first = 0
"""
BY_NAME = """
[[job.operation]]
kind = "search"
base = "o=Test,c=BA"
scope = "sub"
filter = "(cn={cn})"
dn = "cn={cn},o=Test,c=BA"
"""
BASE = """
[[job.operation]]
kind = "search"
base = "cn={cn},o=Test,c=BA"
scope = "base"
dn = "cn={cn},o=Test,c=BA"
"""
COMPARE = """
[[job.operation]]
kind = "compare"
dn = "cn={cn},o=Test,c=BA"
attribute = "cn"
value = "{cn}"
"""
MODIFY = """
[[job.operation]]
kind = "modify"
dn = "cn={cn},o=Test,c=BA"
changes = ["replace description: {random:alphanumeric:11}"]
"""
BY_UID = servers.BY_UID + servers.DN_ONLY


def job(outstanding, operations):
    return f"\n[[job]]\nclients = 64\noutstanding = {outstanding}\n{operations}"


# Name of the measurement, which is that of its workload: what a table's column says, the workload's text.
OF_ENTRIES = {
    "search": ("search (cn=), DN only", M_VAULT + job(1, BY_NAME + servers.DN_ONLY)),
    "search-16": ("search (cn=), DN only, 16 outstanding", M_VAULT + job(16, BY_NAME + servers.DN_ONLY)),
    "search-all": ("search (cn=), all attributes", M_VAULT + job(1, BY_NAME)),
    "read": ("base read", M_VAULT + job(1, BASE)),
    "compare": ("compare", M_VAULT + job(1, COMPARE)),
    "modify": ("modify, 16 outstanding", M_VAULT + job(16, MODIFY)),
}
PRIME_ENTRIES = M_VAULT + job(16, BY_NAME + BASE)


def titled(text, title):
    """The text of a workload with its title. Places such as {cn} are the driver's."""
    head, end, rest = text.partition("[[job]]")
    return head.format(title=title) + end + rest


def of_groups(count):
    """The measurements of so many groups; two of them are those of bench/goals."""

    def shipped(name):
        text = pathlib.Path("bench/goals", name).read_text()
        return text.replace("{part:10}", f"{{part:{count}}}")

    return {
        "member": ("search (member=)", shipped("group-search.toml")),
        "uid": ("search (uid=)", titled(GROUPS + job(1, BY_UID), "A user by uid")),
        "group-modify": ("a member leaves and comes back, 10 clients", shipped("group-modify.toml")),
    }


def prime_groups(measures):
    """Both kinds of search."""
    by_member = measures["member"][1].partition("[[job.operation]]")[2]
    return titled(GROUPS + job(16, f"{BY_UID}\n[[job.operation]]{by_member}"), "Priming")


def say(text):
    print(f"scale: {time.strftime('%H:%M:%S', time.gmtime())} {text}", file=sys.stderr, flush=True)


class OutOfTime(Exception):
    """The command ends here; the same one goes on."""


class Bench:
    """What things are measured with, and where they are kept."""

    def __init__(self, arguments):
        self.__dict__.update(vars(arguments))
        self.deadline = time.monotonic() + 60 * arguments.minutes
        self.workloads = self.output / "workloads"
        self.failed = False
        self.data_folder.mkdir(parents=True, exist_ok=True)
        self.workloads.mkdir(parents=True, exist_ok=True)

    def file(self, *words):
        return self.output / ("-".join(str(word) for word in words) + ".json")

    def fail(self, text):
        """What failed is missing in the tables, and tried again by the next command; the others may still go."""
        say(text)
        self.failed = True

    def check_time(self, seconds):
        """There is still that much."""
        if time.monotonic() + seconds > self.deadline:
            raise OutOfTime

    def run(self, server, name, text, output, seed, warmup, seconds):
        """One measurement; its figures. The result file appears when it is whole."""
        partial = output.with_suffix(".partial")
        file = self.workloads / f"{name}.toml"
        result = servers.run_workload(server, text, file, f"{seconds}s", f"{warmup}s", partial, seed)
        found = figures.of_workload(result)
        partial.rename(output)
        say(f"{output.stem}: {found.rate:,.0f}/s, {found.cpu:.2f} us CPU, p99 {found.p99:,.0f} us")
        return found

    def prime(self, server, text, entries, output):
        """Reads all over the data until that costs the same again and again."""
        windows, reads, is_steady = [], 0, False
        # Each run begins with finding out the names of all entries, which takes longer than ten seconds then.
        seconds = self.seconds * (2 if entries > MANY_ENTRIES else 1)
        partial = self.data_folder / "prime.json"
        for number in range(max(2, PRIME_SECONDS // self.seconds)):
            self.check_time(60)
            found = self.run(server, "prime", text, partial, 1000 + number, 0, seconds)
            windows.append(found.cpu)
            reads += found.rate * seconds
            is_steady = len(windows) > 1 and abs(windows[-1] - windows[-2]) < STEADY * windows[-2]
            if is_steady and reads >= entries:
                break
        said = {"seconds": len(windows) * seconds, "reads": reads}
        said |= {"is_steady": is_steady, "cpu_micros_per_read": windows}
        write(output, said)

    def measure(self, part, size, data, measures, prime):
        """One size on Pando: loaded, primed, everything that is missing measured, its data removed."""
        missing = {name: text for name, (_, text) in measures.items() if not is_measured(self.file(part, size, name))}
        if not missing:
            return
        # A million entries load in ten seconds; measuring takes minutes.
        self.check_time(300 + data.entries / 50_000)
        server = servers.Pando(self.pando, str(self.data_folder), data, "0")
        seconds = server.load(say)
        if seconds is not None:
            folder = pathlib.Path(server.folder, "data")
            disk = sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
            write(self.file(part, size, "load"), {"entries": data.entries, "seconds": seconds, "disk_bytes": disk})
        server.start()
        try:
            self.prime(server, prime, data.entries, self.file(part, size, "prime"))
            for name, text in missing.items():
                self.check_time(60)
                try:
                    self.run(server, name, text, self.file(part, size, name), seed(name), self.warmup, self.seconds)
                except (servers.Failed, figures.Unclean) as error:
                    self.fail(f"{part}-{size}-{name}: {error}")
        finally:
            server.stop()
        if not self.keep:
            shutil.rmtree(pathlib.Path(server.folder).parent)

    def entries(self):
        measures = {name: (column, titled(text, column)) for name, (column, text) in OF_ENTRIES.items()}
        indexes = ("cn:equality", "sn:equality", "mail:equality")
        for size in self.sizes:
            data = servers.Data("m-vault", "m-vault", size, "c=BA", indexes, "")
            self.measure("entries", size, data, measures, titled(PRIME_ENTRIES, "Priming"))

    def groups(self):
        for count, members in self.group_sizes:
            measures = of_groups(count)
            template, constants = "bench/goals/groups.template", (f"groups={count}",)
            data = servers.Data(
                f"groups-{count}",
                template,
                count * members,
                "dc=example,dc=com",
                ("uid:equality",),
                "password",
                constants,
            )
            self.measure("groups", f"{count}x{members}", data, measures, prime_groups(measures))

    def servers(self):
        """Ended at the deadline with everything below it; what it has measured by then is in its result."""
        self.check_time(60)
        output = self.file("servers", self.server_entries)
        command = [self.pando, "bench", "peers", "--one-at-a-time", "--resume", "--rounds", "1", "--pause", "0s"]
        command += ["--entries", str(self.server_entries), "--workloads", MAIN_WORKLOADS]
        command += ["--peers", self.peers, "--opendj", self.opendj, "--duration", f"{self.seconds}s"]
        command += ["--warmup", f"{self.server_warmup}s", "--java-warmup", f"{self.java_warmup}s"]
        command += ["--folder", str(self.data_folder), "-o", str(output)]
        with open(self.output / "servers.log", "ab") as log:
            child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
            try:
                code = child.wait(max(1, self.deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise OutOfTime from None
            finally:
                if child.poll() is None:
                    os.killpg(child.pid, signal.SIGKILL)
                    child.wait()
                for left in self.data_folder.glob("pando-peers-*"):
                    shutil.rmtree(left, ignore_errors=True)
        if code not in (0, 7):
            raise servers.Failed(f"pando bench peers ended with {code}: see {log.name}")


def seed(name):
    """Another for every measurement: keys of one must not be those that another has just asked for."""
    return zlib.crc32(name.encode())


def write(path, value):
    path.write_text(json.dumps(value, indent=1) + "\n")


def is_measured(path):
    try:
        figures.of_workload(figures.read(path)["workloads"][0])
        return True
    except (OSError, ValueError, LookupError, figures.Unclean):
        return False


class Folder:
    """What was measured, by all commands that wrote into the folder."""

    def __init__(self, folder):
        self.folder = folder

    def read(self, *words):
        path = self.folder / ("-".join(str(word) for word in words) + ".json")
        return figures.read(path) if path.exists() else None

    def result(self, *words):
        """The only workload of a result, and its figures."""
        found = self.read(*words)
        return (found["workloads"][0], figures.of_workload(found["workloads"][0])) if found else (None, None)

    def sizes(self, part):
        sizes = {path.name.split("-")[1] for path in self.folder.glob(f"{part}-*-load.json")}
        return sorted(sizes, key=size_of)

    def text(self):
        compared = [self.servers(path) for path in sorted(self.folder.glob("servers-*.json"))]
        parts = [self.entries(), self.groups(), *compared]
        return "\n".join(part for part in parts if part)

    def entries(self):
        sizes = self.sizes("entries")
        if not sizes:
            return ""
        columns = [column for column, _ in OF_ENTRIES.values()]
        cells = [[*self.loaded("entries", size), *self.measured("entries", size, OF_ENTRIES)] for size in sizes]
        head = [*LOADED, *columns, *MEMORY]
        rows = [[f"{int(size):,}", *row] for size, row in zip(sizes, cells)]
        text = "## Entries: server CPU an operation (operations a second)\n\n" + table(["entries", *head], rows)
        return text + self.growth(sizes)

    def groups(self):
        sizes = self.sizes("groups")
        if not sizes:
            return ""
        measures = of_groups(10)
        columns = [column for column, _ in measures.values()]
        head = ["groups x members", *LOADED, *columns, "(member=) / (uid=)", *MEMORY]
        rows = []
        for size in sizes:
            member, uid = self.result("groups", size, "member")[1], self.result("groups", size, "uid")[1]
            ratio = f"{member.cpu / uid.cpu:.2f}" if member and uid and uid.cpu else "-"
            cells = self.measured("groups", size, measures)
            count, members = size.split("x")
            cells.insert(len(measures), ratio)
            rows.append([f"{count} x {int(members):,}", *self.loaded("groups", size), *cells])
        return "## Groups: server CPU an operation (operations a second)\n\n" + table(head, rows)

    def loaded(self, part, size):
        load, prime = self.read(part, size, "load"), self.read(part, size, "prime")
        steady = f"{prime['seconds']} s, {'steady' if prime['is_steady'] else 'not steady'}" if prime else "-"
        return [
            f"{load['seconds']:.1f} s, {load['entries'] / load['seconds']:,.0f}/s",
            f"{load['disk_bytes'] / 1e6:,.0f} MB, {load['disk_bytes'] / load['entries']:,.0f} B each",
            steady,
        ]

    def measured(self, part, size, measures):
        """A cell for every measurement, and the memory: the most while searches ran, and while changes did."""
        results = {name: self.result(part, size, name) for name in measures}
        cells = [f"{found.cpu:.2f} us ({found.rate:,.0f})" if found else "-" for _, found in results.values()]
        costs = [(name, result["cost"]) for name, (result, _) in results.items() if result and result.get("cost")]
        most = lambda field, change: max(
            (cost.get(field) or 0 for name, cost in costs if ("modify" in name) == change), default=0
        )
        for field in ("rss_anon_peak_bytes", "rss_file_peak_bytes"):
            cells.append(f"{most(field, False) / 1e6:,.0f} / {most(field, True) / 1e6:,.0f} MB")
        return cells

    def growth(self, sizes):
        """The goal: by how much an operation costs more with the most entries than with the fewest."""
        text = ""
        for name, (column, _) in OF_ENTRIES.items():
            few, many = (self.result("entries", size, name)[1] for size in (sizes[0], sizes[-1]))
            if few is None or many is None or not few.cpu or sizes[0] == sizes[-1]:
                continue
            grown, verdict = many.cpu / few.cpu, ""
            if name.startswith("search"):
                verdict = f", wanted at most {GROWTH_WANTED}: {'reached' if grown <= GROWTH_WANTED else 'MISSED'}"
            text += f"- {column}: {few.cpu:.2f} us with {int(sizes[0]):,} entries,"
            text += f" {many.cpu:.2f} us with {int(sizes[-1]):,}, {grown:.2f} x{verdict}\n"
        return f"\n{text}" if text else ""

    def servers(self, path):
        result = figures.read(path)
        rows = [row for row in result["workloads"] if row["workload"] != "m-vault-load"]
        products = list(dict.fromkeys(row["server"]["product"] for row in rows))
        names = list(dict.fromkeys(row["workload"] for row in rows))
        of = {(row["workload"], row["server"]["product"]): row for row in rows}
        lines = [[name, *(of_server(of.get((name, product))) for product in products)] for name in names]
        entries = int(path.stem.split("-")[1])
        text = f"## {entries:,} entries on every server: operations a second, server CPU an operation, p99\n\n" + table(
            ["", *products], lines
        )
        for compared in result["comparisons"]:
            who = ", ".join(compared["servers"])
            text += (
                f"\n{compared['differing']} of {compared['requests']} searches were answered differently by {who}.\n"
            )
        return text


LOADED = ["load, generator piped", "disk", "primed"]
MEMORY = ["RssAnon, searches / changes", "RssFile, searches / changes"]


def size_of(text):
    """1000, or 10x1000: the members of a group, then how many groups."""
    count, _, members = text.rpartition("x")
    return int(members), int(count or 0)


def of_server(row):
    """A cell of the table of servers."""
    if row is None:
        return "-"
    load = row["server"].get("bulk_load")
    if row["workload"] == "bulk-load" and load:
        private, disk = load["rss_anon_peak_bytes"] / 1e6, load["disk_bytes"] / 1e6
        rate = load["entries"] / load["seconds"]
        return f"{load['seconds']:.0f} s, {rate:,.0f}/s, {private:,.0f} MB private, {disk:,.0f} MB disk"
    try:
        found = figures.of_workload(row)
    except figures.Unclean as error:
        return f"FAILED: {error}".replace("|", "/").replace("\n", " ")[:120]
    of_kinds = (
        " + ".join(f"{rate:,.0f} {kind}" for kind, rate in found.rates.items())
        if len(found.rates) > 1
        else f"{found.rate:,.0f}"
    )
    return f"{of_kinds}/s, {found.cpu:.1f} us, {found.p99 / 1000:.1f} ms"


def table(head, rows):
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ["---"] * len(head), *rows])


def head(bench):
    own = subprocess.run([bench.pando, "--version"], capture_output=True, text=True).stdout.strip()
    with open("/proc/cpuinfo") as file:
        model = next(
            (line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine()
        )
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (
        f"# Size\n\n{time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC, {os.cpu_count()} processors, {model},"
        f" {memory:.0f} GiB,"
        f" Linux {platform.release()}; {own} ({commit})\n"
        f"Measurements of {bench.seconds} s; server on processor 0, load on processor 1; keys uniform over all entries;"
        " every change is synced.\nThe head of bench/scale.py says how it is done. A load in the tables of Pando alone"
        " shares the cores with the generator.\n\n"
    )


def curves(folder, bench):
    """The steps of both curves as one sweep, for the report to draw them; and the servers."""
    steps, first = [], None
    for part, measures in (("entries", OF_ENTRIES), ("groups", of_groups(10))):
        for size in folder.sizes(part):
            for name in measures:
                found = folder.read(part, size, name)
                if found is None or size.startswith("1x"):
                    continue
                first = first or found
                step = found["workloads"][0]
                server = {**step["server"], "entries": size_of(size)[0]}
                title = step["title"] + ("" if part == "entries" else " (entries: members of each group)")
                steps.append({**step, "sweep": "entries", "server": server, "title": title})
    results = sorted(folder.folder.glob("servers-*.json"))
    if first:
        combined = bench.data_folder / "curves.json"
        combined.write_text(json.dumps({**first, "workloads": steps}))
        results.insert(0, combined)
    if results:
        command = [bench.pando, "bench", "report", *map(str, results), "--output", str(folder.folder / "scale.html")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def group_size(text):
    count, _, members = text.partition("x")
    if not (count.isdigit() and members.isdigit() and int(count) and int(members)):
        raise argparse.ArgumentTypeError(f"{text}: write as 10x1000, groups and members of each")
    return int(count), int(members)


def options():
    listed = lambda kind: lambda text: [kind(word) for word in text.split(",")]

    def parts(text):
        words = text.split(",")
        if set(words) - set(PARTS):
            raise argparse.ArgumentTypeError(f"parts are {', '.join(PARTS)}")
        return words

    parser = argparse.ArgumentParser(prog="bench/scale.py", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("output", type=pathlib.Path, metavar="FOLDER", help="where results go")
    parser.add_argument("--parts", type=parts, default=["entries", "groups"], help="of entries,groups,servers")
    parser.add_argument(
        "--sizes",
        type=listed(int),
        default=[10_000, 100_000, 1_000_000, 10_000_000],
        help="entries, with commas between",
    )
    parser.add_argument(
        "--groups",
        dest="group_sizes",
        metavar="COUNTxMEMBERS,...",
        type=listed(group_size),
        default=[(10, 10**power) for power in (3, 5, 6)],
    )
    parser.add_argument("--server-entries", type=int, default=10_000_000)
    parser.add_argument("--peers", default="openldap,ds389,opendj")
    parser.add_argument("--seconds", type=int, default=10, help="of each measurement")
    parser.add_argument("--warmup", type=int, default=2, help="seconds before each, of entries and groups")
    parser.add_argument("--server-warmup", type=int, default=20, help="the same, of servers")
    parser.add_argument("--java-warmup", type=int, default=20, help="seconds, after each start of OpenDJ")
    parser.add_argument("--minutes", type=float, default=95, help="after which it ends, to be gone on with")
    parser.add_argument("--keep", action="store_true", help="leave the data of entries and groups in the data folder")
    parser.add_argument(
        "--data-folder", type=pathlib.Path, default=pathlib.Path(".dev/scale"), help="where data is meanwhile"
    )
    parser.add_argument("--opendj", default=os.environ.get("PANDO_OPENDJ", ".dev/peers/opendj"))
    parser.add_argument("--pando", default="target/release/pando")
    return parser.parse_args()


def main():
    arguments = options()
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    bench = Bench(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    is_over = False
    for part in arguments.parts:
        try:
            getattr(bench, part)()
        except OutOfTime:
            say(f"{part}: --minutes are over; the same command goes on here")
            is_over = True
            break
        except (servers.Failed, figures.Unclean, OSError) as error:
            bench.fail(f"{part}: {error}")
    folder = Folder(arguments.output)
    text = folder.text()
    (arguments.output / "scale.md").write_text(head(bench) + text)
    curves(folder, bench)
    print(text)
    say(f"{arguments.output}/scale.md, scale.html, and every single result")
    sys.exit(3 if is_over else 1 if bench.failed else 0)


if __name__ == "__main__":
    main()
