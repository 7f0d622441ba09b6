/* rt_schedule.c: the learning rate of update k (from 0) as a function of k alone, one function a row of
 * abi/schedules.def, in double. Formulas as in torch.optim.lr_scheduler and transformers. */
#include "abi/mpc_rt.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

/* a: the arguments in the order of schedules.def; the result is a rate, not a factor. */
typedef double Schedule(double base, const double *a, double k);

static double sched_constant(double base, const double *a, double k)
{
    return base * (k < a[1] ? a[0] : 1);
}

static double sched_step(double base, const double *a, double k)
{
    return base * pow(a[1], floor(k / a[0]));
}

static double sched_multistep(double base, const double *a, double k)
{
    int passed = 0;
    for (int i = 0; i < (int)a[1]; i++)
        passed += a[2 + i] <= k;
    return base * pow(a[0], passed);
}

static double sched_exponential(double base, const double *a, double k)
{
    return base * pow(a[0], k);
}

static double sched_linear(double base, const double *a, double k)
{
    double total = a[2];
    return base * (total > 0 ? a[0] + (a[1] - a[0]) * fmin(k, total) / total : a[1]);
}

static double half_cosine(double high, double low, double share)
{
    return low + (high - low) * (1 + cos(pi * share)) / 2;
}

static double sched_cosine(double base, const double *a, double k)
{
    return half_cosine(base, a[1], k / a[0]);
}

static double sched_cosine_restarts(double base, const double *a, double k)
{
    double period = a[0];
    while (k >= period) {
        k -= period;
        period *= a[1];
    }
    return half_cosine(base, a[2], k / period);
}

static double sched_polynomial(double base, const double *a, double k)
{
    return base * pow(1 - fmin(k, a[0]) / a[0], a[1]);
}

static double sched_onecycle(double base, const double *a, double k)
{
    (void)base;
    double high = a[0], total = a[1], pct = a[2], start = high / a[3], low = start / a[4];
    bool linear = a[5] != 0, three = a[6] != 0;
    double end[3] = {pct * total - 1, three ? 2 * pct * total - 2 : total - 1, total - 1};
    double from[3] = {start, high, start}, to[3] = {high, three ? start : low, low};
    int phase = k <= end[0] ? 0 : k <= end[1] || !three ? 1 : 2;
    double begin = phase ? end[phase - 1] : 0;
    double share = (k - begin) / (end[phase] - begin);
    if (linear)
        return from[phase] + (to[phase] - from[phase]) * share;
    return half_cosine(from[phase], to[phase], share);
}

static double sched_cyclic(double base, const double *a, double k)
{
    (void)base;
    double up = a[2], down = a[3] > 0 ? a[3] : up;
    double cycle = floor(1 + k / (up + down)), x = 1 + k / (up + down) - cycle,
           ratio = up / (up + down);
    double height = x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
    return a[0] + (a[1] - a[0]) * height * (a[4] != 0 ? pow(0.5, cycle - 1) : 1);
}

/* k: how often the rate has fallen. A fall of no more than eps is none. */
static double sched_plateau(double base, const double *a, double k)
{
    for (int64_t i = 0; i < (int64_t)k; i++) {
        double low = fmax(base * a[0], a[4]);
        base = base - low > a[5] ? low : base;
    }
    return base;
}

bool mpc_plateau(MpcPlateau *p, const double *arg, double metric)
{
    double threshold = arg[2];
    bool greater = arg[6] != 0, absolute = arg[7] != 0;
    double goal = absolute  ? p->best + (greater ? threshold : -threshold)
                  : greater ? p->best * (1 + threshold)
                            : p->best * (1 - threshold);
    bool better = !p->begun ? !isnan(metric) : greater ? metric > goal : metric < goal;
    if (better)
        p->best = metric;
    p->begun = p->begun || better;
    p->bad = better ? 0 : p->bad + 1;
    if (p->cooling > 0) {
        p->cooling--;
        p->bad = 0;
    }
    if ((double)p->bad <= arg[1])
        return false;
    p->cooling = (int64_t)arg[3];
    p->bad = 0;
    return true;
}

/* ---- with warm-up: the first rate is 0 ---- */

static double warming(double base, double k, double warmup)
{
    return base * k / fmax(1, warmup);
}

/* Share of the way from the end of warm-up to the last update. */
static double after(double k, double warmup, double total)
{
    return (k - warmup) / fmax(1, total - warmup);
}

static double sched_constant_warmup(double base, const double *a, double k)
{
    return k < a[0] ? warming(base, k, a[0]) : base;
}

static double sched_linear_warmup(double base, const double *a, double k)
{
    if (k < a[0])
        return warming(base, k, a[0]);
    return base * fmax(0, (a[1] - k) / fmax(1, a[1] - a[0]));
}

static double sched_cosine_warmup(double base, const double *a, double k)
{
    if (k < a[0])
        return warming(base, k, a[0]);
    return base * fmax(0, 0.5 * (1 + cos(pi * a[2] * 2 * after(k, a[0], a[1]))));
}

static double sched_cosine_warmup_cycles(double base, const double *a, double k)
{
    if (k < a[0])
        return warming(base, k, a[0]);
    double share = after(k, a[0], a[1]);
    if (share >= 1)
        return 0;
    return base * fmax(0, 0.5 * (1 + cos(pi * fmod(a[2] * share, 1))));
}

static double sched_cosine_min_lr(double base, const double *a, double k)
{
    if (k < a[0])
        return warming(base, k, a[0]);
    double ratio = base > 0 ? a[3] / base : 0;
    double factor = 0.5 * (1 + cos(pi * a[2] * 2 * after(k, a[0], a[1])));
    return base * fmax(0, factor * (1 - ratio) + ratio);
}

static double sched_polynomial_warmup(double base, const double *a, double k)
{
    if (k < a[0])
        return warming(base, k, a[0]);
    if (k > a[1])
        return a[2];
    return a[2] + (base - a[2]) * pow(1 - (k - a[0]) / (a[1] - a[0]), a[3]);
}

static double sched_inverse_sqrt(double base, const double *a, double k)
{
    if (k < a[0])
        return warming(base, k, a[0]);
    double scale = a[1] > 0 ? a[1] : a[0] > 0 ? a[0] : 10000;
    return base / sqrt((k + scale - a[0]) / scale);
}

static double sched_wsd(double base, const double *a, double k)
{
    double warmup = a[0], stable = a[1], decay = a[2], low = a[3];
    bool linear = a[4] != 0;
    if (k < warmup)
        return base * (low + (1 - low) * k / fmax(1, warmup));
    if (k < warmup + stable)
        return base;
    if (k >= warmup + stable + decay)
        return base * low;
    double share = (k - warmup - stable) / fmax(1, decay);
    double factor = linear ? 1 - share : 0.5 * (1 + cos(pi * share));
    return base * fmax(0, factor * (1 - low) + low);
}

double mpc_schedule(MpcScheduleKind kind, double base, const double *arg, int64_t k)
{
    static Schedule *const table[MPC_SCHEDULE_COUNT] = {
#define SCHEDULE(name, args, defaults, torch) [MPC_SCHEDULE_##name] = sched_##name,
#include "abi/schedules.def"
    };
    return table[kind](base, arg, (double)k);
}
