/* unit_text.c: a kernel's comment, the struct of its arguments, its functions. */
#include <string.h>

#include "codegen/target.h"
#include "codegen/unit.h"
#include "ir/base/strutil.h"

enum { COMMENT_WIDTH = 100 };

bool unit_spans(const Unit *u)
{
    const Kernel *k = &u->k;
    int rows = k->kind == KERNEL_Map && k->space.rank > 1 ? k->space.rank - 1
               : k->kind == KERNEL_Row                    ? k->space.rank - 1
                                                          : k->space.rank;
    int64_t n = 1;
    for (int i = 0; i < rows; i++) {
        if (k->any_size || !dim_is_const(k->space.d[i])) {
            return true;
        }
        n *= k->space.d[i].k;
    }
    return n > u->each;
}

/* ---- the comment ----------------------------------------------------------------------------------- */

/* Lines of a comment, broken at spaces. */
static void comment_lines(Emit *e, const char *first, const char *text)
{
    const char *lead = first;
    text = comment_text(e->arena, text);
    while (*text != 0) {
        size_t n = strlen(text);
        if (n > COMMENT_WIDTH - 3) {
            n = COMMENT_WIDTH - 3;
            while (n > 0 && text[n] != ' ') {
                n--;
            }
            n = n > 0 ? n : COMMENT_WIDTH - 3;
        }
        ln(e, "%s%.*s", lead, (int)n, text);
        text += n;
        while (*text == ' ') {
            text++;
        }
        lead = " * ";
    }
}

static const char *operand_text(Emit *e, const Unit *u, int i)
{
    const Buffer *b = u->first->buffers[i];
    return arena_printf(e->arena, "%s %s %s", u->pointer[i],
                        shape_text(e->arena, u->graph, &b->dims),
                        dtype_info[u->k.operands[i].dtype].name);
}

static const char *shapes_text(Emit *e, const Unit *u)
{
    const char *in = NULL, *out = NULL;
    for (int i = 0; i < u->k.noperands; i++) {
        bool packed = u->k.kind == KERNEL_Contract && (i == u->k.packed_a || i == u->k.packed_b);
        if (packed || !u->ever_pointer[u->shared[i]]) {
            continue;
        }
        const char **side = u->k.operands[i].written ? &out : &in;
        *side = *side == NULL ? operand_text(e, u, i)
                              : arena_printf(e->arena, "%s, %s", *side, operand_text(e, u, i));
    }
    return arena_printf(e->arena, "%s -> %s", in != NULL ? in : "()", out != NULL ? out : "()");
}

static void comment(Emit *e, const Unit *u)
{
    const Kernel *k = &u->k;
    const char *what = k->what != NULL ? k->what : k->name;
    if (k->loc.line > 0) {
        what = arena_printf(e->arena, "%s: %s", line_text(e->arena, e->m, k->loc), what);
    }
    comment_lines(e, "/* ", what);
    comment_lines(e, " * ", shapes_text(e, u));
    if (k->why != NULL && k->why[0] != 0) {
        comment_lines(e, " * ", k->why);
    }
    const char *calls = u->ncalls > 1 ? arena_printf(e->arena, ", %d calls", u->ncalls) : "";
    ln(e, " * %s, %s%s */", size_text(e->arena, k->flops, "FLOP"),
       size_text(e->arena, k->bytes, "B"), calls);
}

static void arguments(Emit *e, const Unit *u)
{
    ln_open(e, "struct %s", u->name);
    for (int i = 0; i < u->k.noperands; i++) {
        if (u->ever_pointer[i]) {
            bool packed =
                u->k.kind == KERNEL_Contract && (i == u->k.packed_a || i == u->k.packed_b);
            ln(e, "%s%s *%s;", u->written[i] || packed ? "" : "const ",
               memory_ctype(u->k.operands[i].dtype), u->pointer[i]);
        }
    }
    for (int i = 1; i <= MAX_SYMS; i++) {
        if (u->ever_sym[i]) {
            ln(e, "int64_t %s;", u->graph->syms[i - 1].name);
        }
    }
    if (u->ever_n) {
        ln(e, "int64_t n;");
    }
    if (u->ever_seed) {
        ln(e, "uint64_t seed;");
    }
    ln_close(e, ";");
    ln_blank(e);
}

/* ---- functions ------------------------------------------------------------------------------------- */

/* Writes one function: first its body, which says what it needs, then the head in front of it. */
static Text *function(Emit *e, Unit *u, UnitPart part, void (*body)(Emit *e, Unit *u))
{
    memset(u->used_sym, 0, sizeof u->used_sym);
    memset(u->used_pointer, 0, sizeof *u->used_pointer * (size_t)u->k.noperands);
    u->used_n = u->used_seed = false;
    Text *out = e->out;
    Text *inner = text_new(e->arena), *whole = text_new(e->arena);
    inner->indent = 1;
    e->out = inner;
    body(e, u);
    e->out = whole;
    e->target->open_kernel(e, u, part, text_mentions(inner, "tile"), text_mentions(inner, "w"));
    text_puts(whole, inner->at);
    e->target->close_kernel(e);
    e->out = out;
    return whole;
}

bool unit_packs(const Unit *u)
{
    return u->k.kind == KERNEL_Contract && (u->k.packed_a >= 0 || u->k.packed_b >= 0);
}

/* The functions in e's language. */
static void spell(Emit *e, Unit *u, Text *parts[static UNIT_PARTS])
{
    UnitEmitter *const *emitters = e->target->kind[kernel_is_conv(&u->k) ? KIND_conv : u->k.kind];
    for (UnitPart part = 0; part < UNIT_PARTS; part++) {
        bool is_there = emitters[part] != NULL && (part != PART_pack || unit_packs(u));
        parts[part] = is_there ? function(e, u, part, emitters[part]) : NULL;
    }
}

void unit_emit(Emit *e, Unit *u)
{
    Text *parts[UNIT_PARTS];
    const Target *target = e->target;
    if (e->opt->gpu && u->on_gpu) { /* one struct for both: what the other language asks for, too */
        e->target = target == &target_c ? &target_cuda : &target_c;
        spell(e, u, parts);
        e->target = target;
    }
    spell(e, u, parts);
    comment(e, u);
    arguments(e, u);
    for (int i = 0; i < UNIT_PARTS; i++) {
        if (parts[i] != NULL) {
            text_puts(e->out, parts[i]->at);
            ln_blank(e);
        }
    }
}
