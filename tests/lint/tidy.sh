#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# clang-tidy over the daemon's sources and the benchmarks', on all cores. Results are kept per file content, so that unchanged files cost nothing.
# The path-sensitive analyzer takes minutes: only with EXT4D_TEST_FULL=1.
# tidy.sh BUILD-DIR [FILE...]
set -euo pipefail
build=$1
shift
tool=$(command -v clang-tidy-14 || command -v clang-tidy) || { echo "no clang-tidy"; exit 1; }
cache=${EXT4D_TIDY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ext4d-tidy}
mkdir -p "$cache" "$build/tidy"
# clang does not know these of gcc's options, and warns of the macros of <seccomp.h>
sed -E 's/ -fno-ipa-modref//g; s/ -Wcast-align=strict//g; s/ -Wno-format-truncation/ -Wno-missing-field-initializers/g' "$build/compile_commands.json" >"$build/tidy/compile_commands.json"
build=$build/tidy
if [ $# -gt 0 ]; then files=("$@"); else
	mapfile -t files < <(find util block journal ext4 alloc writeback namespace fuse bench -name '*.c' | sort)
fi
checks=()
[ "${EXT4D_TEST_FULL:-0}" != 0 ] || checks=(--checks=-clang-analyzer-*)
one() {
	local key
	key=$({ echo "${5:-}"; cat .clang-tidy "$1"; cat ./*/*.h; [[ $1 != bench/* ]] || cat bench/*/*.h; } | sha256sum | cut -c1-40)
	[ -e "$3/$key" ] && return 0
	out=$("$4" --quiet ${5:+"$5"} -p "$2" "$1" 2>&1) || { echo "$out" | grep -vE 'warnings? generated'; return 1; }
	: > "$3/$key"
}
export -f one
printf '%s\n' "${files[@]}" |
	xargs -P "$(nproc)" -I{} bash -c 'one "$@"' _ {} "$build" "$cache" "$tool" "${checks[@]}"
