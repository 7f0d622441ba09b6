# embed_std.cmake: writes a C file with the texts of the standard library in it.
#
#     cmake -DDIR=frontend/std -DOUT=std_text.c -P embed_std.cmake
include(${CMAKE_CURRENT_LIST_DIR}/../cmake/Bytes.cmake)
file(GLOB files ${DIR}/*.mpt)
list(SORT files)
set(texts "")
set(rows "")
foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} id)
    file(READ ${file} hex HEX)
    bytes_of("${hex}" bytes size)
    string(APPEND texts "static const unsigned char text_${id}[] = {\n    ${bytes}0};\n")
    string(APPEND rows "    {\"${name}\", (const char *)text_${id}, ${size}},\n")
endforeach()
file(WRITE ${OUT} "/* Made by embed_std.cmake from frontend/std. */
#include \"frontend/std_files.h\"

${texts}
const StdFile mpc_std_files[] = {
${rows}    {0},
};
")
