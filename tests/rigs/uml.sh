#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# uml.sh [-m MB] [-t SECONDS] [-d FILE]... -- COMMAND
# Runs COMMAND as root in a user-mode-linux 6.1 guest (no KVM needed), prints its output and ends with its status (124: time-out,
# 125: it died). Its root is the host's, read-only under a tmpfs overlay. Disks are /dev/ubda ...; modules are loaded by hand
# (modprobe -a md-mod raid456 fuse ext4 ...). One CPU.
. "$(dirname "$0")/lib.sh"
mem=2048 timeout=300 disks=()
while getopts m:t:d: opt; do
	case $opt in
	m) mem=$OPTARG ;;
	t) timeout=$OPTARG ;;
	d) disks+=("$OPTARG") ;;
	*) sed -n '3,6p' "$0"; exit 2 ;;
	esac
done
shift $((OPTIND - 1))
work=$(mktemp -d "${TMPDIR:-/tmp}/ext4d-guest.XXXXXX")
trap 'rm -rf "$work"' EXIT
printf '%s\n' "$*" >"$work/cmd"
modules=$(echo "$RIG"/uml/usr/lib/uml/modules/*)
cat >"$work/init" <<E2
#!/bin/bash
export PATH=$RIG/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb
export LD_LIBRARY_PATH=$RIG/tools/$HOSTLIB DM_DISABLE_UDEV=1 MDADM_NO_UDEV=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs -o size=75% tmpfs /mnt
mkdir /mnt/{up,work,root}
insmod $modules/kernel/fs/overlayfs/overlay.ko
mount -t overlay -o lowerdir=/,upperdir=/mnt/up,workdir=/mnt/work ov /mnt/root || echo no overlay
R=/mnt/root
for d in proc sys; do mount --move /\$d \$R/\$d; done
mount -t devtmpfs dev \$R/dev
ln -sfn /proc/self/fd \$R/dev/fd
mkdir -p \$R/dev/pts \$R/dev/shm \$R$work \$R/lib/modules/\$(uname -r)
mount -t devpts devpts \$R/dev/pts
mount -t tmpfs shm \$R/dev/shm
mount -t tmpfs run \$R/run
mount -t hostfs -o $work none \$R$work
mount -o bind $modules \$R/lib/modules/\$(uname -r)
exec chroot \$R /bin/bash $work/start
E2
cat >"$work/start" <<E2
exec </dev/null >/dev/tty1 2>&1
cd /root
bash $work/cmd
echo \$? >$work/rc
busybox poweroff -f
E2
chmod +x "$work/init"
drives=() i=0
for d in "${disks[@]}"; do
	drives+=("ubd$i=$d")
	i=$((i + 1))
done
LD_PRELOAD=$RIG/umlfp.so timeout -k 5 "$timeout" "$RIG/uml/usr/bin/linux.uml" "mem=${mem}M" root=/dev/root rootfstype=hostfs \
	rootflags=/ ro init="$work/init" quiet loglevel=3 con=null con0=null,fd:3 con1=null,fd:1 ssl=null "${drives[@]}" \
	</dev/null 3>"$work/console" 2>>"$work/console" &
guest_wait "$work" $! uml
