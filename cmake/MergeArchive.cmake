# MergeArchive.cmake: mpc_merge_archive(TARGET ARCHIVE...) adds the members of other static
# archives to a static library of ours after it is made, so that one file is all a user links.
# Call it in the folder that makes TARGET.
function(mpc_merge_archive target)
    set(script ${CMAKE_CURRENT_BINARY_DIR}/${target}-merge.mri)
    set(text "create ${target}-merged.a\naddlib $<TARGET_FILE_NAME:${target}>\n")
    foreach(archive IN LISTS ARGN)
        string(APPEND text "addlib ${archive}\n")
    endforeach()
    string(APPEND text "save\nend\n")
    file(GENERATE OUTPUT ${script} CONTENT "${text}")
    add_custom_command(TARGET ${target} POST_BUILD
        COMMAND ${CMAKE_COMMAND} -E chdir $<TARGET_FILE_DIR:${target}> ${CMAKE_AR} -M < ${script}
        COMMAND ${CMAKE_COMMAND} -E chdir $<TARGET_FILE_DIR:${target}>
            ${CMAKE_COMMAND} -E rename ${target}-merged.a $<TARGET_FILE_NAME:${target}>
        COMMAND ${CMAKE_RANLIB} -D $<TARGET_FILE:${target}>
        VERBATIM)
endfunction()
