/* nvrtc.c: finds libnvrtc and calls it (nvrtc.h says what for).
 *
 * The prototypes are those of NVIDIA's documentation; its header is not needed. Looked for in $MPC_NVRTC_LIB, by
 * soname, below /usr/local/cuda*, and where pip puts NVIDIA's packages. */
#define _GNU_SOURCE /* dladdr */
#include "driver/nvrtc.h"

#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ir/base/strutil.h"

// clang-format off
const GpuArch gpu_archs[] = {
    {"sm_80",  80,  "A100"},
    {"sm_86",  86,  "RTX 30, A40"},
    {"sm_89",  89,  "RTX 40, L4, L40"},
    {"sm_90",  90,  "H100, H200"},
    {"sm_100", 100, "B200"},
    {"sm_103", 103, "B300"},
    {"sm_120", 120, "RTX 50"},
    {"sm_121", 121, "DGX Spark"},
};
// clang-format on
const int gpu_narchs = sizeof gpu_archs / sizeof *gpu_archs;

typedef struct NvrtcProgram NvrtcProgram; /* theirs */

#define NVRTC_CALLS(CALL)                                                                          \
    CALL(Version, (int *major, int *minor))                                                        \
    CALL(CreateProgram, (NvrtcProgram * *program, const char *text, const char *name, int headers, \
                         const char *const *sources, const char *const *names))                    \
    CALL(DestroyProgram, (NvrtcProgram * *program))                                                \
    CALL(CompileProgram, (NvrtcProgram * program, int n, const char *const *options))              \
    CALL(GetPTXSize, (NvrtcProgram * program, size_t * bytes))                                     \
    CALL(GetPTX, (NvrtcProgram * program, char *to))                                               \
    CALL(GetCUBINSize, (NvrtcProgram * program, size_t * bytes))                                   \
    CALL(GetCUBIN, (NvrtcProgram * program, char *to))                                             \
    CALL(GetProgramLogSize, (NvrtcProgram * program, size_t * bytes))                              \
    CALL(GetProgramLog, (NvrtcProgram * program, char *to))                                        \
    CALL(GetNumSupportedArchs, (int *n))                                                           \
    CALL(GetSupportedArchs, (int *archs))

struct Nvrtc {
#define CALL(name, parameters) int(*name) parameters;
    NVRTC_CALLS(CALL)
#undef CALL
    const char *(*error)(int code);
    const char *version, *identity;
};

/* ---- finding --------------------------------------------------------------------------------------- */

static void *open_pattern(const char *pattern)
{
    glob_t found;
    void *lib = NULL;
    if (glob(pattern, 0, NULL, &found) == 0) {
        for (size_t i = found.gl_pathc; i-- > 0 && lib == NULL;) { /* the newest first */
            lib = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
        }
    }
    globfree(&found);
    return lib;
}

static void *open_below(Arena *a, const char *folder)
{
    void *lib = NULL;
    for (int version = 13; lib == NULL && version >= 12; version--) {
        lib = open_pattern(arena_printf(a, "%s/libnvrtc.so.%d", folder, version));
    }
    return lib;
}

static void *find_library(Arena *a)
{
    const char *named = getenv("MPC_NVRTC_LIB");
    if (named != NULL && named[0] != 0) {
        void *lib = dlopen(named, RTLD_NOW | RTLD_LOCAL);
        if (lib == NULL) {
            fprintf(stderr, "mpc: cannot open $MPC_NVRTC_LIB: %s\n", dlerror());
        }
        return lib;
    }
    void *lib = dlopen("libnvrtc.so.13", RTLD_NOW | RTLD_LOCAL);
    lib = lib != NULL ? lib : dlopen("libnvrtc.so.12", RTLD_NOW | RTLD_LOCAL);
    static const char *const roots[][2] = {
        {"CUDA_HOME", "%s/lib64"},
        {"VIRTUAL_ENV", "%s/lib/python3*/site-packages/nvidia/*/lib"},
        {"CONDA_PREFIX", "%s/lib"},
        {"HOME", "%s/.local/lib/python3*/site-packages/nvidia/*/lib"},
    };
    for (size_t i = 0; lib == NULL && i < sizeof roots / sizeof *roots; i++) {
        const char *root = getenv(roots[i][0]);
        if (root != NULL && root[0] != 0) {
            lib = open_below(a, arena_printf(a, "%s%s", root, roots[i][1] + 2));
        }
    }
    static const char *const folders[] = {
        "/usr/local/cuda*/lib64",
        "/usr/local/lib/python3*/*-packages/nvidia/*/lib",
        "/usr/lib/python3*/*-packages/nvidia/*/lib",
    };
    for (size_t i = 0; lib == NULL && i < sizeof folders / sizeof *folders; i++) {
        lib = open_below(a, folders[i]);
    }
    if (lib == NULL) {
        fputs("mpc: NVIDIA's compiler NVRTC (libnvrtc.so.12 or 13) was not found; kernels for a "
              "GPU need it. "
              "Install the CUDA toolkit, or only NVRTC: pip install nvidia-cuda-nvrtc; "
              "elsewhere, name the library in $MPC_NVRTC_LIB\n",
              stderr);
    }
    return lib;
}

static bool find_calls(Nvrtc *n, void *lib)
{
    const char *missing = NULL;
    void *at;
#define CALL(name, parameters)                                                                     \
    at = dlsym(lib, "nvrtc" #name);                                                                \
    missing = at == NULL ? "nvrtc" #name : missing;                                                \
    memcpy(&n->name, &at, sizeof at);
    NVRTC_CALLS(CALL)
#undef CALL
    at = dlsym(lib, "nvrtcGetErrorString");
    missing = at == NULL ? "nvrtcGetErrorString" : missing;
    memcpy(&n->error, &at, sizeof at);
    if (missing != NULL) {
        fprintf(stderr, "mpc: the NVRTC that was found is too old: it lacks %s\n", missing);
    }
    return missing == NULL;
}

static const char *identity(Arena *a, const Nvrtc *n, void *lib)
{
    Dl_info info;
    struct stat st;
    void *call = dlsym(lib, "nvrtcVersion");
    if (call == NULL || dladdr(call, &info) == 0 || stat(info.dli_fname, &st) != 0) {
        return n->version;
    }
    return arena_printf(a, "%s of %lld bytes, %lld: %s", info.dli_fname, (long long)st.st_size,
                        (long long)st.st_mtime, n->version);
}

Nvrtc *nvrtc_open(Arena *a)
{
    Nvrtc *n = ARENA_NEW(a, Nvrtc);
    void *lib = find_library(a);
    int major = 0, minor = 0;
    if (lib == NULL || !find_calls(n, lib)) {
        return NULL;
    }
    n->Version(&major, &minor);
    n->version = arena_printf(a, "%d.%d", major, minor);
    n->identity = identity(a, n, lib);
    return n;
}

const char *nvrtc_version(const Nvrtc *n)
{
    return n->version;
}

const char *nvrtc_identity(const Nvrtc *n)
{
    return n->identity;
}

/* ---- compiling ------------------------------------------------------------------------------------- */

typedef struct Compile {
    const Nvrtc *n;
    const char *text, *name, *include;
    bool figures;
    GpuImage *image;
    const char *call; /* that failed; NULL: none */
    int code;
    pthread_t thread;
} Compile;

static bool tried(Compile *c, const char *call, int code)
{
    if (code != 0 && c->call == NULL) {
        c->call = call;
        c->code = code;
    }
    return code == 0;
}

static void read_log(Compile *c, NvrtcProgram *program)
{
    size_t bytes = 0;
    if (c->n->GetProgramLogSize(program, &bytes) == 0 &&
        (c->image->log = malloc(bytes + 1)) != NULL) {
        c->image->log[0] = c->image->log[bytes] = 0;
        c->n->GetProgramLog(program, c->image->log);
    }
}

static bool read_code(Compile *c, NvrtcProgram *program)
{
    const Nvrtc *n = c->n;
    GpuImage *image = c->image;
    bool sized = image->ptx
                     ? tried(c, "nvrtcGetPTXSize", n->GetPTXSize(program, &image->bytes))
                     : tried(c, "nvrtcGetCUBINSize", n->GetCUBINSize(program, &image->bytes));
    image->data = sized ? malloc(image->bytes + 1) : NULL;
    if (image->data == NULL) {
        return false;
    }
    return image->ptx ? tried(c, "nvrtcGetPTX", n->GetPTX(program, image->data))
                      : tried(c, "nvrtcGetCUBIN", n->GetCUBIN(program, image->data));
}

static void *compile_one(void *arg)
{
    Compile *c = arg;
    NvrtcProgram *program = NULL;
    char arch[40], include[4200];
    snprintf(arch, sizeof arch, "--gpu-architecture=%s_%d", c->image->ptx ? "compute" : "sm",
             c->image->arch);
    snprintf(include, sizeof include, "--include-path=%s", c->include);
    /* floats must be what they are on the CPU: no fused operation but where the text says so, no flush to zero */
    const char *options[] = {arch, include, "--fmad=false", "--std=c++17", "--ptxas-options=-v"};
    int n = 4 + (c->figures && !c->image->ptx);
    if (!tried(c, "nvrtcCreateProgram",
               c->n->CreateProgram(&program, c->text, c->name, 0, NULL, NULL))) {
        return NULL;
    }
    bool ok = tried(c, "nvrtcCompileProgram", c->n->CompileProgram(program, n, options));
    read_log(c, program);
    if (ok) {
        read_code(c, program);
    }
    c->n->DestroyProgram(&program);
    return NULL;
}

static bool is_supported(const Nvrtc *n, int arch)
{
    int count = 0, archs[256];
    bool known =
        n->GetNumSupportedArchs(&count) == 0 && count <= 256 && n->GetSupportedArchs(archs) == 0;
    for (int i = 0; known && i < count; i++) {
        if (archs[i] == arch) {
            return true;
        }
    }
    if (known) {
        fprintf(stderr, "mpc: --gpu=sm_%d: NVRTC %s does not know this architecture\n", arch,
                n->version);
    }
    return !known;
}

static bool report(const Compile *c)
{
    const GpuImage *image = c->image;
    if (c->call == NULL && image->data != NULL) {
        return true;
    }
    if (c->call == NULL) {
        fputs("mpc: out of memory\n", stderr);
        return false;
    }
    fprintf(stderr, "mpc: internal error: the kernels of %s do not compile for %s_%d: %s: %s\n%s",
            c->name, image->ptx ? "compute" : "sm", image->arch, c->call, c->n->error(c->code),
            image->log != NULL ? image->log : "");
    return false;
}

bool nvrtc_compile(const Nvrtc *n, const char *text, const char *name, const char *include,
                   bool figures, GpuImage *images, int count)
{
    Compile *jobs = calloc((size_t)count, sizeof *jobs);
    bool ok = jobs != NULL;
    for (int i = 0; ok && i < count; i++) {
        ok = is_supported(n, images[i].arch);
    }
    int started = 0;
    for (; ok && started < count; started++) {
        Compile *c = &jobs[started];
        *c = (Compile){.n = n,
                       .text = text,
                       .name = name,
                       .include = include,
                       .figures = figures,
                       .image = &images[started]};
        images[started].data = images[started].log = NULL;
        if (pthread_create(&c->thread, NULL, compile_one, c) != 0) {
            fputs("mpc: no thread to compile kernels in\n", stderr);
            ok = false;
            break;
        }
    }
    for (int i = 0; i < started; i++) {
        pthread_join(jobs[i].thread, NULL);
    }
    for (int i = 0; ok && i < started; i++) {
        ok = report(&jobs[i]);
    }
    free(jobs);
    return ok;
}
