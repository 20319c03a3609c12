# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Random operations, random kill -9, replay, compare, e2fsck: a minute, or half an hour in full runs.
here=$(dirname "${BASH_SOURCE[0]}")
seconds=50
[ "${EXT4D_TEST_FULL:-0}" = 0 ] || seconds=1800
mkimage "$T/img" 256M
python3 "$here/soak.py" "$EXT4D" "$T/img" "$MNT" "$seconds" "${EXT4D_SEED:-7}"
check "$T/img"
