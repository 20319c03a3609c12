#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# For a board with a spare disk or card: the quick set of run.sh, the 4 MiB regions that small files touch, temperature and clock.
#   board.sh --device DEV | --emulate sdcard  [--smoke|--quick|--full] [--only NAME,...] [--peers ...] [--out DIR] [--yes]
# Everything on DEV is destroyed, after it was shown and confirmed. Writes one JSON to share, and a page.
# Mounts are seen by this run only.
if [ "$(id -u)" -eq 0 ]; then
	exec unshare -m --propagation private python3 "$(dirname "$0")/lib/board.py" "$@"
fi
exec python3 "$(dirname "$0")/lib/board.py" "$@"
