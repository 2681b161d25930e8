#!/usr/bin/env bash
# The floor: how Pando compares with slapd on one core.
#
# Both serve the same 100,000 people with the same equality indexes, durable on every change, each pinned to core 0 in
# turn with the load on core 1. Two of the shipped workloads, keys at random over everybody, driven and checked by
# `pando bench run`:
#   search  people-search, 64 connections, 1 outstanding: subtree (uid=...) returning the DN;
#           wanted: server CPU per operation at most 1/3 of slapd's
#   modify  people-modify, 50 connections, 1 outstanding: replace description, not indexed; wanted: at least 4 times
#   slapd's rate
# Rounds alternate between the servers, so that a machine that slows down or speeds up does so for both.
# Both are asked as their administrator, so neither pays for access rules. A wrong answer ends it.
set -euo pipefail
cd "$(dirname "$0")/.."

people=100000 rounds=3 seconds=10 work=.dev/floor
while [ $# -gt 0 ]; do
    case $1 in
    --people) people=$2 && shift 2 ;;
    --rounds) rounds=$2 && shift 2 ;;
    --seconds) seconds=$2 && shift 2 ;;
    *)
        echo "usage: bench/floor.sh [--people 100000] [--rounds 3] [--seconds 10]" >&2
        exit 2
        ;;
    esac
done

suffix=dc=example,dc=com
admin=cn=admin,$suffix
password=floor-password
port=13890
results=$work/results.txt
server_pid=
trap '[ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true' EXIT

say() { printf '%s\n' "$*" >&2; }
pando=target/release/pando

wait_for_port() {
    local deadline=$((SECONDS + 60))
    until (: <>/dev/tcp/127.0.0.1/$port) 2>/dev/null; do
        kill -0 "$server_pid" 2>/dev/null || { say "the server ended: see $work/*.log" && exit 1; }
        [ $SECONDS -lt $deadline ] || { say "the server does not listen: see $work/*.log" && exit 1; }
        sleep 0.05
    done
}

start_slapd() {
    taskset -c 0 /usr/sbin/slapd -d 0 -h ldap://127.0.0.1:$port -f $work/slapd.conf 2>$work/slapd.log &
    server_pid=$!
    wait_for_port
}

start_pando() {
    PANDO_ADMIN_PASSWORD=$password taskset -c 0 $pando serve --data $work/pando --admin-dn $admin \
        --listen ldap://127.0.0.1:$port >$work/pando.out 2>$work/pando.log &
    server_pid=$!
    wait_for_port
}

stop_server() {
    kill "$server_pid"
    wait "$server_pid" || true
    server_pid=
}

# drive SERVER ROUND WORKLOAD: loads the server that runs, and prints a line of figures from the result.
drive() {
    $pando bench run "people-$3" --target ldap://127.0.0.1:$port -D $admin -y $work/password --entries "$people" \
        --seed "$2" --warmup 2s --duration "${seconds}s" --server-pid "$server_pid" --load-cpus 1 --no-limit \
        -o "$work/$1-$3-$2.json" >"$work/bench.log" 2>&1 ||
        { cat "$work/bench.log" >&2 && exit 1; }
    /usr/bin/python3 - "$work/$1-$3-$2.json" "$3" <<'PYTHON'
import json, sys

with open(sys.argv[1]) as file:
    result = json.load(file)["workloads"][0]
operations = result["operations"][sys.argv[2]]
latency = operations["latency"]
print(
    f"operations={operations['operations']} seconds={result['measured_seconds']:.2f} rate={result['per_second']:.0f}"
    f" p50_us={latency['p50_micros']} p99_us={latency['p99_micros']} max_us={latency['max_micros']}"
    f" server_cpu_us={result['cost']['cpu_micros_per_operation']:.2f}"
)
PYTHON
}

# field NAME: the value of NAME=VALUE in the line on standard input
field() { tr ' ' '\n' | sed -n "s/^$1=//p"; }
# median of the lines of results that start with "SERVER WORKLOAD", of field NAME
median() { grep "^$1 $2 " $results | field "$3" | sort -g | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

say "building"
cargo build --release --locked -q -p pando

rm -rf $work
mkdir -p $work/slapd
: >$results
printf '%s' $password >$work/password
# Hashed here, so that neither loader does it; nobody binds as a person. (The password is "password", the salt
# "saltsalt".)
$pando generate people --entries "$people" |
    sed 's|^userPassword: .*|userPassword: {SSHA}yrht1iYXEIkejLVu42JWkadd80RzYWx0c2FsdA==|' >$work/people.ldif
cat >$work/pando.toml <<CONF
suffixes = ["$suffix"]

[indexes]
uid = ["equality"]
cn = ["equality"]
sn = ["equality"]
CONF
cat >$work/slapd.conf <<CONF
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
loglevel 0
database mdb
suffix "$suffix"
rootdn "$admin"
rootpw $password
directory $work/slapd
maxsize 8589934592
index objectClass,uid,cn,sn eq
CONF

say "loading $people people into slapd (slapadd -q)"
/usr/sbin/slapadd -q -f $work/slapd.conf -l $work/people.ldif 2>$work/slapadd.log
say "loading $people people into Pando (import)"
$pando apply --data $work/pando $work/pando.toml >$work/import.log 2>&1
$pando import --data $work/pando $work/people.ldif >>$work/import.log 2>&1

for round in $(seq "$rounds"); do
    for server in slapd pando; do
        "start_$server"
        for name in search modify; do
            line=$(drive "$server" "$round" "$name")
            say "round $round: $server $name $line"
            echo "$server $name $line" >>$results
        done
        stop_server
    done
done

# compared LABEL SLAPD PANDO DIGITS WANTED: a row of the table
compared() {
    awk -v label="$1" -v a="$2" -v b="$3" -v digits="$4" -v wanted="$5" \
        'BEGIN { printf "%-37s %10.*f %10.*f %10.3f%s\n", label, digits, a, digits, b, b / a, wanted }'
}

cpu_slapd=$(median slapd search server_cpu_us) cpu_pando=$(median pando search server_cpu_us)
rate_slapd=$(median slapd modify rate) rate_pando=$(median pando modify rate)
cat <<REPORT

machine   $(nproc) cores, $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), Linux $(uname -r)
data      $people inetOrgPerson entries (template people) under ou=people,$suffix;
          keys uniform over all of them, seeds 1 to $rounds
pinning   server on core 0, load on core 1; $rounds rounds of $seconds s each after 2 s of warm-up, servers in turn,
          medians
slapd     $(/usr/sbin/slapd -VV 2>&1 | sed -n 's/.*slapd \([^ ]*\).*/\1/p'), mdb, index objectClass,uid,cn,sn eq,
          sync on every commit, log off, 16 threads
pando     $($pando --version), index uid,cn,sn equality (objectClass always); otherwise defaults:
          sync on every commit, log at its default level

                                            slapd      pando      ratio    wanted
$(compared "search, server CPU per operation (us)" "$cpu_slapd" "$cpu_pando" 2 "  <= 0.333")
$(compared "search, operations a second" "$(median slapd search rate)" "$(median pando search rate)" 0 "")
$(compared "modify, operations a second" "$rate_slapd" "$rate_pando" 0 "  >= 4")
$(compared "modify, p99 latency (us)" "$(median slapd modify p99_us)" "$(median pando modify p99_us)" 0 "")

single figures: $results; whole results for pando bench report: $work/*.json
REPORT
awk -v cs="$cpu_slapd" -v cp="$cpu_pando" -v rs="$rate_slapd" -v rp="$rate_pando" \
    'BEGIN { exit !(cp * 3 <= cs && rp >= 4 * rs) }' ||
    { say "the floor is not reached" && exit 1; }
