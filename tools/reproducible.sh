#!/usr/bin/env bash
# Builds both binaries in two folders of different names and compares them.
# VERSION and COMMIT are given, because the copies are not git checkouts.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for folder in a a-longer/name; do
	mkdir -p "$work/$folder"
	git ls-files -z --cached --others --exclude-standard |
		tar -c --null --ignore-failed-read --files-from - 2>/dev/null | tar -x -C "$work/$folder"
	make --silent --no-print-directory -C "$work/$folder" build VERSION=v0 COMMIT=0
done
for binary in launch launch-static; do
	(cd "$work/a/bin" && sha256sum "$binary")
	cmp "$work/a/bin/$binary" "$work/a-longer/name/bin/$binary"
done
echo "reproducible: both binaries are the same from two folders"
