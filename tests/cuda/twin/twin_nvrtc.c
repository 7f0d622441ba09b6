/* twin_nvrtc.c: a stand-in for NVRTC: what it makes of CUDA source is a shared object of the C compiler, kernels as
 * functions that twin.h runs. mpc takes it with $MPC_NVRTC_LIB, so a program gets it as its code for the GPU.
 *
 *     TWIN_CC=gcc            the C compiler (cc)
 *     TWIN_CFLAGS="-g ..."   flags for it, split at blanks
 *     TWIN_INCLUDE=DIR       the folder of the twin's device.cuh (where this library was built from)
 */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

typedef enum Result { SUCCESS = 0, OUT_OF_MEMORY = 1, INVALID_INPUT = 3, COMPILATION = 6 } Result;

typedef struct Header {
    char *name, *text;
} Header;

typedef struct Program {
    char *source, *log;
    Header *headers;
    int n_headers;
    unsigned char *object;
    size_t bytes;
} Program;

static char *copy(const char *text)
{
    size_t n = strlen(text) + 1;
    return memcpy(malloc(n), text, n);
}

Result nvrtcVersion(int *major, int *minor);
Result nvrtcGetNumSupportedArchs(int *n);
Result nvrtcGetSupportedArchs(int *archs);
Result nvrtcCreateProgram(Program **made, const char *source, const char *name, int n,
                          const char *const *headers, const char *const *names);
Result nvrtcDestroyProgram(Program **p);
Result nvrtcCompileProgram(Program *p, int n, const char *const *options);
Result nvrtcGetCUBINSize(Program *p, size_t *bytes);
Result nvrtcGetCUBIN(Program *p, char *cubin);
Result nvrtcGetPTXSize(Program *p, size_t *bytes);
Result nvrtcGetPTX(Program *p, char *ptx);
Result nvrtcGetProgramLogSize(Program *p, size_t *bytes);
Result nvrtcGetProgramLog(Program *p, char *log);
const char *nvrtcGetErrorString(Result result);

Result nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return SUCCESS;
}

static const int archs_known[] = {75, 80, 86, 89, 90, 100, 120};

Result nvrtcGetNumSupportedArchs(int *n)
{
    *n = (int)(sizeof archs_known / sizeof *archs_known);
    return SUCCESS;
}

Result nvrtcGetSupportedArchs(int *archs)
{
    memcpy(archs, archs_known, sizeof archs_known);
    return SUCCESS;
}

Result nvrtcCreateProgram(Program **made, const char *source, const char *name, int n,
                          const char *const *headers, const char *const *names)
{
    Program *p = calloc(1, sizeof *p);
    (void)name;
    p->source = copy(source);
    p->log = copy("");
    p->headers = calloc((size_t)n + 1, sizeof *p->headers);
    for (p->n_headers = 0; p->n_headers < n; p->n_headers++)
        p->headers[p->n_headers] = (Header){copy(names[p->n_headers]), copy(headers[p->n_headers])};
    *made = p;
    return SUCCESS;
}

Result nvrtcDestroyProgram(Program **made)
{
    Program *p = *made;
    for (int i = 0; i < p->n_headers; i++) {
        free(p->headers[i].name);
        free(p->headers[i].text);
    }
    free(p->headers);
    free(p->source);
    free(p->log);
    free(p->object);
    free(p);
    *made = NULL;
    return SUCCESS;
}

/* ---- files of one compilation ----------------------------------------------------------------------- */

static bool write_file(const char *folder, const char *name, const char *text)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *f = fopen(path, "w");
    if (!f)
        return false;
    bool ok = fputs(text, f) >= 0;
    return fclose(f) == 0 && ok;
}

static unsigned char *read_file(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    if (!f || fstat(fileno(f), &st) != 0)
        return NULL;
    unsigned char *data = malloc((size_t)st.st_size + 1);
    *bytes = fread(data, 1, (size_t)st.st_size, f);
    data[*bytes] = 0;
    fclose(f);
    return data;
}

/* The twin's device.cuh stands for the real one, which would be among the headers. */
static bool write_sources(const Program *p, const char *folder)
{
    bool ok = write_file(folder, "kernels.c", p->source);
    for (int i = 0; ok && i < p->n_headers; i++)
        if (!strstr(p->headers[i].name, "device.cuh"))
            ok = write_file(folder, p->headers[i].name, p->headers[i].text);
    return ok;
}

static int run(const char *const *argv, const char *log)
{
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(fd, 1);
        dup2(fd, 2);
        execvp(argv[0], (char *const *)(size_t)argv);
        _exit(127);
    }
    int status = -1;
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

static void remove_folder(const char *folder)
{
    const char *const argv[] = {"rm", "-rf", folder, NULL};
    run(argv, "/dev/null");
}

Result nvrtcCompileProgram(Program *p, int n, const char *const *options)
{
    const char *place = getenv("TMPDIR");
    char folder[1024], source[1100], object[1100], log[1100], includes[1100];
    const char *cc = getenv("TWIN_CC"), *twin = getenv("TWIN_INCLUDE"),
               *more = getenv("TWIN_CFLAGS");
    const char *argv[64];
    char *flags = copy(more ? more : ""), *rest = flags;
    int argc = 0;
    snprintf(folder, sizeof folder, "%s/twin.XXXXXX", place && place[0] ? place : P_tmpdir);
    if (!mkdtemp(folder) || !write_sources(p, folder))
        return OUT_OF_MEMORY;
    snprintf(source, sizeof source, "%s/kernels.c", folder);
    snprintf(object, sizeof object, "%s/kernels.so", folder);
    snprintf(log, sizeof log, "%s/log", folder);
    snprintf(includes, sizeof includes, "-I%s", folder);
    static const char *const fixed[] = {"-std=gnu17",
                                        "-O2",
                                        "-march=native",
                                        "-fPIC",
                                        "-shared",
                                        "-ffp-contract=off",
                                        "-fno-math-errno",
                                        "-fno-trapping-math",
                                        "-w"};
    argv[argc++] = cc && cc[0] ? cc : "cc";
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        argv[argc++] = fixed[i];
    argv[argc++] = "-I";
    argv[argc++] = twin && twin[0] ? twin : TWIN_INCLUDE_DIR;
    for (int i = 0; i < n && argc < 32; i++)
        if (!strncmp(options[i], "--include-path=", 15) || !strncmp(options[i], "-I", 2)) {
            argv[argc++] = "-I";
            argv[argc++] = options[i] + (options[i][1] == '-' ? 15 : 2);
        }
    for (const char *word; argc < 48 && (word = strtok_r(rest, " ", &rest));)
        argv[argc++] = word;
    const char *const tail[] = {includes, source, "-o", object, NULL};
    for (size_t i = 0; i < sizeof tail / sizeof *tail; i++)
        argv[argc++] = tail[i];
    int status = run(argv, log);
    size_t bytes;
    char *said = (char *)read_file(log, &bytes);
    free(p->log);
    p->log = said ? said : copy("");
    p->object = status == 0 ? read_file(object, &p->bytes) : NULL;
    remove_folder(folder);
    free(flags);
    return p->object ? SUCCESS : COMPILATION;
}

Result nvrtcGetCUBINSize(Program *p, size_t *bytes)
{
    *bytes = p->bytes;
    return p->object ? SUCCESS : INVALID_INPUT;
}

Result nvrtcGetCUBIN(Program *p, char *cubin)
{
    memcpy(cubin, p->object, p->bytes);
    return SUCCESS;
}

/* There is no PTX of it: the same object. */
Result nvrtcGetPTXSize(Program *p, size_t *bytes)
{
    return nvrtcGetCUBINSize(p, bytes);
}

Result nvrtcGetPTX(Program *p, char *ptx)
{
    return nvrtcGetCUBIN(p, ptx);
}

Result nvrtcGetProgramLogSize(Program *p, size_t *bytes)
{
    *bytes = strlen(p->log) + 1;
    return SUCCESS;
}

Result nvrtcGetProgramLog(Program *p, char *log)
{
    memcpy(log, p->log, strlen(p->log) + 1);
    return SUCCESS;
}

const char *nvrtcGetErrorString(Result result)
{
    return result == COMPILATION ? "the C compiler failed" : "wrong use of the stand-in";
}
