# SPDX-License-Identifier: GPL-2.0-or-later
# Sourced: the C files that the lint tests look at, tests included.
c_sources() {
	find util block journal ext4 alloc writeback namespace fuse tests bench \
		-name '*.[ch]' -not -path '*/build/*' | sort
}
