#!/usr/bin/env bash
# Build HEAD's sdist, and the wheel from it, into a folder: deploy/release/build.sh OUT
# Two builds of one commit give the same bytes, wherever and whenever; what is not committed is left out.
set -euo pipefail
root=$(git rev-parse --show-toplevel)
out=$(realpath --canonicalize-missing "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export UV_BUILD_CONSTRAINT=$root/deploy/release/constraints.txt
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

git clone --quiet "$root" "$work/source"
uv build --quiet --sdist --out-dir "$work/sdist" "$work/source"

# setuptools leaves the builder's clock, name and umask in the archive.
tar --extract --gzip --file "$work"/sdist/*.tar.gz --directory "$work/sdist"
name=$(basename "$work"/sdist/*.tar.gz .tar.gz)
mkdir -p "$out"
tar --create --directory "$work/sdist" --format=pax --pax-option=delete=atime,delete=ctime --sort=name \
    --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX "$name" |
    gzip --no-name -9 >"$out/$name.tar.gz"

umask 022
uv build --quiet --wheel --out-dir "$out" "$out/$name.tar.gz"
rm -f "$out/.gitignore"
