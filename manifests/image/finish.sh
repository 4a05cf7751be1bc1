#!/bin/sh
# The last step of the image's build stage. /image holds the installed packages, and becomes the image.
# PYTHON: the path of Python in the image. SOURCE_DATE_EPOCH: the time stamp of all files.
set -eu
packages=/image/opt/scheduler-ext

# Two commands stay. Their first line names the image's Python, not the one of this stage.
find "$packages/bin" -type f ! -name scheduler-ext ! -name kubectl-gpu_placement -delete
sed -i "1c #!$PYTHON" "$packages"/bin/*

# Only the packages of the image are on the path of this Python.
mkdir -p /image/usr/share/sbom
PYTHONPATH=$packages /tools/bin/python -I -m cyclonedx_py environment -S --gather-license-texts \
    --output-reproducible --spec-version 1.6 \
    --output-file /image/usr/share/sbom/scheduler-ext.cdx.json "$(command -v python3)"

# Tests, and the sources that one wheel brings along.
find "$packages" -depth -type d \( -name test -o -name tests \) -exec rm -r {} +
rm -r "$packages/bazel-project"

# A read-only file system takes no bytecode at run time. This bytecode does not depend on the time of its source.
python3 -m compileall -q -j 1 --invalidation-mode unchecked-hash -s /image -p / "$packages"

find /image -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
