#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Calls that have a safe replacement, licence lines, and notes of unfinished work.
set -euo pipefail
. "$(dirname "$0")/sources.sh"
mapfile -t files < <(c_sources)
bad=0
check() { # check TEXT GREP-ARGS...
	local text=$1 hits
	shift
	hits=$(grep "$@" "${files[@]}" || true)
	[ -z "$hits" ] || { echo "$text"; echo "$hits"; bad=1; }
}
check "banned call:" -nE '(^|[^_[:alnum:]])(strcpy|strcat|sprintf|vsprintf|strtok|gets|rand|srand|assert|alloca|atoi|atol|tmpnam|mktemp)\('
check "libfuse's struct stat (see fuse/answer.h):" -nE '[^_[:alnum:]](fuse_reply_(attr|entry|create)|fuse_add_direntry(_plus)?)\(' --exclude=nullfs.c
check "unfinished:" -nE '(TODO|FIXME|XXX|HACK)'
check "missing SPDX line:" -L 'SPDX-License-Identifier: GPL-2.0-or-later'
check "C++ comment:" -nE '^[[:space:]]*//'
exit $bad
