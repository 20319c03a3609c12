#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# initramfs.sh amd64|arm64|armhf: $RIG/initrd-ARCH.gz for qemu.sh: the modules that find the disks, the console and the root
# over 9p; an overlay in memory above that root; then the command.
. "$(dirname "$0")/lib.sh"
arch=$1
export LD_LIBRARY_PATH=$RIG/tools/$HOSTLIB
modroot=$RIG/kernel-$arch
version=$(ls "$modroot/lib/modules")
dir=$(mktemp -d "$RIG/initramfs.XXXXXX")
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir"/{bin,dev,proc,sys,mnt,mods}
busybox=$RIG/bin/busybox
[ "$arch" = amd64 ] || busybox=$RIG/root-$arch/bin/busybox
cp -L "$busybox" "$dir/bin/busybox"
"$RIG/bin/depmod" -b "$modroot" "$version"
modules=(virtio_pci virtio_mmio virtio_blk virtio_console 9p 9pnet_virtio overlay)
[ "$arch" = amd64 ] || modules=(pci_host_generic "${modules[@]}")
for m in "${modules[@]}"; do
	"$RIG/bin/modprobe" -d "$modroot" -S "$version" --show-depends "$m" 2>/dev/null | awk '$1 == "insmod" { print $2 }'
done | awk '!seen[$0]++' | while read -r file; do
	cp "$file" "$dir/mods/"
	basename "$file" >>"$dir/mods/order"
done
cat >"$dir/init" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin 2>/dev/null
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read -r m; do insmod /mods/$m || echo "insmod $m failed"; done </mods/order
mkdir -p /mnt/low /mnt/rw /mnt/root
share() { # share TAG DIR ro|rw CACHE
	mkdir -p "$2"
	mount -t 9p -o "trans=virtio,version=9p2000.L,msize=262144,$3,cache=$4" "$1" "$2" || exec sh
}
share root /mnt/low ro loose
mount -t tmpfs -o size=75% tmpfs /mnt/rw
mkdir /mnt/rw/up /mnt/rw/work
mount -t overlay -o lowerdir=/mnt/low,upperdir=/mnt/rw/up,workdir=/mnt/rw/work ov /mnt/root || exec sh
R=/mnt/root
for d in proc sys dev; do mkdir -p $R/$d; mount --move /$d $R/$d; done
ln -sfn /proc/self/fd $R/dev/fd
mkdir -p $R/dev/pts $R/dev/shm $R/lib/modules/$(uname -r)
mount -t devpts devpts $R/dev/pts
mount -t tmpfs shm $R/dev/shm
mount -t tmpfs run $R/run
share run $R/run/rig rw none
share top $R/run/top ro loose
share modules $R/run/modules ro loose
mount -o bind $R/run/modules/$(uname -r) $R/lib/modules/$(uname -r)
exec switch_root $R /bin/bash /run/rig/start
INIT
chmod +x "$dir/init"
(cd "$dir" && find . | "$RIG/bin/busybox" cpio -o -H newc 2>/dev/null | gzip -1) >"$RIG/initrd-$arch.gz"
