# Sanitizers.cmake: -DMPC_SANITIZE=address,undefined or thread.
# MPC_RUNTIME_CFLAGS goes into mpc_version.h: programs that mpc compiles link the same runtime and
# so need the same flags.
set(MPC_RUNTIME_CFLAGS "")
if(MPC_SANITIZE)
    set(flags -fsanitize=${MPC_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_compile_options(${flags})
    add_link_options(${flags})
    list(JOIN flags " " MPC_RUNTIME_CFLAGS)
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/mpc_version.h.in
    ${PROJECT_BINARY_DIR}/generated/mpc_version.h @ONLY)
include_directories(${PROJECT_BINARY_DIR}/generated)
