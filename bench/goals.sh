#!/usr/bin/env bash
# The table of goals as one command: what is wanted, what was measured, reached or missed.
#
# 1,000,000 people of about 0.7 KB (`pando generate people`) on Pando and slapd with the same indexes, each server on
# one processor and the load on another; the null responder beside them; durable writes beside OpenDJ as well. Rounds
# take turns, medians count, server CPU is per operation. Data is loaded once and kept in --folder (12 GB of disk with
# the defaults); goals.md, goals.json and all single results go to --output. A row that fails says why, and the others
# go on. bench/goals/rows.py has the rows; --list names them.
#   bench/goals.sh --rows 'search*,read' --rounds 1 --seconds 3
#   bench/goals.sh --entries 20000 --group-entries 20000 --small-entries 20000 --seconds 1 --rounds 1     # a rehearsal
# ./dev bench goals installs what is needed first.
set -euo pipefail
cd "$(dirname "$0")/.."

case " $* " in
*' --help '* | *' -h '* | *' --list '* | *' --pando '*) ;;
*) cargo build --release --locked -q -p pando ;;
esac
exec env PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 bench/goals/goals.py "$@"
