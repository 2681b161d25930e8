#!/usr/bin/python3
"""The console over a large directory: time and size of each page, and what open consoles and a scraper cost searches.

Generated people (template people) and a group of a thousand of them are imported. The server, with the console and the
listener of the metrics, runs on processor 0, this program and the load on processor 1. First every page is requested
once as its users find it after a start, then nine times more. Then searches (uid=...) of 16 clients in turns, alone and
with consoles that reload their live figures at the interval of the page while a scraper reads the metrics each second.

Wanted: a first page within 100 ms and 100 KB; consoles and scraper take less than 3% of the search rate.

    ./dev bench console --entries 1000000
"""

import contextlib
import http.client
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

from shared import end, finish, free_port, measurement, start

SUFFIX = "dc=example,dc=com"
ADMIN = f"cn=admin,{SUFFIX}"
PASSWORD = "console-password"
PERSON = f"uid=user.7,ou=people,{SUFFIX}"
GROUP = f"cn=thousand,{SUFFIX}"
SETTINGS = f"""suffixes = ["{SUFFIX}"]
password_scheme = "ssha"
anonymous_read = true

[indexes]
uid = ["equality", "substring"]
cn = ["equality", "substring"]
sn = ["equality", "substring"]
givenName = ["equality", "substring"]
mail = ["equality", "substring"]
"""
QUOTED = {name: urllib.parse.quote(dn, safe="") for name, dn in [("person", PERSON), ("group", GROUP)]}
PAGES = [
    "/sign-in", "/health", "/", "/?live=1", "/search", "/search?q=user.77", "/search?q=smi", "/tree",
    "/tree?dn=" + urllib.parse.quote(f"ou=people,{SUFFIX}", safe=""), "/entry?dn={person}",
    "/entry?dn={person}&operational=1", "/edit?dn={person}", "/history?dn={person}", "/account-state?dn={person}",
    "/reset-password?dn={person}", "/rename?dn={person}", "/delete?dn={person}", "/access?dn={person}&right=read",
    "/entry?dn={group}", "/members?dn={group}", "/add?kind=person", "/schema", "/schema?q=mail", "/manage", "/indexes",
    "/settings", "/policies", "/nodes", "/deleted", "/audit", "/sessions", "/access/rehearse", "/account", "/password",
]


def options():
    parser = measurement("The console over a large directory.", "console", seconds=10)
    parser.add_argument("--program", default="target/release/pando")
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--consoles", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5, help="turns of each kind")
    return parser.parse_args()


class Console:
    """A user of the console, with one kept connection, like a browser, and the cookie of a session."""

    def __init__(self, port):
        self.port = port
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.cookie = ""

    def ask(self, method, path, form=None):
        headers = {"Cookie": self.cookie} if self.cookie else {}
        body = None
        if form:
            body = urllib.parse.urlencode(form)
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        for attempt in (1, 2):
            try:
                self.connection.request(method, path, body, headers)
                answer = self.connection.getresponse()
                return answer, answer.read()
            except (http.client.HTTPException, ConnectionError):
                # The server closes connections after a minute.
                self.connection.close()
                if attempt == 2:
                    raise
        return None

    def sign_in(self):
        answer, _ = self.ask("POST", "/sign-in", {"name": ADMIN, "password": PASSWORD})
        self.cookie = (answer.getheader("Set-Cookie") or "").split(";")[0]
        if not self.cookie:
            sys.exit(f"the console answers a sign-in with {answer.status}")

    def page(self, path):
        """Returns the time in milliseconds, the status and the content of a page."""
        begun = time.perf_counter()
        answer, content = self.ask("GET", path)
        return (time.perf_counter() - begun) * 1000, answer.status, content


def load(given):
    data, settings, ldif = (given.folder / name for name in ("data", "settings.toml", "data.ldif"))
    log = given.folder / "load.log"
    settings.write_text(SETTINGS)
    with open(ldif, "wb") as file:
        subprocess.run([given.program, "generate", "people", "--entries", str(given.entries)], stdout=file, check=True)
        members = "".join(f"member: uid=user.{number},ou=people,{SUFFIX}\n" for number in range(1, 1001))
        file.write(f"\ndn: {GROUP}\nobjectClass: groupOfNames\ncn: thousand\n{members}".encode())
    begun = time.monotonic()
    finish([given.program, "import", "--data", data, "--settings", settings, "--suffix", SUFFIX, ldif], log)
    ldif.unlink()
    return round(time.monotonic() - begun, 1)


@contextlib.contextmanager
def serving(given):
    """Starts the server. Yields its LDAP URL, the ports of console and metrics, and its process id."""
    ldap, console, metrics = free_port(), free_port(), free_port()
    node = given.folder / "node.toml"
    node.write_text(f"""[console]
listen = ["127.0.0.1:{console}"]
tls = false
[metrics]
listen = "127.0.0.1:{metrics}"
[audit]
folder = {json.dumps(str((given.folder / "trail").resolve()))}
""")
    url = f"ldap://127.0.0.1:{ldap}"
    environment = dict(os.environ, PANDO_ADMIN_PASSWORD=PASSWORD)
    process = start(
        [given.program, "serve", "--data", str(given.folder / "data"), "--node", str(node), "--admin-dn", ADMIN,
         "--listen", url], console, given.folder / "server.log", environment=environment,
    )
    try:
        yield url, console, metrics, process.pid
    finally:
        end(process)


def pages(console):
    """Measures the time and size of each page: for the first request, and the median of nine more."""
    results = []
    for template in PAGES:
        path = template.format(**QUOTED)
        first, status, content = console.page(path)
        again = statistics.median(console.page(path)[0] for _ in range(9))
        results.append({"page": template, "status": status, "first_ms": round(first, 1), "median_ms": round(again, 1),
                        "bytes": len(content)})
        late = " late" if first > 100 else ""
        large = " large" if len(content) > 100_000 else ""
        figures = f"{first:8.1f} ms {again:8.1f} ms {len(content):8,} octets"
        print(f"{template:40} {status} {figures}{late}{large}", flush=True)
    return results


def searches(given, url, pid, name):
    """Measures the rate and CPU of searches on 16 connections, with one outstanding request on each."""
    output = given.folder / f"{name}.json"
    done = subprocess.run(
        ["taskset", "-c", "1", given.program, "bench", "run", "people-search", "--no-limit", "--no-check", "-D", ADMIN,
         "-w", PASSWORD, "--entries", str(given.entries), "--clients", "16", "--warmup", "1s", "--duration",
         f"{given.seconds}s", "--target", url, "--server-pid", str(pid), "-o", str(output)],
        capture_output=True, text=True, check=False,
    )
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    run = json.loads(output.read_text())["workloads"][0]
    operations = run["operations"]["search"]["operations"]
    return {"per_second": operations / run["measured_seconds"],
            "cpu_us": run["cost"]["cpu_micros"] / max(operations, 1)}


def watch(consoles, metrics, seconds_between, stop, counts):
    """Reloads every console at its interval, and reads the metrics every second."""
    os.sched_setaffinity(0, {1})
    due = [time.monotonic() + seconds_between * place / len(consoles) for place in range(len(consoles))]
    scrape = time.monotonic()
    while not stop.wait(0.02):
        now = time.monotonic()
        for place, console in enumerate(consoles):
            if now >= due[place]:
                counts["pages"] += console.page("/?live=1")[1] == 200
                due[place] = now + seconds_between
        if now >= scrape:
            connection = http.client.HTTPConnection("127.0.0.1", metrics, timeout=10)
            connection.request("GET", "/metrics")
            counts["scrapes"] += connection.getresponse().read() != b""
            connection.close()
            scrape = now + 1


def compare(given, url, console_port, metrics, pid):
    consoles = [Console(console_port) for _ in range(given.consoles)]
    # A user may have up to eight sessions, so several consoles share one.
    consoles[0].sign_in()
    for console in consoles:
        console.cookie = consoles[0].cookie
    content = consoles[0].page("/?live=1")[2].decode()
    seconds_between = int(re.search(r'http-equiv="refresh" content="(\d+)"', content).group(1))
    results = {"alone": [], "watched": []}
    counts = {"pages": 0, "scrapes": 0, "seconds_between_reloads": seconds_between}
    for number in range(given.rounds):
        for kind in ("alone", "watched") if number % 2 == 0 else ("watched", "alone"):
            stop = threading.Event()
            watcher = threading.Thread(target=watch, args=(consoles, metrics, seconds_between, stop, counts))
            if kind == "watched":
                watcher.start()
            results[kind].append(searches(given, url, pid, f"{kind}-{number}"))
            stop.set()
            if kind == "watched":
                watcher.join()
    medians = {
        kind: {figure: statistics.median(run[figure] for run in runs) for figure in ("per_second", "cpu_us")}
        for kind, runs in results.items()
    }
    loss = 1 - medians["watched"]["per_second"] / medians["alone"]["per_second"]
    more = medians["watched"]["cpu_us"] / medians["alone"]["cpu_us"] - 1
    for kind, of in medians.items():
        print(f"{kind:8} {of['per_second']:10.0f} searches/s {of['cpu_us']:8.2f} us of CPU each")
    print(f"loss of rate {loss:.1%}, more CPU {more:.1%}, {counts}", flush=True)
    return {"runs": results, "medians": medians, "loss_of_rate": loss, "more_cpu": more, "counts": counts}


def main():
    given = options()
    shutil.rmtree(given.folder, ignore_errors=True)
    given.folder.mkdir(parents=True)
    results = {"entries": given.entries, "import_seconds": load(given)}
    with serving(given) as (url, console_port, metrics, pid):
        console = Console(console_port)
        os.sched_setaffinity(0, {1})
        console.sign_in()
        results["pages"] = pages(console)
        results["searches"] = compare(given, url, console_port, metrics, pid)
    if given.output:
        given.output.write_text(json.dumps(results, indent=1) + "\n")
    shutil.rmtree(given.folder)


main()
