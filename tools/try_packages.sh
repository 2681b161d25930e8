# shellcheck shell=bash
# Tries the packages as an administrator would: in a bare Debian root, with its own dpkg and apt, but without systemd.
# Sourced by ./dev, from the repository's root.

helm_version=v3.19.5

# Debian's mirror, as this machine uses it.
# shellcheck disable=SC2016 # apt-get expands these
debian_mirror() {
    apt-get indextargets --format '$(SITE) $(CODENAME)' "Identifier: Packages" "Codename: $1" |
        awk 'NR == 1 { print $1 }'
}

# in_root COMMAND...: runs a command in the Debian root
in_root() { as_root chroot "$root" env DEBIAN_FRONTEND=noninteractive "$@"; }

# expect TEXT COMMAND...: the command must succeed and print the text
expect() {
    local text=$1 output
    shift
    output=$("$@" 2>&1) || die "failed: $*"$'\n'"$output"
    grep -qF -- "$text" <<<"$output" || die "$* does not print '$text':"$'\n'"$output"
}

# Starts the server in the root by the command of the unit, as its user, and waits until it listens.
start_server() {
    local command
    command=$(sed -n 's/^ExecStart=//p' "$root/lib/systemd/system/pando.service" \
        "$root/usr/lib/systemd/system/pando.service" 2>/dev/null | head -n 1)
    # The network is the machine's: another server may have the ports 389 and 636.
    # shellcheck disable=SC2086
    coproc SERVER { as_root_exec chroot --userspec=pando:pando "$root" $command --listen ldap://127.0.0.1:0 2>&1; }
    # shellcheck disable=SC2153 # of the coprocess
    server_pid=$SERVER_PID
    local line
    while read -r line <&"${SERVER[0]}"; do
        case $line in *"ready"*) return ;; esac
    done
    die "the server in the root has ended"
}

stop_server() {
    as_root kill "$server_pid"
    wait "$server_pid" || true
}

# Like as_root, for exec: becomes the command.
as_root_exec() { if [ "$(id -u)" -eq 0 ]; then exec "$@"; else exec sudo "$@"; fi; }

# try_debian PACKAGE: installs it, loads data, upgrades it, purges it, and installs it again over the data
try_debian() {
    local package=$1 codename
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    command -v debootstrap >/dev/null || apt_install debootstrap
    root=$(mktemp -d)
    # Users of the root pass through it.
    chmod 0755 "$root"
    trap 'as_root rm -rf --one-file-system "$root"' EXIT
    say "making a bare Debian root ($codename)"
    as_root debootstrap --variant=minbase "$codename" "$root" "$(debian_mirror "$codename")" >"$root.log" ||
        die "debootstrap failed: $root.log"
    rm -f "$root.log"
    as_root tar -C "$root" -cf .dev/debian.tar .
    cp "$package" "$root/var/cache/first.deb"
    newer_package "$package" "$root/var/cache/second.deb"
    printf 'dn: dc=example,dc=org\nobjectClass: domain\ndc: example\n' >"$root/var/cache/data.ldif"

    say "installing it"
    in_root apt-get -qq install -y --no-install-recommends /var/cache/first.deb >/dev/null
    expect "pando" in_root pando version
    [ "$(in_root stat -c '%U %a' /var/lib/pando)" = "pando 711" ] || die "/var/lib/pando is not as the unit has it"
    in_root pando init --help >/dev/null
    in_root test -f /usr/share/pando/pando.socket
    in_root setpriv --reuid=pando --regid=pando --clear-groups \
        pando import --data /var/lib/pando --suffix dc=example,dc=org /var/cache/data.ldif >/dev/null
    serves_the_data

    say "upgrading it"
    in_root apt-get -qq install -y /var/cache/second.deb >/dev/null
    # shellcheck disable=SC2016 # dpkg-query expands it
    [ "$(in_root dpkg-query -W -f '${Version}' pando)" = "$(dpkg-deb -f "$package" Version)+1" ] || die "no upgrade"
    serves_the_data

    say "purging it, and installing it over the data"
    expect "left in /var/lib/pando" in_root apt-get -qq purge -y pando
    [ ! -e "$root/etc/pando/node.toml" ] || die "purge keeps /etc/pando/node.toml"
    in_root apt-get -qq install -y --no-install-recommends /var/cache/first.deb >/dev/null
    serves_the_data
}

serves_the_data() {
    start_server
    local url=ldapi://%2Fvar%2Flib%2Fpando%2Fpando.sock
    expect "dc: example" in_root pando search --url "$url" --base dc=example,dc=org --scope base
    stop_server
}

# newer_package PACKAGE OUTPUT: the same package with a later version
newer_package() {
    local folder
    folder=$(mktemp -d)
    dpkg-deb -R "$1" "$folder/p"
    sed -i 's/^Version: .*/&+1/' "$folder/p/DEBIAN/control"
    dpkg-deb --root-owner-group -b "$folder/p" "$2" >/dev/null
    rm -rf "$folder"
}

try_lintian() {
    command -v lintian >/dev/null || apt_install lintian
    say "lintian"
    # The changelog closes no bug of Debian.
    lintian --fail-on error,warning --tag-display-limit 0 --suppress-tags initial-upload-closes-no-bugs "$@"
}

try_rpm() {
    # rpmlint reads packages with rpm, which Debian installs only on request.
    { command -v rpmlint && command -v rpm; } >/dev/null || apt_install rpmlint rpm
    say "rpmlint"
    rpmlint -c packaging/rpm/rpmlint.toml "$@"
}

# try_rpm_in_root RPM: in the root of try_debian without the Debian package, over the same data: installs the RPM
# package, upgrades it, removes it, and installs it again. No package of Debian can satisfy its requirements.
try_rpm_in_root() {
    local rpm=(in_root rpm --force-debian --nodeps)
    say "the RPM package in the same root"
    cp "$1" "$root/var/cache/first.rpm"
    newer_rpm "$root/var/cache/second.rpm"
    in_root apt-get -qq purge -y pando >/dev/null 2>&1
    in_root apt-get -qq install -y --no-install-recommends rpm libssl3 >/dev/null
    in_root userdel pando
    "${rpm[@]}" --install /var/cache/first.rpm
    in_root chown -R pando:pando /var/lib/pando
    serves_the_data
    echo '# A line of the administrator' | as_root tee -a "$root/etc/pando/node.toml" >/dev/null
    "${rpm[@]}" --upgrade /var/cache/second.rpm
    [ "$(in_root rpm --query --queryformat '%{RELEASE}' pando)" = 2 ] || die "no upgrade"
    expect "of the administrator" in_root cat /etc/pando/node.toml
    serves_the_data
    "${rpm[@]}" --erase pando
    ! in_root test -e /usr/bin/pando || die "the program is still there"
    "${rpm[@]}" --install /var/cache/first.rpm
    serves_the_data
}

# try_static TARBALL: sets up and serves a directory in a root with only the program, /etc/hosts and random numbers
try_static() {
    local output port url=ldapi://%2Fsrv%2Fdata%2Fpando.sock
    say "the static program in an empty root"
    root=$(mktemp -d)
    chmod 0755 "$root"
    trap 'as_root rm -rf --one-file-system "$root"' EXIT
    tar -xzf "$1" -C "$root" --strip-components=1 --wildcards '*/pando'
    mkdir "$root/etc" "$root/dev"
    as_root mknod -m 0444 "$root/dev/random" c 1 8
    as_root mknod -m 0444 "$root/dev/urandom" c 1 9
    echo '127.0.0.1 directory.example.org' >"$root/etc/hosts"
    # shellcheck disable=SC2317 # called by expect
    alone() { as_root chroot "$root" /pando "$@"; }
    expect ", static" alone version
    output=$(alone cluster init 2>&1) && die "the static program has clusters"
    grep -qF "this build has no clusters" <<<"$output" || die "pando cluster says: $output"
    alone init /srv --yes --sample --suffix dc=example,dc=org --readers anonymous --listen ldap://127.0.0.1:0 >/dev/null
    coproc SERVER { as_root_exec chroot "$root" /pando serve --node /srv/node.toml 2>&1; }
    server_pid=$SERVER_PID
    output=
    while [[ $output != *" ready on "* ]]; do
        read -r output <&"${SERVER[0]}" || die "the static server has ended"
    done
    port=${output##*ldap://127.0.0.1:}
    port=${port%%[!0-9]*}
    expect "cn: Ana Huber" alone search --url "$url" --base dc=example,dc=org '(uid=ahuber)' cn
    # By name.
    expect "cn: Ana Huber" alone search --url "ldap://directory.example.org:$port" --base dc=example,dc=org \
        '(uid=ahuber)' cn
    stop_server
    printf '[kerberos]\nkeytab = "/srv/keytab"\n' | as_root tee -a "$root/srv/node.toml" >/dev/null
    output=$(alone serve --node /srv/node.toml 2>&1) && die "the static server has Kerberos"
    grep -qF "cannot load the library of Kerberos" <<<"$output" || die "with [kerberos], the server says: $output"
    as_root rm -rf --one-file-system "$root"
}

# The image with the released program, in a bare Debian root.
try_image() {
    if ! command -v podman >/dev/null || ! command -v crun >/dev/null; then apt_install podman crun; fi
    stripped_program .dev/pando-of-image
    as_root unshare --mount tools/try_image.sh "$PWD/.dev/pando-of-image" .dev/debian.tar
    as_root rm -f .dev/pando-of-image .dev/debian.tar
}

# The chart is valid for the oldest and the newest Kubernetes that it names, with and without its options.
try_chart() {
    local helm=.dev/bin/helm environment=.dev/kubernetes-validate kubernetes options
    if [ ! -x "$helm" ]; then
        command -v go >/dev/null || apt_install golang-go
        say "building helm $helm_version"
        GOBIN=$PWD/.dev/bin go install "helm.sh/helm/v3/cmd/helm@$helm_version"
    fi
    if [ ! -x "$environment/bin/kubernetes-validate" ]; then
        /usr/bin/python3 -m venv "$environment"
        "$environment/bin/pip" --quiet install kubernetes-validate==1.37.0
    fi
    say "the Helm chart"
    "$helm" lint --strict --quiet packaging/helm/pando
    for kubernetes in 1.27.0 1.37.0; do
        for options in "image.tag=x" "tls.existingSecret=t,administrator.existingSecret=a,storage.className=c"; do
            "$helm" template try packaging/helm/pando --kube-version "$kubernetes" --set "$options" \
                --set-string 'settings=suffixes = ["dc=example\,dc=org"]' >.dev/chart.yaml
            "$environment/bin/kubernetes-validate" --strict --quiet -k "$kubernetes" .dev/chart.yaml
        done
    done
    rm .dev/chart.yaml
}

# The role, without the tasks that need systemd, in the root of try_debian: a second run changes nothing.
try_role() {
    local package=$1 folder output
    command -v ansible-playbook >/dev/null || apt_install ansible
    say "the Ansible role"
    folder=$(mktemp -d)
    echo 'suffixes = ["dc=example,dc=org"]' >"$folder/settings.toml"
    cat >"$folder/site.yml" <<PLAYBOOK
- hosts: all
  gather_facts: false
  roles:
    - role: pando
      pando_package: $(realpath "$package")
      pando_settings: $folder/settings.toml
PLAYBOOK
    in_root apt-get -qq install -y --no-install-recommends python3 python3-apt >/dev/null
    # shellcheck disable=SC2317 # called by expect
    play() {
        as_root env ANSIBLE_ROLES_PATH="$PWD/packaging/ansible/roles" ansible-playbook --connection chroot \
            --inventory "$root," --skip-tags service "$@" "$folder/site.yml"
    }
    expect "failed=0" play --extra-vars '{"pando_listen": ["ldap://127.0.0.1:1389"]}'
    expect "changed=0" play --extra-vars '{"pando_listen": ["ldap://127.0.0.1:1389"]}'
    expect 'listen = ["ldap://127.0.0.1:1389"]' in_root cat /etc/pando/node.toml
    rm -rf "$folder"
}

try_packages() {
    need_python
    local version packages
    version=$(version_of_pando)
    packages=(.dev/packages/pando_"$version"-*.deb)
    [ -e "${packages[0]}" ] || package
    packages=(.dev/packages/pando_"$version"-*.deb)
    try_chart
    try_lintian "${packages[0]}"
    if [ -e ".dev/release/$version" ]; then
        try_rpm ".dev/release/$version"/*.rpm
        try_static ".dev/release/$version"/*-static.tar.gz
    fi
    try_debian "${packages[0]}"
    try_role "${packages[0]}"
    [ ! -e ".dev/release/$version" ] || try_rpm_in_root ".dev/release/$version"/*.rpm
    try_image
    say "the packages are in order"
}
