#!/bin/sh
# Makes the node of this container when it starts for the first time, then becomes the command that follows, such as
# `pando serve`. The first node founds the cluster and leaves an invitation for each of the others; they join by it with
# a copy of the first one's data. What cannot be done yet ends the container, which is started again.
#
#   NODE         its number, from 1 on
#   NODES        how many there are
#   REPLICAS     how many brokers keep the log
#   FIRST        HOST:PORT where the first one listens for the others
#   INVITATIONS  a folder that all of them have
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
    # It is a secret; that it was there says that there is such a node.
    : >"$file"
fi
exec "$@"
