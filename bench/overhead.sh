#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# What counters, histograms and events (all off, as they are by default) cost: the user instructions of writes of 8 KiB, from
# the request to the device in memory, in a build as it is and in one without them (EXT4D_NO_STATS). Fails above 1 per cent.
# overhead.sh [-n WRITES] [-k]     -k: the functions that differ most, callees included
set -euo pipefail
. "$(dirname "$0")/lib.sh"
writes=4096
table=0
while getopts n:k opt; do
	case $opt in
	n) writes=$OPTARG ;;
	k) table=1 ;;
	*) exit 1 ;;
	esac
done
"$TOP/tests/install.sh" run
if ! command -v valgrind >/dev/null; then
	sudo=()
	[ "$(id -u)" -eq 0 ] || sudo=(sudo)
	"${sudo[@]}" apt-get install -y -qq --no-install-recommends valgrind >/dev/null || { echo "valgrind is needed"; exit 1; }
fi
scratch

# build NAME CMAKE-OPTIONS...
build() {
	local dir=$TOP/build/overhead-$1
	shift
	{
		cmake -G Ninja -S "$TOP" -B "$dir" -DCMAKE_BUILD_TYPE=RelWithDebInfo "$@"
		cmake --build "$dir" -j "$(nproc)" --target bench_write_path
	} >"$WORK/log" 2>&1 || { tail -n 40 "$WORK/log"; exit 1; }
}

# count NAME: instructions of measured_writes() and all that it calls
count() {
	valgrind --tool=callgrind --callgrind-out-file="$WORK/$1.out" --collect-atstart=no \
		--toggle-collect=measured_writes "$TOP/build/overhead-$1/bench/overhead/bench_write_path" "$writes" \
		>"$WORK/log" 2>&1 || { cat "$WORK/log"; exit 1; }
	awk '/Collected/ { print $NF }' "$WORK/log"
}

# per_function NAME: "function instructions", with all that it calls
per_function() {
	callgrind_annotate --inclusive=yes --threshold=100 --show-percs=no "$WORK/$1.out" 2>/dev/null |
		sed -nE 's/^ *([0-9,]+) .*:([A-Za-z0-9_.]+)( .*)?$/\2 \1/p' | tr -d , |
		awk '{ n[$1] += $2 } END { for (f in n) print f, n[f] }' | sort
}

build with -DEXT4D_NO_STATS=OFF
build without -DEXT4D_NO_STATS=ON
with=$(count with)
without=$(count without)
printf '%s writes of 8 KiB and an fsync, user instructions:\n' "$writes"
awk -v n="$writes" -v a="$with" -v b="$without" 'BEGIN {
	printf "  with counters and events     %12d  %8.1f each\n", a, a / n
	printf "  without                      %12d  %8.1f each\n", b, b / n
	printf "  cost                         %12d  %8.1f each  %.2f %%\n", a - b, (a - b) / n, (a - b) * 100 / b
}'
if [ "$table" = 1 ]; then
	echo "  each write, callees included:"
	join -a 1 -a 2 -e 0 -o 0,1.2,2.2 <(per_function with) <(per_function without) |
		awk -v n="$writes" '{ printf "%10.1f  %s\n", ($2 - $3) / n, $1 }' | sort -rn | awk 'NR <= 25 || $1 < -1'
fi
awk -v a="$with" -v b="$without" 'BEGIN { exit !((a - b) * 100 <= b) }' || { echo "more than 1 %"; exit 1; }
