# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# File handles, as NFS and open_by_handle_at(2) use them: a handle means its file for as long as that exists, also when the kernel
# has forgotten the inode and after another mount; then it means nothing, also when its number has another file.
HANDLES=$SYS/sys_handles
H=$T/handles
mkdir -p "$H"
names="f d d/e d/e/g l hard fifo"

# The kernel's whole knowledge of the mount but the root goes.
all_forgotten() {
	echo 2 >/proc/sys/vm/drop_caches
	grep -qx 'fuse_nodes 1' "$MNT/.ext4d/stats"
}

forget() {
	within 60 all_forgotten || fail "the kernel does not forget: $(grep fuse_nodes "$MNT/.ext4d/stats")"
}

# is NAME PATH: the handle of this name opens what has this path
is() {
	"$HANDLES" open "$MNT" "$H/$1" "$2" || fail "the handle of $1 does not open $2 ($3)"
}

# stale NAME WHEN
stale() {
	local rc=0
	"$HANDLES" open "$MNT" "$H/$1" || rc=$?
	[ "$rc" -eq 3 ] || fail "the handle $1 is not stale $2: exit code $rc"
}

all_open() {
	local name
	for name in $names; do
		is "${name//\//_}" "$MNT/$name" "$1"
	done
}

make_tree() {
	local name
	mkdir -p "$MNT/d/e"
	head -c 10000 /dev/urandom >"$MNT/f"
	echo deep >"$MNT/d/e/g"
	ln -s d/e/g "$MNT/l"
	ln "$MNT/f" "$MNT/hard"
	mkfifo "$MNT/fifo"
	for name in $names; do
		"$HANDLES" save "$MNT/$name" "$H/${name//\//_}" || fail "no handle of $name"
	done
	"$HANDLES" save "$MNT" "$H/root"
	cmp "$H/f" "$H/hard" || fail "two names of a file have two handles"
}

# Numbers that mean no file, with generations that could be right.
try_made_up() {
	local number generation orphans free
	orphans=$(dumpe2fs -h "$T/img" 2>/dev/null | sed -n 's/^Orphan file inode: *//p')
	free=$((11 + 300))
	for number in 0 2 3 7 8 10 "${orphans:-9}" $free 100000 0x7fffffff 0xffffffff 0x100000001 \
		0x10000ffff 0x8000000000000000 0xffffffffffffffff $((0x100000000 + 11)); do
		for generation in 0 1 same; do
			"$HANDLES" made-up "$H/f" "$number" "$generation" "$H/made-up"
			stale made-up "with number $number and generation $generation"
		done
	done
	"$HANDLES" made-up "$H/f" "$(stat -c %i "$MNT/f")" 12345 "$H/made-up"
	stale made-up "with another generation"
}

# gets_number NUMBER: a new file has it, once the transaction that has freed it has committed; others are in the way before
gets_number() {
	"$EXT4D" --sync "$MNT"
	echo new >"$MNT/new"
	[ "$(stat -c %i "$MNT/new")" -ne "$1" ] || return 0
	mv "$MNT/new" "$MNT/other.$(stat -c %i "$MNT/new")"
	return 1
}

# The number of a removed file goes to the next one.
reuse_number() {
	local number
	echo old >"$MNT/old"
	number=$(stat -c %i "$MNT/old")
	"$HANDLES" save "$MNT/old" "$H/old"
	rm "$MNT/old"
	forget
	stale old "after unlink"
	within 60 gets_number "$number" || fail "the number $number was not used again"
	stale old "while another file with its number is known"
	"$HANDLES" save "$MNT/new" "$H/new"
	forget
	stale old "when another file has its number"
	is new "$MNT/new" "after its number was used before"
}

# A file that is open lives without a name, and its handle with it.
unlink_open() {
	echo held >"$MNT/held"
	"$HANDLES" save "$MNT/held" "$H/held"
	exec 7<"$MNT/held"
	rm "$MNT/held"
	echo 2 >/proc/sys/vm/drop_caches
	"$HANDLES" open "$MNT" "$H/held" || fail "the handle of an open file does not open it after unlink"
	exec 7<&-
	forget
	stale held "after unlink and close"
}

rename_tree() {
	mv "$MNT/d/e" "$MNT/moved"
	forget
	is d_e "$MNT/moved" "after rename"
	is d_e_g "$MNT/moved/g" "after a rename above it"
	mv "$MNT/moved" "$MNT/d/e"
}

for format in "" "-b 1024 -I 128 -O ^metadata_csum,^64bit,^extents,^flex_bg"; do
	# shellcheck disable=SC2086
	mkimage "$T/img" 64M $format
	start "$T/img" -o commit=1
	make_tree
	all_open "while all is known"
	forget
	all_open "after the kernel forgot"
	is root "$MNT" "of the root"
	forget
	try_made_up
	forget
	unlink_open
	reuse_number
	rename_tree
	rm -r "$MNT/d/e" "$MNT/l"
	stale d_e "after rmdir"
	forget
	stale d_e "after rmdir, forgotten"
	stale l "after unlink of a link"
	stop
	check "$T/img"
	names="f d hard fifo"
	start "$T/img"
	all_open "after another mount"
	stale d_e_g "after unlink in the mount before"
	stale held "after unlink in the mount before"
	is new "$MNT/new" "after another mount"
	try_made_up
	mkdir "$MNT/storm"
	for ((i = 0; i < 5; i++)); do
		sleep 0.2
		echo 2 >/proc/sys/vm/drop_caches
	done &
	"$HANDLES" storm "$MNT/storm" 1 || fail "files by handle while others come and go"
	wait
	all_open "after all that"
	[ "$(cat "$MNT/.ext4d/errors_count")" = 0 ] || fail "a handle was taken for damage"
	stop
	check "$T/img"
	names="f d d/e d/e/g l hard fifo"
done
