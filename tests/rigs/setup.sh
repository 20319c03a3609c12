#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Downloads and unpacks what the guests need; installs nothing. Needs apt (Debian 12) and gcc.
#   setup.sh uml|vm|cross|armhf|arm64...
# uml: user-mode-linux 6.1, mdadm, kmod. vm: an x86-64 kernel and qemu. cross: compilers and qemu for ARM.
# armhf, arm64: a root file system, which is the sysroot too, and a kernel.
. "$(dirname "$0")/lib.sh"

# fetch PACKAGE...: into this folder, by the host's apt, whose lists may be missing or old
fetch() {
	apt-get -o APT::Sandbox::User=root -qq download "$@" || {
		apt-get -qq update
		apt-get -o APT::Sandbox::User=root -qq download "$@"
	}
}

# unpack DIR PACKAGE...: by the host's apt
unpack() {
	local dir=$1 debs
	shift
	debs=$(mktemp -d "$RIG/debs.XXXXXX")
	(cd "$debs" && fetch "$@")
	mkdir -p "$dir"
	for deb in "$debs"/*.deb; do dpkg -x "$deb" "$dir"; done
	rm -rf "$debs"
}

# with_missing PACKAGE...: these, and what they need that the host has not got
with_missing() {
	apt-get -s --no-install-recommends install "$@" 2>/dev/null | awk '/^Inst/ { print $2 }'
	printf '%s\n' "$@"
}

# the host's programs in bin/: kmod, mdadm; their libraries in tools/
setup_tools() {
	[ ! -e "$RIG/tools.ready" ] || return 0
	unpack "$RIG/tools" kmod libkmod2 mdadm busybox-static
	mkdir -p "$RIG/bin"
	for name in modprobe insmod depmod; do ln -sf ../tools/bin/kmod "$RIG/bin/$name"; done
	ln -sf ../tools/sbin/mdadm "$RIG/bin/mdadm"
	ln -sf ../tools/bin/busybox "$RIG/bin/busybox"
	touch "$RIG/tools.ready"
}

setup_uml() {
	setup_tools
	unpack "$RIG/uml" user-mode-linux
	gcc -O2 -shared -fPIC -o "$RIG/umlfp.so" "$RIGS/umlfp.c" -ldl
}

setup_vm() {
	local kernel
	setup_tools
	kernel=$(apt-cache depends linux-image-amd64 | awk '/Depends:/ { print $2; exit }')
	unpack "$RIG/kernel-amd64" "$kernel"
	# shellcheck disable=SC2046
	unpack "$RIG/qemu-x86" $(with_missing qemu-system-x86 qemu-system-data seabios | sort -u)
	"$RIGS/initramfs.sh" amd64
}

setup_cross() {
	setup_tools
	# shellcheck disable=SC2046
	unpack "$RIG/cross" $(with_missing gcc-aarch64-linux-gnu gcc-arm-linux-gnueabihf qemu-user-static \
		qemu-system-arm qemu-system-data | sort -u)
}

setup_arm() { # setup_arm ARCH
	local arch=$1 kernel
	local packages=(libc6-dev libfuse3-dev fuse3 liburing-dev e2fsprogs libext2fs-dev comerr-dev uuid-dev libblkid-dev
		libseccomp-dev libcap-ng-dev libbsd-dev check bash coreutils busybox-static kmod util-linux mount grep sed
		gawk procps findutils)
	setup_tools
	"$RIGS/apt.sh" "$arch" -qq update || true # some of the sources may not know this architecture
	mkdir -p "$RIG/debs-$arch" "$RIG/root-$arch"
	cd "$RIG/debs-$arch" || exit
	kernel=linux-image-arm64
	[ "$arch" = arm64 ] || kernel=linux-image-armmp
	# shellcheck disable=SC2046
	"$RIGS/apt.sh" "$arch" download $("$RIGS/apt.sh" "$arch" -s install "${packages[@]}" |
		awk '/^Inst/ { print $2 }' | sort -u)
	for deb in *.deb; do dpkg -x "$deb" "$RIG/root-$arch"; done
	rm -- *.deb
	"$RIGS/apt.sh" "$arch" download "$("$RIGS/apt.sh" "$arch" -s install $kernel |
		awk '/^Inst linux-image-[0-9]/ { print $2; exit }')"
	dpkg -x linux-image-*.deb "$RIG/kernel-$arch"
	cd /
	rm -rf "$RIG/debs-$arch"
	mkdir -p "$RIG/root-$arch"/{proc,sys,dev,run,tmp,mnt,media,root,etc}
	"$RIGS/initramfs.sh" "$arch"
}

[ $# -gt 0 ] || { sed -n '3,6p' "$0"; exit 2; }
for part in "$@"; do
	case $part in
	armhf | arm64) setup_arm "$part" ;;
	uml | vm | cross) "setup_$part" ;;
	*) sed -n '3,6p' "$0"; exit 2 ;;
	esac
	touch "$RIG/$part.ready"
done
