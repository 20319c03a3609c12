# SPDX-License-Identifier: GPL-2.0-or-later
# ext4d_layer(NAME [RIGHT]): folder NAME is a static library; it may use RIGHT and all that RIGHT uses.

function(ext4d_layer name)
	file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.c)
	add_library(${name} STATIC ${sources})
	foreach(right ${ARGN})
		target_link_libraries(${name} PUBLIC ${right})
	endforeach()
	if(name STREQUAL journal OR name STREQUAL block)
		target_compile_options(${name} PRIVATE -Wconversion)
	endif()
endfunction()

# Each tests/unit/LAYER/test_*.c is a program and a ctest of its own, linked with its layer and all to its right.
function(ext4d_unit_tests layer)
	file(GLOB tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/${layer}/test_*.c)
	set(timeout 900) # against hanging; each test has a limit of its own
	if(CMAKE_CROSSCOMPILING) # emulated
		set(timeout 3000)
	endif()
	foreach(source ${tests})
		get_filename_component(base ${source} NAME_WE)
		set(name unit_${layer}_${base})
		add_executable(${name} ${source})
		target_link_libraries(${name} PRIVATE testlib ${layer} PkgConfig::CHECK)
		add_test(NAME ${name} COMMAND ${name})
		# Programs that start threads run under the thread sanitizer too.
		file(STRINGS ${source} threaded REGEX "pthread_create|ext4d-threaded" LIMIT_COUNT 1)
		if(threaded)
			set(labels unit threads)
		else()
			set(labels unit)
		endif()
		set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${timeout})
	endforeach()
endfunction()
