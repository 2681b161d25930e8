#!/usr/bin/env bash
# Searches of an earlier build and of this one, in turns: server CPU for each operation, with everything that an
# administrator switches on in this build and nothing in the earlier one.
#
#     bench/regression.sh OLD NEW FOLDER [ENTRIES [ROUNDS [SECONDS]]]
#
# OLD and NEW are `pando` programs of release builds; the load is that of NEW. The servers run on processor 0, the load
# on processor 1. NEW runs three times: like OLD, with nothing switched on, as the administrator; as a user with default
# access rules, a password policy, metrics, and an audit trail of all events but reads; and the same with an audit trail
# of all events. Prints a table of medians, and of the lowest and highest figures.
set -euo pipefail

old=$1 new=$2 folder=$3 entries=${4:-1000000} rounds=${5:-5} seconds=${6:-5}
mkdir -p "$folder"
cd "$folder"
suffix=dc=example,dc=com
servers=(old plain full audited)
declare -A port=([old]=18391 [plain]=18392 [full]=18393 [audited]=18394) pid
declare -A program=([old]=$old [plain]=$new [full]=$new [audited]=$new)

cat >full.toml <<END
suffixes = ["$suffix"]
password_policy = "cn=default,$suffix"
access_rules = ["users: allow read to authenticated", "own password: allow write of userPassword to self"]
END
cat >full-node.toml <<END
audit.folder = "$PWD/audit-full"
audit.what = ["binds", "changes", "extended", "connections", "administration"]
metrics.listen = "127.0.0.1:18398"
END
cat >audited-node.toml <<END
audit.folder = "$PWD/audit-audited"
metrics.listen = "127.0.0.1:18399"
END
cat >policy.ldif <<END
dn: cn=default,$suffix
objectClass: device
objectClass: pandoPwdPolicy
cn: default
pwdAttribute: userPassword
pwdMinLength: 5
pwdInHistory: 5
pwdMaxAge: 31536000
pwdLockout: TRUE
pwdMaxFailure: 10
pandoPwdLastSuccess: TRUE

END
echo secret >password
chmod 600 password

has_all() { [[ $1 == full || $1 == audited ]]; }

[ -e people.ldif ] || "$new" generate people --entries "$entries" -o people.ldif
for server in "${servers[@]}"; do
    [ -e "data-$server" ] && continue
    files=(people.ldif) settings=()
    has_all "$server" && files+=(policy.ldif) settings=(--settings full.toml)
    "${program[$server]}" import --data "data-$server" --keep-clear-passwords "${settings[@]}" "${files[@]}"
done

stop() { for server in "${!pid[@]}"; do kill "${pid[$server]}" 2>/dev/null || true; done; wait; }
trap stop EXIT
for server in "${servers[@]}"; do
    node=()
    has_all "$server" && node=(--node "$server-node.toml")
    taskset -c 0 "${program[$server]}" serve --data "data-$server" --listen "ldap://127.0.0.1:${port[$server]}" \
        --admin-password-file password "${node[@]}" >"$server.log" 2>&1 &
    pid[$server]=$!
    until (: >"/dev/tcp/127.0.0.1/${port[$server]}") 2>/dev/null; do
        kill -0 "${pid[$server]}" || { cat "$server.log" >&2 && exit 1; }
    done
done

# Runs a workload against a server, and prints the CPU of the server for each operation in microseconds.
micros() {
    local server=$1 workload=$2 outstanding=$3 time=$4
    local binds=(-D cn=admin -w secret)
    has_all "$server" && binds=(-D "uid=user.1,ou=people,$suffix" -w password)
    "$new" bench run "$workload" --target "ldap://127.0.0.1:${port[$server]}" --entries "$entries" \
        --outstanding "$outstanding" --warmup 1s --duration "$time" --load-cpus 1 --no-limit --no-check \
        --server-pid "${pid[$server]}" "${binds[@]}" -o result.json >bench.log 2>&1 ||
        { cat bench.log >&2 && exit 1; }
    python3 - result.json <<'END'
import re, sys
print(re.search(r'"cpu_micros_per_operation": *([0-9.]+)', open(sys.argv[1]).read()).group(1))
END
}

workloads=(people-search people-search-all)
for workload in "${workloads[@]}"; do
    for server in "${servers[@]}"; do
        micros "$server" "$workload" 16 "$((entries / 50000 + 5))s" >warm-up
    done
done
: >figures
for ((round = 1; round <= rounds; round++)); do
    for workload in "${workloads[@]}"; do
        for outstanding in 1 16; do
            for server in "${servers[@]}"; do
                figure=$(micros "$server" "$workload" "$outstanding" "${seconds}s")
                echo "$workload 64x$outstanding $server $figure" >>figures
            done
        done
    done
done
python3 - figures <<'END'
import statistics, sys
cases = {}
for line in open(sys.argv[1]):
    workload, load, server, micros = line.split()
    cases.setdefault((workload, load), {}).setdefault(server, []).append(float(micros))
print("| search | earlier build, us | this build, like it | with everything on | and with audited reads | ratios |")
print("|---|---|---|---|---|---|")
for (workload, load), servers in cases.items():
    median = {server: statistics.median(all) for server, all in servers.items()}
    shown = [f"{median[s]:.2f} ({min(servers[s]):.2f} to {max(servers[s]):.2f})" for s in median]
    ratios = ", ".join(f"{median[s] / median['old']:.2f}" for s in median if s != "old")
    print(f"| {workload}, {load} | {' | '.join(shown)} | {ratios} |")
END
