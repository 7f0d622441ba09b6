/* rt_file.c: folders, and files that are either complete under their name or not there at all.
 * Not here: reading data (rt_data*.c) and tensors (rt_safetensors.c). */
#include "rt_util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WRITER_BUFFER = 1 << 18 };

bool rt_is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool rt_is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool rt_make_folders(const char *path, RtErr *e)
{
    char *part = rt_copy_text(path);
    for (char *c = part + 1;; c++) {
        if (*c != '/' && *c)
            continue;
        char end = *c;
        *c = 0;
        int error = mkdir(part, 0777) == 0 ? 0 : errno;
        if (error && !rt_is_folder(part)) {
            errno = error;
            rt_err_errno(e, "cannot create the folder '%s'", part);
            free(part);
            return false;
        }
        *c = end;
        if (!end)
            break;
    }
    free(part);
    return true;
}

bool rt_write_all(int fd, const void *data, size_t bytes)
{
    const char *p = data;
    while (bytes) {
        ssize_t n = write(fd, p, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        if (n == 0) {
            errno = EIO;
            return false;
        }
        p += n;
        bytes -= (size_t)n;
    }
    return true;
}

bool rt_writer_open(RtWriter *w, const char *path, RtErr *e)
{
    *w = (RtWriter){.path = rt_copy_text(path), .fd = -1};
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path) + 1 : 0;
    w->temporary = rt_text("%.*s.%s.%ld", folder, path, path + folder, (long)getpid());
    w->fd = open(w->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (w->fd < 0) {
        rt_err_errno(e, "cannot write '%s'", path);
        rt_writer_abort(w);
        return false;
    }
    w->buffer = rt_alloc(WRITER_BUFFER);
    return true;
}

static bool flush(RtWriter *w, RtErr *e)
{
    bool ok = rt_write_all(w->fd, w->buffer, w->used);
    w->used = 0;
    return ok || rt_err_errno(e, "cannot write '%s'", w->path);
}

bool rt_writer_put(RtWriter *w, const void *data, size_t bytes, RtErr *e)
{
    if (bytes >= WRITER_BUFFER) {
        if (!flush(w, e))
            return false;
        return rt_write_all(w->fd, data, bytes) || rt_err_errno(e, "cannot write '%s'", w->path);
    }
    if (w->used + bytes > WRITER_BUFFER && !flush(w, e))
        return false;
    memcpy(w->buffer + w->used, data, bytes);
    w->used += bytes;
    return true;
}

/* The rename survives a power failure only when the folder is on disk, too. Some file systems cannot sync a
 * folder; then there is nothing more that could be done. */
static void sync_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? rt_text("%.*s", (int)(slash - path) + 1, path) : rt_copy_text(".");
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(folder);
}

bool rt_writer_commit(RtWriter *w, RtErr *e)
{
    bool ok = flush(w, e);
    if (ok && fsync(w->fd) != 0 && errno != EINVAL && errno != EROFS)
        ok = rt_err_errno(e, "cannot write '%s'", w->path);
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 && ok)
        ok = rt_err_errno(e, "cannot write '%s'", w->path);
    if (ok && rename(w->temporary, w->path) != 0)
        ok = rt_err_errno(e, "cannot write '%s'", w->path);
    if (!ok) {
        rt_writer_abort(w);
        return false;
    }
    sync_folder_of(w->path);
    free(w->path);
    free(w->temporary);
    free(w->buffer);
    *w = (RtWriter){.fd = -1};
    return true;
}

void rt_writer_abort(RtWriter *w)
{
    if (w->fd >= 0)
        close(w->fd);
    if (w->temporary)
        unlink(w->temporary);
    free(w->path);
    free(w->temporary);
    free(w->buffer);
    *w = (RtWriter){.fd = -1};
}
