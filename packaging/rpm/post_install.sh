#!/bin/sh
# The same folder as in the unit, for commands before the first start, such as an import.
install -d -m 0711 -o pando -g pando /var/lib/pando
# There is no systemd in containers and chroots.
[ ! -d /run/systemd/system ] || systemctl daemon-reload
# $1 is the number of installed versions: above 1 for an update. Then the administrator sees warnings and problems,
# which do not fail the update.
[ "$1" -eq 1 ] || pando doctor --quiet --data /var/lib/pando --node /etc/pando/node.toml || true
[ "$1" -eq 1 ] || [ ! -d /run/systemd/system ] || systemctl try-restart pando.service
