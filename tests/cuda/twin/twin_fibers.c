/* twin_fibers.c: the threads of a block as fibers (twin.h says what for).
 *
 * A fiber has a stack of its own, from a pool, and gives the CPU away only where it waits. Who may go on stands in
 * a queue, in the order that the launch asks for. */
#include "twin.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
enum { STACK = 256 << 10 };
#else
enum { STACK = 64 << 10 };
#endif

#if defined(__x86_64__)
/* Saves what the ABI wants kept on the old stack and takes it from the new one. */
void twin_switch(void **save, void *to);
__asm__(".text\n"
        ".p2align 4\n"
        ".type twin_switch,@function\n"
        "twin_switch:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    mov %rsp,(%rdi)\n"
        "    mov %rsi,%rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size twin_switch,.-twin_switch\n");

typedef void *Context;

static void context_make(Context *c, unsigned char *stack, void (*entry)(void))
{
    void **top = (void **)(void *)(stack + STACK);
    *--top = NULL; /* the alignment that a call leaves */
    memcpy(--top, &entry, sizeof *top);
    top -= 6;
    memset(top, 0, 6 * sizeof *top);
    *c = top;
}

static void context_switch(Context *from, const Context *to)
{
    twin_switch(from, *to);
}
#else
#include <ucontext.h>

typedef ucontext_t Context;

static void context_make(Context *c, unsigned char *stack, void (*entry)(void))
{
    getcontext(c);
    c->uc_stack.ss_sp = stack;
    c->uc_stack.ss_size = STACK;
    c->uc_link = NULL;
    makecontext(c, entry, 0);
}

static void context_switch(Context *from, const Context *to)
{
    swapcontext(from, to);
}
#endif

/* Asynchronous copies of a thread, oldest first; `group` counts what it has committed. */
enum { COPIES = 64 };
typedef struct Copies {
    struct {
        unsigned char *to;
        const unsigned char *from;
        int group;
    } copy[COPIES];
    int n, group;
} Copies;

typedef struct Fiber {
    Context context;
    unsigned char *stack; /* NULL: not begun */
    Copies copies;
} Fiber;

typedef struct Warp {
    int alive, met, turn, line;
    TwinWords words[2][TWIN_WARP];
} Warp;

static struct {
    const TwinLaunch *launch;
    Context main;
    Fiber fiber[TWIN_MAX_THREADS];
    Warp warp[TWIN_MAX_THREADS / TWIN_WARP];
    unsigned alive;
    unsigned ready[TWIN_MAX_THREADS], first, count; /* a ring of those that may go on */
    unsigned waiting[TWIN_MAX_THREADS], n_waiting;  /* at the barrier */
    int barrier_line;
    unsigned char *stacks[TWIN_MAX_THREADS];
    int n_stacks;
    uint32_t random;
} state;

TwinNow twin_now;
_Alignas(128) unsigned char twin_dynamic_shared[TWIN_DYNAMIC_SHARED];

void twin_fault(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "twin: kernel %s, block (%u, %u, %u), thread %u: ", state.launch->name,
            twin_now.block[0], twin_now.block[1], twin_now.block[2], twin_now.thread);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    fflush(stderr);
    abort();
}

/* ---- who runs ---- */

static void make_ready(unsigned thread)
{
    state.ready[(state.first + state.count++) % TWIN_MAX_THREADS] = thread;
}

static unsigned char *new_stack(void)
{
    if (state.n_stacks > 0)
        return state.stacks[--state.n_stacks];
    void *p = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (p == MAP_FAILED)
        twin_fault("no memory for its stack");
    return p;
}

static void fiber_main(void);

static void go_on(Context *from, unsigned thread)
{
    Fiber *f = &state.fiber[thread];
    if (!f->stack) {
        f->stack = new_stack();
        context_make(&f->context, f->stack, fiber_main);
    }
    twin_now.thread = thread;
    context_switch(from, &f->context);
}

static unsigned next_ready(int line)
{
    if (state.count == 0)
        twin_fault("waits at line %d for threads that never come; %u are left", line, state.alive);
    unsigned thread = state.ready[state.first];
    state.first = (state.first + 1) % TWIN_MAX_THREADS;
    state.count--;
    return thread;
}

static void wait_here(int line)
{
    unsigned me = twin_now.thread, next = next_ready(line);
    if (next != me)
        go_on(&state.fiber[me].context, next);
    twin_now.thread = me;
}

/* ---- waiting for others ---- */

static void open_barrier(void)
{
    for (unsigned i = 0; i < state.n_waiting; i++)
        make_ready(state.waiting[i]);
    state.n_waiting = 0;
}

void twin_barrier(int line)
{
    if (state.n_waiting > 0 && state.barrier_line != line)
        twin_fault("waits at the barrier of line %d, others at that of line %d", line,
                   state.barrier_line);
    state.barrier_line = line;
    if (state.alive != twin_now.threads)
        twin_fault("waits at the barrier of line %d, but threads have left", line);
    state.waiting[state.n_waiting++] = twin_now.thread;
    if (state.n_waiting == state.alive)
        open_barrier();
    wait_here(line);
}

const TwinWords *twin_meet(const uint32_t *mine, int n, int line)
{
    unsigned number = twin_now.thread / TWIN_WARP, lane = twin_now.thread % TWIN_WARP;
    Warp *w = &state.warp[number];
    int turn = w->turn;
    if (w->met > 0 && w->line != line)
        twin_fault("meets its warp at line %d, others do at line %d", line, w->line);
    if (w->alive != TWIN_WARP)
        twin_fault("meets its warp at line %d, which has %d threads left", line, w->alive);
    w->line = line;
    memcpy(w->words[turn][lane].word, mine, (size_t)n * sizeof *mine);
    if (++w->met < TWIN_WARP) {
        wait_here(line);
        return w->words[turn];
    }
    w->met = 0;
    w->turn = !turn;
    bool reverse = state.launch->order == TWIN_reverse;
    for (unsigned i = 0; i < TWIN_WARP; i++) {
        unsigned other = reverse ? TWIN_WARP - 1 - i : i;
        if (other != lane)
            make_ready(number * TWIN_WARP + other);
    }
    return w->words[turn];
}

/* ---- asynchronous copies ---- */

void twin_copy_async(void *shared, const void *from)
{
    Copies *c = &state.fiber[twin_now.thread].copies;
    if (c->n == COPIES)
        twin_fault("has %d asynchronous copies under way", COPIES);
    memset(shared, 0xff, 16);
    c->copy[c->n].to = shared;
    c->copy[c->n].from = from;
    c->copy[c->n++].group = c->group;
}

void twin_copy_commit(void)
{
    state.fiber[twin_now.thread].copies.group++;
}

void twin_copy_wait(int left)
{
    static const unsigned char zeros[16];
    Copies *c = &state.fiber[twin_now.thread].copies;
    int kept = 0;
    for (int i = 0; i < c->n; i++) {
        if (c->copy[i].group < c->group - left)
            memcpy(c->copy[i].to, c->copy[i].from ? c->copy[i].from : zeros, 16);
        else
            c->copy[kept++] = c->copy[i];
    }
    c->n = kept;
}

/* ---- ends ---- */

static void leave(void)
{
    Warp *w = &state.warp[twin_now.thread / TWIN_WARP];
    state.alive--;
    w->alive--;
    if (w->met > 0)
        twin_fault("ends while its warp waits at line %d", w->line);
    if (state.n_waiting > 0)
        twin_fault("ends while others wait at the barrier of line %d", state.barrier_line);
}

/* A thread's whole life; its stack then serves the next one. */
static void fiber_main(void)
{
    for (;;) {
        state.launch->body(state.launch->args);
        Fiber *me = &state.fiber[twin_now.thread];
        leave();
        if (state.alive == 0) {
            state.stacks[state.n_stacks++] = me->stack;
            context_switch(&me->context, &state.main);
        }
        unsigned next = next_ready(0);
        if (state.fiber[next].stack) {
            state.stacks[state.n_stacks++] = me->stack;
            go_on(&me->context, next);
        }
        state.fiber[next].stack = me->stack;
        twin_now.thread = next;
    }
}

/* ---- blocks ---- */

static unsigned draw(unsigned below)
{
    state.random = state.random * 1664525u + 1013904223u;
    return (state.random >> 8) % below;
}

static void order_threads(unsigned n)
{
    unsigned *order = state.ready;
    state.first = 0;
    state.count = n;
    for (unsigned i = 0; i < n; i++)
        order[i] = state.launch->order == TWIN_reverse ? n - 1 - i : i;
    for (unsigned i = n - 1; state.launch->order == TWIN_random && i > 0; i--) {
        unsigned j = draw(i + 1), x = order[i];
        order[i] = order[j];
        order[j] = x;
    }
}

/* All bits set: a NaN in every float type, -1 as an index. */
static void poison_shared(const TwinLaunch *l)
{
    if (l->shared < l->shared_end)
        memset(l->shared, 0xff, (size_t)(l->shared_end - l->shared));
    memset(twin_dynamic_shared, 0xff, l->dynamic);
}

static void run_block(unsigned number)
{
    const TwinLaunch *l = state.launch;
    twin_now.block[0] = number % l->grid[0];
    twin_now.block[1] = number / l->grid[0] % l->grid[1];
    twin_now.block[2] = number / l->grid[0] / l->grid[1];
    poison_shared(l);
    state.alive = l->threads;
    state.n_waiting = 0;
    for (unsigned i = 0; i < l->threads; i++) {
        state.fiber[i].stack = NULL;
        state.fiber[i].copies.n = state.fiber[i].copies.group = 0;
    }
    for (unsigned i = 0; i < l->threads; i += TWIN_WARP) {
        Warp *w = &state.warp[i / TWIN_WARP];
        w->alive = l->threads - i < TWIN_WARP ? (int)(l->threads - i) : TWIN_WARP;
        w->met = w->turn = 0;
    }
    order_threads(l->threads);
    go_on(&state.main, next_ready(0));
}

void twin_launch(const TwinLaunch *launch)
{
    state.launch = launch;
    twin_now.threads = launch->threads;
    for (int i = 0; i < 3; i++)
        twin_now.grid[i] = launch->grid[i];
    unsigned n = launch->grid[0] * launch->grid[1] * launch->grid[2];
    for (unsigned i = 0; i < n; i++)
        run_block(launch->order == TWIN_reverse ? n - 1 - i : i);
}
