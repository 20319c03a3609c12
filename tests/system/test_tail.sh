# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# A write-only appender beside cached readers and maps: no reader sees old data.
mkimage "$T/img" 128M
start "$T/img"
python3 - "$MNT/log" <<'PY'
import mmap, os, sys
path = sys.argv[1]
w = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
r = os.open(path, os.O_RDONLY)
expected = b""
stale = 0
for i in range(3000):
    line = b"line %d %s\n" % (i, b"x" * (i % 97))
    os.write(w, line)
    expected += line
    pos = len(expected) - min(len(expected), 300)
    got = os.pread(r, 400, pos)
    if got != expected[pos:]:
        stale += 1
    if i % 200 == 0:
        with mmap.mmap(r, 0, prot=mmap.PROT_READ) as m:
            if m[:] != expected:
                stale += 1
if stale:
    sys.exit("%d stale reads" % stale)
PY
stop
check "$T/img"
