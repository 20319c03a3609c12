#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A file includes only its own folder and folders to the right of it; some libraries belong to one layer.
set -euo pipefail
order=(fuse namespace writeback alloc ext4 journal block util)
bad=0
report() { echo "$1"; bad=1; }
for i in "${!order[@]}"; do
	layer=${order[$i]}
	for left in "${order[@]:0:$i}"; do
		hits=$(grep -rnE "#include \"$left/" "$layer" --include='*.[ch]' || true)
		[ -z "$hits" ] || report "$layer includes leftward: $hits"
	done
done
only() { # only HEADER-REGEX FOLDER...
	local header=$1 hits
	shift
	hits=$(grep -rnE "#include <($header)" "${order[@]}" --include='*.[ch]' |
		grep -vE "^($(IFS='|'; echo "$*"))/" || true)
	[ -z "$hits" ] || report "belongs to $*: $hits"
}
only 'fuse3/|fuse\.h|fuse_lowlevel' fuse
only 'liburing' block fuse
only 'ext2fs/ext2fs\.h' ext4
only 'blkid/|seccomp|cap-ng' fuse
hits=$(grep -rnE '\bext2fs_(open|flush|close|read_|write_|extent_|alloc_|new_|block_iterate|link|mkdir|file_)' "${order[@]}" --include='*.c' || true)
[ -z "$hits" ] || report "libext2fs must not touch a mounted device: $hits"
exit $bad
