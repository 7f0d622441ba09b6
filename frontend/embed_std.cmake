# embed_std.cmake: writes a C file with the texts of the standard library in it.
#
#     cmake -DDIR=frontend/std -DOUT=std_text.c -P embed_std.cmake
#
# The bytes stand as numbers: a string literal could be longer than compilers promise to take.
file(GLOB files ${DIR}/*.mpt)
list(SORT files)
string(REPEAT "0x..," 18 row)
set(texts "")
set(rows "")
foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} id)
    file(READ ${file} hex HEX)
    string(LENGTH "${hex}" length)
    math(EXPR size "${length} / 2")
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(${row})" "\\1\n    " bytes "${bytes}")
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
