/* test_ir_verify.c: a sound module passes the verifier, and each way to break it is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/ir.h"

typedef struct Sound {
    Arena *arena;
    Diag *diag;
    Module *m;
    Graph *g; /* @step */
} Sound;

static Sound sound_module(void)
{
    const char *root = getenv("MPC_SOURCE_DIR");
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/ir/step.ir", root != NULL ? root : ".");
    Sound s = {.arena = arena_new()};
    s.diag = diag_new(s.arena, NULL, DIAG_COLOR_never, DIAG_FORMAT_text);
    s.m = module_read(s.arena, s.diag, path);
    if (s.m == NULL) {
        fail_msg("%s", diag_text(s.diag));
    }
    s.g = module_find_graph(s.m, "step");
    return s;
}

static Node *find(Graph *g, Op op)
{
    for (int i = 0; i < g->nnodes; i++) {
        if (g->nodes[i]->op == op) {
            return g->nodes[i];
        }
    }
    fail_msg("no %s", op_info[op].name);
    return NULL;
}

/* ---- ways to break a module ------------------------------------------------------------------ */

static void wrong_type(Sound *s)
{
    find(s->g, OP_mul)->dtype = DT_f16;
}

static void wrong_shape(Sound *s)
{
    find(s->g, OP_linear)->dims.d[1] = dim_of(11);
}

static void unknown_symbol(Sound *s)
{
    find(s->g, OP_linear)->dims.d[0].sym[0] = 3;
}

static void no_type(Sound *s)
{
    find(s->g, OP_arg)->dtype = DT_none;
}

static void wrong_order(Sound *s)
{
    Node *n = s->g->nodes[4];
    s->g->nodes[4] = s->g->nodes[6];
    s->g->nodes[6] = n;
}

static void foreign_operand(Sound *s)
{
    find(s->g, OP_mul)->in[0] = module_find_graph(s->m, "eval")->nodes[3];
}

static void missing_operand(Sound *s)
{
    find(s->g, OP_mul)->in[1] = NULL;
}

static void too_few(Sound *s)
{
    find(s->g, OP_mul)->nin = 1;
}

static void twice_in_list(Sound *s)
{
    s->g->nodes[5] = s->g->nodes[4];
}

static void foreign_attribute(Sound *s)
{
    attrs_set_int(s->arena, &find(s->g, OP_mul)->attrs, ATTR_axis, 0);
}

static void disordered_attributes(Sound *s)
{
    Attrs *as = &find(s->g, OP_clip_grad_norm)->attrs;
    Attr a = as->v[0];
    as->v[0] = as->v[1];
    as->v[1] = a;
}

static void value_missing(Sound *s)
{
    find(s->g, OP_const)->attrs.n = 0;
}

static void two_roles(Sound *s)
{
    attrs_set_str(s->arena, &find(s->g, OP_arg)->attrs, ATTR_param, "fc.weight");
}

static void same_argument(Sound *s)
{
    s->g->nodes[1]->attrs = s->g->nodes[0]->attrs;
}

static void unknown_param(Sound *s)
{
    attrs_set_str(s->arena, &s->g->nodes[2]->attrs, ATTR_param, "fc.wight");
}

static void tensor_shape(Sound *s)
{
    module_find_tensor(s->m, "fc.weight")->dims.d[0] = dim_of(12);
}

static void symbolic_tensor(Sound *s)
{
    module_find_tensor(s->m, "fc.weight")->dims.d[0].sym[0] = 1;
}

static void same_tensor(Sound *s)
{
    module_tensor(s->m, "fc.bias", TENSOR_param, DT_f32, NULL);
}

static void result_lost(Sound *s)
{
    s->g->results[0].value = module_find_graph(s->m, "eval")->nodes[0];
}

static void result_no_scalar(Sound *s)
{
    s->g->results[0].value = find(s->g, OP_linear);
}

static void result_of_grads(Sound *s)
{
    s->g->results[0].value = find(s->g, OP_backward);
}

static void state_unknown(Sound *s)
{
    graph_result(s->g, RESULT_State, "nothing", s->g->nodes[2]);
}

static void field_of_step(Sound *s)
{
    graph_result(s->g, RESULT_Field, "image", s->g->nodes[0]);
}

static void no_optimizer(Sound *s)
{
    attrs_set_str(s->arena, &find(s->g, OP_optimizer_step)->attrs, ATTR_optimizer, "adam");
}

static void grads_as_tensor(Sound *s)
{
    Node *n = find(s->g, OP_clip_grad_norm);
    n->op = OP_neg;
    n->attrs.n = 0;
}

static void loader_of_nothing(Sound *s)
{
    attrs_set_str(s->arena, &module_find(s->m, DECL_loader, "train")->attrs, ATTR_dataset, "mnist");
}

static void kind_missing(Sound *s)
{
    module_find(s->m, DECL_optimizer, "optimizer")->attrs.n = 0;
}

static void values_missing(Sound *s)
{
    module_find(s->m, DECL_scheduler, "schedule")->nvalues = 0;
}

static void unknown_function(Sound *s)
{
    s->m->host.v[0]->expr =
        host_expr(s->arena, HE_call, "sin", 1, (HostExpr *[]){host_num(s->arena, 1, HT_int)});
}

static void expression_missing(Sound *s)
{
    s->m->host.v[0]->expr = NULL;
}

static void wrong_var_type(Sound *s)
{
    module_find_var(s->m, "accuracy")->type = HT_int;
}

static void call_outside(Sound *s)
{
    host_stmt(s->m, &s->m->host, HS_call, loc_none())->target = "step";
}

static void schedule_unknown(Sound *s)
{
    host_stmt(s->m, &s->m->host, HS_schedule, loc_none())->target = "linear";
}

static void save_number(Sound *s)
{
    host_stmt(s->m, &s->m->host, HS_save, loc_none())->expr = host_num(s->arena, 1, HT_int);
}

static HostMeasure *measure(Sound *s)
{
    for (int i = 0; i < s->m->host.n; i++) {
        for (int k = 0; k < s->m->host.v[i]->body.n; k++) {
            if (s->m->host.v[i]->body.v[k]->kind == HS_evaluate) {
                return &s->m->host.v[i]->body.v[k]->measures[0];
            }
        }
    }
    fail_msg("nothing is evaluated");
    return NULL;
}

static void measure_unknown(Sound *s)
{
    measure(s)->from[0] = "accuracy.answers";
}

static void measure_of_number(Sound *s)
{
    *measure(s) = (HostMeasure){.key = "f1", .metric = METRIC_f1, .from = {"accuracy", "accuracy"}};
    attrs_set_int(s->arena, &measure(s)->attrs, ATTR_classes, 10);
}

static void same_graph(Sound *s)
{
    module_graph(s->m, graph_new(s->arena, "step", GRAPH_Step));
}

static void no_such_field(Sound *s)
{
    attrs_set_str(s->arena, &s->g->nodes[0]->attrs, ATTR_batch, "picture");
}

static void other_field_type(Sound *s)
{
    attrs_set_strs(s->arena, &module_find(s->m, DECL_data, "digits")->attrs, ATTR_fields, 2,
                   (const char *[]){"image: f32[8, 8]", "label: i32"});
}

static void no_field(Sound *s)
{
    attrs_set_strs(s->arena, &module_find(s->m, DECL_data, "digits")->attrs, ATTR_fields, 2,
                   (const char *[]){"image: f32[64", "label: i32"});
}

static void part_of_itself(Sound *s)
{
    attrs_set_str(s->arena, &module_find(s->m, DECL_data, "digits")->attrs, ATTR_of, "digits");
}

static const struct {
    void (*break_it)(Sound *s);
    const char *says;
} broken[] = {
    {wrong_type, "%6 (mul): has type f16, and its operands give f32"},
    {wrong_shape, "%4 (linear): has shape [B,11], and its operands give [B,10]"},
    {unknown_symbol, "its op, type or shape is none"},
    {no_type, "%0 (arg): its op, type or shape is none"},
    {wrong_order, "is not defined above"},
    {foreign_operand, "%6 (mul): operand 1 is not defined above"},
    {missing_operand, "%6 (mul): operand 2 is not defined above"},
    {too_few, "mul: takes 2 operands, not 1"},
    {twice_in_list, "stands in two places"},
    {foreign_attribute, "%6 (mul): does not take the attribute axis"},
    {disordered_attributes, "attributes out of order"},
    {value_missing, "%5 (const): has no value"},
    {two_roles, "an argument has exactly one role"},
    {same_argument, "%1 (arg): is the same argument as %0"},
    {unknown_param, "there is no tensor 'fc.wight'"},
    {tensor_shape, "'fc.weight' is f32[12,64], not f32[10,64]"},
    {symbolic_tensor, "tensor fc.weight: its shape is none"},
    {same_tensor, "tensor fc.bias is declared twice"},
    {result_lost, "result loss is not computed"},
    {result_no_scalar, "result loss goes to the host program, and is no scalar"},
    {result_of_grads, "result loss is a set of gradients"},
    {state_unknown, "there is no tensor 'nothing'"},
    {field_of_step, "a prepare graph gives fields and nothing else, a step none"},
    {no_optimizer, "there is no optimizer 'adam'"},
    {grads_as_tensor, "is a set of gradients, not a tensor"},
    {loader_of_nothing, "loader train: there is no data 'mnist'"},
    {kind_missing, "optimizer optimizer: no kind is given"},
    {values_missing, "as many values as names are needed"},
    {unknown_function, "'sin' is no operation on plain numbers"},
    {expression_missing, "an expression is missing"},
    {wrong_var_type, "'accuracy' is of type int, not float"},
    {call_outside, "outside of a loop over batches"},
    {schedule_unknown, "there is no scheduler 'linear'"},
    {save_number, "save and load want a string"},
    {measure_unknown, "@eval gives no 'accuracy.answers'"},
    {measure_of_number, "'accuracy' is nothing that f1 could count"},
    {no_such_field, "data set digits gives no field 'picture'"},
    {other_field_type, "field 'image' of data set digits has another type or shape"},
    {no_field, "data digits: 'image: f32[64' is no field"},
    {part_of_itself, "it is a part of digits, which is not declared above"},
    {same_graph, "graph @step is given twice"},
};

static void each_break_is_found(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        Sound s = sound_module();
        assert_true(module_verify(s.m, s.diag));
        broken[i].break_it(&s);
        if (module_verify(s.m, s.diag)) {
            fail_msg("not found: %s", broken[i].says);
        }
        if (strstr(diag_text(s.diag), broken[i].says) == NULL) {
            fail_msg("no '%s' in:\n%s", broken[i].says, diag_text(s.diag));
        }
        arena_free(s.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_break_is_found)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
