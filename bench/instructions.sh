#!/usr/bin/env bash
# Instructions of the hot paths, counted by valgrind, against the best counts ever kept (bench/instructions.txt).
#
# Fails if a case costs more than 3% above its best count, or above its allowed count if that has one. `--accept` lowers
# best and allowed counts to those counted now, and never raises one. A rise that is worth its price is an allowed count
# with a reason, written into the file by hand in the commit that costs it. Counts depend on the compiler, so the file
# names it.
set -euo pipefail
cd "$(dirname "$0")/.."

tolerance_percent=3 baseline=bench/instructions.txt accept=no
case ${1:-} in
'') ;;
--accept) accept=yes ;;
*) echo "usage: bench/instructions.sh [--accept]" >&2 && exit 2 ;;
esac

cargo build --release --locked -p directory --bench instructions
bench=$(cargo build --release --locked -p directory --bench instructions --message-format json 2>/dev/null |
    grep -o '"executable":"[^"]*instructions-[^"]*"' | cut -d'"' -f4)
[ -x "$bench" ] || { echo "cannot find the bench that was built" >&2 && exit 1; }

counts=$(mktemp -d)
trap 'rm -rf "$counts"' EXIT
failed=no

# The instructions of all requests of a case, and how many requests these are.
count() {
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='instructions::measured' \
        --log-file="$counts/$1.log" "$bench" "$1" >"$counts/$1.requests"
}
export -f count
export bench counts

# The instructions of one request of a case that was counted.
a_request() {
    local total
    total=$(sed -n 's/.*Collected : \([0-9]*\)$/\1/p' "$counts/$1.log")
    [ "${total:-0}" -gt 0 ] || { echo "$1: valgrind counted nothing" >&2 && exit 1; }
    echo $((total / $(cat "$counts/$1.requests")))
}

lesser() { echo $(($1 < $2 ? $1 : $2)); }

# Prints the best count of a case, or nothing if the file lacks the case.
best() { awk -v case="$1" '$1 == case { print $2 }' "$baseline" 2>/dev/null || true; }

# Prints the maximum count of a case: the allowed count, if there is one with a reason, or else the best count.
allowed() { awk -v case="$1" '$1 == case { print (NF > 3 ? $3 : $2) }' "$baseline" 2>/dev/null || true; }

# Succeeds if there is a first count, and the second exceeds it by more than the tolerance.
is_worse() { [ -n "$1" ] && [ $(($2 * 100)) -gt $(($1 * (100 + tolerance_percent))) ]; }

# Prints the file with best and allowed counts lowered to those of the file $1, and its new cases.
lowered() {
    awk 'NR == FNR { if ($1 != "#") { now[$1] = $2; order[++n] = $1 } else compiler = $0; next }
        /^#/ { print (FNR == 1 ? compiler : $0); next }
        { known[$1] = 1 }
        !($1 in now) { next }
        now[$1] <= $2 { print $1, now[$1]; next }
        NF > 3 && now[$1] < $3 { $3 = now[$1] }
        { print }
        END { for (i = 1; i <= n; i++) if (!(order[i] in known)) print order[i], now[order[i]] }' "$1" "$baseline"
}

cases=$("$bench")
# One case per processor at a time. Other processes do not affect the counts.
echo "$cases" | xargs -P "$(nproc)" -I {} bash -c 'count {}'
{
    compiler=$(rustc --version | cut -d' ' -f1,2)
    echo "# Instructions a request, counted by valgrind: see bench/instructions.sh. $compiler"
    for case in $cases; do
        least=$(a_request "$case")
        # Background threads can only increase a count. So can the random places of the row cache: with 500 rules, two
        # rows displace each other in about every second count, which is then 13% higher.
        for _ in 1 2 3 4 5 6 7 8; do
            if is_worse "$(allowed "$case")" "$least"; then
                count "$case"
                least=$(lesser "$least" "$(a_request "$case")")
            fi
        done
        echo "$case $least"
    done
} >"$counts/now"

printf '%-24s %12s %12s %12s %8s\n' case best allowed now change
while read -r case now; do
    [ "$case" != '#' ] || continue
    best=$(best "$case") allowed=$(allowed "$case")
    if [ -n "$best" ]; then
        change=$(awk -v a="$best" -v b="$now" 'BEGIN { printf "%+.1f%%", (b / a - 1) * 100 }')
        if is_worse "$allowed" "$now"; then
            failed=yes change="$change  worse"
        fi
    else
        failed=yes change="not in the file"
    fi
    printf '%-24s %12s %12s %12s %8s\n' "$case" "${best:--}" "${allowed:--}" "$now" "$change"
done <"$counts/now"

if [ $accept = yes ]; then
    lowered "$counts/now" >"$counts/lowered"
    cp "$counts/lowered" "$baseline"
fi
if [ $failed = yes ]; then
    echo "slower than allowed: see above, and the head of $baseline for what an allowed count needs" >&2
    exit 1
fi
