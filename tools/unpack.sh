#!/usr/bin/env bash
# unpack.sh PROGRAM MEGABYTES PACKAGE...: unpacks Debian packages below bin/debian, unless
# PROGRAM is there, because installing them would start a daemon.
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1 size=$2 usr=bin/debian/usr
shift 2
if ! command -v "$program" >/dev/null && [[ ! -x $usr/bin/$program && ! -x $usr/sbin/$program ]] &&
	command -v apt-get >/dev/null; then
	echo "unpacking $* under bin/debian: apt downloads about $size MB"
	mkdir -p bin/debian
	(cd bin/debian && apt-get download -q "$@" >/dev/null 2>&1 &&
		for package; do dpkg -x "$package"_*.deb . || exit; done) ||
		echo "$* cannot be downloaded: the tests that need $program are skipped"
fi
