/* host_resume.c: what a checkpoint needs to know of a program: the variables of its loop by name and place, and
 * two fingerprints. That of the loop follows from its statements: a place in it means nothing in another loop.
 * That of the graphs follows from what they compute; lines, reasons and names do not count. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "codegen/program.h"
#include "ir/base/strutil.h"

/* ---- variables ------------------------------------------------------------------------------------- */

static void var_emit(Emit *e, const char *type, const char *field)
{
    ln(e, "{%s, MPC_OPTION_%s, offsetof(struct Vars, %s)},", quoted(e->arena, field), type, field);
}

int host_vars_emit(Emit *e, const HostText *h)
{
    static const char *const type[] = {
        [HT_int] = "int", [HT_float] = "float", [HT_bool] = "bool", [HT_str] = "string"};
    static const struct {
        const char *type, *field;
    } plateau[] = {{"float", "best"}, {"int", "bad"}, {"int", "cooling"}, {"bool", "begun"}};
    int n = e->m->nvars + h->nfors + h->nschedulers + 1 + 2 * h->skips;
    ln_open(e, "static const MpcVar variables[] =");
    for (int i = 0; i < e->m->nvars; i++) {
        var_emit(e, type[e->m->vars[i].type], h->var[i]);
    }
    for (int i = 0; i < h->nfors; i++) {
        var_emit(e, "int", h->end[i]);
    }
    for (int i = 0; i < h->nschedulers; i++) {
        var_emit(e, "int", h->steps[i]);
        for (int k = 0; k < 4 && host_plateau(h, i); k++, n++) {
            var_emit(e, plateau[k].type,
                     arena_printf(e->arena, "%s_state.%s", h->steps[i], plateau[k].field));
        }
        if (h->skips && !host_plateau(h, i)) {
            var_emit(e, "int", arena_printf(e->arena, "%s_updates", h->steps[i]));
            n++;
        }
        if (host_skips(e, h, i)) {
            var_emit(e, "int", arena_printf(e->arena, "%s_made", h->steps[i]));
            var_emit(e, "bool", arena_printf(e->arena, "%s_skipped", h->steps[i]));
            n += 2;
        }
    }
    var_emit(e, "int", "samples");
    if (h->skips) {
        var_emit(e, "int", "updates");
        var_emit(e, "bool", "skipped");
    }
    ln_close(e, ";");
    ln_blank(e);
    return n;
}

/* ---- fingerprints ---------------------------------------------------------------------------------- */

/* FNV-1a with 64 bits. */
static uint64_t hash_bytes(uint64_t h, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (unsigned char)s[i]) * 0x100000001b3u;
    }
    return h;
}

static uint64_t hash_text(uint64_t h, const char *s)
{
    return s == NULL ? hash_bytes(h, "-", 2) : hash_bytes(h, s, strlen(s) + 1);
}

static uint64_t hash_expr(Emit *e, uint64_t h, const HostExpr *x)
{
    return hash_text(h, x != NULL ? host_expr_text(e->arena, x) : NULL);
}

static uint64_t hash_block(Emit *e, uint64_t h, const HostBlock *b)
{
    for (int i = 0; i < b->n; i++) {
        const HostStmt *s = b->v[i];
        h = hash_text(h, arena_printf(e->arena, "%d", (int)s->kind));
        h = hash_text(hash_text(hash_text(h, s->var), s->target), s->graph);
        h = hash_expr(e, hash_expr(e, h, s->expr), s->hi);
        for (int k = 0; k < s->nvars; k++) {
            h = hash_text(h, s->vars[k]);
        }
        for (int k = 0; k < s->nmeasures; k++) {
            h = hash_text(hash_text(h, s->measures[k].key),
                          metric_info[s->measures[k].metric].name);
        }
        for (int k = 0; k < s->nexprs; k++) {
            h = hash_expr(e, h, s->exprs[k]);
        }
        h = hash_block(e, hash_text(h, "{"), &s->body);
        h = hash_block(e, hash_text(h, "}{"), &s->orelse);
        h = hash_text(h, "}");
    }
    return h;
}

/* A graph's text without its places and reasons: loc(12) and why("..."). */
static uint64_t hash_graph(uint64_t h, const char *text)
{
    while (*text != 0) {
        bool loc = strncmp(text, " loc(", 5) == 0, why = strncmp(text, " why(\"", 6) == 0;
        const char *end = loc ? strchr(text, ')') : why ? strstr(text + 6, "\")") : NULL;
        if (end != NULL) {
            text = end + (loc ? 1 : 2);
            continue;
        }
        h = hash_bytes(h, text++, 1);
    }
    return h;
}

void host_fingerprints_emit(Emit *e, const HostText *h)
{
    const uint64_t basis = 0xcbf29ce484222325u;
    uint64_t graphs = basis;
    for (int i = 0; i < e->m->ngraphs; i++) {
        char *text = NULL;
        size_t n = 0;
        FILE *out = open_memstream(&text, &n);
        if (out == NULL) {
            ICE("no memory for the text of a graph");
        }
        graph_print(out, e->m->graphs[i]);
        if (fclose(out) != 0) {
            ICE("no memory for the text of a graph");
        }
        graphs = hash_graph(graphs, text);
        free(text);
    }
    if (h->epochs != NULL) {
        ln(e, ".has_epochs = true,");
    }
    ln(e, ".graphs = 0x%016llx, .loop = 0x%016llx,", (unsigned long long)graphs,
       (unsigned long long)hash_block(e, basis, &e->m->host));
}
