#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# apt.sh ARCH apt-get-arguments...: apt-get for another architecture with a root of its own; the host's dpkg is not touched.
. "$(dirname "$0")/lib.sh"
arch=$1
shift
root=$RIG/apt-$arch
mkdir -p "$root"/{lists/partial,cache/archives/partial,dpkg}
touch "$root/dpkg/status"
sources=/etc/apt/sources.list
[ ! -e /etc/apt/sources.list.d/debian.sources ] || sources=/etc/apt/sources.list.d/debian.sources
cp "$sources" "$root/debian.${sources##*.}"
exec apt-get -o APT::Architecture="$arch" -o APT::Architectures::="$arch" -o Dir::State="$root" \
	-o Dir::State::lists="$root/lists" -o Dir::State::status="$root/dpkg/status" -o Dir::Cache="$root/cache" \
	-o Dir::Etc::sourcelist="$root/debian.${sources##*.}" -o Dir::Etc::sourceparts=/dev/null \
	-o APT::Sandbox::User=root -o APT::Install-Recommends=0 "$@"
