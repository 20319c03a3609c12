# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced by the scripts of bench/: set-up, scratch space, clean-up.
set -euo pipefail
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BUILD=${EXT4D_BUILD:-$TOP/build/release}
EXT4D=$BUILD/ext4d

# Installs what is missing and builds the release preset, saying what it does.
setup() {
	"$TOP/tests/install.sh" run
	mkdir -p "$TOP/build"
	echo "building ..."
	(cd "$TOP" && cmake --preset release && cmake --build --preset release -j "$(nproc)" --target ext4d) \
		>"$TOP/build/bench-build.log" 2>&1 || {
		tail -n 40 "$TOP/build/bench-build.log"
		echo "the build failed; the whole log is build/bench-build.log"
		exit 1
	}
}

# one_cpu: clients, and the threads that answer their requests, on one CPU, for all systems alike, so that a request wakes no other
# one: the first that this process may use. $client goes before a client and before a server that is bound whole, $options to
# a mount of ext4d, whose other threads run where they like, as the kernel's do.
one_cpu() {
	command -v taskset >/dev/null || { echo "--one-cpu: taskset (util-linux) is not installed"; exit 2; }
	local cpu
	cpu=$(taskset -pc $$ | sed 's/.*: //; s/[,-].*//')
	client=(taskset -c "$cpu") options=(-o "server_cpus=$cpu")
	export EXT4D_BENCH_CPU=$cpu # for run.py
}

# scratch: $WORK, removed at the end with whatever is mounted or attached in it.
scratch() {
	WORK=$(mktemp -d "${TMPDIR:-/tmp}/ext4d-bench.XXXXXX")
	trap tidy_up EXIT
	trap 'exit 130' INT TERM
}

tidy_up() {
	local rc=$? m
	set +e
	cd /
	jobs -p | xargs -r kill 2>/dev/null
	awk -v t="$WORK" 'index($2, t) == 1 { print $2 }' /proc/self/mounts | sort -r | while read -r m; do
		"$EXT4D" -u "$m" 2>/dev/null || umount "$m" 2>/dev/null || fusermount3 -uz "$m" 2>/dev/null || umount -l "$m"
	done
	losetup -n -O NAME,BACK-FILE -l 2>/dev/null | awk -v t="$WORK" 'index($2, t) == 1 { print $1 }' |
		while read -r m; do losetup -d "$m"; done
	rm -rf "$WORK"
	exit $rc
}
