# embed_report.cmake: writes a C file with report.html in it, style and script put in their places.
#
#     cmake -DDIR=runtime/report -DOUT=report_text.c -P embed_report.cmake
include(${CMAKE_CURRENT_LIST_DIR}/../../cmake/Bytes.cmake)
file(READ ${DIR}/report.html page HEX)
file(READ ${DIR}/report.css style HEX)
file(READ ${DIR}/report.js script HEX)

# In hexadecimal digits, so that no character has a meaning to CMake.
function(hex_of text out)
    string(HEX "${text}" hex)
    set(${out} ${hex} PARENT_SCOPE)
endfunction()
hex_of("/* report.css */" style_place)
hex_of("/* report.js */" script_place)
hex_of("@data@" data_place)
string(REPLACE ${style_place} ${style} page ${page})
string(REPLACE ${script_place} ${script} page ${page})
string(FIND ${page} ${data_place} at)
string(LENGTH ${data_place} length)
if(at LESS 0)
    message(FATAL_ERROR "report.html has no place for the data")
endif()
math(EXPR behind "${at} + ${length}")
string(SUBSTRING ${page} 0 ${at} head)
string(SUBSTRING ${page} ${behind} -1 tail)

set(text "")
foreach(part IN ITEMS head tail)
    bytes_of("${${part}}" bytes size)
    string(APPEND text "const unsigned char rt_report_${part}[] = {\n    ${bytes}};\n")
    string(APPEND text "const size_t rt_report_${part}_size = ${size};\n")
endforeach()
file(WRITE ${OUT} "/* Made by embed_report.cmake from runtime/report. */
#include \"rt_report.h\"

${text}")
