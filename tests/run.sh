#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-or-later
# Installs what is missing, builds, and runs every test. Ends with the number of tests passed and failed.
#   tests/run.sh [--full] [--no-install] [--only STAGE[,STAGE...]]
# Stages: lint unit asan tsan system crash soak mutants bench rigs. --full: the long sizes of crash, soak, model and mutants, and
# rigs (guests and other architectures, which are downloaded).
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
full=0 install=1 only=
while [ $# -gt 0 ]; do
	case $1 in
	--full) full=1 ;;
	--no-install) install=0 ;;
	--only) only=,$2, ; shift ;;
	*) sed -n '3,7p' "$0"; exit 2 ;;
	esac
	shift
done
export EXT4D_TEST_FULL=$full
jobs=$(nproc)
passed=0 failed=0 skipped=0
failures=()

# Only by name or in a full run.
wanted_rigs() { [[ $only == *,rigs,* ]] || { [ -z "$only" ] && [ "$full" -eq 1 ]; }; }
wanted() { [ -z "$only" ] || [[ $only == *,$1,* ]]; }

# Counts ctest's own results, whatever its exit code; a stage that finds no test has failed.
run_ctest() { # run_ctest STAGE PRESET ctest-args...
	local stage=$1 preset=$2 log rc=0 total bad skip start=$SECONDS
	shift 2
	log=build/$stage.log
	echo "== $stage"
	ctest --test-dir "build/$preset" --output-on-failure --no-tests=error "$@" >"$log" 2>&1 || rc=$?
	total=$(sed -nE 's/.*tests passed, ([0-9]+) tests failed out of ([0-9]+).*/\2/p' "$log" | tail -n1)
	bad=$(sed -nE 's/.*tests passed, ([0-9]+) tests failed out of ([0-9]+).*/\1/p' "$log" | tail -n1)
	skip=$(grep -cE '^[[:space:]]*[0-9]+/[0-9]+ Test.*\*\*\*Skipped' "$log")
	if [ -z "$total" ] || [ "$rc" -ne 0 ]; then
		tail -n 300 "$log"
		[ -n "$total" ] || { total=1; bad=1; }
		[ "${bad:-0}" -gt 0 ] || bad=1
		failures+=("$stage")
	fi
	failed=$((failed + bad)) skipped=$((skipped + skip)) passed=$((passed + total - bad - skip))
	echo "   $((total - bad - skip)) passed, $bad failed, $skip skipped in $((SECONDS - start)) s"
}

build() { # build PRESET
	local start=$SECONDS
	mkdir -p build
	{ cmake --preset "$1" && cmake --build --preset "$1" -j "$jobs"; } >"build/build-$1.log" 2>&1 || {
		tail -n 80 "build/build-$1.log"
		echo "build of $1 failed"
		failures+=("build-$1") failed=$((failed + 1))
		return 1
	}
	echo "== build $1: $((SECONDS - start)) s"
}

[ "$install" -eq 0 ] || tests/install.sh test || exit 1
mkdir -p build

if build debug; then
	wanted lint && run_ctest lint debug -L '^lint$' -j "$jobs"
	wanted lint && run_ctest tidy debug -L '^tidy$'
	wanted unit && run_ctest unit debug -L '^unit$' -j "$jobs"
fi
wanted asan && build asan && run_ctest asan asan -L '^unit$' -j "$jobs"
wanted tsan && build tsan && run_ctest tsan tsan -L '^threads$' -j "$jobs"
if wanted system || wanted crash || wanted soak || wanted bench || wanted_rigs; then
	build release && {
		wanted system && run_ctest system release -L '^system$'
		wanted crash && run_ctest crash release -L '^crash$' -j "$jobs"
		wanted soak && run_ctest soak release -L '^soak$'
		wanted bench && run_ctest bench release -L '^bench$'
		wanted_rigs && run_ctest rigs release -L '^rigs$'
	}
fi
wanted mutants && run_ctest mutants debug -L '^mutants$'

[ ${#failures[@]} -eq 0 ] || echo "failed stages: ${failures[*]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
