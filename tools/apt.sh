#!/usr/bin/env bash
# Installs the named Debian packages that are missing. Exit 1 where it cannot,
# after saying which are missing.
set -euo pipefail
missing=()
for package; do
	[[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0
if ((EUID)) || ! command -v apt-get >/dev/null; then
	echo "not installed, and apt needs root: ${missing[*]}"
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq </dev/null || echo "apt-get update failed; going on with the lists that are here"
known=() unknown=()
for package in "${missing[@]}"; do
	if apt-cache show "$package" >/dev/null 2>&1; then known+=("$package"); else unknown+=("$package"); fi
done
if ((${#known[@]})); then
	install=(apt-get install -y -q --no-install-recommends "${known[@]}")
	bytes=$("${install[@]}" --print-uris </dev/null | awk "/^'/ {sum += \$3} END {print sum + 0}")
	echo "installing ${known[*]}: apt downloads $((bytes / 1000000)) MB"
	"${install[@]}" </dev/null >/dev/null
fi
if ((${#unknown[@]})); then
	echo "no such package in this system: ${unknown[*]}"
	exit 1
fi
