/* toolchain.c: CPUs by name, the installation, and running the C compiler without a shell. */
#include "driver/toolchain.h"

#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ir/base/strutil.h"
#include "ir/base/vec.h"
#include "ir/plan.h"
#include "mpc_version.h"

extern char **environ;

/* ---- CPUs ---------------------------------------------------------------------------------------------- */

#define V3 "avx2 bmi bmi2 f16c fma lzcnt"
#define V4 V3 " avx512f avx512bw avx512cd avx512dq avx512vl"

static const Cpu cpus[] = {
    {"generic", NULL, "", MPC_ISA_generic},
    {"x86-64-v3", "x86-64-v3", V3, MPC_ISA_avx2},
    {"x86-64-v4", "x86-64-v4", V4, MPC_ISA_avx512},
    {"haswell", "haswell", V3, MPC_ISA_avx2},
    {"skylake", "skylake", V3, MPC_ISA_avx2},
    {"alderlake", "alderlake", V3, MPC_ISA_avx2},
    {"znver1", "znver1", V3, MPC_ISA_avx2},
    {"znver2", "znver2", V3, MPC_ISA_avx2},
    {"znver3", "znver3", V3, MPC_ISA_avx2},
    {"skylake-avx512", "skylake-avx512", V4, MPC_ISA_avx512},
    {"cascadelake", "cascadelake", V4, MPC_ISA_avx512},
    {"icelake-server", "icelake-server", V4, MPC_ISA_avx512},
    {"sapphirerapids", "sapphirerapids", V4 " avx512fp16 avx512bf16", MPC_ISA_avx512},
};
enum { CPUS = sizeof cpus / sizeof cpus[0] };

/* The best of the three levels that this machine has: its name says what the program needs elsewhere. */
static const char *native(void)
{
#if defined(__x86_64__)
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx512cd");
    return v4 ? "x86-64-v4" : v3 ? "x86-64-v3" : "generic";
#else
    return "generic";
#endif
}

bool cpu_find(const char *name, Cpu *cpu)
{
    const char *names[CPUS + 1] = {"native"};
    name = str_eq(name, "native") ? native() : name;
    for (int i = 0; i < CPUS; i++) {
        if (str_eq(cpus[i].name, name)) {
            *cpu = cpus[i];
            return true;
        }
        names[i + 1] = cpus[i].name;
    }
    const char *near = nearest_name(name, names, CPUS + 1);
    fprintf(stderr, "mpc: unknown CPU '%s'", name);
    if (near != NULL) {
        fprintf(stderr, "; did you mean %s?", near);
    }
    fputs("\nknown:", stderr);
    for (int i = 0; i < CPUS + 1; i++) {
        fprintf(stderr, " %s", names[i]);
    }
    fputs("\n", stderr);
    return false;
}

/* ---- the installation ---------------------------------------------------------------------------------- */

const char *toolchain_home(Arena *a)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) {
        fprintf(stderr, "mpc: cannot tell where it lies (/proc/self/exe): %s\n", strerror(errno));
        return NULL;
    }
    self[n] = '\0';
    char *slash = strrchr(self, '/');
    *slash = '\0';
    slash = strrchr(self, '/');
    const char *home =
        arena_printf(a, "%.*s/lib/mpc", slash != NULL ? (int)(slash - self) : 0, self);
    const char *library = arena_printf(a, "%s/libmpcrt.a", home);
    if (access(library, R_OK) != 0) {
        fprintf(stderr, "mpc: the runtime is not there: %s: %s\nreinstall mpc (cmake --install)\n",
                library, strerror(errno));
        return NULL;
    }
    return home;
}

/* ---- the C compiler ------------------------------------------------------------------------------------ */

typedef VEC(char *) Words;

static void word(Arena *a, Words *w, const char *s)
{
    vec_push(a, w, arena_strdup(a, s));
}

/* $MPC_CC and $CC may hold flags, too. */
static void words(Arena *a, Words *w, const char *text)
{
    char *rest = arena_strdup(a, text);
    for (char *s = strtok(rest, " "); s != NULL; s = strtok(NULL, " ")) {
        word(a, w, s);
    }
}

static bool on_path(Arena *a, const char *name)
{
    const char *path = getenv("PATH");
    char *rest = arena_strdup(a, path != NULL ? path : "");
    for (char *dir = strtok(rest, ":"); dir != NULL; dir = strtok(NULL, ":")) {
        if (access(arena_printf(a, "%s/%s", dir, name), X_OK) == 0) {
            return true;
        }
    }
    return false;
}

static const char *find_compiler(Arena *a)
{
    static const char *const usual[] = {"cc", "gcc", "clang"};
    const char *given = getenv("MPC_CC");
    given = given != NULL && *given != '\0' ? given : getenv("CC");
    if (given != NULL && *given != '\0') {
        return given;
    }
    for (int i = 0; i < 3; i++) {
        if (on_path(a, usual[i])) {
            return usual[i];
        }
    }
    fputs("mpc: no C compiler: neither $MPC_CC nor $CC is set, and cc, gcc and clang are not on "
          "the PATH\n"
          "install gcc or clang, or name one in $MPC_CC; --emit=c writes the program's text "
          "without one\n",
          stderr);
    return NULL;
}

static Words command_line(Arena *a, const Compile *c, const char *compiler)
{
    static const char *const flags[] = {"-std=gnu17",
                                        "-ffp-contract=off",
                                        "-fno-math-errno",
                                        "-fno-trapping-math",
                                        "-Wall",
                                        "-Wextra",
                                        "-Werror",
                                        "-pthread",
                                        "-ffunction-sections",
                                        "-fdata-sections"};
    Words w = {0};
    words(a, &w, compiler);
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        word(a, &w, flags[i]);
    }
    word(a, &w, arena_printf(a, "-O%s", c->level));
    if (c->cpu->march != NULL) {
        word(a, &w, arena_printf(a, "-march=%s", c->cpu->march));
    }
    if (c->cpu->isa == MPC_ISA_avx512) {
        word(a, &w, "-mprefer-vector-width=512");
    }
    words(a, &w, MPC_RUNTIME_CFLAGS);
    word(a, &w, arena_printf(a, "-I%s/include", c->home));
    word(a, &w, "-o");
    word(a, &w, c->output);
    word(a, &w, c->source);
    word(a, &w, arena_printf(a, "%s/libmpcrt.a", c->home));
    word(a, &w, "-lm");
    word(a, &w, "-Wl,--gc-sections");
    word(a, &w, "-s");
    vec_push(a, &w, NULL);
    return w;
}

int toolchain_compile(Arena *a, const Compile *c)
{
    const char *compiler = find_compiler(a);
    if (compiler == NULL) {
        return 1;
    }
    Words w = command_line(a, c, compiler);
    for (int i = 0; c->verbose && w.at[i] != NULL; i++) {
        fprintf(stderr, "%s%c", w.at[i], w.at[i + 1] != NULL ? ' ' : '\n');
    }
    pid_t pid;
    int failed = posix_spawnp(&pid, w.at[0], NULL, NULL, w.at, environ), status = 0;
    if (failed != 0) {
        fprintf(stderr, "mpc: cannot run the C compiler %s: %s\nname another one in $MPC_CC\n",
                w.at[0], strerror(failed));
        return 1;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            fprintf(stderr, "mpc: waiting for %s: %s\n", w.at[0], strerror(errno));
            return 1;
        }
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        if (WIFEXITED(status)) {
            fprintf(stderr, "mpc: the C compiler %s failed with status %d", w.at[0],
                    WEXITSTATUS(status));
        } else {
            fprintf(stderr, "mpc: the C compiler %s was ended by signal %d", w.at[0],
                    WTERMSIG(status));
        }
        fputs("; its messages stand above. --emit=c shows the text it was given\n", stderr);
        return 1;
    }
    return 0;
}

char *toolchain_temporary(Arena *a, const char *name, int *fd)
{
    const char *dir = getenv("TMPDIR");
    dir = dir != NULL && *dir != '\0' ? dir : "/tmp";
    char *path = arena_printf(a, "%s/%s-XXXXXX.c", dir, name);
    *fd = mkstemps(path, 2);
    if (*fd < 0) {
        fprintf(stderr,
                "mpc: cannot make a file in %s: %s\nset $TMPDIR to a folder that can be written\n",
                dir, strerror(errno));
        return NULL;
    }
    return path;
}
