#!/usr/bin/env python3
"""Embeds descriptions, templates and what bench runs as one GResource: embed-data.py COMPILER SOURCE_ROOT OUT.c OUT.h

Runs at every build and writes an output only when its content changed, so that adding a data file needs neither
an edit nor a reconfiguration, and an unchanged tree rebuilds nothing."""
import os
import pathlib
import subprocess
import sys
import tempfile
import xml.sax.saxutils

compiler, root, out_source, out_header = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3], sys.argv[4]
files = sorted(f for pattern in ("adl/**/*.yaml", "templates/**/*.ir", "bench/kernels/*.ptx", "bench/suites/*.json", "bench/tuned/*.json")
               for f in root.glob(pattern))
names = [xml.sax.saxutils.escape(f.relative_to(root).as_posix()) for f in files]
manifest = "<gresources><gresource prefix='/adlgen'>%s</gresource></gresources>" % "".join(
    f"<file>{name}</file>" for name in names)


def generate(kind):
    with tempfile.TemporaryDirectory() as folder:
        xml_path, out = os.path.join(folder, "data-resource.xml"), os.path.join(folder, "out")
        pathlib.Path(xml_path).write_text(manifest)
        subprocess.run([compiler, f"--sourcedir={root}", f"--target={out}", kind, "--internal",
                        "--c-name=adlgen_data", xml_path], check=True)
        return pathlib.Path(out).read_text()


for path, kind in ((out_source, "--generate-source"), (out_header, "--generate-header")):
    text = generate(kind)
    target = pathlib.Path(path)
    if not target.exists() or target.read_text() != text:
        target.write_text(text)
