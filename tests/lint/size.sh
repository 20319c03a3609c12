#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Files up to 1500 lines, functions up to 100; a warning from 1000 and 70 on.
set -euo pipefail
. "$(dirname "$0")/sources.sh"
mapfile -t files < <(c_sources)
awk '
FNR == 1 { if (file) check_file(); file = FILENAME; lines = 0; infn = 0 }
{ lines = FNR }
# Kernel style: a body starts with { in column 0 and ends with } in column 0.
/^\{/ { start = FNR; infn = 1; name = prev }
/^\}/ { if (infn) { n = FNR - start + 1; infn = 0
	if (n > 100) { printf "%s:%d: %d lines: %s\n", FILENAME, start, n, name; bad = 1 }
	else if (n > 70) printf "warning: %s:%d: %d lines: %s\n", FILENAME, start, n, name } }
{ prev = $0 }
function check_file() {
	if (lines > 1500) { printf "%s: %d lines\n", file, lines; bad = 1 }
	else if (lines > 1000) printf "warning: %s: %d lines\n", file, lines
}
END { check_file(); exit bad }' "${files[@]}"
