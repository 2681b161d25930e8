"""Functions shared by the measurements in this folder: servers on free ports, their resources, and parts of LDAP."""

import argparse
import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import time


def measurement(description, name, seconds):
    """Returns a parser for the options of a measurement, with the options that all measurements have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seconds", type=int, default=seconds, help="duration of each measurement")
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path(".dev") / name)
    parser.add_argument("-o", "--output", type=pathlib.Path, help="results as JSON")
    return parser


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def finish(command, log, reader=None):
    """Runs a command, which must succeed."""
    with open(log, "ab") as said:
        done = subprocess.run(command, stdin=reader, stdout=said, stderr=said, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: see {log}")


def start(command, port, log, cpu="0", environment=None, patience=120, said_when_ready=None):
    """Starts a server on a processor, and waits until it listens on the port, or its new log has a text."""
    with open(log, "ab") as said:
        process = subprocess.Popen(
            ["taskset", "-c", cpu, *command], stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment
        )
    deadline = time.monotonic() + patience
    while True:
        if said_when_ready and said_when_ready in pathlib.Path(log).read_text(encoding="utf-8", errors="replace"):
            return process
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            if not said_when_ready:
                return process
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            sys.exit(f"{command[0]} does not listen: see {log}")
        time.sleep(0.02)


def end(process):
    process.terminate()
    try:
        process.wait(120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def listening(command, port, log, cpu="0", environment=None):
    """Runs a server while the context lasts. Yields its port and process id."""
    process = start(command, port, log, cpu, environment)
    try:
        yield port, process.pid
    finally:
        end(process)


def cpu_seconds(process):
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def element(tag, *parts):
    """Encodes a BER element."""
    body = b"".join(parts)
    length = bytes([len(body)]) if len(body) < 128 else b"\x82" + len(body).to_bytes(2, "big")
    return bytes([tag]) + length + body


def bind_request(name, password):
    return element(0x60, b"\x02\x01\x03", element(4, name.encode()), element(0x80, password.encode()))


def head(octets, at=0):
    """Returns the start and end of the content of the BER element at a place, or None if its header is incomplete."""
    if len(octets) < at + 2:
        return None
    length, begin = octets[at + 1], at + 2
    if length & 0x80:
        begin += length & 0x7F
        if len(octets) < begin:
            return None
        length = int.from_bytes(octets[at + 2 : begin], "big")
    return begin, begin + length
