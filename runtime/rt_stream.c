/* rt_stream.c: reads a file that may be packed with gzip (told by its first bytes, never by its name).
 * A cut or damaged archive is an error, not an early end. */
#include "rt_data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { PIECE = 1 << 16, GZ_BUFFER = 1 << 17 };

bool rt_stream_open(RtStream *s, const char *path, RtErr *e)
{
    *s = (RtStream){.path = path};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        return rt_err_errno(e, "cannot open '%s'", path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return rt_err(e, "'%s' is not a file", path);
    }
    unsigned char magic[2];
    s->size = (uint64_t)st.st_size;
    s->packed = pread(fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    s->gz = gzdopen(fd, "rb");
    if (!s->gz) {
        close(fd);
        return rt_err(e, "out of memory while opening '%s'", path);
    }
    gzbuffer(s->gz, GZ_BUFFER);
    s->buffer = rt_alloc(PIECE);
    return true;
}

void rt_stream_close(RtStream *s)
{
    if (s->gz)
        gzclose_r(s->gz);
    free(s->buffer);
    *s = (RtStream){0};
}

static bool damaged(RtStream *s, RtErr *e)
{
    int error = Z_OK;
    const char *said = gzerror(s->gz, &error);
    if (error == Z_ERRNO)
        return rt_err_errno(e, "cannot read '%s'", s->path);
    /* zlib puts the file's name (here "<fd:3>") before its own words. */
    const char *colon = strstr(said, ": ");
    if (error == Z_BUF_ERROR)
        rt_err(e, "'%s' is truncated: the gzip data end too soon", s->path);
    else
        rt_err(e, "'%s' is damaged: corrupt gzip data (%s)", s->path, colon ? colon + 2 : said);
    rt_hint(e, "fetch the file again, and test it with: gzip -t");
    return false;
}

bool rt_stream_read(RtStream *s, void *out, size_t bytes, size_t *got, RtErr *e)
{
    unsigned char *to = out;
    *got = 0;
    while (*got < bytes && s->at < s->end) {
        size_t n = s->end - s->at < bytes - *got ? s->end - s->at : bytes - *got;
        memcpy(to + *got, s->buffer + s->at, n);
        s->at += n;
        *got += n;
    }
    while (*got < bytes) {
        size_t left = bytes - *got;
        int n = gzread(s->gz, to + *got, left > 1 << 30 ? 1 << 30 : (unsigned)left);
        if (n < 0)
            return damaged(s, e);
        if (n == 0) {
            /* The end of a cut archive shows as Z_BUF_ERROR only. */
            int error = Z_OK;
            gzerror(s->gz, &error);
            return error == Z_OK || error == Z_STREAM_END ? true : damaged(s, e);
        }
        *got += (size_t)n;
    }
    return true;
}

bool rt_stream_fill(RtStream *s, RtErr *e)
{
    size_t got;
    s->at = s->end = 0;
    bool ok = rt_stream_read(s, s->buffer, PIECE, &got, e);
    s->end = ok ? got : 0;
    return ok;
}
