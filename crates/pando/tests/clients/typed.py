"""Runs a command on a new terminal. At each password prompt, types the next line of standard input."""

import os
import pty
import re
import sys

lines = sys.stdin.buffer.read().splitlines(keepends=True)
child, terminal = pty.fork()
if child == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
shown = b""
while True:
    try:
        octets = os.read(terminal, 65536)
    except OSError:  # the end of the terminal
        octets = b""
    if not octets:
        break
    sys.stdout.buffer.write(octets.replace(b"\r\n", b"\n"))
    shown += octets
    if lines and re.search(rb"assword[^\n]*:\s*$", shown):
        os.write(terminal, lines.pop(0))
        shown = b""
_, status = os.waitpid(child, 0)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(status))
