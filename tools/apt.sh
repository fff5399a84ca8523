#!/usr/bin/env bash
# Installs the given Debian packages that are missing. If it cannot, it prints the
# missing ones and exits with 1.
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
apt-get update -qq </dev/null || echo "apt-get update failed; using the existing package lists"
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
	echo "unknown packages: ${unknown[*]}"
	exit 1
fi
