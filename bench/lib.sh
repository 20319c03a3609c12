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
