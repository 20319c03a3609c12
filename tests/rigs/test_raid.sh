#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# A streaming write onto md RAID5 and RAID6 in a guest costs next to no reads of the members: under 1 % of what is written.
. "$(dirname "$0")/lib.sh"
[ "$(id -u)" -eq 0 ] || skip "needs root"
rig_setup uml
size=${EXT4D_RAID_MB:-256}
for array in "5 4 64" "5 8 16" "6 6 64"; do
	# shellcheck disable=SC2086
	"$RIGS/raid.sh" $array "$size" ext4d ext4d:write_bump=contig >"$RIG/raid.out"
	cat "$RIG/raid.out"
	python3 - "$RIG/raid.out" <<'PY' || fail "RAID $array"
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
bad = [d for d in lines if d["read_percent"] >= 1 or d["fsck"] != 0 or d["written_kib"] < d["size_mb"] * 1024]
for d in bad:
    print("not as it should be:", d)
sys.exit(len(lines) != 2 or len(bad) > 0)
PY
done
