# SPDX-License-Identifier: GPL-2.0-or-later
# Compiler settings shared by every target, and the libraries the project stands on.

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(EXT4D_SANITIZE "" CACHE STRING "value of -fsanitize=, or empty")
option(EXT4D_DEBUG "lock rank checks and O(n) checks" OFF)
option(EXT4D_COVERAGE "gcov instrumentation" OFF)
option(EXT4D_USDT "USDT probes for the events, where <sys/sdt.h> exists" ON)
option(EXT4D_NO_STATS "no counters, no events: only to measure what they cost" OFF)

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(URING REQUIRED IMPORTED_TARGET liburing)
pkg_check_modules(EXT2FS REQUIRED IMPORTED_TARGET ext2fs com_err)
pkg_check_modules(FUSE3 REQUIRED IMPORTED_TARGET fuse3)
pkg_check_modules(BLKID REQUIRED IMPORTED_TARGET blkid)
pkg_check_modules(BSD REQUIRED IMPORTED_TARGET libbsd)
pkg_check_modules(CHECK REQUIRED IMPORTED_TARGET check)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
pkg_check_modules(CAPNG REQUIRED IMPORTED_TARGET libcap-ng)

# <bsd/sys/tree.h> is a header only: nothing of libbsd is linked.
include_directories(${PROJECT_SOURCE_DIR})
add_compile_definitions(_GNU_SOURCE _FILE_OFFSET_BITS=64)
# A time_t of 64 bits on 32-bit systems too. Libraries need not have been built with it: nothing with
# a time_t in it is passed to them (fuse/answer.h), but for targets that set this property.
add_compile_definitions($<$<NOT:$<BOOL:$<TARGET_PROPERTY:EXT4D_SYSTEM_TIME>>>:_TIME_BITS=64>)
add_compile_options(-Wall -Wextra -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes
	-Wpointer-arith -Wvla -Wundef -Wformat=2 -fno-common)
# gcc 12.2 loses stores through a pointer to an array inside a struct when it indexes backwards
# (ipa-modref: the caller then reads its own initial value, and a crash or worse follows).
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
	add_compile_options(-fno-ipa-modref -Wcast-align=strict)
endif()
# gcc 12's range analysis is wrong about it in optimized builds; clang-tidy looks for the same faults.
add_compile_options(-Wno-format-truncation)
if(EXT4D_DEBUG)
	add_compile_definitions(EXT4D_DEBUG)
endif()
if(EXT4D_NO_STATS)
	add_compile_definitions(EXT4D_NO_STATS)
endif()
if(EXT4D_USDT)
	include(CheckIncludeFile)
	check_include_file(sys/sdt.h EXT4D_FOUND_SDT)
	if(EXT4D_FOUND_SDT)
		add_compile_definitions(EXT4D_HAVE_SDT)
	endif()
endif()
if(EXT4D_SANITIZE)
	add_compile_options(-fsanitize=${EXT4D_SANITIZE} -fno-omit-frame-pointer
		-fno-sanitize-recover=all)
	add_link_options(-fsanitize=${EXT4D_SANITIZE})
endif()
if(EXT4D_COVERAGE)
	add_compile_options(--coverage)
	add_link_options(--coverage)
endif()
find_program(CCACHE ccache)
if(CCACHE)
	set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()
