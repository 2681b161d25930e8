"""The servers of connections.py: loaded once, started on their processor."""

import base64
import hashlib
import json
import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass

PASSWORD = "goals-password"


@dataclass(frozen=True)
class Data:
    """What is loaded: the same entries and indexes on every server that has it."""

    name: str
    template: str
    entries: int
    suffix: str
    indexes: tuple  # "attribute:kind,kind"
    # Of everybody in it, hashed with {SSHA} before any loader sees it; none where the template has its own.
    password: str
    constants: tuple = ()  # of the template, "name=value"

    def generate(self, pando):
        command = [pando, "generate", self.template, "--entries", str(self.entries), "--seed", "1"]
        for constant in self.constants:
            command += ["--constant", constant]
        if self.password:
            salt = b"saltsalt"
            hashed = base64.b64encode(hashlib.sha1(self.password.encode() + salt).digest() + salt).decode()
            command += ["--constant", f"password=\\{{SSHA\\}}{hashed}"]
        return command

    def description(self):
        """What a folder that has it says, so that another is not taken for it."""
        text = self.template
        if os.path.exists(self.template):
            with open(self.template) as file:
                text = file.read()
        return json.dumps([self.name, text, self.entries, self.suffix, self.indexes, self.password, *self.constants])

    def parsed_indexes(self):
        return [(attribute, kinds.split(",")) for attribute, kinds in (index.split(":") for index in self.indexes)]


class Failed(Exception):
    """A server or a command that did not do what it should."""


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def piped(producer, consumer, log):
    """Runs `producer | consumer`; both must succeed."""
    with open(log, "ab") as errors:
        first = subprocess.Popen(producer, stdout=subprocess.PIPE, stderr=errors)
        second = subprocess.run(consumer, stdin=first.stdout, stdout=errors, stderr=errors)
        first.stdout.close()
        if first.wait() or second.returncode:
            raise Failed(f"{consumer[0]} failed: see {log}")


class Process:
    """A program that listens on a free port, on a processor, with what it says in a file of its folder. What it is
    called is its `name`, and `command` how it is started."""

    def __init__(self, pando, folder, cpu):
        self.pando, self.folder, self.cpu = pando, folder, cpu
        self.log = os.path.join(folder, "server.log")
        self.process = None

    def start(self):
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self.uri = f"ldap://{self.address}"
        environment = dict(os.environ, PANDO_ADMIN_PASSWORD=PASSWORD)
        with open(self.log, "ab") as log:
            command = ["taskset", "-c", self.cpu, *self.command()]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise Failed(f"{self.name} does not serve: see {self.log}") from None
                time.sleep(0.05)

    def stop(self):
        if self.process:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None


class Server(Process):
    """A server over its data."""

    def __init__(self, pando, folder, data, cpu):
        super().__init__(pando, os.path.join(folder, f"{data.name}-{data.entries}", self.name), cpu)
        self.data = data
        self.admin = f"cn=admin,{data.suffix}"

    def load(self, say):
        """Loads it unless it is loaded; the seconds that took, or None."""
        mark = os.path.join(self.folder, "loaded")
        if os.path.exists(mark) and open(mark).read() == self.data.description():
            return None
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(os.path.join(self.folder, "data"))
        began = time.monotonic()
        self.fill()
        seconds = time.monotonic() - began
        say(f"{self.name}: loaded {self.data.name}, {self.data.entries:,}, in {seconds:.1f} s")
        with open(mark, "w") as file:
            file.write(self.data.description())
        return seconds


class Pando(Server):
    name = "pando"

    def fill(self):
        settings = os.path.join(self.folder, "settings.toml")
        with open(settings, "w") as file:
            file.write(f'suffixes = ["{self.data.suffix}"]\nanonymous_read = true\npassword_scheme = "ssha"\n')
            file.write("\n[limits]\nsize_limit = 0\ntime_limit_seconds = 0\nunindexed_examined = 0\n\n[indexes]\n")
            for attribute, kinds in self.data.parsed_indexes():
                file.write(f"{attribute} = {json.dumps(kinds)}\n")
        data = os.path.join(self.folder, "data")
        with open(self.log, "ab") as log:
            if subprocess.run([self.pando, "apply", "--data", data, settings], stdout=log, stderr=log).returncode:
                raise Failed(f"pando apply failed: see {self.log}")
        load = [self.pando, "import", "--data", data, "--suffix", self.data.suffix, "-"]
        piped(self.data.generate(self.pando), load, self.log)

    def command(self):
        data = os.path.join(self.folder, "data")
        return [self.pando, "serve", "--data", data, "--admin-dn", self.admin, "--listen", self.uri]


class Null(Server):
    """The null responder, for rows whose floor is not that of a search."""

    name = "null"

    def load(self, say):
        os.makedirs(self.folder, exist_ok=True)

    def command(self):
        return [self.pando, "bench", "limit", "--listen", self.address]


def people(entries):
    """The data of such a workload."""
    return Data("people", "people", entries, "dc=example,dc=com", ("uid:equality",), "password")
