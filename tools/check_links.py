#!/usr/bin/env python3
"""Checks references of the repository's text to its own files, and prints each offence as FILE:LINE: error.

- Each relative link of a Markdown file leads to a file or folder, and its anchor to a heading of that file.
- Each path of a page of docs/ that any text file mentions (comments, messages, scripts) exists, and so does each
  path of a source file that a Markdown file has between backticks.
- No link of a page of docs/ leads out of that folder, of which `./dev docs` makes a book.

Exit code 1 means that there was an offence. In kept benchmark runs only links are checked: their prose may name files
that no longer exist.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"#{1,6} (.+)")
SOURCE = re.compile(r"`((?:crates|bench|bench-runs|tools|fuzz)/[\w./-]+)`")
MENTION = re.compile(r"(?<![\w./-])docs/[\w./-]+\.md")


def main():
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = [ROOT / name for name in listed.split("\0") if name and (ROOT / name).is_file()]
    pages = [file for file in files if file.suffix == ".md"]
    anchors = {page: anchors_of(page) for page in pages}
    offences = [offence for page in pages for offence in broken_links(page, anchors)]
    offences += [offence for file in files for offence in broken_mentions(file)]
    print("\n".join(offences), end="\n" if offences else "")
    return 1 if offences else 0


def prose(page):
    """The page's lines with their numbers, without code: fenced, indented, or between backticks."""
    fenced = False
    before = ""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not (line.startswith("    ") and not before.strip()):
            yield number, re.sub(r"(`+).*?\1", lambda code: "x" * len(code.group()), line)
            before = line


def anchors_of(page):
    """Returns the anchors of headings, as GitHub and mdBook make them: in lower case, without punctuation, with hyphens
    for spaces, and with numbers for repetitions."""
    found = set()
    fenced = False
    for line in page.read_text().splitlines():
        fenced ^= line.startswith("```")
        heading = HEADING.fullmatch(line)
        if heading and not fenced:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.group(1))
            slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
            times = 0
            while (name := f"{slug}-{times}" if times else slug) in found:
                times += 1
            found.add(name)
    return found


def broken_links(page, anchors):
    for number, line in prose(page):
        for target in LINK.findall(line):
            if re.match(r"[a-z]+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            if not file.exists():
                yield f"{page.relative_to(ROOT)}:{number}: no file {target}"
            elif anchor and anchor not in anchors.get(file, set()):
                yield f"{page.relative_to(ROOT)}:{number}: no heading {target}"
            elif page.is_relative_to(DOCS) and not file.is_relative_to(DOCS):
                yield f"{page.relative_to(ROOT)}:{number}: {target} is not in the book; name the file instead of a link"


def broken_mentions(file):
    if file.is_relative_to(ROOT / "bench-runs"):
        return
    try:
        lines = file.read_text().splitlines()
    except UnicodeDecodeError:
        return
    for number, line in enumerate(lines, 1):
        for path in MENTION.findall(line) + (SOURCE.findall(line) if file.suffix == ".md" else []):
            if not (ROOT / path).exists():
                yield f"{file.relative_to(ROOT)}:{number}: no file {path}"


if __name__ == "__main__":
    sys.exit(main())
