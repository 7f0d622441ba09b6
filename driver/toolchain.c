/* toolchain.c: finds the runtime beside mpc's own executable and a C compiler, and runs that without a shell, the
 * text on its standard input: no name needs quoting, no file is left. The program is made beside its place and
 * moved there when it is whole. */
#include "driver/toolchain.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "driver/cache.h"
#include "ir/base/strutil.h"
#include "ir/base/text.h"
#include "ir/base/vec.h"
#include "mpc_version.h"

extern char **environ;

typedef VEC(const char *) Words;

static void words_split(Arena *a, Words *w, const char *s)
{
    while (*s != 0) {
        size_t n = strcspn(s, " ");
        if (n > 0) {
            vec_push(a, w, (const char *)arena_strndup(a, s, n));
        }
        s += n + (s[n] == ' ');
    }
}

/* ---- finding --------------------------------------------------------------------------------------- */

static bool find_lib(Toolchain *t)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) {
        fprintf(stderr, "mpc: cannot tell where mpc itself lies: %s\n", strerror(errno));
        return false;
    }
    self[n] = 0;
    char *slash = strrchr(self, '/');
    *slash = 0;
    slash = strrchr(self, '/');
    if (slash != NULL) {
        *slash = 0;
    }
    t->lib = arena_printf(t->arena, "%s/lib/mpc", self);
    const char *archive = arena_printf(t->arena, "%s/libmpcrt.a", t->lib);
    if (access(archive, R_OK) != 0) {
        fprintf(stderr, "mpc: the runtime is not where it belongs: %s: %s\n", archive,
                strerror(errno));
        return false;
    }
    return true;
}

/* Where a command lies; NULL: nowhere. */
static const char *in_path(Arena *a, const char *name)
{
    const char *path = getenv("PATH");
    if (strchr(name, '/') != NULL) {
        return access(name, X_OK) == 0 ? name : NULL;
    }
    for (const char *at = path != NULL ? path : ""; *at != 0;) {
        size_t n = strcspn(at, ":");
        char file[4096];
        snprintf(file, sizeof file, "%.*s%s%s", (int)n, at, n > 0 ? "/" : "", name);
        struct stat st;
        if (access(file, X_OK) == 0 && stat(file, &st) == 0 && S_ISREG(st.st_mode)) {
            return arena_strdup(a, file);
        }
        at += n + (at[n] == ':');
    }
    return NULL;
}

bool toolchain_find(Toolchain *t, Arena *a)
{
    t->arena = a;
    if (!find_lib(t)) {
        return false;
    }
    static const char *const variables[] = {"MPC_CC", "CC"};
    Words cc = {0};
    for (int i = 0; i < 2; i++) {
        const char *value = getenv(variables[i]);
        if (value == NULL || value[0] == 0) {
            continue;
        }
        if (in_path(a, value) != NULL) {
            vec_push(a, &cc, value);
        } else {
            words_split(a, &cc, value);
        }
        if (cc.n == 0 || in_path(a, cc.at[0]) == NULL) {
            fprintf(stderr, "mpc: cannot run the C compiler %s (from $%s): not found\n",
                    cc.n > 0 ? cc.at[0] : value, variables[i]);
            return false;
        }
        break;
    }
    static const char *const usual[] = {"cc", "gcc", "clang"};
    for (int i = 0; cc.n == 0 && i < 3; i++) {
        if (in_path(a, usual[i]) != NULL) {
            vec_push(a, &cc, usual[i]);
        }
    }
    if (cc.n == 0) {
        fputs("mpc: no C compiler found (tried cc, gcc, clang); install gcc or clang, or name one "
              "in $CC\n",
              stderr);
        return false;
    }
    vec_push(a, &cc, (const char *)NULL);
    t->cc = cc.at;
    return true;
}

/* ---- running --------------------------------------------------------------------------------------- */

static bool write_all(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, text, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        text += n;
        size -= (size_t)n;
    }
    return true;
}

/* What a command printed; NULL when it failed. */
static char *read_all(Arena *a, int fd)
{
    Text *t = text_new(a);
    char buf[4096];
    ssize_t n;
    while ((n = read(fd, buf, sizeof buf)) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0) {
            text_putn(t, buf, (size_t)n);
        }
    }
    text_puts(t, "");
    return t->at;
}

/* Runs argv with `text` as its standard input; its output is kept in *out when wanted. */
static bool run(const Toolchain *t, const char *const *argv, const char *text, size_t size,
                char **out)
{
    int in[2], back[2] = {-1, -1};
    if (pipe(in) != 0 || (out != NULL && pipe(back) != 0)) {
        fprintf(stderr, "mpc: cannot make a pipe: %s\n", strerror(errno));
        return false;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_addclose(&actions, in[1]);
    if (out != NULL) {
        posix_spawn_file_actions_adddup2(&actions, back[1], 1);
        posix_spawn_file_actions_addclose(&actions, back[0]);
    }
    pid_t pid;
    int error = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(void *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    if (out != NULL) {
        close(back[1]);
    }
    if (error != 0) {
        fprintf(stderr, "mpc: cannot run the C compiler %s: %s\n", argv[0], strerror(error));
        close(in[1]);
        return false;
    }
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    write_all(in[1], text, size); /* a compiler that reads no further says why itself */
    close(in[1]);
    signal(SIGPIPE, before);
    if (out != NULL) {
        *out = read_all(t->arena, back[0]);
        close(back[0]);
    }
    int status;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return true;
    }
    if (WIFSIGNALED(status)) {
        fprintf(stderr, "mpc: the C compiler %s was ended by signal %d\n", argv[0],
                WTERMSIG(status));
    } else {
        fprintf(stderr, "mpc: the C compiler %s failed (status %d)\n", argv[0],
                WEXITSTATUS(status));
    }
    return false;
}

static void say(const char *const *argv)
{
    for (int i = 0; argv[i] != NULL; i++) {
        fprintf(stderr, "%s%s", i > 0 ? " " : "", argv[i]);
    }
    fputc('\n', stderr);
}

/* ---- CPUs ------------------------------------------------------------------------------------------ */

/* What -march=NAME lets the compiler use: its macro, and what the program asks the CPU for (rt_cpu.c). */
static const struct {
    const char *macro, *feature;
} macros[] = {
    {"__SSE3__ ", "sse3"},
    {"__SSSE3__ ", "ssse3"},
    {"__SSE4_1__ ", "sse4.1"},
    {"__SSE4_2__ ", "sse4.2"},
    {"__POPCNT__ ", "popcnt"},
    {"__AVX__ ", "avx"},
    {"__AVX2__ ", "avx2"},
    {"__BMI__ ", "bmi"},
    {"__BMI2__ ", "bmi2"},
    {"__LZCNT__ ", "lzcnt"},
    {"__FMA__ ", "fma"},
    {"__F16C__ ", "f16c"},
    {"__AVX512F__ ", "avx512f"},
    {"__AVX512BW__ ", "avx512bw"},
    {"__AVX512CD__ ", "avx512cd"},
    {"__AVX512DQ__ ", "avx512dq"},
    {"__AVX512VL__ ", "avx512vl"},
    {"__AVX512IFMA__ ", "avx512ifma"},
    {"__AVX512VBMI__ ", "avx512vbmi"},
    {"__AVX512VNNI__ ", "avx512vnni"},
    {"__AVX512BF16__ ", "avx512bf16"},
    {"__AVX512FP16__ ", "avx512fp16"},
    {"__AVXVNNI__ ", "avxvnni"},
};

static bool named_cpu(const Toolchain *t, const char *name, Cpu *cpu)
{
    Words argv = {0};
    for (int i = 0; t->cc[i] != NULL; i++) {
        vec_push(t->arena, &argv, t->cc[i]);
    }
    const char *march = arena_printf(t->arena, "-march=%s", name);
    const char *rest[] = {march, "-dM", "-E", "-x", "c", "-", NULL};
    for (int i = 0; i < 7; i++) {
        vec_push(t->arena, &argv, rest[i]);
    }
    char *text;
    if (!run(t, argv.at, "", 0, &text)) {
        fprintf(stderr, "mpc: --cpu=%s: the C compiler knows no such CPU\n", name);
        return false;
    }
    Text *needs = text_new(t->arena);
    for (size_t i = 0; i < sizeof macros / sizeof *macros; i++) {
        if (strstr(text, arena_printf(t->arena, "#define %s", macros[i].macro)) != NULL) {
            text_printf(needs, "%s%s", needs->n > 0 ? " " : "", macros[i].feature);
        }
    }
    const char *list = needs->n > 0 ? needs->at : "";
    bool avx2 =
        strstr(list, "avx2") != NULL && strstr(list, "fma") != NULL && strstr(list, "f16c") != NULL;
    bool avx512 = strstr(list, "avx512f") != NULL && strstr(list, "avx512bw") != NULL &&
                  strstr(list, "avx512dq") != NULL && strstr(list, "avx512vl") != NULL;
    *cpu = (Cpu){.name = name,
                 .march = march,
                 .needs = list,
                 .isa = avx512 ? CPU_avx512
                        : avx2 ? CPU_avx2
                               : CPU_generic};
    return true;
}

#if defined(__x86_64__)
static const char v3_needs[] = "sse3 ssse3 sse4.1 sse4.2 popcnt avx avx2 bmi bmi2 lzcnt fma f16c";
static const char v4_needs[] =
    "sse3 ssse3 sse4.1 sse4.2 popcnt avx avx2 bmi bmi2 lzcnt fma f16c avx512f "
    "avx512bw avx512cd avx512dq avx512vl";

static const Cpu levels[] = {
    {"x86-64-v4", "-march=x86-64-v4", v4_needs, CPU_avx512},
    {"x86-64-v3", "-march=x86-64-v3", v3_needs, CPU_avx2},
    {"generic", "-march=x86-64", "", CPU_generic},
};

/* A level rather than this very CPU: the program then runs on every machine of the level, and what it needs is
 * known without asking the compiler. */
static const char *native_level(void)
{
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
              __builtin_cpu_supports("avx512cd");
    return v4 ? "x86-64-v4" : v3 ? "x86-64-v3" : "generic";
}
#else
static const Cpu levels[] = {{"generic", NULL, "", CPU_generic}};

static const char *native_level(void)
{
    return "generic";
}
#endif

bool toolchain_cpu(const Toolchain *t, const char *name, Cpu *cpu)
{
    if (str_eq(name, "native")) {
        name = native_level();
    }
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (str_eq(levels[i].name, name)) {
            *cpu = levels[i];
            return true;
        }
    }
    if (name[0] == 0 || strchr(name, ' ') != NULL) {
        fprintf(stderr, "mpc: --cpu=%s: no CPU is called so\n", name);
        return false;
    }
    return named_cpu(t, name, cpu);
}

/* ---- compiling ------------------------------------------------------------------------------------- */

static void compile_words(const Toolchain *t, const Cpu *cpu, const char *out, Words *w)
{
    Arena *a = t->arena;
    for (int i = 0; t->cc[i] != NULL; i++) {
        vec_push(a, w, t->cc[i]);
    }
    vec_push(a, w, arena_printf(a, "-O%d", t->level));
    static const char *const flags[] = {"-std=gnu17",
                                        "-ffp-contract=off",
                                        "-fno-math-errno",
                                        "-fno-trapping-math",
                                        "-ffunction-sections",
                                        "-fdata-sections",
                                        "-pipe"};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        vec_push(a, w, flags[i]);
    }
    words_split(a, w, MPC_RUNTIME_CFLAGS);
    const char *more = getenv("MPC_CFLAGS");
    words_split(a, w, more != NULL ? more : "");
    if (cpu->march != NULL) {
        vec_push(a, w, cpu->march);
    }
    if (cpu->isa == CPU_avx512) {
        vec_push(a, w, "-mprefer-vector-width=512");
    }
    const char *rest[] = {"-I",
                          arena_printf(a, "%s/include", t->lib),
                          "-x",
                          "c",
                          "-",
                          "-x",
                          "none",
                          arena_printf(a, "%s/libmpcrt.a", t->lib),
                          "-o",
                          out,
                          "-Wl,--gc-sections",
                          "-s",
                          "-lm",
                          "-lpthread"};
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        vec_push(a, w, rest[i]);
    }
    vec_push(a, w, (const char *)NULL);
}

bool toolchain_can_write(const char *out)
{
    struct stat st;
    if (stat(out, &st) == 0 && S_ISDIR(st.st_mode)) {
        fprintf(stderr, "mpc: cannot write %s: it is a folder\n", out);
        return false;
    }
    const char *slash = strrchr(out, '/');
    char folder[4096];
    snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - out) + 1 : 1,
             slash != NULL ? out : ".");
    if (stat(folder, &st) != 0 || access(folder, W_OK) != 0) {
        fprintf(stderr, "mpc: cannot write %s: %s\n", out, strerror(errno));
        return false;
    }
    return true;
}

/* ---- programs that were compiled before ---------------------------------------------------------------- */

/* A file that is not read: another one has another size or another time. */
static void add_identity(Arena *a, CacheKey *k, const char *path)
{
    struct stat st = {0};
    cache_key_text(k, path);
    if (path != NULL && stat(path, &st) == 0) {
        cache_key_text(k, arena_printf(a, "%lld %lld.%09ld", (long long)st.st_size,
                                       (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec));
    }
}

/* All that the C compiler's work depends on. */
static CacheKey program_key(const Toolchain *t, const Cpu *cpu, const char *text, size_t size)
{
    Arena *a = t->arena;
    static const char *const folders[] = {"abi", "kernels"};
    CacheKey k = cache_key();
    Words words = {0};
    cache_key_text(&k, "program");
    cache_key_add(&k, text, size);
    compile_words(t, cpu, "OUT", &words);
    for (int i = 0; words.at[i] != NULL; i++) {
        cache_key_text(&k, words.at[i]);
    }
    add_identity(a, &k, in_path(a, t->cc[0]));
    cache_key_file(&k, arena_printf(a, "%s/libmpcrt.a", t->lib));
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        cache_key_files(&k, arena_printf(a, "%s/include/%s/*", t->lib, folders[f]));
    }
    return k;
}

static bool write_known(int fd, const void *data, size_t bytes)
{
    return data != NULL && write_all(fd, data, bytes);
}

bool toolchain_compile(const Toolchain *t, const Cpu *cpu, const char *text, size_t size,
                       const char *out)
{
    const CacheKey key = program_key(t, cpu, text, size);
    size_t known_bytes = 0;
    const void *known = cache_get(t->arena, &key, &known_bytes);
    char *made = arena_printf(t->arena, "%s.XXXXXX", out);
    int fd = mkstemp(made);
    if (fd < 0) {
        fprintf(stderr, "mpc: cannot write %s: %s\n", out, strerror(errno));
        return false;
    }
    Words argv = {0};
    compile_words(t, cpu, made, &argv);
    if (t->verbose) {
        say(argv.at);
    }
    bool ok = write_known(fd, known, known_bytes);
    ok = close(fd) == 0 && ok;
    if (!ok) {
        ok = run(t, argv.at, text, size, NULL);
        cache_put_file(t->arena, &key, ok ? made : NULL);
    } else if (t->verbose) {
        fputs("mpc: compiled before: taken from the cache\n", stderr);
    }
    mode_t mask = umask(0);
    umask(mask);
    if (ok && (chmod(made, 0777 & ~mask) != 0 || rename(made, out) != 0)) {
        fprintf(stderr, "mpc: cannot write %s: %s\n", out, strerror(errno));
        ok = false;
    }
    if (!ok) {
        unlink(made);
    }
    return ok;
}
