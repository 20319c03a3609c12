# SPDX-License-Identifier: GPL-2.0-or-later
# shellcheck shell=bash
# Suites of others, run only when they are there: EXT4D_PJDFSTEST is the folder of a built pjdfstest, EXT4D_FSX the program fsx.
# EXT4D_FSX_OPS, EXT4D_FSX_SEEDS and EXT4D_FSX_BLOCKS change how much of fsx is run.
pjdfstest=${EXT4D_PJDFSTEST:-}
fsx=${EXT4D_FSX:-}
fsx_ops=${EXT4D_FSX_OPS:-100000}
read -ra fsx_seeds <<<"${EXT4D_FSX_SEEDS:-1 2 3}"
read -ra fsx_blocks <<<"${EXT4D_FSX_BLOCKS:-4096}"

# Its folder is copied so that it can be told that this is ext4: some of its checks are made only for names of types that it knows.
run_pjdfstest() {
	cp -r "$pjdfstest" "$T/pjdfstest"
	sed -i -E 's/^([[:space:]]*)fs=`df -PT .*/\1fs=EXT4/' "$T/pjdfstest/tests/conf"
	chmod -R go+rX "$T/pjdfstest"
	mkimage "$T/img" 1G
	start "$T/img"
	mkdir "$MNT/w"
	(cd "$MNT/w" && prove -j2 -rQ "$T/pjdfstest/tests") || fail "pjdfstest"
	stop
	check "$T/img"
}

run_fsx() { # run_fsx BLOCK-SIZE
	local bs=$1 seed mode name
	local -a modes=("" "-Z -r $bs -w $bs -t $bs" "-W -R") args
	mkimage "$T/img" 512M -b "$bs"
	start "$T/img"
	for seed in "${fsx_seeds[@]}"; do
		for mode in "${modes[@]}"; do
			read -ra args <<<"$mode"
			name="fsx -N $fsx_ops -S $seed $mode, blocks of $bs"
			"$fsx" -q -P "$T" -N "$fsx_ops" -S "$seed" "${args[@]}" "$MNT/fsx" >"$T/fsx.out" 2>&1 ||
				{ tail -n 40 "$T/fsx.out"; fail "$name"; }
			echo "passed: $name"
		done
	done
	stop
	check "$T/img"
}

if [ -z "$pjdfstest" ] && [ -z "$fsx" ]; then
	echo "skipped: neither EXT4D_PJDFSTEST nor EXT4D_FSX is set"
	exit 77
fi
if [ -n "$pjdfstest" ]; then
	run_pjdfstest
fi
if [ -n "$fsx" ]; then
	for bs in "${fsx_blocks[@]}"; do
		run_fsx "$bs"
	done
fi
