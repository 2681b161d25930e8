#!/usr/bin/env bash
# The full run: every shipped workload with 100,000 entries and the main ones with 1,000,000, on Pando, OpenLDAP, 389 DS
# and OpenDJ.
#
#   bench/full.sh bench-runs/2026-01-31-full
#
# leaves one compressed result for each part in that folder. `pando bench report FOLDER` makes the page and the tables
# of them; they are made at the end as well, in the data folder, which has the log too. About 55 minutes on two quiet
# cores, 8 GB of disk.
#
# With --entries 1000000 --large 0 it is every workload with 1,000,000 entries and nothing else: an hour and a half, 30
# GB.
#
# Results are saved after every workload. What fails is in the result with its reason, and the rest goes on; the same
# command again, after an interruption or a failure, measures only what is not there yet.
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: bench/full.sh FOLDER [--entries 100000] [--large 1000000] [--duration 3s] [--warmup 1s]
       [--java-warmup 10s] [--clients N] [--workloads '*'] [--large-workloads 'people-*,...']
       [--peers openldap,ds389,opendj] [--data-folder .dev/full] [--pando target/release/pando]"
entries=100000 large=1000000 duration=3s warmup=1s java_warmup=10s peers=openldap,ds389,opendj pando='' data=.dev/full
workloads='*'
# Workloads of the two small kinds of entry: with a million of the large kinds, loading alone would take the time of all
# of this.
large_workloads='people-*,m-vault-load,m-vault-search-no-attributes,m-vault-search-all-attributes,m-vault-modify'
large_workloads+=',m-vault-search-and-modify,m-vault-bind'
more=()
case ${1:-} in
-h | --help) echo "$usage" && exit 0 ;;
'' | -*) echo "$usage" >&2 && exit 2 ;;
esac
folder=$1
shift
while [ $# -gt 0 ]; do
    case $1 in
    --entries) entries=$2 ;;
    --large) large=$2 ;;
    --duration) duration=$2 ;;
    --warmup) warmup=$2 ;;
    --java-warmup) java_warmup=$2 ;;
    --workloads) workloads=$2 ;;
    --large-workloads) large_workloads=$2 ;;
    --peers) peers=$2 ;;
    --clients) more+=(--clients "$2") ;;
    --data-folder) data=$2 ;;
    --pando) pando=$2 ;;
    *) echo "$usage" >&2 && exit 2 ;;
    esac
    shift 2
done

if [ -z "$pando" ]; then
    cargo build --release --locked -q -p pando
    pando=target/release/pando
fi
mkdir -p "$folder" "$data"
log=$data/log.txt
worst=0

# With the time of day, on the terminal and in the log.
say() { printf '%s %s\n' "$(date -u +%H:%M:%S)" "$*" | tee -a "$log" >&2; }

# part NAME ENTRIES WORKLOADS: one comparison, saved as it goes. One that breaks off goes on where it was, twice.
part() {
    local result=$folder/$1.json.zst status began=$SECONDS
    say "$1: $3 with $2 entries"
    for _ in 1 2 3; do
        status=0
        # What a run leaves that was killed: as much as all servers' data.
        rm -rf "$data"/pando-peers-*
        "$pando" bench peers --entries "$2" --workloads "$3" --peers "$peers" --opendj .dev/peers/opendj --rounds 1 \
            --duration "$duration" --warmup "$warmup" --pause 0s --java-warmup "$java_warmup" --folder "$data" \
            "${more[@]}" --output "$result" --resume \
            2> >(while IFS= read -r line; do say "$line"; done) >"$data/$1.txt" || status=$?
        # 0: all measured; 7: not all, which the result says; 1 and 2 are said, and would be so again; others are
        # crashes.
        case $status in 0 | 1 | 2 | 7) break ;; esac
        say "$1: broke off with code $status, going on where it was"
    done
    say "$1: ended with code $status after $(((SECONDS - began + 30) / 60)) minutes"
    [ "$status" -le "$worst" ] || worst=$status
}

part "all-$entries" "$entries" "$workloads"
[ "$large" = 0 ] || part "main-$large" "$large" "$large_workloads"

"$pando" bench report "$folder" --output "$data" || { say "nothing was measured: see $log" && exit 1; }
say "open $data/report.html in a browser; $data/report.md has the tables"
exit "$worst"
