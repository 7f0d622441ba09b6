# EmbedPage.cmake: writes a C file with a page in it, style and script put in their places, cut where its data go.
#
#     cmake -DPAGE=runtime/report/report -DHEADER=rt_report.h -DPREFIX=rt_report -DOUT=report_text.c -P EmbedPage.cmake
#
# PAGE.html has the places; PAGE.css and PAGE.js come behind what all pages share, runtime/report/page.css and page.js.
include(${CMAKE_CURRENT_LIST_DIR}/Bytes.cmake)
set(shared ${CMAKE_CURRENT_LIST_DIR}/../runtime/report/page)
file(READ ${PAGE}.html page HEX)
foreach(kind IN ITEMS css js)
    file(READ ${shared}.${kind} ${kind} HEX)
    file(READ ${PAGE}.${kind} own HEX)
    string(APPEND ${kind} ${own})
endforeach()

# In hexadecimal digits, so that no character has a meaning to CMake.
function(hex_of text out)
    string(HEX "${text}" hex)
    set(${out} ${hex} PARENT_SCOPE)
endfunction()
hex_of("/* css */" style_place)
hex_of("/* js */" script_place)
hex_of("@data@" data_place)
string(REPLACE ${style_place} ${css} page ${page})
string(REPLACE ${script_place} ${js} page ${page})
string(FIND ${page} ${data_place} at)
string(LENGTH ${data_place} length)
if(at LESS 0)
    message(FATAL_ERROR "${PAGE}.html has no place for the data")
endif()
math(EXPR behind "${at} + ${length}")
string(SUBSTRING ${page} 0 ${at} head)
string(SUBSTRING ${page} ${behind} -1 tail)

set(text "")
foreach(part IN ITEMS head tail)
    bytes_of("${${part}}" bytes size)
    string(APPEND text "const unsigned char ${PREFIX}_${part}[] = {\n    ${bytes}};\n")
    string(APPEND text "const size_t ${PREFIX}_${part}_size = ${size};\n")
endforeach()
file(WRITE ${OUT} "/* Made by EmbedPage.cmake from ${PREFIX}'s page. */
#include \"${HEADER}\"

${text}")
