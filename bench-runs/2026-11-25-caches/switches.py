"""Switches mechanisms of a running Pando off and on, and says what an operation costs with each and without.

switches.py SWITCHES PID ROUNDS NAME...: SWITCHES is the file of PANDO_OFF, PID the server's, NAME a switch of
switches.patch in small letters, several joined by +, or none. A load has to run meanwhile.
"""

import json, mmap, statistics, struct, sys, time

NAMES = """known_ids known_rows expect moved recent trees leaf way known_names name_bases name_containers name_last
    name_admin names_clock courtesy prefilter guard rows_fetch head id_blocks""".split()
file, pid, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
page = mmap.mmap(open(file, "r+b").fileno(), 4096)
clock = (~pid << 3) | 2  # the processor time of another process: clock_getcpuclockid(3)


def phase(word):
    """Microseconds of processor time for an operation, over 0.1 s."""
    page[0:8] = struct.pack("<Q", word)
    time.sleep(0.01)
    operations = lambda: struct.unpack("<Q", page[8:16])[0]
    cpu, count = time.clock_gettime(clock), operations()
    time.sleep(0.1)
    return (time.clock_gettime(clock) - cpu) * 1e6 / max(1, operations() - count)


for name in sys.argv[4:]:
    off = sum(1 << NAMES.index(one) for one in name.split("+") if one != "none")
    all_off, all_on, ratios = [], [], []
    for _ in range(rounds):
        of_round = []
        for _ in range(6):
            first, second, third, fourth = phase(0), phase(off), phase(off), phase(0)
            of_round += [second / first, third / fourth]
            all_on += [first, fourth]
            all_off += [second, third]
        ratios.append(round(statistics.median(of_round), 3))
    page[0:8] = bytes(8)
    figures = {"off": statistics.median(all_off), "on": statistics.median(all_on), "ratio": statistics.median(ratios)}
    print(json.dumps({"switch": name, **figures, "ratios": ratios}), flush=True)
