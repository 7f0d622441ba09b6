# Pages.cmake: pages that are embedded in a program as C arrays.

# mpc_embed_page(PAGE PREFIX HEADER OUT): OUT is the C file made of PAGE.html, PAGE.css and PAGE.js, with PREFIX_head and
# PREFIX_tail, which HEADER declares (EmbedPage.cmake says more).
function(mpc_embed_page page prefix header out)
    set(shared ${PROJECT_SOURCE_DIR}/runtime/report)
    add_custom_command(
        OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DPAGE=${page} -DPREFIX=${prefix} -DHEADER=${header} -DOUT=${out}
                -P ${PROJECT_SOURCE_DIR}/cmake/EmbedPage.cmake
        DEPENDS ${page}.html ${page}.css ${page}.js ${shared}/page.css ${shared}/page.js
                ${PROJECT_SOURCE_DIR}/cmake/EmbedPage.cmake ${PROJECT_SOURCE_DIR}/cmake/Bytes.cmake
        VERBATIM)
endfunction()
