#!/usr/bin/env bash
# Installs what lab/roce needs: an emulator, and the RDMA tools and libraries. It also
# unpacks a kernel image with rdma_rxe and its modules below bin/roce, without
# installing it. If something is missing, it prints what and exits with 1.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/apt.sh qemu-system-x86 busybox-static kmod iproute2 rdma-core libibverbs-dev ibverbs-providers perftest valgrind
kernel=bin/roce/kernel
[[ -z $(compgen -G "$kernel/boot/vmlinuz-*") ]] || exit 0
[[ $(dpkg --print-architecture) == amd64 ]] || { echo "lab/roce is for x86-64"; exit 1; }
image=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-[0-9].*amd64/ {print $2; exit}')
[[ -n $image ]] || { echo "apt has no kernel package: linux-image-amd64"; exit 1; }
echo "unpacking $image below bin/roce: apt downloads about 70 MB, 410 MB on disk"
rm -rf bin/roce/part
mkdir -p bin/roce/part
(cd bin/roce/part && apt-get download -q "$image" >/dev/null 2>&1 && dpkg -x ./*.deb . && rm -- *.deb) ||
	{ echo "$image cannot be downloaded"; exit 1; }
PATH=$PATH:/sbin:/usr/sbin depmod -b bin/roce/part "$(ls bin/roce/part/lib/modules)"
rm -rf "$kernel"
mv bin/roce/part "$kernel"
