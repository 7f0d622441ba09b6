# Dependencies.cmake: finds what the build needs and names every missing Debian package at once.
set(MPC_MISSING "")

find_package(FLEX 2.6)
if(NOT FLEX_FOUND)
    list(APPEND MPC_MISSING flex)
endif()

find_package(BISON 3.8)
if(NOT BISON_FOUND)
    list(APPEND MPC_MISSING bison)
endif()

# Static: zlib is merged into libmpcrt.a, so that a compiled program needs no library beside it.
set(ZLIB_USE_STATIC_LIBS ON)
find_package(ZLIB)
if(NOT ZLIB_FOUND)
    list(APPEND MPC_MISSING zlib1g-dev)
endif()

# Static for the same reason: the runtime reads JSON with it.
find_library(JANSSON_ARCHIVE libjansson.a)
find_path(JANSSON_INCLUDE_DIR jansson.h)
if(NOT JANSSON_ARCHIVE OR NOT JANSSON_INCLUDE_DIR)
    list(APPEND MPC_MISSING libjansson-dev)
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

if(MPC_TESTS)
    find_package(PkgConfig)
    if(NOT PkgConfig_FOUND)
        list(APPEND MPC_MISSING pkg-config)
    else()
        pkg_check_modules(CJSON QUIET IMPORTED_TARGET libcjson)
        if(NOT CJSON_FOUND)
            list(APPEND MPC_MISSING libcjson-dev)
        endif()
        pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
        if(NOT CMOCKA_FOUND)
            list(APPEND MPC_MISSING libcmocka-dev)
        endif()
    endif()
endif()

if(MPC_MISSING)
    list(JOIN MPC_MISSING " " MPC_MISSING_TEXT)
    message(FATAL_ERROR "mpc: not found: ${MPC_MISSING_TEXT}\n"
        "On Debian 12: apt-get install ${MPC_MISSING_TEXT}   (./get-started does it)")
endif()
