#!/usr/bin/env python3
"""Loads the schema files of other servers and applications, and writes docs/reference/schema-files.md.

    ./dev schema-table [PANDO]

The files come from Debian's packages and, for OpenDJ, from Maven; none of them is kept. A file that does not load alone
is tried together with the other files of its package.
"""

import gzip
import os
import re
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
PAGE = TOP / "docs/reference/schema-files.md"
PACKAGES = {
    "slapd": "OpenLDAP",
    "389-ds-base": "389 DS",
    "samba": "Samba",
    "krb5-kdc-ldap": "MIT Kerberos",
    "autofs-ldap": "autofs",
    "isc-dhcp-server-ldap": "ISC DHCP",
    "pdns-backend-ldap": "PowerDNS",
    "gosa-schema": "GOsa",
    "gosa-plugins-sudo-schema": "GOsa, sudo",
    "gosa-plugins-dhcp-schema": "GOsa, DHCP",
    "gosa-plugins-dns-schema": "GOsa, DNS",
    "glue-schema": "GLUE",
    "freeradius": "FreeRADIUS",
    "amavisd-new": "amavisd-new",
    "debian-edu-config": "Debian Edu",
    "ldap-account-manager": "LDAP Account Manager",
}
OPENDJ = "org.openidentityplatform.opendj:opendj-server-legacy:4.6.4:zip"
# The configuration of slapd with `include` lines, and data, which are not definitions.
NOT_SCHEMA = re.compile(r"(README|slapd\.conf|schema2ldif|update-|00core-|/ldif/[^/]*tree)")


def run(arguments, folder=None):
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, errors="replace", check=False)


def fetch(folder):
    """Yields the title of each source and its schema files."""
    for package, title in PACKAGES.items():
        home = folder / package
        home.mkdir()
        fetched = run(["apt-get", "download", package], home)
        debs = list(home.glob("*.deb"))
        if not debs:
            sys.exit(f"{package}: {fetched.stderr}")
        run(["dpkg-deb", "-x", str(debs[0]), str(home)])
        yield f"{title} (`{package}`)", sorted(schema_files(home))
    home = folder / "opendj"
    home.mkdir()
    copied = run(["mvn", "-q", "dependency:copy", f"-Dartifact={OPENDJ}", f"-DoutputDirectory={home}"])
    archives = list(home.glob("*.zip"))
    if not archives:
        sys.exit(f"OpenDJ: {copied.stdout}")
    with zipfile.ZipFile(archives[0]) as archive:
        names = [name for name in archive.namelist() if re.search(r"/schema/[^/]*\.ldif$", name)]
        archive.extractall(home, names)
    yield "OpenDJ (Maven)", sorted(home.rglob("*.ldif"))


def schema_files(home):
    """Yields the files of a package, unpacked."""
    seen = set()
    for path in sorted(home.rglob("*")):
        name = str(path.relative_to(home))
        is_schema = re.search(r"\.schema(\.gz)?$|schema[^/]*/[^/]*\.ldif(\.gz)?$|schema/[^/]*/[^/]*\.ldif$", name)
        if not path.is_file() or path.is_symlink() or not is_schema or NOT_SCHEMA.search(name):
            continue
        if path.suffix == ".gz":
            plain = path.with_suffix("")
            plain.write_bytes(gzip.decompress(path.read_bytes()))
            path = plain
        text = path.read_bytes()
        if text not in seen:
            seen.add(text)
            yield path


def load(pando, folder, files):
    """Returns whether the files load together, and what the command printed."""
    settings = folder / "settings.toml"
    listed = ", ".join(f'"{path}"' for path in files)
    settings.write_text(f'suffixes = ["dc=a"]\nschema_files = [{listed}]\n')
    done = run([str(pando), "plan", "--data", str(folder / "none"), str(settings)])
    # 1: the plan has changes.
    return done.returncode in (0, 1), done.stdout + done.stderr


NOTICES = ("stays as shipped", "has no effect here", "is not known here", "has the OID")


def reason(said, path):
    """Returns the first error about a file."""
    lines = [line.split(f"{path}:", 1)[1] for line in said.splitlines() if f"{path}:" in line]
    errors = [line for line in lines if not any(notice in line for notice in NOTICES)]
    text = re.sub(r"^\d+: ", "", (errors or [said.strip()])[0]).strip()
    text = text if len(text) <= 72 else text[:68].rsplit(" ", 1)[0] + " ..."
    return text.replace("|", "\\|").replace("<", "&lt;")


def together(pando, folder, files):
    """Returns the largest part of the files, found by dropping those with errors, that loads together."""
    files = list(files)
    while files:
        loads, said = load(pando, folder, files)
        if loads:
            return files
        lines = [line for line in said.splitlines() if not any(notice in line for notice in NOTICES)]
        # Missing definitions may be available again once the files with other errors are removed.
        others = [line for line in lines if not line.endswith("is not defined")]
        bad = [path for path in files if any(f"{path}:" in line for line in others)]
        bad = bad or [path for path in files if any(f"{path}:" in line for line in lines)]
        if not bad:
            return []
        files = [path for path in files if path not in bad]
    return []


def judge(pando, folder, files):
    """Yields each file of a source with its result and a text."""
    alone = {path: load(pando, folder, [path]) for path in files}
    sets = {}
    for ending in (".schema", ".ldif"):
        sets[ending] = together(pando, folder, [path for path in files if path.suffix == ending])
    for path in files:
        loads, said = alone[path]
        text = ""
        if not loads and path in sets[path.suffix]:
            loads, said = load(pando, folder, sets[path.suffix])
            text = "with the other files"
        elif not loads and load(pando, folder, ["samba", path])[0]:
            loads, said = load(pando, folder, ["samba", path])
            text = "after `samba`"
        notices = sum(f"{path}:" in line for line in said.splitlines())
        if not loads:
            yield path, "no", reason(said, path)
        elif notices:
            yield path, "with notices", "; ".join(part for part in (text, f"{notices} notices") if part)
        else:
            yield path, "yes", text


def named(names):
    """Returns a list of files. Those that differ only in their ending are one: `nis.{ldif,schema}`."""
    listed = ", ".join(dict.fromkeys(names))
    return re.sub(r"([^ ]+)\.ldif((?: \(\d+\))?), \1\.schema\2(?=,|$)", r"\1.{ldif,schema}\2", listed)


def item(title, rows):
    """Returns the item of the list about a source: `rows` are names of files, results and texts."""
    groups = {}
    for name, result, text in rows:
        if result == "with notices":
            together, _, notices = text.rpartition("; ")
            text = f"{together}, with notices: ".removeprefix(", ")
            groups.setdefault(text, []).append(f"{name} ({notices.split()[0]})")
        elif result == "yes":
            groups.setdefault(text and f"{text}: ", []).append(name)
    parts = [text + named(names) if text else f"{len(names)} load" for text, names in sorted(groups.items())]
    return filled(f"- **{title}**: {'; '.join(parts)}.")


def filled(text):
    """Returns an item of a list, broken into lines."""
    wide = {"width": 120, "subsequent_indent": "  ", "break_long_words": False, "break_on_hyphens": False}
    return textwrap.fill(text, **wide)


def page(sources):
    """Returns the page about sources: their titles, and rows as in `item`."""
    counts = {"yes": 0, "with notices": 0, "no": 0}
    failed = {}
    for title, rows in sources:
        for name, result, text in rows:
            counts[result] += 1
            if result == "no":
                failed.setdefault((title.split(" (")[0], Path(name).stem, text), []).append(name)
    numbers = {key.replace(" ", "_"): number for key, number in counts.items()}
    whole = {title: len(rows) for title, rows in sources if all(row[1:] == ("yes", "") for row in rows)}
    listed = ", ".join(f"{title} {count}" for title, count in whole.items())
    items = [item(title, rows) for title, rows in sources if title not in whole]
    items.append(filled(f"- All files load of: {listed}."))
    table = [f"| {title} | {named(names)} | {text} |" for (title, _, text), names in failed.items()]
    return "\n".join([HEAD.format(total=sum(counts.values()), **numbers), *items, TABLE, *table, ""])


def main():
    pando = Path(sys.argv[1] if len(sys.argv) > 1 else TOP / "target/debug/pando").resolve()
    sources = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, files in fetch(folder):
            rows = []
            for path, result, text in judge(pando, folder, files):
                rows.append((path.name, result, text))
                print(f"{title}: {path.name}: {result} {text}", flush=True)
            if rows:
                sources.append((title, rows))
    PAGE.write_text(page(sources))


HEAD = """\
# Schema files of others

This page, written by `./dev schema-table`, shows which schema files of other software Pando loads into an empty
directory with [`schema_files`](../how-to/configure.md#your-own-schema). The files come from the packages of Debian 12
and from Maven. Of {total} files, {yes} load, {with_notices} load with notices, and {no} do not.

Files that load are counted. A notice, counted in parentheses, names a definition that differs from the shipped one,
which stays, or a part without effect. Some load only with the others of their package. FreeIPA's are in no package;
Active Directory, eduPerson, SCHAC and sudo are [part of the program](../how-to/configure.md#your-own-schema). The old
autofs.schema is not: shipped classes of the same names accept its entries.
"""

TABLE = """
These files do not load, because they have an error or contradict a shipped definition: load a copy without it.

| source | file | reason |
|---|---|---|"""

if __name__ == "__main__":
    os.environ["LC_ALL"] = "C"
    main()
