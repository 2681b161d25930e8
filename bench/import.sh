#!/usr/bin/env bash
# Loading: how Pando's import compares with the loaders of other servers.
#
# 1,000,000 inetOrgPerson entries of 19 attributes (741 MB of LDIF), the same indexes on all servers, the same machine,
# in turn; then small entries, 1,000,000 and 5,000,000. Wanted of Pando:
#   wall time     at most 1/6 of slapadd -q, and of OpenDJ's import-ldif
#   memory        private memory at its peak under 1 GiB
#   size          data directory at most 1.7 times the LDIF
#   export        at least 150 MB/s
#   scale         time an entry at 5,000,000 small entries at most 1.15 times that at 1,000,000
# ./dev bench import installs what is needed first. Needs about 10 GB of disk and half an hour on a quiet machine.
set -euo pipefail
cd "$(dirname "$0")/.."

entries=1000000 small=1000000 large=5000000 rounds=3 peers=openldap,opendj work=.dev/import
while [ $# -gt 0 ]; do
    case $1 in
    --entries) entries=$2 && shift 2 ;;
    --small) small=$2 && shift 2 ;;
    --large) large=$2 && shift 2 ;;
    --rounds) rounds=$2 && shift 2 ;;
    --peers) peers=$2 && shift 2 ;;
    --folder) work=$2 && shift 2 ;;
    *)
        echo "usage: bench/import.sh [--entries 1000000] [--small 1000000] [--large 5000000] [--rounds 3]" \
            "[--peers openldap,opendj] [--folder .dev/import]" >&2
        exit 2
        ;;
    esac
done

cargo build --release --locked -q -p pando
mkdir -p "$work"
load() { target/release/pando bench peers --load-only --folder "$work" --opendj .dev/peers/opendj "$@" >&2; }

# The peers once, for they take long; Pando more often, and the small entries in alternation.
load --entries "$entries" --peers "$peers" -o "$work/peers.json"
for round in $(seq "$rounds"); do
    load --entries "$entries" --peers pando -o "$work/pando-$round.json"
    load --template m-vault --entries "$small" --peers pando -o "$work/small-$round.json"
    load --template m-vault --entries "$large" --peers pando -o "$work/large-$round.json"
done

/usr/bin/python3 - "$work" "$rounds" <<'PYTHON'
import json, statistics, sys

work, rounds = sys.argv[1], int(sys.argv[2])


def loads(name):
    with open(f"{work}/{name}.json") as file:
        result = json.load(file)
    bulk = [w for w in result["workloads"] if w["workload"] == "bulk-load"]
    for w in bulk:
        if "bulk_load" not in w["server"]:
            sys.exit(f"{w['server']['product']}: {w['unsupported']}")
    return result, {w["server"]["product"]: w["server"]["bulk_load"] for w in bulk}


def own(name):
    found = [next(iter(loads(f"{name}-{round}")[1].values())) for round in range(1, rounds + 1)]
    return found, lambda field: statistics.median(load[field] for load in found)


result, servers = loads("peers")
pando, of_pando = own("pando")
pando.append(next(iter(servers.values())))
small, large = own("small")[1], own("large")[1]
machine = result["environment"]
print(f"\nmachine   {machine['cpus']} processors, {machine['cpu_model']}, {machine['kernel']}, {machine['system']}")
print(f"data      {pando[0]['entries']:,} entries, {pando[0]['ldif_bytes'] / 1e6:.0f} MB of LDIF")
print(f"\n{'':<20}{'wall s':>9}{'CPU s':>9}{'private MB':>12}{'disk MB':>10}{'x LDIF':>9}{'export MB/s':>13}")


def row(name, load):
    export = load["export_bytes"] / 1e6 / load["export_seconds"]
    print(
        f"{name:<20}{load['seconds']:>9.2f}{load['cpu_seconds']:>9.1f}{load['rss_anon_peak_bytes'] / 1e6:>12.0f}"
        f"{load['disk_bytes'] / 1e6:>10.0f}{load['disk_bytes'] / load['ldif_bytes']:>9.2f}{export:>13.0f}"
    )


for load in pando:
    row("Pando", load)
peers = list(servers.items())[1:]
for name, load in peers:
    row(name, load)

goals = []
for name, load in peers:
    if name.startswith(("OpenLDAP", "OpenDJ")):
        goals.append((f"wall time of {name} / Pando's", load["seconds"] / of_pando("seconds"), ">=", 6.0))
goals.append(("private memory, MiB", max(load["rss_anon_peak_bytes"] for load in pando) / 2**20, "<", 1024.0))
goals.append(("data directory / LDIF", of_pando("disk_bytes") / of_pando("ldif_bytes"), "<=", 1.7))
goals.append(("export, MB/s", of_pando("export_bytes") / 1e6 / of_pando("export_seconds"), ">=", 150.0))
each = [load("seconds") / load("entries") * 1e6 for load in (small, large)]
of_scale = f"time an entry, {large('entries'):,} ({each[1]:.2f} us) / {small('entries'):,} ({each[0]:.2f} us)"
goals.append((of_scale, each[1] / each[0], "<=", 1.15))
print(f"\n{'goal (medians)':<62}{'':>9}{'wanted':>12}")
missed = 0
for name, value, sign, wanted in goals:
    met = value >= wanted if sign == ">=" else value <= wanted if sign == "<=" else value < wanted
    missed += not met
    print(f"{name:<62}{value:>9.2f}{sign:>4} {wanted:<7g} {'met' if met else 'MISSED'}")
with open(f"{work}/goals.json", "w") as file:
    json.dump([dict(goal=n, value=v, sign=s, wanted=w) for n, v, s, w in goals], file, indent=2)
print(f"\nall figures: {work}/*.json")
sys.exit(1 if missed else 0)
PYTHON
