#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Plants each fault of tests/mutants/*.patch in a copy of the sources and expects the suite to go red.
#   run.sh BUILD-DIR [NAME...]
# A patch begins with lines "Fault: what is wrong", "Targets: what to build" and "Caught-by: regular expression of ctest names"; "Case: test" limits that to
# one test case of the program, where the others take long.
# A mutant that does not apply or does not build is a failure too: a fault that cannot be planted proves nothing.
set -uo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$1/mutants
shift
names=("$@")
if [ ${#names[@]} -eq 0 ]; then
	for p in "$top"/tests/mutants/*.patch; do names+=("$(basename "$p" .patch)"); done
fi
mkdir -p "$work/src"
rsync -a --delete --exclude /build --exclude /.git "$top/" "$work/src/" || exit 1
cd "$work/src" || exit 1
[ -e "$work/build/build.ninja" ] || cmake -G Ninja -S . -B "$work/build" -DCMAKE_BUILD_TYPE=Debug -DEXT4D_DEBUG=ON >"$work/cmake.log" 2>&1 ||
	{ cat "$work/cmake.log"; exit 1; }

field() { sed -n "s/^$1: //p" "$top/tests/mutants/$2.patch" | head -n1; }

passes() { # passes NAME: do its tests pass
	local only
	only=$(field Case "$1")
	[ -z "$only" ] || local -x CK_RUN_CASE=$only
	ctest --test-dir "$work/build" --no-tests=error --timeout 300 -R "$(field Caught-by "$1")"
}

# Some faults show as a hang.
export EXT4D_TEST_TIMEOUT_S=20
survived=0 killed=0
for name in "${names[@]}"; do
	patch=$top/tests/mutants/$name.patch
	read -ra targets <<<"$(field Targets "$name")"
	if ! patch -p1 -s <"$patch" >"$work/out" 2>&1; then
		echo "$name: does not apply"; cat "$work/out"
		survived=$((survived + 1))
	elif ! cmake --build "$work/build" -j "$(nproc)" --target "${targets[@]}" >"$work/out" 2>&1; then
		echo "$name: does not build"; tail -n 20 "$work/out"
		survived=$((survived + 1))
	elif passes "$name" >"$work/out" 2>&1; then
		echo "$name: SURVIVED: $(field Fault "$name")"
		survived=$((survived + 1))
	elif ! grep -q 'tests failed out of' "$work/out" || grep -q 'Not Run' "$work/out"; then
		echo "$name: its test did not run"
		survived=$((survived + 1))
	else
		echo "$name: caught"
		killed=$((killed + 1))
	fi
	# the planted file must look newer than its object when it is healed
	patch -p1 -R -s <"$patch" >/dev/null 2>&1
	rsync -a --delete --exclude /build --exclude /.git "$top/" "$work/src/"
done
echo "$killed mutants caught, $survived not"
[ "$survived" -eq 0 ] && [ "$killed" -gt 0 ]
