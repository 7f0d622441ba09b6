/* optimizers.c: the update of one parameter, a row of a table for each optimizer.
 *
 * Arithmetic is f32 (f64 for an f64 parameter); what depends on hyperparameters and the step alone, like bias
 * correction, is computed once in f64 and then rounded. Formulas and first steps are PyTorch's: momentum's
 * buffer starts as the first gradient, whatever the dampening; eps is added outside of the root. */
#include "passes/update.h"

#include "ir/base/strutil.h"

/* ---- words the formulas are written in ------------------------------------------------------------ */

static Node *add(Update *u, Node *x, Node *y)
{
    return build2(u->b, OP_add, x, y);
}

static Node *sub(Update *u, Node *x, Node *y)
{
    return build2(u->b, OP_sub, x, y);
}

static Node *mul(Update *u, Node *x, Node *y)
{
    return build2(u->b, OP_mul, x, y);
}

static Node *quotient(Update *u, Node *x, Node *y)
{
    return build2(u->b, OP_div, x, y);
}

static Node *number(Update *u, double x)
{
    return build_const(u->b, DT_f64, x);
}

/* A number of the host program, as f64: the graph's argument for it. */
static Node *host_number(Update *u, HostExpr *e)
{
    for (int i = 0; i < u->g->nnodes; i++) {
        Node *n = u->g->nodes[i];
        if (n->op != OP_arg && !u->g->late_args) {
            break;
        }
        const HostExpr *of = n->op == OP_arg ? attrs_expr(&n->attrs, ATTR_host) : NULL;
        if (of != NULL && host_expr_equal(of, e)) {
            return build_cast(u->b, n, DT_f64);
        }
    }
    Attrs attrs = {0};
    attrs_set_expr(u->c->arena, &attrs, ATTR_host, e);
    Dims scalar = {0};
    Builder b = {.graph = u->g, .loc = u->b->loc};
    return graph_first_arg(&b, DT_f64, &scalar, attrs);
}

/* A hyperparameter in f64; PyTorch's default where the declaration has none. */
static Node *hyper(Update *u, AttrId id)
{
    static const double otherwise[ATTR_COUNT] = {
        [ATTR_beta1] = 0.9, [ATTR_beta2] = 0.999, [ATTR_eps] = 1e-8};
    HostExpr *e = module_hyper(u->optimizer, u->group, id);
    if (e == NULL) {
        return number(u, otherwise[id]);
    }
    bool known;
    double x = pass_expr_const(e, &known);
    return known ? number(u, x) : host_number(u, e);
}

/* Absent, or known to be 0. */
static bool is_zero(const Update *u, AttrId id)
{
    const HostExpr *e = module_hyper(u->optimizer, u->group, id);
    bool known;
    return e == NULL || (pass_expr_const(e, &known) == 0 && known);
}

/* An f64 scalar where the arithmetic is. */
static Node *scalar(Update *u, Node *x)
{
    return build_cast(u->b, x, u->type);
}

static Node *rate(Update *u)
{
    Dims dims = {0};
    bool own = u->group != NULL && attrs_expr(&u->group->attrs, ATTR_base_lr) != NULL;
    const Decl *rated = own ? u->group : u->optimizer;
    return pass_arg(u->c, u->g, ATTR_lr, rated->name, DT_f64, &dims);
}

/* grad + weight_decay * p */
static Node *with_l2(Update *u, Node *p, Node *grad)
{
    return is_zero(u, ATTR_weight_decay)
               ? grad
               : add(u, grad, mul(u, p, scalar(u, hyper(u, ATTR_weight_decay))));
}

/* 1 - beta^(step + 1) */
static Node *bias_correction(Update *u, Node *beta)
{
    Node *t = add(u, build_cast(u->b, u->step, DT_f64), number(u, 1));
    return sub(u, number(u, 1), build2(u->b, OP_pow, beta, t));
}

/* decay * old + (1 - decay) * x */
static Node *average(Update *u, Node *old, Node *x, Node *decay)
{
    Node *rest = sub(u, number(u, 1), decay);
    return add(u, mul(u, old, scalar(u, decay)), mul(u, x, scalar(u, rest)));
}

/* ---- formulas ------------------------------------------------------------------------------------ */

static bool sgd_keeps(const Update *u)
{
    return !is_zero(u, ATTR_momentum);
}

static Node *sgd(Update *u, Node *p, Node *grad, Node *buf[MAX_BUFFERS])
{
    grad = with_l2(u, p, grad);
    Node *direction = grad;
    if (sgd_keeps(u)) {
        Node *momentum = scalar(u, hyper(u, ATTR_momentum));
        Node *share = sub(u, number(u, 1), hyper(u, ATTR_dampening));
        Node *next = add(u, mul(u, buf[0], momentum), mul(u, grad, scalar(u, share)));
        if (!is_zero(u, ATTR_dampening)) {
            Node *first = build2(u->b, OP_eq, u->step, build_const(u->b, DT_i64, 0));
            next = build3(u->b, OP_where, first, grad, next);
        }
        bool nesterov = attrs_bool(&u->optimizer->attrs, ATTR_nesterov);
        direction = nesterov ? add(u, grad, mul(u, next, momentum)) : next;
        buf[0] = next;
    }
    return sub(u, p, mul(u, direction, scalar(u, rate(u))));
}

/* p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps) */
static Node *adam_step(Update *u, Node *p, Node *grad, Node *buf[MAX_BUFFERS])
{
    Node *beta1 = hyper(u, ATTR_beta1), *beta2 = hyper(u, ATTR_beta2);
    buf[0] = average(u, buf[0], grad, beta1);
    buf[1] = average(u, buf[1], mul(u, grad, grad), beta2);
    Node *step_size = quotient(u, rate(u), bias_correction(u, beta1));
    Node *root = build1(u->b, OP_sqrt, bias_correction(u, beta2));
    Node *spread = quotient(u, build1(u->b, OP_sqrt, buf[1]), scalar(u, root));
    Node *safe = add(u, spread, scalar(u, hyper(u, ATTR_eps)));
    return sub(u, p, mul(u, quotient(u, buf[0], safe), scalar(u, step_size)));
}

static Node *adam(Update *u, Node *p, Node *grad, Node *buf[MAX_BUFFERS])
{
    return adam_step(u, p, with_l2(u, p, grad), buf);
}

static Node *adamw(Update *u, Node *p, Node *grad, Node *buf[MAX_BUFFERS])
{
    if (!is_zero(u, ATTR_weight_decay)) {
        Node *decay = mul(u, rate(u), hyper(u, ATTR_weight_decay));
        p = mul(u, p, scalar(u, sub(u, number(u, 1), decay)));
    }
    return adam_step(u, p, grad, buf);
}

/* The first update copies; all others move by a share of the way: average + (1 - decay) * (p - average). */
Node *ema_next(Update *u, Node *p, Node *average)
{
    Node *decay = hyper(u, ATTR_decay);
    if (attrs_bool(&u->optimizer->attrs, ATTR_warmup)) {
        Node *t = build_cast(u->b, u->step, DT_f64);
        Node *young = quotient(u, add(u, t, number(u, 1)), add(u, t, number(u, 10)));
        decay = build2(u->b, OP_minimum, decay, young);
    }
    Node *share = scalar(u, sub(u, number(u, 1), decay));
    Node *first = build2(u->b, OP_eq, u->step, build_const(u->b, DT_i64, 0));
    Node *moved = add(u, average, mul(u, sub(u, p, average), share));
    return build3(u->b, OP_where, first, p, moved);
}

/* clang-format off */
static const OptimizerRule rules[] = {
    {"sgd",   {"momentum_buffer"},        sgd_keeps, sgd},
    {"adam",  {"exp_avg", "exp_avg_sq"},  NULL,      adam},
    {"adamw", {"exp_avg", "exp_avg_sq"},  NULL,      adamw},
};
/* clang-format on */

const OptimizerRule *optimizer_rule(const char *kind)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (str_eq(rules[i].kind, kind)) {
            return &rules[i];
        }
    }
    return NULL;
}
