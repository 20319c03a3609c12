# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# server_cpus= binds the threads that answer requests, those made later too, and nothing else; CPUs that cannot be had are refused.
img=$T/img
allowed=$(awk '$1 == "Cpus_allowed_list:" { print $2 }' /proc/self/status)
cpu=${allowed##*[-,]} # the last one

# threads_are PID CPUS-OF-SERVERS CPUS-OF-OTHERS SERVERS: their affinities, and at least so many server threads
threads_are() {
	local pid=$1 servers=$2 others=$3 count=0 file name cpus
	for file in /proc/"$pid"/task/*/status; do
		name=$(awk '$1 == "Name:" { print $2 }' "$file")
		cpus=$(awk '$1 == "Cpus_allowed_list:" { print $2 }' "$file")
		case $name in
		fuse/[0-9]*)
			[ "$cpus" = "$servers" ] || fail "$name may run on $cpus, not on $servers"
			count=$((count + 1))
			;;
		iou-*) ;; # the kernel's own, for requests that would block
		*) [ "$cpus" = "$others" ] || fail "$name may run on $cpus, not on $others" ;;
		esac
	done
	[ "$count" -ge "$4" ] || fail "only $count server threads"
}
daemon() { # the process with server threads
	local p
	for p in $(pgrep -f "ext4d.*$T"); do
		! grep -qs '^fuse/0$' /proc/"$p"/task/*/comm || echo "$p"
	done
}

mkimage "$img" 64M
for bad in 1023 x 0-; do
	if "$EXT4D" -o "server_cpus=$bad" "$img" "$MNT" 2>"$T/out"; then fail "mounted with server_cpus=$bad"; fi
	grep -q server_cpus "$T/out" || fail "no clear text for $bad: $(cat "$T/out")"
	! mountpoint -q "$MNT" || fail "mounted with server_cpus=$bad"
done
start "$img" -o "server_cpus=$cpu"
grep -qx "server_cpus=$cpu" "$MNT/.ext4d/options" || fail "not among the options"
# fsyncs wait for the device: other server threads take over meanwhile
for i in 1 2 3 4; do
	dd if=/dev/zero of="$MNT/f$i" bs=4k count=20 oflag=dsync status=none &
done
wait
threads_are "$(daemon)" "$cpu" "$allowed" 2
stop
check "$img"
start "$img"
threads_are "$(daemon)" "$allowed" "$allowed" 1
stop
