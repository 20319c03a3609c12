#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# qemu.sh [-a ARCH] [-m MB] [-c CPUS] [-t SECONDS] [-d FILE[,drive options]]... -- COMMAND
# Runs COMMAND as root in a guest (software emulation), prints its output and ends with its status (124: time-out, 125: it died).
# ARCH is amd64 (root: the host's, read-only under a tmpfs overlay), arm64 or armhf (Cortex-A15; root: unpacked packages).
# The source tree is /run/top in all of them. Disks are /dev/vda ...; drive options such as throttling.bps-write=20000000
# make slow ones.
. "$(dirname "$0")/lib.sh"
arch=amd64 mem=1024 cpus=2 timeout=300 disks=()
while getopts a:m:c:t:d: opt; do
	case $opt in
	a) arch=$OPTARG ;;
	m) mem=$OPTARG ;;
	c) cpus=$OPTARG ;;
	t) timeout=$OPTARG ;;
	d) disks+=("$OPTARG") ;;
	*) sed -n '3,7p' "$0"; exit 2 ;;
	esac
done
shift $((OPTIND - 1))
work=$(mktemp -d "${TMPDIR:-/tmp}/ext4d-guest.XXXXXX")
trap 'rm -rf "$work"' EXIT
printf '%s\n' "$*" >"$work/cmd"
cat >"$work/start" <<'E2'
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
export DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
cd /root
exec </dev/null >/dev/hvc0 2>&1
bash /run/rig/cmd
echo $? >/run/rig/rc
echo o >/proc/sysrq-trigger
sleep 100
E2
case $arch in
amd64)
	qemu=("$RIG/qemu-x86/usr/bin/qemu-system-x86_64" -M q35 -cpu max)
	prefix=$RIG/qemu-x86 root=/ console=ttyS0
	;;
arm64)
	qemu=("$RIG/cross/usr/bin/qemu-system-aarch64" -M virt -cpu cortex-a72)
	prefix=$RIG/cross root=$RIG/root-arm64 console=ttyAMA0
	;;
armhf)
	qemu=("$RIG/cross/usr/bin/qemu-system-arm" -M "virt,highmem=off" -cpu cortex-a15)
	prefix=$RIG/cross root=$RIG/root-armhf console=ttyAMA0
	;;
*) fail "architecture $arch" ;;
esac
if [ "$arch" = amd64 ]; then
	sed -i "1i export PATH=$RIG/bin:\$PATH LD_LIBRARY_PATH=$RIG/tools/$HOSTLIB" "$work/cmd"
fi
for dir in "$prefix/usr/share/qemu" "$prefix/usr/share/seabios"; do qemu+=(-L "$dir"); done
drives=() i=0
for d in "${disks[@]}"; do
	file=${d%%,*} options=${d#"${d%%,*}"}
	drives+=(-drive "file=$file,format=raw,if=none,id=d$i${options:-,cache=writeback}" -device "virtio-blk-pci,drive=d$i")
	i=$((i + 1))
done
share() { # share TAG DIR READONLY
	drives+=(-fsdev "local,id=$1,path=$2,security_model=none,readonly=$3,multidevs=remap"
		-device "virtio-9p-pci,fsdev=$1,mount_tag=$1")
}
share root "$root" on
share run "$work" off
share top "$TOP" on
share modules "$RIG/kernel-$arch/lib/modules" on
LD_LIBRARY_PATH=$prefix/$HOSTLIB timeout -k 5 "$timeout" "${qemu[@]}" -accel tcg,thread=multi,tb-size=256 -m "$mem" \
	-smp "$cpus" -nodefaults -no-reboot -display none -kernel "$RIG/kernel-$arch"/boot/vmlinuz-* \
	-initrd "$RIG/initrd-$arch.gz" -append "console=$console quiet loglevel=4 panic=-1" -serial "file:$work/console" \
	-device virtio-serial-pci -chardev stdio,id=o,signal=off -device virtconsole,chardev=o "${drives[@]}" </dev/null &
guest_wait "$work" $! qemu
