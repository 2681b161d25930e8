#!/bin/sh
# Creates the node of this container at its first start, then runs the given command, such as `pando serve`. The first
# node creates the cluster and leaves an invitation for each of the others, which join with a copy of its data. If a
# step cannot be done yet, the container exits and is restarted.
#
#   NODE         its number, from 1 on
#   NODES        number of nodes
#   REPLICAS     number of brokers that keep the log
#   FIRST        HOST:PORT of the first node's cluster listener
#   INVITATIONS  folder that all nodes share
#   PANDO_NODE, PANDO_DATA  the node file and the data directory, as for `pando serve`
set -eu

invitation() {
    echo "$INVITATIONS/node$1.invitation"
}

is_node() {
    [ -e "$PANDO_DATA/cluster/identity.toml" ]
}

if [ "$NODE" -eq 1 ]; then
    is_node || pando cluster init --replicas "$REPLICAS"
    other=2
    while [ "$other" -le "$NODES" ]; do
        file=$(invitation "$other")
        if [ ! -e "$file" ]; then
            rm -f "$file.new"
            pando cluster invite --output "$file.new"
            mv "$file.new" "$file"
        fi
        other=$((other + 1))
    done
elif ! is_node; then
    file=$(invitation "$NODE")
    if [ ! -s "$file" ]; then
        echo "start-node: there is no invitation for node $NODE yet" >&2
        exit 1
    fi
    pando cluster join --invitation "$file" --copy-from "$FIRST"
    # The invitation is a secret. The empty file shows that the node exists.
    : >"$file"
fi
exec "$@"
