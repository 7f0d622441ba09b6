# Bytes.cmake: a file's hexadecimal digits as the elements of a C array, for scripts that embed files. Numbers, as a
# string literal could be longer than compilers promise to take.

# bytes_of(HEX BYTES SIZE): BYTES is the text "0x.., 0x..,", eighteen a line; SIZE their number.
function(bytes_of hex bytes size)
    string(LENGTH "${hex}" digits)
    math(EXPR count "${digits} / 2")
    string(REPEAT "0x..," 18 row)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," text "${hex}")
    string(REGEX REPLACE "(${row})" "\\1\n    " text "${text}")
    set(${bytes} "${text}" PARENT_SCOPE)
    set(${size} ${count} PARENT_SCOPE)
endfunction()
