#!/usr/bin/env python3
"""Links between the pages lead somewhere: links.py SOURCE_ROOT. A file must be there, and the heading that follows #."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1]).resolve()
LINK = re.compile(r"\]\((?!https?:)([^)\s#]*)(?:#([^)\s]*))?\)")


def slug(heading):
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading.strip()).lower()).replace(" ", "-")


def without_blocks(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


pages = {page: without_blocks(page.read_text()) for page in [*root.glob("*.md"), *root.glob("docs/*.md")]}
headings = {page: {slug(found[1]) for found in re.finditer(r"^#+ (.*)$", text, re.MULTILINE)} for page, text in pages.items()}
lost = 0
for page, text in pages.items():
    for name, heading in LINK.findall(text):
        there = (page.parent / name).resolve() if name else page
        if not there.exists() or (heading and there in headings and heading not in headings[there]):
            print(f"{page.relative_to(root)}: {name}#{heading} leads nowhere")
            lost += 1
sys.exit(1 if lost else 0)
