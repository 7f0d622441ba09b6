# Layout.cmake: where the parts lie, in the build tree as in an installation:
#     bin/mpc    lib/mpc/libmpcrt.a    lib/mpc/include/{abi,cuda,kernels}/...    share/doc/mpc
# mpc finds lib/mpc relative to its own executable, so the names below are fixed.

# The headers are links to the sources: an edit is seen without a copy step.
function(mpc_runtime_layout)
    set_target_properties(mpcrt PROPERTIES
        ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/mpc)
    file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/lib/mpc/include)
    foreach(folder IN ITEMS abi cuda kernels)
        file(CREATE_LINK ${PROJECT_SOURCE_DIR}/runtime/${folder}
            ${PROJECT_BINARY_DIR}/lib/mpc/include/${folder} SYMBOLIC)
    endforeach()
endfunction()

function(mpc_install)
    install(TARGETS mpc RUNTIME DESTINATION bin)
    install(FILES $<TARGET_FILE:mpcrt> DESTINATION lib/mpc)
    install(DIRECTORY runtime/abi runtime/cuda runtime/kernels DESTINATION lib/mpc/include
        FILES_MATCHING PATTERN *.h PATTERN *.cuh PATTERN *.def)
    install(FILES README.md LICENSE DESTINATION share/doc/mpc)
    install(DIRECTORY docs/ DESTINATION share/doc/mpc FILES_MATCHING PATTERN *.md)
    install(DIRECTORY examples DESTINATION share/doc/mpc)
endfunction()
