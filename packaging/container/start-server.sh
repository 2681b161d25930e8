#!/bin/sh
# Applies the settings file, if it exists, then runs the given command, such as `pando serve`. A repeated start with the
# same file changes nothing.
#
#   PANDO_SETTINGS  the settings file: docs/how-to/configure.md
#   PANDO_SUFFIX    the suffix of a new directory, if there is no settings file
#   PANDO_NODE, PANDO_DATA  the node file and the data directory, as for `pando serve`
set -eu

if [ -e "$PANDO_SETTINGS" ]; then
    pando apply --data "$PANDO_DATA" "$PANDO_SETTINGS"
fi
exec "$@"
