# SPDX-License-Identifier: GPL-2.0-or-later
# cmake --toolchain cmake/aarch64-linux-gnu.cmake [-D EXT4D_SYSROOT=DIR] ...
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
