# SPDX-License-Identifier: GPL-2.0-or-later
"""What bench/run.sh runs: devices, systems, experiments, and the record of them (docs/BENCH.md)."""
