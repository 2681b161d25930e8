#!/bin/sh
# $1 is the number of versions that remain: 0 for a removal.
[ "$1" -gt 0 ] || [ ! -d /run/systemd/system ] || systemctl --no-reload disable --now pando.service
