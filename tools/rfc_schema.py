#!/usr/bin/env python3
"""Reads the schema definitions of RFCs and drafts, for crates/schema/testdata/rfc_definitions.tsv.

    tools/rfc_schema.py FOLDER            prints the table
    tools/rfc_schema.py --check FOLDER    says whether it is the table that is kept; 1 if it is not

FOLDER has the texts as the RFC editor publishes them, named rfc4512.txt and so on. Definitions run over the ends of
pages, so headers and footers go first. The shipped schema is held against the table by crates/schema/tests/rfcs/mod.rs.
"""

import os
import re
import sys

TABLE = os.path.join(os.path.dirname(__file__), "../crates/schema/testdata/rfc_definitions.tsv")

# Later specifications before those that they replace: of two that define one OID the first counts, but for RFC 2307
# and its successor, which are both in use.
SOURCES = [
    "rfc4512", "rfc4517", "rfc4519", "rfc4523", "rfc4524", "rfc4530", "rfc5020", "rfc2079", "rfc2589", "rfc3045",
    "rfc3112", "rfc3296", "rfc3671", "rfc3672", "rfc3698", "rfc2247", "rfc2377", "rfc2798", "rfc2307",
    "draft-howard-rfc2307bis-xx", "draft-behera-ldap-password-policy-xx",
]
SIDE_BY_SIDE = {"rfc2307", "draft-howard-rfc2307bis-xx"}

COLUMNS = [
    "kind", "source", "oid", "names", "sup", "equality", "ordering", "substr", "syntax", "flags", "usage", "must",
    "may",
]

# Syntaxes by the names that RFC 2307 and RFC 2079 have for them.
SYNTAX = "1.3.6.1.4.1.1466.115.121.1."
NAMED_SYNTAXES = {
    "INTEGER": SYNTAX + "27", "IA5String": SYNTAX + "26", "DirectoryString": SYNTAX + "15",
    "nisNetgroupTripleSyntax": "1.3.6.1.1.1.0.0", "bootParameterSyntax": "1.3.6.1.1.1.0.1",
}

FLAGS = ["OBSOLETE", "SINGLE-VALUE", "COLLECTIVE", "NO-USER-MODIFICATION", "ABSTRACT", "STRUCTURAL", "AUXILIARY"]
TERMS = {"NAME", "DESC", "SUP", "EQUALITY", "ORDERING", "SUBSTR", "SUBSTRINGS", "SYNTAX", "USAGE", "MUST", "MAY"}
BEGINS = re.compile(r"\(\s*((?:[0-9]+(?:\.[0-9]+)+)|(?:nisSchema(?:\.[0-9]+)+))\s+(?:NAME|DESC|SUP)\b")


def without_pages(text):
    """The text without the last line of each page and the first of the next."""
    lines = []
    for line in text.replace("\f", "\n").split("\n"):
        is_footer = re.search(r"\[Page [0-9ivx]+\]\s*$", line)
        is_header = re.match(r"(RFC [0-9]+ |Internet-Draft ).*(19|20)[0-9][0-9]\s*$", line)
        if not is_footer and not is_header:
            lines.append(line)
    return "\n".join(lines)


def tokens(text, start):
    """Tokens from the bracket at `start` to the one that closes it; None if there is none. A quote within a quoted
    text, as in "the user's", is not followed by a blank or a bracket."""
    found, depth = [], 0
    for match in re.compile(r"'.*?'(?=[\s)$])|[()$]|[^\s()$']+", re.S).finditer(text, start):
        token = match.group()
        found.append(token)
        depth += (token == "(") - (token == ")")
        if depth == 0:
            return found
        if len(found) > 2000:
            return None
    return None


def parse(source, found):
    """Returns the row for the tokens of a definition, or None if they are not a definition."""
    oid = found[1]
    if oid.startswith("nisSchema"):
        oid = "1.3.6.1.1.1" + oid[len("nisSchema"):].replace(".09", ".9")
    terms, place = {}, 2
    while place < len(found) - 1:
        word = found[place]
        place += 1
        if word in FLAGS:
            terms[word] = []
        elif word.startswith("X-") or word in TERMS:
            values = []
            if found[place] == "(":
                place += 1
                while found[place] != ")":
                    if found[place] != "$":
                        values.append(found[place].strip("'"))
                    place += 1
                place += 1
            else:
                values.append(found[place].strip("'"))
                place += 1
            terms["SUBSTR" if word == "SUBSTRINGS" else word] = values
        else:
            return None
    names = terms.get("NAME", [])
    if not names:
        kind = "syntax" if set(terms) <= {"DESC"} else None
    elif names[0].endswith("Match") or oid.startswith("2.5.13."):
        kind = "rule"
    elif any(term in terms for term in ("ABSTRACT", "STRUCTURAL", "AUXILIARY", "MUST", "MAY")):
        kind = "class"
    elif "SYNTAX" in terms or "SUP" in terms:
        kind = "type"
    else:
        kind = None
    if kind is None:
        return None
    syntax = terms.get("SYNTAX", [""])[0]
    base, brace, bound = syntax.partition("{")
    flags = [flag for flag in FLAGS if flag in terms]
    if kind == "class" and not {"ABSTRACT", "AUXILIARY"} & set(flags):
        flags = [flag for flag in flags if flag != "STRUCTURAL"] + ["STRUCTURAL"]
    one = lambda term: " ".join(terms.get(term, []))
    return {
        "kind": kind, "source": source, "oid": oid, "names": " ".join(names), "sup": one("SUP"),
        "equality": one("EQUALITY"), "ordering": one("ORDERING"), "substr": one("SUBSTR"),
        "syntax": NAMED_SYNTAXES.get(base, base) + brace + bound, "flags": " ".join(flags),
        "usage": one("USAGE"), "must": " ".join(sorted(terms.get("MUST", []), key=str.lower)),
        "may": " ".join(sorted(terms.get("MAY", []), key=str.lower)),
    }


def of_templates(source, text):
    """Returns the definitions of RFC 2079, which are written as lines of names and values."""
    for part in re.split(r"\n(?=\s+Name:\s)", text)[1:]:
        said = dict(re.findall(r"^\s+([A-Za-z ]+?):\s+(.*\S)\s*$", part, re.M))
        oid = re.search(r"\(([0-9.]+)\)", said.get("OID", ""))
        if not oid:
            continue
        row = dict.fromkeys(COLUMNS, "")
        row.update(source=source, oid=oid.group(1), names=said["Name"])
        if "Syntax" in said:
            assert said["Syntax"] == "caseExactString", said
            row.update(kind="type", equality="caseExactMatch", syntax=NAMED_SYNTAXES["DirectoryString"])
        else:
            may = re.search(r"labeledURI\b", part[part.index("OID"):])
            row.update(kind="class", sup="top", flags="AUXILIARY", may=may.group() if may else "")
        yield row


def rows(folder):
    found, known = [], set()
    for source in SOURCES:
        path = os.path.join(folder, source + ".txt")
        with open(path, encoding="utf-8", errors="replace") as file:
            text = without_pages(file.read())
        here = list(of_templates(source, text)) if source == "rfc2079" else []
        for match in BEGINS.finditer(text):
            definition = tokens(text, match.start())
            row = definition and parse(source, definition)
            # RFC 4517 has definitions of types and classes as examples only.
            if row and (source != "rfc4517" or row["kind"] in ("rule", "syntax")):
                here.append(row)
        for row in here:
            key = (row["kind"], row["oid"])
            of_side = key + (source,) if source in SIDE_BY_SIDE else key
            if key in known or of_side in known:
                continue
            known.add(of_side)
            found.append(row)
    return found


def main(arguments):
    is_check = arguments[:1] == ["--check"]
    folders = arguments[1:] if is_check else arguments
    if len(folders) != 1:
        sys.exit(__doc__)
    table = ["\t".join(COLUMNS)] + ["\t".join(row[column] for column in COLUMNS) for row in rows(folders[0])]
    text = "\n".join(table) + "\n"
    if not is_check:
        sys.stdout.write(text)
        return
    with open(TABLE, encoding="utf-8") as file:
        kept = file.read()
    if kept != text:
        differences = sorted(set(kept.split("\n")) ^ set(text.split("\n")))
        sys.exit("rfc_schema: the table is not what the texts say:\n" + "\n".join(differences[:20]))


main(sys.argv[1:])
