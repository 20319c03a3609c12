#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# The differences of two runs of bench/run.sh: medians, their ratio, and which differ beyond their spread.
#   compare.sh A.json B.json [--beyond] [--fail-worse]
# --beyond: only those; --fail-worse: exit 1 when one is for the worse.
exec python3 "$(dirname "$0")/lib/compare.py" "$@"
