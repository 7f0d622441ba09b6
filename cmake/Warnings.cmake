# Warnings.cmake: the warnings every source of ours compiles without, by gcc and by clang. They are errors to who works
# on mpc; a compiler that warns of something else stops nobody from installing it.
# Each target made below the root links mpc_warnings.
add_library(mpc_warnings INTERFACE)
target_compile_options(mpc_warnings INTERFACE
    -Wall -Wextra -Wpedantic $<$<BOOL:${MPC_TESTS}>:-Werror>
    -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wvla
    -Wpointer-arith -Wwrite-strings -Wundef -Wformat=2 -Wno-format-nonliteral)
link_libraries(mpc_warnings)

# Programs link only the parts of the archive that they use.
add_compile_options(-ffunction-sections -fdata-sections -fno-common)

# What a scanner or parser generator writes is not ours to clean.
function(mpc_generated_sources)
    set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS
        "-Wno-shadow;-Wno-undef;-Wno-missing-prototypes;-Wno-unused-function;-Wno-unused-but-set-variable;-Wno-sign-compare")
endfunction()
