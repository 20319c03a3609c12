#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Shell scripts pass shellcheck, and nothing names a path of one machine.
set -euo pipefail
mapfile -t scripts < <(grep -rlE '^#!/(usr/)?bin/(env )?(ba)?sh' bench tests .ci)
shellcheck -x -e SC1091 "${scripts[@]}"
! grep -rnE '(^|[^a-z])/(work|home)/[a-z]' --include='*' util block journal ext4 alloc writeback namespace fuse tests bench docs README.md CMakeLists.txt cmake .ci | grep -v tests/lint/names.sh
