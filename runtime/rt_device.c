/* rt_device.c: a run on a GPU: which one, its memory, its kernels, and CUDA graphs of the launches seen before.
 *
 * A graph of the program always launches the same kernels on the same places of the arena; only the batch lies in
 * one of two places and may be a shorter one. So the launches are captured the second time that a graph runs for a
 * batch of that place and length, and replayed from then on, its numbers' copies with them.
 */
#include "rt_device.h"
#include "rt_cuda.h"
#include "rt_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { PAGE = 4096 };

/* A kernel of the program; by_function has room for twice as many, so that few meet. */
typedef struct Slot {
    MpcKernel *function;
    const MpcCudaKernel *kernel; /* NULL: packs operands for the CPU; nothing to do */
    const MpcKernelRow *row;
    CUfunction handle;
} Slot;

typedef struct Replay {
    int graph;
    int64_t n;
    const void *batch;    /* the keys of it, which lie where no other batch's do */
    CUgraphExec instance; /* NULL: seen once */
} Replay;

/* Numbers of a graph on their way, in memory that the GPU reaches. */
typedef struct Numbers {
    unsigned char *in, *out;
    bool pending; /* `in` may still be read */
} Numbers;

struct RtDevice {
    MpcRun *run;
    RtCuda cuda;
    int ordinal, arch;
    char name[256];
    CUstream stream, copies;
    CUevent copied,
        launched[2]; /* the second: before the last batch was copied, and the one before it */
    unsigned batches;
    CUdeviceptr arena;
    size_t taken, bytes;
    Slot *slots;
    size_t n_slots; /* a power of two */
    Numbers *numbers;
    Replay *replays;
    int n_replays, cap_replays;
    Replay *capturing; /* NULL: launches run at once */
};

/* ---- what goes wrong ---- */

static const char *advice(CUresult error)
{
    return error == CUDA_ERROR_OUT_OF_MEMORY
               ? "--plan shows what memory is for; a smaller batch takes less, --device cpu none "
                 "of it"
               : "--device cpu runs the same program on the CPU; --resume continues from the last "
                 "checkpoint";
}

static _Noreturn void fail(const RtDevice *d, CUresult error, const char *doing)
{
    mpc_fail(d->run, advice(error), "step %lld: the GPU failed %s: %s", (long long)d->run->step + 1,
             doing, rt_cuda_text(&d->cuda, error));
}

static void check(const RtDevice *d, CUresult error, const char *doing)
{
    if (error != CUDA_SUCCESS)
        fail(d, error, doing);
}

static void check_kernel(const RtDevice *d, CUresult error, const Slot *s)
{
    char where[400];
    if (error == CUDA_SUCCESS)
        return;
    snprintf(where, sizeof where, "in %s (line %d: %s)", s->kernel->name, s->row->line,
             s->row->what);
    fail(d, error, where);
}

static void check_graph(const RtDevice *d, CUresult error, int graph)
{
    const MpcGraphRow *g = &d->run->program->graph_rows[graph];
    char where[400];
    if (error == CUDA_SUCCESS)
        return;
    snprintf(where, sizeof where, "in %s (line %d)", g->name, g->line);
    fail(d, error, where);
}

/* ---- which GPU ---- */

static bool forced_ptx(void)
{
    const char *text = getenv("MPC_FORCE_PTX");
    return text && text[0] && strcmp(text, "0");
}

/* A cubin runs on its own architecture and later ones of the same generation; PTX on all later ones. */
static const MpcCudaImage *image_for(const MpcCuda *p, int arch)
{
    const MpcCudaImage *best = NULL;
    for (int i = 0; i < p->n_images; i++) {
        const MpcCudaImage *m = &p->images[i];
        bool runs =
            m->arch <= arch && (m->ptx || m->arch / 10 == arch / 10) && (m->ptx || !forced_ptx());
        bool better =
            !best || (best->ptx && !m->ptx) || (best->ptx == m->ptx && m->arch > best->arch);
        if (runs && better)
            best = m;
    }
    return best;
}

static bool load_module(RtDevice *d, CUmodule *module, RtErr *e)
{
    const MpcCudaImage *m = image_for(d->run->program->cuda, d->arch);
    if (!m)
        return rt_err(e, "%s has compute capability %d.%d, which the program was not compiled for",
                      d->name, d->arch / 10, d->arch % 10);
    unsigned char *image = rt_alloc(m->full_bytes + 1);
    uLongf bytes = m->full_bytes;
    bool sound = uncompress(image, &bytes, m->data, m->bytes) == Z_OK && bytes == m->full_bytes;
    image[m->full_bytes] = 0; /* PTX is a text */
    CUresult error = sound ? d->cuda.cuModuleLoadData(module, image) : CUDA_SUCCESS;
    free(image);
    if (!sound)
        return rt_err(e, "the program's file is damaged: its GPU code cannot be unpacked");
    if (error == CUDA_ERROR_UNSUPPORTED_PTX_VERSION)
        return rt_err(e,
                      "the NVIDIA driver is too old for the program's PTX, and it has no code "
                      "of %s's own (sm_%d)",
                      d->name, d->arch);
    return error == CUDA_SUCCESS || rt_err(e, "%s does not take the program's code: %s", d->name,
                                           rt_cuda_text(&d->cuda, error));
}

static size_t slot_of(const RtDevice *d, MpcKernel *function)
{
    uintptr_t key = (uintptr_t)function;
    size_t at = (key ^ key >> 12) * 0x9e3779b97f4a7c15u >> 20 & (d->n_slots - 1);
    while (d->slots[at].function && d->slots[at].function != function)
        at = (at + 1) & (d->n_slots - 1);
    return at;
}

static bool load_kernels(RtDevice *d, RtErr *e)
{
    const MpcProgram *p = d->run->program;
    CUmodule module;
    if (!load_module(d, &module, e))
        return false;
    d->n_slots = 16;
    while (d->n_slots < 4 * (size_t)p->n_functions)
        d->n_slots *= 2;
    d->slots = rt_alloc_zero(d->n_slots, sizeof *d->slots);
    for (int i = 0; i < p->n_functions; i++) {
        const MpcKernelRow *row = &p->functions[i];
        d->slots[slot_of(d, row->function)] = (Slot){.function = row->function, .row = row};
        if (row->pack)
            d->slots[slot_of(d, row->pack)] = (Slot){.function = row->pack, .row = row};
    }
    for (int i = 0; i < p->cuda->n_kernels; i++) {
        const MpcCudaKernel *k = &p->cuda->kernels[i];
        Slot *s = &d->slots[slot_of(d, k->function)];
        CUresult error = d->cuda.cuModuleGetFunction(&s->handle, module, k->name);
        if (error == CUDA_SUCCESS && k->shared_bytes > 48 << 10)
            error = d->cuda.cuFuncSetAttribute(
                s->handle, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, k->shared_bytes);
        if (error != CUDA_SUCCESS)
            return rt_err(e, "%s does not take the kernel %s: %s", d->name, k->name,
                          rt_cuda_text(&d->cuda, error));
        s->kernel = k;
    }
    return true;
}

static bool open_memory(RtDevice *d, size_t batch_bytes, RtErr *e)
{
    size_t free_bytes = 0, total;
    char needs[RT_NUMBER_CHARS], has[RT_NUMBER_CHARS];
    d->taken = rt_device_bytes(d->run->program->arena_bytes);
    d->bytes = d->taken + batch_bytes;
    CUresult error = d->cuda.cuMemGetInfo(&free_bytes, &total);
    bool fits = error == CUDA_SUCCESS && free_bytes >= d->bytes;
    if (fits)
        error = d->cuda.cuMemAlloc(&d->arena, d->bytes);
    if (fits && error == CUDA_SUCCESS)
        error = d->cuda.cuMemsetD8(d->arena, 0, d->bytes);
    if (fits && error == CUDA_SUCCESS)
        return true;
    if (fits && error != CUDA_ERROR_OUT_OF_MEMORY)
        return rt_err(e, "%s gives no memory: %s", d->name, rt_cuda_text(&d->cuda, error));
    return rt_err(e, "the run takes %s of memory, and %s has %s free",
                  rt_bytes_text(needs, (double)d->bytes), d->name,
                  rt_bytes_text(has, (double)free_bytes));
}

static bool open_streams(RtDevice *d, RtErr *e)
{
    const RtCuda *c = &d->cuda;
    CUresult error = c->cuStreamCreate(&d->stream, CU_STREAM_NON_BLOCKING);
    if (error == CUDA_SUCCESS)
        error = c->cuStreamCreate(&d->copies, CU_STREAM_NON_BLOCKING);
    if (error == CUDA_SUCCESS)
        error = c->cuEventCreate(&d->copied, CU_EVENT_DISABLE_TIMING);
    if (error == CUDA_SUCCESS)
        error = c->cuEventCreate(&d->launched[0], CU_EVENT_DISABLE_TIMING);
    if (error == CUDA_SUCCESS)
        error = c->cuEventCreate(&d->launched[1], CU_EVENT_DISABLE_TIMING);
    return error == CUDA_SUCCESS ||
           rt_err(e, "%s gives no stream: %s", d->name, rt_cuda_text(c, error));
}

static bool open_gpu(RtDevice *d, int ordinal, RtErr *e)
{
    const RtCuda *c = &d->cuda;
    CUdevice device;
    CUcontext context;
    int major = 0, minor = 0;
    CUresult error = c->cuDeviceGet(&device, ordinal);
    d->ordinal = ordinal;
    if (error == CUDA_SUCCESS)
        error = c->cuDeviceGetName(d->name, (int)sizeof d->name, device);
    if (error == CUDA_SUCCESS)
        error =
            c->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    if (error == CUDA_SUCCESS)
        error =
            c->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    d->arch = 10 * major + minor;
    if (error == CUDA_SUCCESS)
        error = c->cuDevicePrimaryCtxRetain(&context, device);
    if (error == CUDA_SUCCESS)
        error = c->cuCtxSetCurrent(context);
    return error == CUDA_SUCCESS ||
           rt_err(e, "GPU %d cannot be used: %s", ordinal, rt_cuda_text(c, error));
}

static bool host_memory(RtDevice *d, unsigned char **memory, size_t bytes, RtErr *e)
{
    void *at = NULL;
    CUresult error = d->cuda.cuMemHostAlloc(&at, bytes, 0);
    *memory = at;
    return error == CUDA_SUCCESS ||
           rt_err(e, "%s gives no memory for numbers: %s", d->name, rt_cuda_text(&d->cuda, error));
}

/* What goes in and out of a graph, one after the other, in memory of the host that the GPU reaches. */
static bool open_numbers(RtDevice *d, RtErr *e)
{
    const MpcProgram *p = d->run->program;
    d->numbers = rt_alloc_zero((size_t)p->n_graph_rows + 1, sizeof *d->numbers);
    for (int g = 0; g < p->n_graph_rows; g++) {
        const MpcGraphRow *row = &p->graph_rows[g];
        size_t in = 0, out = 0;
        for (int i = 0; i < row->n_in; i++)
            in += row->in[i].bytes;
        for (int i = 0; i < row->n_out; i++)
            out += row->out[i].bytes;
        if ((in && !host_memory(d, &d->numbers[g].in, in, e)) ||
            (out && !host_memory(d, &d->numbers[g].out, out, e)))
            return false;
    }
    return true;
}

RtDevice *rt_device_open(MpcRun *r, int ordinal, size_t batch_bytes, RtErr *e)
{
    RtDevice *d = rt_alloc_zero(1, sizeof *d);
    int count = 0;
    d->run = r;
    if (!rt_cuda_open(&d->cuda, e)) {
        free(d);
        return NULL;
    }
    CUresult error = d->cuda.cuInit(0);
    if (error == CUDA_SUCCESS)
        error = d->cuda.cuDeviceGetCount(&count);
    if (error != CUDA_SUCCESS && error != CUDA_ERROR_NO_DEVICE)
        rt_err(e, "the NVIDIA driver cannot be used: %s", rt_cuda_text(&d->cuda, error));
    else if (count == 0)
        rt_err(e, "the NVIDIA driver finds no GPU");
    else if (ordinal >= count)
        rt_err(e, "there is no GPU %d; there %s %d", ordinal, count == 1 ? "is" : "are", count);
    for (int i = ordinal < 0 ? 0 : ordinal; i < count && (ordinal < 0 || i == ordinal); i++)
        if (open_gpu(d, i, e) && open_memory(d, batch_bytes, e) && load_kernels(d, e) &&
            open_streams(d, e) && open_numbers(d, e))
            return d;
    free(d);
    return NULL;
}

const char *rt_device_name(const RtDevice *d)
{
    return d ? d->name : "";
}

const char *rt_device_log_name(const RtDevice *d, char text[RT_NUMBER_CHARS])
{
    if (!d)
        return "cpu";
    snprintf(text, RT_NUMBER_CHARS, "cuda:%d", d->ordinal);
    return text;
}

unsigned char *rt_device_arena(const RtDevice *d)
{
    return (unsigned char *)(uintptr_t)d->arena;
}

/* ---- memory ---- */

void *rt_device_take(RtDevice *d, size_t bytes)
{
    size_t at = d->taken;
    d->taken += rt_device_bytes(bytes);
    if (d->taken > d->bytes)
        mpc_fail(d->run, NULL, "the batches take more of the GPU's memory than was planned");
    return rt_device_arena(d) + at;
}

/* Whole pages. A system that has none to pin copies through memory of the driver's own, more slowly. */
void rt_device_pin(RtDevice *d, unsigned char *memory, size_t bytes)
{
    size_t before = (uintptr_t)memory % PAGE;
    if (d && bytes > 0)
        (void)d->cuda.cuMemHostRegister(memory - before, (before + bytes + PAGE - 1) / PAGE * PAGE,
                                        0);
}

/* The place of the batch before the last one is written again: who read it was launched before the last one came. */
void rt_device_copy_in(RtDevice *d, void *to, const void *from, size_t bytes)
{
    const RtCuda *c = &d->cuda;
    unsigned turn = d->batches++ % 2;
    check(d, c->cuEventRecord(d->launched[turn], d->stream), "before a batch");
    if (d->batches > 1)
        check(d, c->cuStreamWaitEvent(d->copies, d->launched[!turn], 0), "before a batch");
    check(d, c->cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)to, from, bytes, d->copies),
          "while it took a batch");
    check(d, c->cuEventRecord(d->copied, d->copies), "behind a batch");
    check(d, c->cuStreamWaitEvent(d->stream, d->copied, 0), "behind a batch");
}

void rt_device_write(RtDevice *d, size_t offset, size_t bytes)
{
    if (!d || bytes == 0)
        return;
    check(d, d->cuda.cuStreamSynchronize(d->stream), "in a kernel");
    check(d, d->cuda.cuMemcpyHtoD(d->arena + offset, d->run->mirror + offset, bytes),
          "while it took tensors");
}

void rt_device_read(RtDevice *d, size_t offset, size_t bytes)
{
    if (!d || bytes == 0)
        return;
    check(d, d->cuda.cuStreamSynchronize(d->stream), "in a kernel");
    check(d, d->cuda.cuMemcpyDtoH(d->run->mirror + offset, d->arena + offset, bytes),
          "while it gave tensors back");
}

/* ---- kernels ---- */

void rt_device_run(RtDevice *d, const MpcCall *calls, int n)
{
    for (int i = 0; i < n; i++) {
        const Slot *s = &d->slots[slot_of(d, calls[i].kernel)];
        if (!s->function)
            mpc_fail(d->run, NULL, "a kernel was called that the program does not list");
        if (!s->kernel || calls[i].tiles == 0)
            continue;
        MpcGrid g = s->kernel->grid(calls[i].args);
        void *parameters[] = {(void *)(uintptr_t)calls[i].args};
        if (g.x == 0 || g.y == 0 || g.z == 0)
            continue;
        check_kernel(d,
                     d->cuda.cuLaunchKernel(s->handle, g.x, g.y, g.z, (unsigned)s->kernel->threads,
                                            1, 1, (unsigned)s->kernel->shared_bytes, d->stream,
                                            parameters, NULL),
                     s);
    }
}

/* ---- graphs ---- */

static Replay *replay_of(RtDevice *d, int graph, const MpcBatch *batch)
{
    int64_t n = batch ? batch->n : 0;
    const void *place = batch ? batch->rng : NULL;
    for (int i = 0; i < d->n_replays; i++) {
        Replay *r = &d->replays[i];
        if (r->graph == graph && r->n == n && r->batch == place)
            return r;
    }
    if (d->n_replays == d->cap_replays) {
        d->cap_replays = 2 * d->cap_replays + 8;
        d->replays = rt_grow(d->replays, (size_t)d->cap_replays * sizeof *d->replays);
    }
    d->replays[d->n_replays] = (Replay){graph, n, place, NULL};
    return &d->replays[d->n_replays++];
}

static void numbers_to_gpu(RtDevice *d, int graph)
{
    const MpcGraphRow *g = &d->run->program->graph_rows[graph];
    const unsigned char *at = d->numbers[graph].in;
    for (int i = 0; i < g->n_in; at += g->in[i++].bytes)
        check_graph(
            d, d->cuda.cuMemcpyHtoDAsync(d->arena + g->in[i].offset, at, g->in[i].bytes, d->stream),
            graph);
}

static void numbers_from_gpu(RtDevice *d, int graph)
{
    const MpcGraphRow *g = &d->run->program->graph_rows[graph];
    unsigned char *at = d->numbers[graph].out;
    for (int i = 0; i < g->n_out; at += g->out[i++].bytes)
        check_graph(
            d,
            d->cuda.cuMemcpyDtoHAsync(at, d->arena + g->out[i].offset, g->out[i].bytes, d->stream),
            graph);
}

static void take_numbers(RtDevice *d, int graph)
{
    const MpcGraphRow *g = &d->run->program->graph_rows[graph];
    Numbers *numbers = &d->numbers[graph];
    unsigned char *at = numbers->in;
    if (g->n_in > 0 && numbers->pending)
        check_graph(d, d->cuda.cuStreamSynchronize(d->stream), graph);
    for (int i = 0; i < g->n_in; at += g->in[i++].bytes)
        memcpy(at, d->run->mirror + g->in[i].offset, g->in[i].bytes);
    numbers->pending = true;
}

static void give_numbers(RtDevice *d, int graph)
{
    const MpcGraphRow *g = &d->run->program->graph_rows[graph];
    const unsigned char *at = d->numbers[graph].out;
    if (g->n_out == 0)
        return;
    check_graph(d, d->cuda.cuStreamSynchronize(d->stream), graph);
    d->numbers[graph].pending = false;
    for (int i = 0; i < g->n_out; at += g->out[i++].bytes)
        memcpy(d->run->mirror + g->out[i].offset, at, g->out[i].bytes);
}

bool rt_device_graph_begin(RtDevice *d, int graph, const MpcBatch *batch)
{
    int before = d->n_replays;
    Replay *r = replay_of(d, graph, batch);
    bool is_new = d->n_replays > before;
    take_numbers(d, graph);
    if (r->instance) {
        check_graph(d, d->cuda.cuGraphLaunch(r->instance, d->stream), graph);
        give_numbers(d, graph);
        return false;
    }
    if (!is_new) {
        check_graph(d, d->cuda.cuStreamBeginCapture(d->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                    graph);
        d->capturing = r;
    }
    numbers_to_gpu(d, graph);
    return true;
}

void rt_device_graph_end(RtDevice *d, int graph)
{
    const RtCuda *c = &d->cuda;
    numbers_from_gpu(d, graph);
    if (d->capturing) {
        CUgraph captured;
        check_graph(d, c->cuStreamEndCapture(d->stream, &captured), graph);
        check_graph(d, c->cuGraphInstantiateWithFlags(&d->capturing->instance, captured, 0), graph);
        check_graph(d, c->cuGraphLaunch(d->capturing->instance, d->stream), graph);
        d->capturing = NULL;
    }
    give_numbers(d, graph);
}
