# SPDX-License-Identifier: GPL-2.0-or-later
# cmake --toolchain cmake/arm-linux-gnueabihf.cmake [-D EXT4D_SYSROOT=DIR] ...
set(CMAKE_SYSTEM_PROCESSOR arm)
set(CMAKE_LIBRARY_ARCHITECTURE arm-linux-gnueabihf)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
