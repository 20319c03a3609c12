#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# No core part may cost over twice the instructions for an operation on ten times the objects. Only with EXT4D_TEST_FULL=1.
#   growth.sh BENCH_MICRO
set -euo pipefail
[ "${EXT4D_TEST_FULL:-0}" != 0 ] || { echo "skipped: takes minutes; EXT4D_TEST_FULL=1 runs it"; exit 77; }
command -v valgrind >/dev/null || { echo "skipped: no valgrind"; exit 77; }
exec "$1" --sizes 1000,10000 --callgrind --check 2
