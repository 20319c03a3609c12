#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# test_arm.sh armhf|arm64: cross-builds everything, runs the unit tests under qemu-user (no io_uring there: psync is what runs),
# and mounts in a guest of that architecture (io_uring).
. "$(dirname "$0")/lib.sh"
arch=$1
triplet=$(triplet "$arch")
rig_setup cross "$arch"
build=$TOP/build/$arch
export LD_LIBRARY_PATH=$RIG/cross/$HOSTLIB # the cross binutils'
mkdir -p "$build"
{
	cmake -G Ninja -S "$TOP" -B "$build" --toolchain "$TOP/cmake/$triplet.cmake" -DEXT4D_SYSROOT="$RIG/root-$arch" \
		-DEXT4D_CROSS_BIN="$RIG/cross/usr/bin" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DEXT4D_DEBUG=ON &&
		cmake --build "$build" -j "$(nproc)"
} >"$build.log" 2>&1 || { tail -n 40 "$build.log"; fail "the $arch build"; }
if [ "${EXT4D_RIG_UNIT:-1}" -ne 0 ]; then
	CK_TIMEOUT_MULTIPLIER=60 ctest --test-dir "$build" -L '^unit$' -E '^stress_' -j "$(nproc)" >"$build-unit.log" 2>&1 ||
		{ tail -n 40 "$build-unit.log"; fail "the unit tests of $arch"; }
	grep 'tests passed' "$build-unit.log"
fi
unset LD_LIBRARY_PATH

work=$(mktemp -d "${TMPDIR:-/tmp}/ext4d-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
truncate -s 512M "$work/disk"
mkfs.ext4 -q -F "$work/disk"
# A file's time after 2038 must survive a change of its inode on a system whose time_t may have 32 bits.
for request in 'write /dev/null late' 'set_inode_field late mtime 0x2a05f200' 'set_inode_field late mtime_extra 1'; do
	debugfs -w -R "$request" "$work/disk" >/dev/null 2>&1
done
"$RIGS/qemu.sh" -a "$arch" -t 900 -d "$work/disk" -- "bash /run/top/tests/rigs/guest_arm.sh /run/top/build/$arch/ext4d"
e2fsck -fn "$work/disk" || fail "the host's e2fsck is not content"
grep -q 'mtime: 0x2a05f200:00000001' < <(debugfs -R 'stat /late' "$work/disk" 2>/dev/null) || fail "a time after 2038 was not kept"
