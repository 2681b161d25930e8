#!/usr/bin/python3
"""Nested groups, unique values and transactions: what they cost, and what 389 DS and slapd take for the same.

Server CPU of each operation, rate and latency, with the server on processor 0 and the load on processor 1. The servers
take turns in every round; a line has the medians of the rounds, and the lowest and highest CPU in parentheses.

- `nested`: --users users, each in one of 9,000 groups, which are in 900, these in 90, 9 and 1: 10,000 groups in five
  levels. Pando follows the links at each request. 389 DS stores memberOf (MemberOf plugin), and has indexes of uid, cn,
  member and memberOf; its LDIF contains the values of memberOf that the plugin would write. slapd computes memberOf at
  each request (overlay dynlist). All requests are those of the administrator.
- `million`: the same on Pando alone, with --million users five levels below one group.
- `unique`: adds of people with and without three unique attributes; both have indexes of the three.
- `transactions`: ten modifies in a transaction (RFC 5805), one after the other, and ten sent at once.

    ./dev bench data-rules -o results.json
"""

import contextlib
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
import time

from shared import bind_request, cpu_seconds, element, finish, free_port, head, listening, measurement

SUFFIX = "dc=example,dc=com"
ADMIN = f"cn=admin,{SUFFIX}"
PASSWORD = "data-rules-password"
LEVELS = [9000, 900, 90, 9, 1]
LEVELS_OF_MILLION = [1000, 100, 10, 2, 1]
DS389 = "/usr/sbin/ns-slapd"
DS389_TEMPLATE = "/usr/share/dirsrv/data/template-dse.ldif"
CHAIN = "memberOf:1.2.840.113556.1.4.1941:"
USER = f"uid=user.{{n}},ou=people,{SUFFIX}"


def options():
    parser = measurement("Cost of nested groups, unique values and transactions.", "data-rules", seconds=4)
    parser.add_argument("--program", default="target/release/pando")
    parser.add_argument("--only", default="nested,million,unique,transactions")
    parser.add_argument("--peers", default="ds389,slapd", help="servers to compare nested groups with; may be empty")
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--million", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


def group(level, number):
    return f"cn=l{level}.{number},ou=groups,{SUFFIX}"


def write_groups(path, users, levels, stored):
    """Writes users and nested groups as LDIF; with `stored`, also the values of memberOf that 389 DS stores."""

    def part(position, parts, count):
        """Returns the part to which a position belongs, counted from 1, as {part:N} in a workload does."""
        return ((position + 1) * parts - 1) // count + 1

    def above(number, level):
        names = []
        for upper in range(level, len(levels)):
            number = part(number - 1, levels[upper], levels[upper - 1])
            names.append(group(upper + 1, number))
        return names

    def member_of(names):
        return "objectClass: nsMemberOf\n" + "".join(f"memberOf: {name}\n" for name in names) if stored else ""

    members = {}
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n")
        for unit in ("people", "groups"):
            out.write(f"dn: ou={unit},{SUFFIX}\nobjectClass: organizationalUnit\nou: {unit}\n\n")
        for n in range(users):
            leaf = part(n, levels[0], users)
            members.setdefault((1, leaf), []).append(USER.format(n=n))
            out.write(f"dn: {USER.format(n=n)}\nobjectClass: inetOrgPerson\nuid: user.{n}\ncn: User {n}\nsn: {n}\n")
            out.write(member_of([group(1, leaf)] + above(leaf, 1)) + "\n")
        for level, count in enumerate(levels, 1):
            for number in range(1, count + 1):
                upper = above(number, level)
                if upper:
                    members.setdefault((level + 1, part(number - 1, levels[level], count)), []).append(
                        group(level, number)
                    )
                values = "".join(f"member: {name}\n" for name in members.pop((level, number)))
                out.write(f"dn: {group(level, number)}\nobjectClass: groupOfNames\ncn: l{level}.{number}\n")
                out.write(values + (member_of(upper) if upper else "") + "\n")


def pando(arguments, name, ldif, settings):
    """Loads a directory of Pando, and returns the server as a context manager."""
    folder = arguments.folder / name
    folder.mkdir()
    (folder / "settings.toml").write_text(f'suffixes = ["{SUFFIX}"]\npassword_scheme = "ssha"\n{settings}')
    log = folder / "log"
    data = str(folder / "data")
    finish([arguments.program, "import", "--data", data, "--settings", str(folder / "settings.toml"), str(ldif)], log)
    (folder / "password").write_text(PASSWORD)
    (folder / "password").chmod(0o600)
    port = free_port()
    serve = [arguments.program, "serve", "--data", data, "--listen", f"ldap://127.0.0.1:{port}"]
    return listening(serve + ["--admin-dn", ADMIN, "--admin-password-file", str(folder / "password")], port, log)


def ds389(arguments, ldif):
    """Loads 389 DS, configured as in crates/bench/src/peers/ds389.rs, with its MemberOf plugin."""
    folder = (arguments.folder / "ds389").absolute()
    for name in ["config/schema", "db", "home", "log", "run", "lock", "bak", "ldif", "tmp"]:
        (folder / name).mkdir(parents=True)
    for name in ["slapd-collations.conf", "certmap.conf"]:
        shutil.copy(f"/etc/dirsrv/config/{name}", folder / "config")
    text = pathlib.Path(DS389_TEMPLATE).read_text(encoding="utf-8")
    port = free_port()
    places = {f"{name}_dir": folder / name for name in ["lock", "tmp", "ldif", "bak", "run", "log", "db"]}
    places |= {"schema_dir": folder / "config/schema", "config_dir": folder / "config", "cert_dir": folder / "config"}
    places |= {"db_home_dir": folder / "home", "inst_dir": folder, "ldapi": folder / "run/ldapi", "db_lib": "bdb"}
    places |= {"ldapi_enabled": "off", "ldapi_autobind": "off", "fqdn": "localhost", "ds_port": port}
    places |= {"ds_user": "root", "ds_suffix": SUFFIX, "rootdn": ADMIN, "ds_passwd": "{CLEAR}" + PASSWORD}
    for name, value in places.items():
        text = text.replace(f"%{name}%", str(value))
    replaced = {
        "cn=config": "nsslapd-listenhost: 127.0.0.1\nnsslapd-accesslog-logging-enabled: off\n"
        "nsslapd-securitylog-logging-enabled: off\nnsslapd-auditlog-logging-enabled: off\n"
        "nsslapd-sizelimit: -1\nnsslapd-timelimit: -1\n",
        "cn=MemberOf Plugin,cn=plugins,cn=config": "nsslapd-pluginenabled: on\n",
        "cn=config,cn=ldbm database,cn=plugins,cn=config": "nsslapd-db-locks: 100000\n",
    }
    entries = []
    for entry in re.sub("\n ", "", text).split("\n\n"):
        dn = re.search("^dn: *(.*)$", entry, re.MULTILINE)
        if not dn or ("cn=default indexes" in dn[1] and "nssystemindex: false" in entry):
            continue
        new = replaced.get(dn[1], "")
        for name in re.findall("^([^:\n]+):", new, re.MULTILINE):
            entry = re.sub(f"(?im)^{name}:.*\n?", "", entry)
        entries.append(entry.strip() + "\n" + new)
    backend = "cn=userRoot,cn=ldbm database,cn=plugins,cn=config"
    both = "objectclass: top\nobjectclass: extensibleObject\n"
    entries.append(
        f"dn: {backend}\n{both}objectclass: nsBackendInstance\ncn: userRoot\nnsslapd-suffix: {SUFFIX}\n"
        f"nsslapd-directory: {folder}/db/userRoot\nnsslapd-cachememsize: {2 << 30}\n"
    )
    entries.append(f"dn: cn=index,{backend}\n{both}cn: index\n")
    for name in ["uid", "cn", "member", "memberOf"]:
        entries.append(
            f"dn: cn={name},cn=index,{backend}\nobjectclass: top\nobjectclass: nsIndex\ncn: {name}\n"
            "nssystemindex: false\nnsindextype: eq\n"
        )
    entries.append(
        f'dn: cn="{SUFFIX}",cn=mapping tree,cn=config\n{both}objectclass: nsMappingTree\ncn: {SUFFIX}\n'
        f'cn: "{SUFFIX}"\nnsslapd-state: backend\nnsslapd-backend: userRoot\n'
    )
    (folder / "config/dse.ldif").write_text("\n".join(entries), encoding="utf-8")
    (folder / "config/schema/99user.ldif").write_text("dn: cn=schema\n", encoding="utf-8")
    log = folder / "said"
    config = ["-D", str(folder / "config")]
    finish([DS389, "ldif2db", *config, "-n", "userRoot", "-i", str(ldif)], log)
    return listening([DS389, *config, "-i", str(folder / "run/pid"), "-d", "0"], port, log)


def slapd(arguments, ldif):
    """Loads slapd, configured as in crates/bench/src/peers/openldap.rs, with memberOf by the overlay dynlist."""
    folder = (arguments.folder / "slapd").absolute()
    (folder / "data").mkdir(parents=True)
    names = ["core", "cosine", "nis", "inetorgperson", "dyngroup"]
    (folder / "slapd.conf").write_text(
        "".join(f"include /etc/ldap/schema/{name}.schema\n" for name in names)
        + "modulepath /usr/lib/ldap\nmoduleload back_mdb\nmoduleload dynlist\nloglevel 0\nthreads 16\n"
        "sizelimit unlimited\ntimelimit unlimited\n"
        f'database mdb\nsuffix "{SUFFIX}"\nrootdn "{ADMIN}"\nrootpw "{PASSWORD}"\ndirectory {folder}/data\n'
        f"maxsize {8 << 30}\nindex objectClass,uid,cn,member eq\n"
        "overlay dynlist\ndynlist-attrset groupOfURLs memberURL member+memberOf@groupOfNames*\n",
        encoding="utf-8",
    )
    log = folder / "said"
    finish(["/usr/sbin/slapadd", "-q", "-f", str(folder / "slapd.conf"), "-l", str(ldif)], log)
    port = free_port()
    address = f"ldap://127.0.0.1:{port}"
    return listening(["/usr/sbin/slapd", "-d", "0", "-h", address, "-f", str(folder / "slapd.conf")], port, log)


def toml(table):
    """Returns the lines of a TOML table. Texts and lists of texts have the same form as in JSON."""
    return "".join(f"{name} = {json.dumps(value)}\n" for name, value in table.items())


class Run:
    """Measures cases in rounds, and stores the figures."""

    def __init__(self, arguments):
        self.arguments = arguments
        self.results = []

    def load(self, server, workload, clients, entries, seconds, warm_up=1):
        """Returns one measurement: the rate, and in microseconds the CPU of an operation and the median latency."""
        port, process = server
        output = self.arguments.folder / "run.json"
        command = [self.arguments.program, "bench", "run", "--workload", str(workload), "--no-limit", "--no-check"]
        command += ["--target", f"ldap://127.0.0.1:{port}", "--server-pid", str(process), "--load-cpus", "1"]
        command += ["-D", ADMIN, "-w", PASSWORD, "--entries", str(entries), "--clients", str(clients)]
        command += ["--warmup", f"{warm_up}s", "--duration", f"{seconds}s", "-o", str(output)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stdout[-1500:] + done.stderr[-500:])
        result = json.loads(output.read_text())["workloads"][0]
        [figures] = result["operations"].values()
        if not figures["operations"]:
            raise RuntimeError(f"no answer within {seconds} s")
        return {
            "per_second": figures["operations"] / result["measured_seconds"],
            "cpu_micros": result["cost"]["cpu_micros"] / max(figures["operations"], 1),
            "p50_micros": figures["latency"]["p50_micros"],
        }

    def workload(self, operation, name):
        path = self.arguments.folder / f"{name}.toml"
        data = toml({"template": "", "rdn": "uid", "dn": USER, "first": 0})
        head = f'title = "{name}"\n[data]\n{data}'
        path.write_text(f"{head}[[job]]\nclients = 1\n[[job.operation]]\n" + toml(operation), encoding="utf-8")
        return path

    def rounds(self, case, clients, measured):
        """Measures all variants of a case alternately. `measured` has a function for each."""
        figures = {name: [] for name in measured}
        for _ in range(self.arguments.rounds):
            for name, measure in measured.items():
                try:
                    figures[name].append(measure())
                except RuntimeError as error:
                    print(f"{case}, {name}: {error}", file=sys.stderr)
        row = {"case": case, "clients": clients, "variants": {}}
        for name, rounds in figures.items():
            if rounds:
                row["variants"][name] = {key: [round(one[key], 2) for one in rounds] for key in rounds[0]}
        self.results.append(row)
        print(line(row), flush=True)

    def cases(self, servers, cases, entries, clients=(1, 16)):
        """Measures cases, each with an operation for every variant. The first word of a variant is its server."""
        for case, variants in cases.items():
            paths = {
                name: self.workload(operation, re.sub("[^a-z0-9]+", "-", f"{case} {name}".lower()))
                for name, operation in variants.items()
                if name.split()[0] in servers
            }
            # 389 DS needs seconds for one such change.
            one_client = case.startswith("a group")
            seconds = self.arguments.seconds * (4 if one_client else 1)
            for count in (1,) if one_client else clients:
                # slapd computes all groups again for each request, so more clients would only wait longer.
                measured = {
                    name: lambda name=name, path=path, count=count, seconds=seconds: self.load(
                        servers[name.split()[0]], path, count, entries, seconds
                    )
                    for name, path in paths.items()
                    if name != "slapd" or count == 1
                }
                self.rounds(case, count, measured)


def line(row):
    """Returns a line of the table: median, lowest and highest CPU, rate and median latency of each variant."""
    texts = []
    for name, figures in row["variants"].items():
        cpu, rate, p50 = (figures[key] for key in ("cpu_micros", "per_second", "p50_micros"))
        texts.append(
            f"{name}: {statistics.median(cpu):,.1f} us CPU ({min(cpu):,.1f} to {max(cpu):,.1f}),"
            f" {statistics.median(rate):,.0f}/s, p50 {statistics.median(p50):,.0f} us"
        )
    return f"{row['case']}, {row['clients']} clients\n    " + "\n    ".join(texts)


def search(base, scope, text, **others):
    return {"kind": "search", "base": base, "scope": scope, "filter": text, "attributes": ["1.1"], **others}


def ways(build):
    """Returns the same operation for the matching rule and for both attributes."""
    return {"pando": build(CHAIN), "pando isMemberOf": build("isMemberOf"), "ds389": build("memberOf")}


def nested_cases(users, levels):
    top, other = group(5, 1), group(4, levels[3])
    outside = round(1 - 1 / levels[3] - 0.001, 4)
    groups = {"pando": "isMemberOf", "ds389": "memberOf", "slapd": "memberOf"}

    def inside(attribute):
        return search(USER, "base", f"({attribute}={top})", expect_entries=1)

    cases = {
        "is X in G, five levels up: yes": ways(inside) | {"slapd": inside("memberOf")},
        "is X in G, four levels up: no": ways(
            lambda a: search(USER, "base", f"({a}={other})", expect_entries=0, share=outside)
        ),
        "compare of X with G, five levels up": {
            name: {"kind": "compare", "dn": USER, "attribute": attribute, "value": top}
            for name, attribute in groups.items()
            if name != "slapd"
        },
        "(&(uid=X)(in G, five levels up))": ways(
            lambda a: search(SUFFIX, "sub", f"(&(uid=user.{{n}})({a}={top}))", dn=USER, expect_entries=1)
        ),
        "all groups of X": {
            name: {
                **search(USER, "base", "(objectClass=*)", expect_entries=1),
                "attributes": [attribute],
                "dn": USER,
                "expect_attribute": f"{attribute}: {top}",
            }
            for name, attribute in groups.items()
        },
    }
    for level in (2, 3):
        name = f"cn=l{level}.{{part:{levels[level - 1]}}},ou=groups,{SUFFIX}"
        below = users // levels[level - 1] + sum(levels[: level - 1]) // levels[level - 1]
        cases[f"DNs of the members of a group of {below:,}"] = ways(
            lambda a, name=name, below=below: search(SUFFIX, "sub", f"({a}={name})", expect_entries=f"{below}+")
        )
    return cases


def change(above, below):
    """A member leaves its group and joins it again. Clients must not change the same member at the same time."""
    return {
        "kind": "modify",
        "dn": above,
        "changes": [f"delete member: {below}"],
        "undo": [f"add member: {below}"],
        "order": "shuffled",
    }


def nested(run):
    arguments = run.arguments
    indexes = '[indexes]\nuid = ["equality"]\ncn = ["equality"]\n'
    plain, stored, flat = (arguments.folder / f"{name}.ldif" for name in ("plain", "stored", "flat"))
    write_groups(plain, arguments.users, LEVELS, False)
    write_groups(stored, arguments.users, LEVELS, True)
    write_groups(flat, arguments.users, LEVELS[:1], False)
    with contextlib.ExitStack() as running:
        servers = {
            "pando": running.enter_context(pando(arguments, "pando", plain, indexes)),
            "flat": running.enter_context(pando(arguments, "flat", flat, indexes)),
        }
        if "ds389" in arguments.peers:
            servers["ds389"] = running.enter_context(ds389(arguments, stored))
        if "slapd" in arguments.peers:
            servers["slapd"] = running.enter_context(slapd(arguments, plain))
        warm = run.workload(search(USER, "base", "(objectClass=*)", order="sequential") | {"attributes": ["*"]}, "warm")
        for server in servers.values():
            run.load(server, warm, 16, arguments.users, 15)
        run.cases(servers, nested_cases(arguments.users, LEVELS), arguments.users)
        changes(run, servers)


def changes(run, servers):
    """Measures changes of a user in a lowest group, and of nested groups, whose members 389 DS changes too."""
    names = [f"cn=l{level}.{{part:{count}}},ou=groups,{SUFFIX}" for level, count in enumerate(LEVELS, 1)]
    everywhere = {"pando": change(names[0], USER), "flat": change(names[0], USER), "ds389": change(names[0], USER)}
    cases = {"a user leaves a group of the lowest level, or joins": everywhere}
    for upper in (1, 2, 3):
        users = run.arguments.users // LEVELS[upper - 1]
        both = {name: change(names[upper], names[upper - 1]) for name in ("pando", "ds389")}
        cases[f"a group of {users:,} users leaves a group, or joins"] = both
    run.cases(servers, cases, run.arguments.users)


def million(run):
    arguments = run.arguments
    ldif = arguments.folder / "million.ldif"
    write_groups(ldif, arguments.million, LEVELS_OF_MILLION, False)
    with pando(arguments, "million", ldif, '[indexes]\nuid = ["equality"]\n') as server:
        ldif.unlink()
        cases = {
            case + f", {arguments.million:,} users": {"pando": variants["pando"]}
            for case, variants in nested_cases(arguments.million, LEVELS_OF_MILLION).items()
            if not case.startswith("DNs")
        }
        run.cases({"pando": server}, cases, arguments.million)


def unique(run):
    """Measures adds with and without uniqueness of uid, mail and employeeNumber."""
    arguments = run.arguments
    ldif = arguments.folder / "people.ldif"
    finish([arguments.program, "generate", "people", "--entries", str(arguments.users), "-o", str(ldif)], "/dev/null")
    indexes = "[indexes]\n" + "".join(f'{name} = ["equality"]\n' for name in ("uid", "mail", "employeeNumber"))
    rules = 'unique = ["uid: uid", "mail: mail", "number: employeeNumber"]\n'
    adds = arguments.folder / "add.toml"
    text = pathlib.Path("bench/suites/add.toml").read_text(encoding="utf-8")
    adds.write_text(text.replace("employeeNumber: {n}", "employeeNumber: bench-{n}"), encoding="utf-8")
    with contextlib.ExitStack() as running:
        without = running.enter_context(pando(arguments, "without", ldif, indexes))
        ruled = running.enter_context(pando(arguments, "unique", ldif, rules + indexes))
        for clients in (1, 10, 64):
            measured = {
                name: lambda server=server, clients=clients: run.load(
                    server, adds, clients, arguments.users, arguments.seconds
                )
                for name, server in (("without", without), ("three unique attributes", ruled))
            }
            run.rounds("adds of people", clients, measured)


class Client:
    """A connection that repeatedly makes ten changes: one by one, ten at once, or in a transaction (`way`)."""

    SPECIFICATION, START, END = b"1.3.6.1.1.21.2", b"1.3.6.1.1.21.1", b"1.3.6.1.1.21.3"

    def __init__(self, port, number, way):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.way, self.number, self.message, self.received = way, number, 0, b""
        self.turn, self.step, self.awaited, self.groups, self.latencies = 0, 0, 0, 0, []
        self.send([(bind_request(ADMIN, PASSWORD), b"")])
        while self.awaited:
            self.receive()

    def send(self, requests):
        out = b""
        for request, controls in requests:
            # Ids from 0x10000 to 0x1ffff, which all need three octets.
            self.message = 0x10000 + (self.message + 1) % 0x10000
            out += element(0x30, element(2, self.message.to_bytes(3, "big")), request, controls)
        self.awaited = len(requests)
        self.socket.sendall(out)

    def receive(self):
        """Reads the available answers. Returns the last one if no more are expected. Each must be a success."""
        self.received += self.socket.recv(65536) or sys.exit("the server closed a connection")
        answer = None
        while (place := head(self.received)) and place[1] <= len(self.received):
            answer, self.received = self.received[slice(*place)], self.received[place[1] :]
            self.awaited -= 1
            if b"\x0a\x01\x00" not in answer:
                sys.exit(f"refused: {answer}")
        return answer if self.awaited == 0 else None

    def modify(self, index):
        user = (self.number * 600 + (self.turn * 10 + index) % 600) % 10_000
        values = element(0x31, element(4, f"changed {self.turn}".encode()))
        changed = element(0x30, element(10, b"\x02"), element(0x30, element(4, b"title"), values))
        return element(0x66, element(4, USER.format(n=user).encode()), element(0x30, changed))

    def extended(self, name, *value):
        return element(0x77, element(0x80, name), *(element(0x81, one) for one in value))

    def go_on(self, answer):
        """Sends the requests of the next step, at the start and after each answer that ends a step."""
        if self.step == (2 if self.way == "transaction" else 10 if self.way == "one" else 1):
            self.groups, self.turn, self.step = self.groups + 1, self.turn + 1, 0
            self.latencies.append(time.monotonic() - self.started)
        if self.step == 0:
            self.started = time.monotonic()
        if self.way == "one":
            self.send([(self.modify(self.step), b"")])
        elif self.way == "ten":
            self.send([(self.modify(index), b"") for index in range(10)])
        elif self.step == 0:
            self.send([(self.extended(self.START), b"")])
        else:
            identifier = re.search(rb"\n\x01\x00\x04\x00\x04\x00(?:\x8a.[0-9.]*)?\x8b(.)", answer, re.DOTALL)
            name = answer[identifier.end() : identifier.end() + identifier[1][0]]
            control = element(0x30, element(4, self.SPECIFICATION), b"\x01\x01\xff", element(4, name))
            changed = [(self.modify(index), element(0xA0, control)) for index in range(10)]
            self.send(changed + [(self.extended(self.END, element(0x30, element(4, name))), b"")])
        self.step += 1


def ten_changes(server, way, clients, seconds):
    """Measures ten changes at a time by a number of clients. Returns the figures of ten changes."""
    port, process = server
    with selectors.DefaultSelector() as ready, contextlib.ExitStack() as open_ones:
        all_clients = [Client(port, number, way) for number in range(clients)]
        for client in all_clients:
            open_ones.enter_context(client.socket)
            ready.register(client.socket, selectors.EVENT_READ, client)
            client.go_on(None)

        def work(until):
            while time.monotonic() < until:
                for key, _ in ready.select(1):
                    answer = key.data.receive()
                    if answer:
                        key.data.go_on(answer)

        work(time.monotonic() + 1)
        for client in all_clients:
            client.groups, client.latencies = 0, []
        before, start = cpu_seconds(process), time.monotonic()
        work(start + seconds)
        took, used = time.monotonic() - start, cpu_seconds(process) - before
    groups = sum(client.groups for client in all_clients)
    latencies = [one for client in all_clients for one in client.latencies]
    return {
        "per_second": groups / took,
        "cpu_micros": used * 1e6 / groups,
        "p50_micros": statistics.median(latencies) * 1e6,
    }


def transactions(run):
    arguments = run.arguments
    ldif = arguments.folder / "few.ldif"
    write_groups(ldif, 10_000, [10], False)
    os.sched_setaffinity(0, {1})
    named = {"one after the other": "one", "ten sent at once": "ten", "a transaction": "transaction"}
    with pando(arguments, "few", ldif, '[indexes]\nuid = ["equality"]\n') as server:
        for clients in (1, 16):
            measured = {
                name: lambda way=way, clients=clients: ten_changes(server, way, clients, arguments.seconds)
                for name, way in named.items()
            }
            run.rounds("ten changes", clients, measured)


def main():
    arguments = options()
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True)
    run = Run(arguments)
    for part in (nested, million, unique, transactions):
        if part.__name__ in arguments.only.split(","):
            part(run)
            if arguments.output:
                arguments.output.write_text(json.dumps(run.results, indent=1) + "\n")
    shutil.rmtree(arguments.folder)


if __name__ == "__main__":
    main()
