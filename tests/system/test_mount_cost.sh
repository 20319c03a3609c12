# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Mounting reads a handful of blocks whatever the size of the device, and memory stays within the cache's limit.
requests() { awk '$1 ~ /read/ && $1 ~ /requests$/ { s += $2 } END { print s + 0 }' "$MNT/.ext4d/stats"; }

mkimage "$T/small" 64M
start "$T/small"
small=$(requests)
stop
mkimage "$T/large" 1T -E lazy_itable_init=1,lazy_journal_init=1
start "$T/large"
large=$(requests)
[ "$small" -gt 0 ] || fail "no reads counted"
[ "$large" -le $((small + 40)) ] || fail "mount of 1 TiB needs $large reads, of 64 MiB $small"
echo x >"$MNT/x"
stop

mkimage "$T/img" 1G
start "$T/img" -o cache=64M
dd if=/dev/zero of="$MNT/a" bs=1M count=800 conv=fsync status=none
pid=$(pgrep -f "ext4d.*$T/img" | head -n1)
rss=$(awk '/^VmRSS/ { print $2 }' "/proc/$pid/status")
[ "$rss" -le $(((64 + 64) * 1024)) ] || fail "resident memory is $rss KiB with cache=64M"
stop
check "$T/img"
