/* rt_main.c: main() of every training program; alone in its file, so that tests can have one of their own. */
#include "rt_run.h"

int main(int argc, char **argv)
{
    return rt_main(&mpc_program, argc, argv);
}
