#!/usr/bin/python3
"""Connections: what an operation costs with 64 connections open, and with 100,000.

For every step, Pando and then the null responder on core 0, as many load agents as needed on core 1. Every client has one
request outstanding: a subtree search (uid=...) that returns the DN, keys at random over all entries. A process may have 20,000
files open on many machines, so a step above --per-process is spread over several server processes, each with its own copy of
the directory, and over several agents. Then the same connections nearly idle (1,000 requests a second over all of them), for
the memory that a connection costs.

Wanted (docs/performance.md): the rise in CPU an operation over the step nearest to 3,200 is at most the null responder's rise plus
10%; at most 1 KB of private memory for an idle connection.

./dev bench connections builds what is needed. About five minutes with the defaults.
"""

import argparse
import contextlib
import json
import os
import pathlib
import secrets
import shutil
import subprocess
import sys

PANDO = "target/release/pando"
ADMIN = "cn=admin"
PASSWORD = "connections-password"


def options():
    parser = argparse.ArgumentParser(description="Pando and the null responder under more and more connections.")
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--steps", default="64,500,3200,10000,19000,32000,64000,100000")
    parser.add_argument("--per-process", type=int, default=19_000, help="connections of a server process")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(".dev/connections"))
    parser.add_argument("-o", "--output", type=pathlib.Path, help="results as JSON")
    return parser.parse_args()


class Processes(contextlib.ExitStack):
    """Processes that end with the block."""

    def start(self, core, *command, environment=None):
        """Starts a program on a core; gives it and the first line that says where it listens."""
        process = subprocess.Popen(
            ["taskset", "-c", str(core), PANDO, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | (environment or {}),
        )
        self.callback(self.stop, process)
        for line in process.stdout:
            address = next((word for word in line.split() if "127.0.0.1:" in word), None)
            if address:
                return process, address.removeprefix("ldap://").rstrip(",;.")
        sys.exit(f"pando {' '.join(command)}: ended before it listened")

    @staticmethod
    def stop(process):
        process.terminate()
        process.communicate()


def run(kind, clients, servers, agents, arguments, load):
    """One run; the result's only workload. The null responder's answers are not those asked for: code 7 says that, and is right."""
    output = arguments.folder / "run.json"
    command = [PANDO, "bench", "run", "people-search", "--no-limit", "--no-check", "-D", ADMIN]
    command += ["-y", str(arguments.folder / "password"), "--entries", str(arguments.entries), "--clients", str(clients)]
    command += ["--warmup", "3s", "-o", str(output)]
    command += ["--agents", ",".join(agents), "--token-file", str(arguments.folder / "token")]
    for process, address in servers:
        command += ["--target", f"ldap://{address}", "--server-pid", str(process.pid)]
    finished = subprocess.run(command + load, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if finished.returncode != (0 if kind == "pando" else 7):
        sys.exit(f"{clients} connections: {finished.stdout[-2000:]} {finished.stderr[-2000:]}")
    return json.loads(output.read_text())["workloads"][0]


def measure(kind, clients, arguments):
    """One step of one server."""
    count = -(-clients // arguments.per_process)
    with Processes() as processes:
        if kind == "pando":
            environment = {"PANDO_ADMIN_PASSWORD": PASSWORD}
            serve = ["serve", "--admin-dn", ADMIN, "--listen", "ldap://127.0.0.1:0", "--data"]
            data = [str(arguments.folder / f"data-{number}") for number in range(count)]
            servers = [processes.start(0, *serve, folder, environment=environment) for folder in data]
        else:
            null = ["bench", "limit", "--listen", "127.0.0.1:0"]
            servers = [processes.start(0, *null) for _ in range(count)]
        token = str(arguments.folder / "token")
        agent = ["bench", "agent", "--listen", "127.0.0.1:0", "--token-file", token]
        agents = [processes.start(1, *agent)[1] for _ in range(count)]
        idle = run(kind, clients, servers, agents, arguments, ["--rate", "1000", "--duration", "3s"])
        busy = run(kind, clients, servers, agents, arguments, ["--duration", f"{arguments.seconds}s"])
    return {
        "server": kind,
        "connections": clients,
        "processes": count,
        "operations_per_second": busy["per_second"],
        "cpu_micros_per_operation": busy["cost"]["cpu_micros_per_operation"],
        "p99_micros": busy["operations"]["search"]["latency"]["p99_micros"],
        "private_bytes_per_process_idle": idle["cost"]["rss_anon_peak_bytes"] / count,
    }


def main():
    arguments = options()
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    steps = [int(step) for step in arguments.steps.split(",")]
    shutil.rmtree(arguments.folder, ignore_errors=True)
    arguments.folder.mkdir(parents=True)
    for name, secret in [("token", secrets.token_hex(24)), ("password", PASSWORD)]:
        (arguments.folder / name).write_text(secret)
        (arguments.folder / name).chmod(0o600)
    ldif = arguments.folder / "people.ldif"
    generate = [PANDO, "generate", "people", "--entries", str(arguments.entries), "-o", str(ldif)]
    subprocess.run(generate, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    first = arguments.folder / "data-0"
    subprocess.run([PANDO, "import", "--data", str(first), str(ldif)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for number in range(1, -(-max(steps) // arguments.per_process)):
        shutil.copytree(first, arguments.folder / f"data-{number}")
    results = []
    for step in steps:
        for kind in ["pando", "null"]:
            results.append(measure(kind, step, arguments))
            print(json.dumps(results[-1]), file=sys.stderr)
    report(results)
    if arguments.output:
        arguments.output.write_text(json.dumps(results, indent=1) + "\n")
    shutil.rmtree(arguments.folder)


def report(results):
    """A table, and the goals."""
    print("connections  processes     pando us      null us   rise of both   bytes an idle connection   pando/s   p99 ms")
    of = {(result["server"], result["connections"]): result for result in results}
    steps = sorted({result["connections"] for result in results})
    base = min(steps, key=lambda step: abs(step - 3200))
    for step in steps:
        pando, null = of["pando", step], of["null", step]
        rise = [r["cpu_micros_per_operation"] / of[r["server"], base]["cpu_micros_per_operation"] for r in (pando, null)]
        # What connections cost is what a process has more than with the fewest of them.
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
