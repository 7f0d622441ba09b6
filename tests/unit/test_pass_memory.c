/* test_pass_memory.c: places of transient buffers: no two that live at once overlap, the bound is the largest sum of
 * live ones, and where one order of placing leaves gaps another one is taken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ir/base/arena.h"
#include "passes/schedule.h"

typedef struct Life {
    int first, last;
    int64_t units; /* of the arena's alignment */
} Life;

/* A plan of one graph, each launch of which reads the buffers that live then. */
static Plan *planned(Arena *a, int n, const Life *life)
{
    Plan *p = ARENA_NEW(a, Plan);
    GraphPlan *gp = ARENA_NEW(a, GraphPlan);
    p->arena = a;
    p->graphs = gp;
    p->ngraphs = 1;
    gp->graph = graph_new(a, "step", GRAPH_Step);
    p->buffers = ARENA_ARRAY(a, Buffer *, n);
    for (int i = 0; i < n; i++) {
        Buffer *b = ARENA_NEW(a, Buffer);
        *b = (Buffer){.id = i, .name = arena_printf(a, "b%d", i), .graph = gp->graph};
        b->place = PLACE_transient;
        b->bytes = life[i].units * ARENA_ALIGN;
        p->buffers[p->nbuffers++] = b;
        gp->nlaunches = life[i].last >= gp->nlaunches ? life[i].last + 1 : gp->nlaunches;
    }
    gp->launches = ARENA_ARRAY(a, Launch, gp->nlaunches);
    for (int l = 0; l < gp->nlaunches; l++) {
        Kernel *k = ARENA_NEW(a, Kernel);
        KCall *call = ARENA_NEW(a, KCall);
        call->kernel = k;
        call->buffers = ARENA_ARRAY(a, const Buffer *, n);
        for (int i = 0; i < n; i++) {
            if (life[i].first == l || life[i].last == l) {
                call->buffers[k->noperands++] = p->buffers[i];
            }
        }
        gp->launches[l] = (Launch){1, call};
    }
    memory_plan(a, p, gp, PLACE_transient);
    for (int i = 0; i < n; i++) {
        const Buffer *b = p->buffers[i];
        assert_int_equal(b->first, life[i].first);
        assert_int_equal(b->last, life[i].last);
        assert_true(b->offset % ARENA_ALIGN == 0 && b->offset + b->bytes <= gp->transient_bytes);
        for (int k = 0; k < i; k++) {
            const Buffer *o = p->buffers[k];
            bool together = b->first <= o->last && o->first <= b->last;
            assert_true(!together || b->offset + b->bytes <= o->offset ||
                        o->offset + o->bytes <= b->offset);
        }
    }
    return p;
}

static void bound_is_the_fullest_launch(void **state)
{
    (void)state;
    Arena *a = arena_new();
    const Life life[] = {{0, 1, 4}, {1, 2, 3}, {2, 3, 5}, {3, 3, 1}};
    const GraphPlan *gp = planned(a, 4, life)->graphs;
    assert_int_equal(gp->lower_bound, 8 * ARENA_ALIGN); /* 3 + 5 at launch 2 */
    assert_int_equal(gp->fullest, 2);
    assert_int_equal(gp->transient_bytes, 8 * ARENA_ALIGN);
    arena_free(a);
}

/* Random lives: never below the bound, and rarely far above it. */
static void random_lives(void **state)
{
    (void)state;
    unsigned seed = 1;
    double above = 0;
    enum { TRIES = 200, MOST = 40 };
    for (int t = 0; t < TRIES; t++) {
        Arena *a = arena_new();
        Life life[MOST];
        for (int i = 0; i < MOST; i++) {
            seed = seed * 1664525u + 1013904223u;
            int first = (int)(seed >> 16) % 20;
            life[i] = (Life){first, first + (int)(seed >> 8) % 6, 1 + (int)(seed >> 20) % 50};
        }
        const GraphPlan *gp = planned(a, MOST, life)->graphs;
        assert_true(gp->transient_bytes >= gp->lower_bound);
        above += (double)gp->transient_bytes / (double)gp->lower_bound - 1;
        arena_free(a);
    }
    print_message("random plans are %.1f %% above their bound on average\n", 100 * above / TRIES);
    assert_true(above / TRIES < 0.1);
}

/* Largest first leaves a gap of 2 here, as does the largest area; the longest life first leaves none. */
static void other_orders_are_tried(void **state)
{
    (void)state;
    Arena *a = arena_new();
    const Life life[] = {{2, 3, 4}, {0, 1, 6}, {1, 3, 6}, {2, 3, 4}, {1, 3, 4}};
    const GraphPlan *gp = planned(a, 5, life)->graphs;
    assert_int_equal(gp->lower_bound, 18 * ARENA_ALIGN);
    assert_int_equal(gp->transient_bytes, gp->lower_bound);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bound_is_the_fullest_launch),
        cmocka_unit_test(random_lives),
        cmocka_unit_test(other_orders_are_tried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
