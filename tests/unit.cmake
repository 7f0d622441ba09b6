# unit.cmake: one cmocka executable for each tests/unit/test_*.c. The prefix of its name says what
# it may see, which keeps a unit test from leaning on a layer above its own.

# mpc_unit(NAME SOURCE LIBRARY... [FLAGS flag...])
function(mpc_unit name source)
    cmake_parse_arguments(UNIT "" "" "FLAGS" ${ARGN})
    add_executable(${name} ${source})
    target_compile_options(${name} PRIVATE -Wno-missing-prototypes ${UNIT_FLAGS})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/runtime)
    if(mpc_ir IN_LIST UNIT_UNPARSED_ARGUMENTS)
        target_link_libraries(${name} PRIVATE unit_golden)
    endif()
    target_link_libraries(${name} PRIVATE ${UNIT_UNPARSED_ARGUMENTS}
        PkgConfig::CMOCKA PkgConfig::CJSON Threads::Threads m)
    mpc_test(unit.${name} unit ${name})
endfunction()

# Readers of tests/golden, for the tests that see the IR.
add_library(unit_golden STATIC unit/golden_load.c unit/golden_ops.c)
target_link_libraries(unit_golden PUBLIC PkgConfig::CJSON mpc_ir m)

# Which instruction sets this machine can run decides which variants of the GEMM tests there are.
set(cpu_flags "")
if(EXISTS /proc/cpuinfo)
    file(STRINGS /proc/cpuinfo cpu_flags REGEX "^flags" LIMIT_COUNT 1)
endif()

set(layer_rt mpcrt)
set(layer_base mpc_base)
set(layer_ir mpc_ir mpc_base)
set(layer_fe mpc_frontend mpc_ir mpc_base)
set(layer_pass mpc_passes mpc_ir mpc_base)
set(layer_cg mpc_codegen mpc_ir mpc_base)

file(GLOB units CONFIGURE_DEPENDS unit/test_*.c)
foreach(source IN LISTS units)
    get_filename_component(name ${source} NAME_WE)
    string(REGEX REPLACE "^test_([a-z]+).*" "\\1" prefix ${name})
    if(name STREQUAL test_gemm)
        mpc_unit(test_gemm_generic ${source})
        if(cpu_flags MATCHES " avx2 " AND cpu_flags MATCHES " f16c ")
            mpc_unit(test_gemm_avx2 ${source} FLAGS -mavx2 -mfma -mf16c)
        endif()
        if(cpu_flags MATCHES " avx512vl " AND cpu_flags MATCHES " avx512bw ")
            mpc_unit(test_gemm_avx512 ${source} FLAGS
                -mavx512f -mavx512bw -mavx512vl -mavx512dq -mf16c -mfma)
        endif()
    elseif(NOT DEFINED layer_${prefix})
        mpc_unit(${name} ${source})
    else()
        mpc_unit(${name} ${source} ${layer_${prefix}})
    endif()
endforeach()
