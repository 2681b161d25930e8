"""The rows of the table of goals: what is run, and what is wanted of it.

A row's runs have names; goals see the median figures of each by its name."""

from dataclasses import dataclass
from typing import Callable

PEOPLE = "people"  # 741 octets each, flat
PAGES = "pages"  # the same people, a hundred below each unit
PHOTO = "photo"  # the same people with a photo of 2 KB
SALFORD = "directorymark"
GROUPS = "groups"  # small users in ten groups
FEW = "groups-few"  # the same ten groups with 1,000 members each


@dataclass(frozen=True)
class Run:
    """A workload on a server: a shipped one's name, or a file of this folder."""

    server: str
    workload: str
    data: str = PEOPLE
    clients: int = None
    outstanding: int = None
    rate: int = None  # an open loop
    floor: bool = False  # the null responder under the same load right after it, as figures "floor"
    beside: str = None  # a workload that is at work on the same server meanwhile
    unchecked: bool = False  # the server holds no data to look for


@dataclass(frozen=True)
class Goal:
    """One figure and what is wanted of it."""

    text: str
    value: Callable
    sign: str
    wanted: float
    shown: str = "{:.2f}"


@dataclass(frozen=True)
class Row:
    """A row of the table."""

    name: str
    title: str
    goals: tuple
    runs: dict = None
    special: str = None  # measured by a function of its own, see special.py
    seconds: int = 0  # measured at least as long: an operation takes a server so long that fewer say nothing


def cpu_of_slapd(limit, run="pando", slapd="slapd"):
    """At most this part of slapd's CPU for an operation."""
    return Goal(f"CPU / slapd's, at most 1/{limit:g}", lambda m: m[run].cpu / m[slapd].cpu, "<=", 1 / limit, "{:.3f}")


def rate_of(others, limit, text, run="pando"):
    """At least this multiple of the best rate among others."""
    return Goal(
        f"rate / {text}, at least {limit:g}",
        lambda m: m[run].rate / max(m[other].rate for other in others if other in m),
        ">=",
        limit,
    )


def both(workload, **more):
    """The same on Pando and slapd."""
    return {"pando": Run("pando", workload, **more), "slapd": Run("slapd", workload, **more)}


def floor_goal(limit):
    return Goal(f"CPU / null responder's, at most {limit}", lambda m: m["pando"].cpu / m["floor"].cpu, "<=", limit)


def cpu_of_lean(limit):
    return Goal(f"CPU / DN-only CPU, at most {limit}", lambda m: m["all"].cpu / m["lean"].cpu, "<=", limit)


def modify_row(clients, of_slapd, of_opendj=None):
    goals = [rate_of(["slapd"], of_slapd, "slapd's")]
    if of_opendj:
        goals.append(rate_of(["opendj"], of_opendj, "OpenDJ's"))
    goals.append(Goal("p99.9 outside spikes of the disk, ms, at most 10", lambda m: m["p99.9"] / 1e3, "<=", 10.0))
    title = f"modify, no index, durable, {clients} client{'s' if clients > 1 else ''}"
    return Row(f"modify-{clients}", title, tuple(goals), special="writes")


def best_of_peers(name, clients):
    goal = rate_of(["slapd", "opendj", "ds389"], 8, "best peer's")
    return Row(f"{name}-{clients}", f"{name}, {clients} clients, same indexes", (goal,), special="writes")


ROWS = [
    Row(
        "search",
        "search (uid=) subtree, DN only, 64 x 1",
        (floor_goal(1.5), cpu_of_slapd(4.5)),
        {"pando": Run("pando", "people-search", floor=True), "slapd": Run("slapd", "people-search")},
    ),
    Row(
        "search-pipelined",
        "same, 64 x 16 outstanding",
        (
            Goal("operations a second, at least 400,000", lambda m: m["pando"].rate, ">=", 400_000, "{:,.0f}"),
            cpu_of_slapd(10),
        ),
        both("people-search-pipelined"),
    ),
    Row(
        "search-all",
        "same as the first, all attributes",
        (cpu_of_lean(1.2),),
        {"lean": Run("pando", "people-search"), "all": Run("pando", "people-search-all")},
    ),
    Row(
        "search-photo",
        "same, with a photo of 2 KB",
        (cpu_of_lean(1.4),),
        {"lean": Run("pando", "people-search", PHOTO), "all": Run("pando", "people-search-all", PHOTO)},
    ),
    Row("read", "base read, all attributes", (cpu_of_slapd(4.5),), both("people-read")),
    Row("compare", "compare", (cpu_of_slapd(4.5),), both("people-compare")),
    Row("prefix", "prefix substring, 11 matches", (cpu_of_slapd(15),), both("prefix.toml")),
    Row("page", "one-level page of 100", (cpu_of_slapd(5),), both("page.toml", data=PAGES), seconds=30),
    Row("authentication", "search + bind, SSHA", (cpu_of_slapd(3.5),), both("people-authentication")),
    Row(
        "bind-new",
        "bind on a new connection each",
        (
            cpu_of_slapd(2),
            Goal("CPU / null responder's, at most 1.3", lambda m: m["pando"].cpu / m["null"].cpu, "<=", 1.3),
        ),
        {**both("people-bind-new-connection"), "null": Run("null", "people-bind-new-connection", unchecked=True)},
    ),
    modify_row(1, 1.5),
    modify_row(10, 6),
    modify_row(50, 10, 2),
    modify_row(200, 15, 3),
    *[best_of_peers(name, clients) for name in ("add", "delete") for clients in (10, 500)],
    Row(
        "search-and-modify",
        "concurrent search and modify, 32 + 32 clients",
        (
            Goal(
                "search keeps of its rate, at least 85%",
                lambda m: 100 * m["together"].rates["search"] / m["search"].rate,
                ">=",
                85,
                "{:.0f}%",
            ),
            Goal(
                "modify keeps of its rate, at least 60%",
                lambda m: 100 * m["together"].rates["modify"] / m["modify"].rate,
                ">=",
                60,
                "{:.0f}%",
            ),
        ),
        {
            "search": Run("pando", "people-search", clients=32),
            "modify": Run("pando", "people-modify", clients=32),
            "together": Run("pando", "search-and-modify.toml"),
        },
    ),
    Row("mixed", "mixed 65/16/16/3, 64 clients", (rate_of(["slapd"], 5, "slapd's"),), both("mixed.toml")),
    Row(
        "salford-x1",
        "Salford X.1, 50 clients",
        (rate_of(["slapd"], 5, "slapd's"),),
        both("salford-x1", data=SALFORD, clients=50),
    ),
    Row(
        "group-search",
        "group search (member=), ten groups",
        (Goal("CPU / that of (uid=), at most 1.15", lambda m: m["member"].cpu / m["uid"].cpu, "<=", 1.15),),
        {"uid": Run("pando", "people-search", GROUPS), "member": Run("pando", "group-search.toml", GROUPS)},
    ),
    Row(
        "group-modify",
        "group modify, 10 clients",
        (
            Goal(
                "rate / that with 1,000 members a group, at least 0.95",
                lambda m: m["many"].rate / m["few"].rate,
                ">=",
                0.95,
            ),
            Goal("operations a second, at least 5,000", lambda m: m["many"].rate, ">=", 5_000, "{:,.0f}"),
        ),
        {"many": Run("pando", "group-modify.toml", GROUPS), "few": Run("pando", "group-modify.toml", FEW)},
    ),
    Row(
        "scan",
        "unindexed substring scan",
        (Goal("entries a second of CPU / slapd's, at least 10", lambda m: m["slapd"].cpu / m["pando"].cpu, ">=", 10),),
        both("scan.toml"),
    ),
    Row(
        "scan-others",
        "p99 of 64 others beside a scan",
        (
            Goal("p99 / that without, at most 2", lambda m: m["beside"].p99 / m["alone"].p99, "<=", 2),
            Goal(
                "the same with the others at 20,000/s, at most 2",
                lambda m: m["beside-slow"].p99 / m["alone-slow"].p99,
                "<=",
                2,
            ),
        ),
        {
            "alone": Run("pando", "people-search"),
            "beside": Run("pando", "people-search", beside="scan.toml"),
            "alone-slow": Run("pando", "people-search", rate=20_000),
            "beside-slow": Run("pando", "people-search", rate=20_000, beside="scan.toml"),
        },
    ),
    Row(
        "import",
        "import of people, all processors",
        (
            Goal("entries a second, at least 80,000", lambda m: m["import"].entries_a_second, ">=", 80_000, "{:,.0f}"),
            Goal("private memory, MiB, under 1,024", lambda m: m["import"].private_mib, "<=", 1023, "{:.0f}"),
            Goal("disk / LDIF, at most 1.5", lambda m: m["import"].disk_share, "<=", 1.5),
        ),
        special="import_people",
    ),
    Row(
        "import-small",
        "import of small entries, all processors",
        (
            Goal("entries a second, at least 150,000", lambda m: m["large"].entries_a_second, ">=", 150_000, "{:,.0f}"),
            Goal(
                "time an entry / that of a tenth of them, at most 1.15",
                lambda m: m["tenth"].entries_a_second / m["large"].entries_a_second,
                "<=",
                1.15,
            ),
            Goal("private memory, MiB, under 1,024", lambda m: m["large"].private_mib, "<=", 1023, "{:.0f}"),
            Goal("disk / LDIF, at most 1.5", lambda m: m["large"].disk_share, "<=", 1.5),
        ),
        special="import_small",
    ),
    Row(
        "export",
        "export of people",
        (Goal("MB a second, at least 200", lambda m: m["import"].export_megabytes, ">=", 200, "{:,.0f}"),),
        special="import_people",
    ),
    Row(
        "index-online",
        "equality index over all entries, online, others at 20,000/s",
        (
            Goal("seconds, at most 10", lambda m: m["seconds"], "<=", 10, "{:.1f}"),
            Goal("p99 of others / that before, at most 2", lambda m: m["p99 during"] / m["p99 before"], "<=", 2),
        ),
        special="index_online",
    ),
]
