#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Installs what building, testing and measuring need: by apt on Debian and Ubuntu; elsewhere it names what is missing.
# install.sh [run|test|bench]   (run: enough to build and run the demo; test: and the tests; bench: and the benchmarks)
set -euo pipefail
what=${1:-test}
packages=(gcc make cmake ninja-build pkg-config libfuse3-dev fuse3 liburing-dev libext2fs-dev comerr-dev
	libbsd-dev libblkid-dev libseccomp-dev libcap-ng-dev systemtap-sdt-dev check e2fsprogs)
if [ "$what" = bench ]; then
	packages+=(fuse2fs bc python3 fio bonnie++ dbench postmark sqlite3 git tar gnuplot-nox valgrind)
fi
if [ "$what" = test ]; then
	packages+=(ccache rsync patch procps clang-format-14 clang-tidy-14 shellcheck binutils acl attr fuse2fs bc python3 fio gnuplot-nox)
fi

have() { grep -q 'ok installed' < <(dpkg-query -W -f '${Status}' "$1" 2>/dev/null); }

if ! command -v apt-get >/dev/null; then
	missing=()
	for tool in cc cmake ninja pkg-config mkfs.ext4 fusermount3; do
		command -v "$tool" >/dev/null || missing+=("$tool")
	done
	for lib in fuse3 liburing ext2fs com_err libbsd blkid libseccomp libcap-ng check; do
		pkg-config --exists "$lib" 2>/dev/null || missing+=("$lib (development files)")
	done
	[ ${#missing[@]} -eq 0 ] && exit 0
	printf 'ext4d needs, and this system has no apt-get to install it with:\n'
	printf '  %s\n' "${missing[@]}"
	exit 1
fi
missing=()
for p in "${packages[@]}"; do have "$p" || missing+=("$p"); done
[ ${#missing[@]} -eq 0 ] && exit 0
echo "installing: ${missing[*]}"
sudo=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || { echo "run as root, or install sudo, to install packages"; exit 1; }
	sudo=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null && exit 0
[ "$what" = bench ] || exit 1
# Not every release has all of them: one by one, and what cannot be had is named.
for p in "${missing[@]}"; do
	"${sudo[@]}" apt-get install -y -qq --no-install-recommends "$p" >/dev/null 2>&1 || echo "not installed: $p"
done
