/* std.c: access to the embedded standard library (the .mpt files of std, made into C by embed_std.cmake). */
#include "frontend/frontend.h"
#include "frontend/std_files.h"

const StdFile *frontend_std(int *count)
{
    int n = 0;
    while (mpc_std_files[n].name)
        n++;
    *count = n;
    return mpc_std_files;
}
