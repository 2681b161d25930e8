# shellcheck shell=bash
# Makes the files of a release. Sourced by ./dev, from the repository's root.

# The folder into which cargo builds.
target=${CARGO_TARGET_DIR:-target}

cargo_deb_version=3.8.0
cargo_about_version=0.9.3
cargo_cyclonedx_version=0.5.9
cargo_generate_rpm_version=0.21.1

# The release build with the feature for clusters, and the other contents of all packages, in .dev/package.
build_packages_content() {
    need_rust
    need_c_compiler
    need_openssl
    need_cargo_tool cargo-about "$cargo_about_version" --features cli
    cargo build --release --locked -p pando --features kafka
    rm -rf .dev/package
    mkdir -p .dev/package/man
    local shell
    for shell in bash zsh fish; do "$target/release/pando" completions $shell >.dev/package/pando.$shell; done
    "$target/release/pando" man .dev/package/man
    third_party_licenses >.dev/package/third-party-licenses.txt
    gzip -9n <CHANGELOG.md >.dev/package/news.gz
    debian_changelog >.dev/package/changelog
}

# The changelog of the package as Debian's tools want it. The program's changes are in changelog.gz.
debian_changelog() {
    printf 'pando (%s-1) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- %s  %s\n' "$(version_of_pando)" \
        "$(sed -n 's/^maintainer = "\(.*\)"/\1/p' crates/pando/Cargo.toml)" "$(git log -1 --format=%cD)"
}

version_of_pando() { sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml; }

# The texts of all licenses. cargo-about does not know the C libraries that two crates contain.
third_party_licenses() {
    cargo about generate --locked --features kafka --manifest-path crates/pando/Cargo.toml \
        --config packaging/licenses/about.toml packaging/licenses/about.hbs
    local crate
    for crate in lmdb-master-sys:lmdb/libraries/liblmdb/LICENSE rdkafka-sys:librdkafka/LICENSES.txt; do
        printf '\n==== The C library in %s\n\n' "${crate%%:*}"
        cat "$(folder_of_crate "${crate%%:*}")/${crate#*:}"
    done
}

# folder_of_crate NAME: the folder with the sources of a dependency
folder_of_crate() {
    cargo metadata --locked --format-version 1 --features pando/kafka | /usr/bin/python3 -c '
import json, os, sys
for package in json.load(sys.stdin)["packages"]:
    if package["name"] == sys.argv[1]:
        print(os.path.dirname(package["manifest_path"]))' "$1"
}

package() {
    build_packages_content
    command -v dpkg-shlibdeps >/dev/null || apt_install dpkg-dev
    need_cargo_tool cargo-deb "$cargo_deb_version"
    mkdir -p .dev/packages
    cargo deb -p pando --no-build --dbgsym -o .dev/packages/
}

release() {
    need_python
    package
    need_cargo_tool cargo-generate-rpm "$cargo_generate_rpm_version"
    need_cargo_tool cargo-cyclonedx "$cargo_cyclonedx_version"
    command -v objcopy >/dev/null || apt_install binutils
    local folder version name
    version=$(version_of_pando)
    name=pando-$version-$(uname -m)-linux
    folder=$PWD/.dev/release/$version
    rm -rf "$folder"
    mkdir -p "$folder"
    cp .dev/packages/pando*_"$version"-*.*deb "$folder"
    objcopy --only-keep-debug "$target/release/pando" "$folder/$name.debug"
    # The rpm contains the stripped program.
    cp "$target/release/pando" .dev/package/pando.unstripped
    strip "$target/release/pando"
    cargo generate-rpm -p crates/pando --payload-compress zstd -o "$folder/"
    tarball "$name" "$target/release/pando" >"$folder/$name.tar.gz"
    build_static
    mv .dev/package/pando.unstripped "$target/release/pando"
    tarball "$name-static" .dev/package/pando.static >"$folder/$name-static.tar.gz"
    archive packaging/helm pando >"$folder/pando-chart-$version.tgz"
    archive packaging/ansible/roles pando >"$folder/pando-role-$version.tar.gz"
    cp .dev/package/third-party-licenses.txt "$folder"
    cargo cyclonedx --manifest-path crates/pando/Cargo.toml --features kafka --format json --spec-version 1.5 \
        --override-filename "$name.cdx"
    mv "crates/pando/$name.cdx.json" "$folder"
    # Other crates of the workspace get one too.
    find crates -name "$name.cdx.json" -delete
    (cd "$folder" && sha256sum -- * >SHA256SUMS)
    say "the release is in .dev/release/$version:"
    ls -l "$folder" >&2
}

# newer_rpm OUTPUT: the RPM package with a later release number, and with a program that is not stripped
newer_rpm() {
    need_cargo_tool cargo-generate-rpm "$cargo_generate_rpm_version"
    cargo generate-rpm -p crates/pando --payload-compress none --set-metadata 'release = "2"' -o "$1"
}

# stripped_program OUTPUT
stripped_program() { strip -o "$1" "$target/release/pando"; }

# The stripped program with the C library inside, in .dev/package/pando.static: without clusters, whose OpenSSL is the
# system's, and without Kerberos, whose library is loaded. Only the linker needs to know, so the libraries of the other
# programs are used.
build_static() {
    cargo rustc --release --locked -p pando --bin pando -- -C target-feature=+crt-static
    strip -o .dev/package/pando.static "$target/release/pando"
    ! readelf --program-headers .dev/package/pando.static | grep -q INTERP || die "the static program needs a loader"
}

# tarball NAME PROGRAM: for systems without .deb and .rpm; a program that is not static needs glibc and OpenSSL 3
tarball() {
    local folder=.dev/package/$1
    mkdir -p "$folder"
    cp "$2" "$folder/pando"
    cp README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT .dev/package/third-party-licenses.txt \
        packaging/systemd/pando.service packaging/systemd/optional/pando.socket packaging/debian/node.toml "$folder"
    cp -r packaging/monitoring "$folder/monitoring"
    cp -r .dev/package/man "$folder/man"
    mkdir "$folder/completions"
    cp .dev/package/pando.bash .dev/package/pando.zsh .dev/package/pando.fish "$folder/completions"
    archive .dev/package "$1"
}

# archive PARENT FOLDER: a compressed tarball of a folder, with the time of the commit
archive() {
    tar -c --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -C "$1" "$2" | gzip -9n
}
