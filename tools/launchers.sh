#!/usr/bin/env bash
# Installs the launchers that lab/launchers starts for real, those that are named or all: each in a
# venv of its own, bin/launchers/PACKAGE-VERSION, which takes torch from .venv. If one cannot be
# installed, it prints which and exits with 1.
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions are fixed, so that a person reviews each new one. The number is the megabytes of the
# download. The packages after it are installed, too.
packages=(
	"accelerate 1.15.0 1"
	"deepspeed 0.19.8 3"
	"dlrover 0.6.1 20"
	"jax 0.10.2 100 jaxlib"
	"lightning 2.6.6 5 click"
	"nvidia-resiliency-ext 0.4.1 5"
	"ray 2.60.0 80"
	"tensorflow-cpu 2.21.0 350"
	"torchx 0.7.0 5"
)
into=bin/launchers
megabytes=0 missing=() lost=()
for package in "${packages[@]}"; do
	read -r name version size _ <<<"$package"
	(($# == 0)) || [[ " $* " == *" $name "* ]] || continue
	[[ -e $into/$name-$version/whole ]] || { missing+=("$package") && ((megabytes += size)); }
done
((${#missing[@]})) || exit 0
[[ -x .venv/bin/python ]] || { echo "the launchers need a current torch in .venv: tools/torch.sh"; exit 1; }

echo "launchers for the laboratory: pip downloads about $megabytes MB into $into"
torch=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$into"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for package in "${missing[@]}"; do
	read -r name version _ more <<<"$package"
	dir=$into/$name-$version
	rm -rf "$dir"
	.venv/bin/python -m venv "$dir"
	echo "$torch" >"$("$dir"/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
	# DS_BUILD_OPS: DeepSpeed's own kernels are no part of a start.
	# shellcheck disable=SC2086
	if DS_BUILD_OPS=0 "$dir"/bin/python -m pip --quiet --disable-pip-version-check install --timeout 10 \
		--retries 1 "$name==$version" $more >"$log" 2>&1; then
		# The line that an error proposes may be torchrun's, which a package next to torch has in its PATH.
		printf '#!%s\nfrom torch.distributed.run import main\nmain()\n' "$PWD/$dir/bin/python" >"$dir/bin/torchrun"
		chmod +x "$dir/bin/torchrun"
		touch "$dir/whole"
	else
		lost+=("$name $version ($(grep -m 1 '^ERROR' "$log" || tail -n 1 "$log"))")
	fi
done
if ((${#lost[@]})); then
	printf 'not installed: %s\n' "${lost[@]}"
	exit 1
fi
