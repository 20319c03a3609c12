#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Every C file is as clang-format 14 with .clang-format leaves it.
set -euo pipefail
. "$(dirname "$0")/sources.sh"
tool=$(command -v clang-format-14 || command -v clang-format) || { echo "no clang-format"; exit 1; }
mapfile -t files < <(c_sources)
"$tool" --dry-run --Werror "${files[@]}"
