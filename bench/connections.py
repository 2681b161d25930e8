#!/usr/bin/python3
"""Connections: what an operation costs with 64 connections open, and with 100,000.

For every step, Pando and then the null responder on core 0, as many load agents as needed on core 1. Every client has
one request outstanding: a subtree search (uid=...) that returns the DN, keys at random over all entries. A process may
have 20,000 files open on many machines, so a step above --per-process is spread over several server processes, each
with its own copy of the directory, and over several agents. Then the same connections nearly idle (1,000 requests a
second over all of them), for the memory that a connection costs.

Wanted (docs/explanation/performance.md): the rise in CPU an operation over the step nearest to 3,200 is at most the
null responder's rise plus 10%; at most 1 KB of private memory for an idle connection.

./dev bench connections builds what is needed. About five minutes with the defaults.
"""

import contextlib
import json
import os
import pathlib
import secrets
import shutil
import subprocess
import sys

from shared import free_port, listening, measurement

PANDO = "target/release/pando"
SUFFIX = "dc=example,dc=com"
ADMIN = f"cn=admin,{SUFFIX}"
PASSWORD = "connections-password"
SETTINGS = f"""suffixes = ["{SUFFIX}"]
anonymous_read = true
password_scheme = "ssha"

[limits]
size_limit = 0
time_limit_seconds = 0
unindexed_examined = 0

[indexes]
uid = ["equality"]
"""


def options():
    parser = measurement("Pando and the null responder under more and more connections.", "connections", seconds=10)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--steps", default="64,500,3200,10000,19000,32000,64000,100000")
    parser.add_argument("--per-process", type=int, default=19_000, help="connections of a server process")
    return parser.parse_args()


def serving(words, scheme, log, cpu):
    """Runs a command of Pando that listens on a free port, on one processor. Yields its port and process id."""
    port = free_port()
    environment = dict(os.environ, PANDO_ADMIN_PASSWORD=PASSWORD)
    return listening([PANDO, *words, "--listen", f"{scheme}127.0.0.1:{port}"], port, log, cpu, environment)


def run(server, clients, targets, agents, arguments, how):
    """Runs one workload and returns its result. Exit code 7 is accepted: the null responder returns other entries."""
    output = arguments.folder / "run.json"
    command = [PANDO, "bench", "run", "people-search", "--no-limit", "--no-check", "-D", ADMIN]
    command += ["-y", str(arguments.folder / "password"), "--entries", str(arguments.entries)]
    command += ["--clients", str(clients), "--warmup", "3s", "-o", str(output)]
    command += ["--agents", ",".join(f"127.0.0.1:{port}" for port, _ in agents)]
    command += ["--token-file", str(arguments.folder / "token")]
    for port, process in targets:
        command += ["--target", f"ldap://127.0.0.1:{port}", "--server-pid", str(process)]
    finished = subprocess.run(command + how, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if finished.returncode != (7 if server == "null" else 0):
        sys.exit(f"{clients} connections: {finished.stdout[-2000:]} {finished.stderr[-2000:]}")
    return json.loads(output.read_text())["workloads"][0]


def measure(server, clients, arguments):
    """One step of one server."""
    numbers = range(-(-clients // arguments.per_process))
    token = ["bench", "agent", "--token-file", str(arguments.folder / "token")]
    log = arguments.folder / "server.log"

    def command(number):
        if server == "null":
            return ["bench", "limit"]
        return ["serve", "--data", str(arguments.folder / f"data-{number}"), "--admin-dn", ADMIN]

    with contextlib.ExitStack() as running:
        scheme = "" if server == "null" else "ldap://"
        targets = [running.enter_context(serving(command(number), scheme, log, "0")) for number in numbers]
        agents = [running.enter_context(serving(token, "", log, "1")) for _ in numbers]
        idle = run(server, clients, targets, agents, arguments, ["--rate", "1000", "--duration", "3s"])
        busy = run(server, clients, targets, agents, arguments, ["--duration", f"{arguments.seconds}s"])
    # The null responder does not return the entries that people-search expects, so its answers count as wrong.
    search = busy["operations"]["search"]
    answered = search["operations"] + search["wrong_answers"]
    return {
        "server": server,
        "connections": clients,
        "processes": len(targets),
        "operations_per_second": answered / busy["measured_seconds"],
        "cpu_micros_per_operation": busy["cost"]["cpu_micros"] / max(answered, 1),
        "p99_micros": search["latency"]["p99_micros"],
        "private_bytes_per_process_idle": idle["cost"]["rss_anon_peak_bytes"] / len(targets),
    }


def load(steps, arguments):
    """Loads one directory, and copies it for the other processes."""
    data, settings, ldif = (arguments.folder / name for name in ("data-0", "settings.toml", "data.ldif"))
    settings.write_text(SETTINGS)
    with open(ldif, "wb") as file:
        subprocess.run(
            [PANDO, "generate", "people", "--entries", str(arguments.entries), "--seed", "1"], stdout=file, check=True
        )
    subprocess.run([PANDO, "apply", "--data", data, settings], stdout=subprocess.DEVNULL, check=True)
    subprocess.run([PANDO, "import", "--data", data, "--suffix", SUFFIX, ldif], check=True)
    for number in range(1, -(-max(steps) // arguments.per_process)):
        shutil.copytree(data, arguments.folder / f"data-{number}")


def main():
    arguments = options()
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    steps = [int(step) for step in arguments.steps.split(",")]
    shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True)
    for name, secret in [("token", secrets.token_hex(24)), ("password", PASSWORD)]:
        (arguments.folder / name).write_text(secret)
        (arguments.folder / name).chmod(0o600)
    load(steps, arguments)
    results = []
    for step in steps:
        for server in ("pando", "null"):
            results.append(measure(server, step, arguments))
            print(json.dumps(results[-1]), file=sys.stderr)
    report(results)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    shutil.rmtree(arguments.folder)


def report(results):
    """A table, and the goals."""
    print(
        "connections  processes     pando us      null us   rise of both   bytes an idle connection   pando/s   p99 ms"
    )
    of = {(result["server"], result["connections"]): result for result in results}
    steps = sorted({result["connections"] for result in results})
    base = min(steps, key=lambda step: abs(step - 3200))
    for step in steps:
        pando, null = of["pando", step], of["null", step]
        rise = [
            r["cpu_micros_per_operation"] / of[r["server"], base]["cpu_micros_per_operation"] for r in (pando, null)
        ]
        # The cost of connections is the increase over the smallest number of them.
        fewest = of["pando", steps[0]]
        more = step / pando["processes"] - steps[0] / fewest["processes"]
        grown = pando["private_bytes_per_process_idle"] - fewest["private_bytes_per_process_idle"]
        per_connection = grown / more if more > 0 else 0
        print(
            f"{step:11,} {pando['processes']:10} {pando['cpu_micros_per_operation']:12.2f}"
            f" {null['cpu_micros_per_operation']:12.2f} {rise[0]:8.2f} {rise[1]:5.2f}"
            f" {per_connection:26.0f} {pando['operations_per_second']:9.0f}"
            f" {pando['p99_micros'] / 1000:8.1f}"
        )
        if step > base:
            verdict = "reached" if rise[0] <= rise[1] + 0.1 else "missed"
            print(f"            rise over {base:,}: {rise[0]:.2f}, wanted at most {rise[1] + 0.1:.2f}: {verdict}")


if __name__ == "__main__":
    main()
