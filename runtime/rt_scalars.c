/* rt_scalars.c: the numbers of the log once more, each with a tag and a step, for those who draw curves:
 * `--log csv` prints them, `--log tensorboard` writes an event file into the folder of the run. Both have the
 * same tags: train/loss, eval/validation_set/accuracy. */
#include "rt_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_csv(const MpcRun *r)
{
    return r->rt->options.console == RT_CONSOLE_csv;
}

void rt_scalars_open(MpcRun *r)
{
    MpcRuntime *rt = r->rt;
    RtErr e;
    rt->events.fd = -1;
    if (is_csv(r))
        printf("step,epoch,tag,value\n");
    if (rt->options.console != RT_CONSOLE_tensorboard || !rt->out_dir)
        return;
    if (!rt_events_open(&rt->events, rt->out_dir, r->step ? r->step + 1 : 0, &e)) {
        rt_events_close(&rt->events);
        rt_warn(r, "%s; the run goes on without it", e.text);
    }
}

void rt_scalars_begin(MpcRun *r)
{
    if (r->rt->events.fd >= 0)
        rt_events_begin(&r->rt->events, r->step);
}

void rt_scalar(MpcRun *r, const char *group, const char *set, const char *name, double value)
{
    char tag[512], number[RT_NUMBER_CHARS];
    bool csv = is_csv(r);
    if (!csv && r->rt->events.fd < 0)
        return;
    snprintf(tag, sizeof tag, "%s/%s%s%s", group, set ? set : "", set ? "/" : "", name);
    if (csv)
        printf("%" PRId64 ",%" PRId64 ",%s,%s\n", r->step, rt_epochs_begun(r), tag,
               rt_number(number, value));
    else
        rt_events_scalar(&r->rt->events, tag, value);
}

void rt_scalars_end(MpcRun *r)
{
    MpcRuntime *rt = r->rt;
    if (is_csv(r))
        fflush(stdout);
    if (rt->events.fd < 0 || rt_events_write(&rt->events))
        return;
    int error = errno;
    rt_events_close(&rt->events);
    rt_warn(r, "cannot write the event file in '%s': %s; the run goes on without it", rt->out_dir,
            strerror(error));
}
