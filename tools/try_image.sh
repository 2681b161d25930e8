#!/usr/bin/env bash
# Builds the container image and runs it as docs/how-to/container.md does, without a registry: the Debian image is a
# bare root, and the compiler's image has the built program and copies it. Needs root, podman and crun.
#
#   unshare --mount tools/try_image.sh PROGRAM ROOT.tar
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/needs.sh

folder=$(mktemp -d)
pod() { podman --root "$folder/store" --runroot "$folder/run" --cgroup-manager cgroupfs "$@"; }
clean_up() {
    pod rm --all --force --time 1 >/dev/null || true
    # Podman leaves its store mounted, in this mount namespace only.
    umount "$folder/store/overlay" 2>/dev/null || true
    rm -rf --one-file-system "$folder"
}
trap clean_up EXIT

# build_image PROGRAM ROOT.tar: builds the image `pando`
build_image() {
    mkdir "$folder/compiler"
    cp "$1" "$folder/compiler/pando"
    printf '#!/bin/sh\nmkdir -p target/release\ncp /opt/pando target/release\n' >"$folder/compiler/cargo"
    chmod 0755 "$folder/compiler/cargo"
    cat >"$folder/compiler/Containerfile" <<'CONTAINERFILE'
FROM docker.io/library/debian:bookworm-slim
RUN apt-get update && apt-get install -y --no-install-recommends binutils
COPY cargo /usr/local/bin/
COPY pando /opt/
CONTAINERFILE
    pod import --quiet "$2" docker.io/library/debian:bookworm-slim >/dev/null
    local build=(build --quiet --pull=never --isolation chroot --network host)
    pod "${build[@]}" -t docker.io/library/rust:1-bookworm "$folder/compiler" >/dev/null
    pod "${build[@]}" -f packaging/container/Containerfile -t pando . >/dev/null
}

# start OPTIONS...: runs the image with the least rights that the page promises, until it is ready
start() {
    local files line
    files=$(ulimit -n)
    coproc IMAGE {
        pod run --rm --name pando --network none --cgroups disabled --read-only --cap-drop all \
            --security-opt no-new-privileges --ulimit "nofile=$files:$files" --ulimit nproc=1000:1000 \
            -v pando:/var/lib/pando "$@" pando 2>&1
    }
    # shellcheck disable=SC2153 # of the coprocess
    image_pid=$IMAGE_PID
    started=
    while read -r line <&"${IMAGE[0]}"; do
        started+=$line$'\n'
        case $line in *" ready on "*) return ;; esac
    done
    die "the container has ended: $started"
}

# SIGTERM, as `podman stop` and Kubernetes send it: the server ends by itself, long before it would be killed.
stop() {
    local status=0
    pod stop --time 120 pando >/dev/null
    wait "$image_pid" || status=$?
    [ "$status" -eq 0 ] || die "after SIGTERM, the container ends with $status"
}

# within ARGUMENTS...: runs pando in the container, as its user, who is the administrator
within() { pod exec -i pando pando "$@"; }

# probe PATH: the answer of the server's health checks
probe() {
    nsenter --net="/proc/$(pod inspect --format '{{.State.Pid}}' pando)/ns/net" /usr/bin/python3 -c '
import sys, urllib.request
print(urllib.request.urlopen("http://127.0.0.1:9389" + sys.argv[1]).status)' "$1"
}

found() { within search --data /var/lib/pando --base dc=example,dc=org "$1" 1.1 | grep -c '^dn: ' || true; }

if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then
    # crun refuses both versions of control groups at once. Only this mount namespace changes.
    mount -t cgroup2 none /sys/fs/cgroup
fi
say "building the image"
build_image "$1" "$2"

say "its first start, set up by environment variables"
start -e PANDO_SUFFIX=dc=example,dc=org -e PANDO_ADMIN_PASSWORD=of-the-image
[[ $started != *of-the-image* ]] || die "the output has the password: $started"
[ "$(pod exec pando id -u)" = 389 ] || die "the server does not run as user 389"
! pod exec pando touch /etc/pando/x 2>/dev/null || die "the root is writable"
[ "$(probe /live) $(probe /ready)" = "200 200" ] || die "the probes fail"
{
    printf 'dn: dc=example,dc=org\nobjectClass: domain\ndc: example\n\n'
    for ((number = 1; number <= 20000; number++)); do
        printf 'dn: cn=%d,dc=example,dc=org\nobjectClass: device\n\n' "$number"
    done
} >"$folder/changes.ldif"

say "SIGTERM during 20000 changes, and a second start on the data"
: >"$folder/made"
within change --data /var/lib/pando <"$folder/changes.ldif" >"$folder/made" 2>"$folder/errors" &
client=$!
until grep -q 'cn=10,' "$folder/made"; do kill -0 "$client" || die "no changes: $(cat "$folder/errors")"; done
stop
! wait "$client" || die "all changes were made before the server stopped"
made=$(grep -c '^add ' "$folder/made")
start
kept=$(found '(objectClass=*)')
# The client may end with its container, before it prints the last answer.
[ "$((kept - made))" -eq 0 ] || [ "$((kept - made))" -eq 1 ] || die "$made changes were answered, $kept are there"
stop

say "a third start, with a settings file"
echo 'suffixes = ["dc=example,dc=org", "dc=example,dc=net"]' >"$folder/settings.toml"
start -v "$folder/settings.toml:/etc/pando/settings.toml:ro"
within export --settings-only --data /var/lib/pando | grep -q 'dc=example,dc=net' || die "the settings are not in force"
[ "$(found '(objectClass=*)')" = "$kept" ] || die "entries are missing"
stop
say "the image is in order: $made changes were answered before SIGTERM, $kept are there"
