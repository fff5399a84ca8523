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
	"colossalai 0.5.0 9 click fabric packaging psutil"
	"deepspeed 0.19.8 3"
	"dlrover 0.6.1 20"
	"horovod 0.28.1 35 cloudpickle packaging psutil pyyaml setuptools<75 wheel cmake<4"
	"jax 0.10.2 100 jaxlib"
	"lightning 2.2.5 5 click setuptools<81" # the last one with lightning run model
	"lightning 2.6.6 5 click"
	"nixl-cu12 1.5.1 66"
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

# install DIR NAME VERSION PACKAGE…
install() {
	local dir=$1 name=$2 version=$3
	local pip=("$dir/bin/python" -m pip --quiet --disable-pip-version-check)
	local with=("${pip[@]}" install --timeout 10 --retries 1)
	case $name in
	colossalai) # It requires an old torch, and much that a start does not use.
		"${with[@]}" "${@:4}" && "${with[@]}" --no-deps "$name==$version"
		;;
	horovod)
		"${with[@]}" "${@:4}" &&
			"${pip[@]}" download --no-deps --no-build-isolation --no-binary horovod -d "$dir" "$name==$version" &&
			tar -xzf "$dir/$name-$version.tar.gz" -C "$dir" && build "$PWD/$dir" "$name-$version"
		;;
	*) # DS_BUILD_OPS: DeepSpeed's own kernels are no part of a start.
		DS_BUILD_OPS=0 "${with[@]}" "$name==$version" "${@:4}"
		;;
	esac
}

# build DIR SOURCES: a Horovod with torch and Gloo, in four minutes on two cores. Its C++14 is too old for the headers
# of a current torch.
build() {
	sed -i 's/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD 17/' "$1/$2/CMakeLists.txt"
	sed -i 's/CMAKE_CXX_STANDARD 14/CMAKE_CXX_STANDARD 20/' "$1/$2/horovod/torch/CMakeLists.txt"
	PATH=$1/bin:$PATH CMAKE_BUILD_PARALLEL_LEVEL=2 HOROVOD_WITH_GLOO=1 HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_MPI=1 \
		HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
		python -m pip --quiet install --no-deps --no-build-isolation "$1/$2" && rm -r "${1:?}/$2"
}

for package in "${missing[@]}"; do
	read -r name version _ more <<<"$package"
	dir=$into/$name-$version
	rm -rf "$dir"
	.venv/bin/python -m venv "$dir"
	echo "$torch" >"$("$dir"/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch.pth"
	# shellcheck disable=SC2086
	if install "$dir" "$name" "$version" $more >"$log" 2>&1; then
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
