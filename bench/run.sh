#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The experiments of the engine's switches, old beside new, and what users run, beside kernel ext4 and fuse2fs.
#   run.sh [--device DEV | --emulate fit|ram|sata3|sata2|sdcard|usb2|hdd|raid5] [--only NAME,...] [--smoke|--quick|--full]
#          [--peers ext4,fuse2fs] [--one-cpu] [--rounds N] [--out DIR] [--yes] [--over-partitions] [--plan] [--no-install]
# --help explains. Prints a table, writes results.json (docs/BENCH.md). Installs what is missing and builds the release preset.
. "$(dirname "$0")/lib.sh"
install=1 args=() smoke=0
for a in "$@"; do
	case $a in
	--no-install) install=0 args+=("$a") ;;
	--smoke) smoke=1 args+=("$a") ;;
	--one-cpu) one_cpu; args+=("$a") ;;
	-h | --help) exec python3 "$TOP/bench/run.py" --help ;;
	*) args+=("$a") ;;
	esac
done
if [ "$install" -eq 1 ]; then
	setup
	# Tools that are missing leave their experiment out; that is no reason to stop.
	[ "$smoke" -eq 1 ] || "$TOP/tests/install.sh" bench || echo "some tools could not be installed: what needs them is left out"
	cmake --build "$BUILD" -j "$(nproc)" >>"$TOP/build/bench-build.log" 2>&1 ||
		{ tail -n 20 "$TOP/build/bench-build.log"; exit 1; }
elif [ ! -x "$EXT4D" ]; then
	echo "run.sh: ${EXT4D#"$TOP/"} is not built (leave out --no-install)"
	exit 2
fi
command -v python3 >/dev/null || { echo "run.sh: python3 is not installed"; exit 2; }
# Mounts are seen by this run only: nothing of it is in anybody's way, and nobody's copy keeps one alive.
if [ "$(id -u)" -eq 0 ]; then
	exec unshare -m --propagation private python3 -B "$TOP/bench/run.py" "${args[@]}"
fi
exec python3 -B "$TOP/bench/run.py" "${args[@]}"
