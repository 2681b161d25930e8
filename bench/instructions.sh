#!/usr/bin/env bash
# Instructions of the hot paths, counted by valgrind, against the baseline in bench/instructions.txt.
#
# Fails when a case costs more than 3% above the baseline. A gain, or a loss that is worth it: `bench/instructions.sh
# --accept` writes the baseline anew, to be committed with the change that made it. Counts depend on the compiler, so
# the baseline names it.
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

# A case in the baseline; nothing if it is not there.
before() { awk -v case="$1" '$1 == case { print $2 }' "$baseline" 2>/dev/null || true; }

# Whether a count is so much more than the one before, if there is one.
is_worse() { [ -n "$1" ] && [ $(($2 * 100)) -gt $(($1 * (100 + tolerance_percent))) ]; }

cases=$("$bench")
# As many at a time as there are processors: others at work change no count.
echo "$cases" | xargs -P "$(nproc)" -I {} bash -c 'count {}'
{
    compiler=$(rustc --version | cut -d' ' -f1,2)
    echo "# Instructions a request, counted by valgrind: see bench/instructions.sh. $compiler"
    for case in $cases; do
        least=$(a_request "$case")
        # What a thread in the background does meanwhile only adds.
        for _ in 1 2; do
            if is_worse "$(before "$case")" "$least"; then
                count "$case"
                least=$(lesser "$least" "$(a_request "$case")")
            fi
        done
        echo "$case $least"
    done
} >"$counts/now"

printf '%-24s %12s %12s %8s\n' case baseline now change
while read -r case now; do
    [ "$case" != '#' ] || continue
    before=$(before "$case")
    if [ -n "$before" ]; then
        change=$(awk -v a="$before" -v b="$now" 'BEGIN { printf "%+.1f%%", (b / a - 1) * 100 }')
        if is_worse "$before" "$now"; then
            failed=yes change="$change  worse"
        fi
    else
        failed=yes change="not in the baseline"
    fi
    printf '%-24s %12s %12s %8s\n' "$case" "${before:--}" "$now" "$change"
done <"$counts/now"

if [ $accept = yes ]; then
    cp "$counts/now" "$baseline"
elif [ $failed = yes ]; then
    echo "slower than the baseline: see above; bench/instructions.sh --accept takes the new counts" >&2
    exit 1
fi
