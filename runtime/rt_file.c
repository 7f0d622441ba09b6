/* rt_file.c: folders and their locks, and files that are either complete under their name or not there at all.
 * Not here: reading data (rt_data*.c) and tensors (rt_safetensors.c). */
#include "rt_util.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
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

bool rt_sync_folder(const char *path, RtErr *e)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == EACCES)
        return true; /* one may write into a folder that one may not read */
    bool ok = fd >= 0 && (fsync(fd) == 0 || errno == EINVAL || errno == EROFS || errno == ENOTSUP);
    if (!ok)
        rt_err_errno(e, "cannot write the folder '%s'", path);
    if (fd >= 0)
        close(fd);
    return ok;
}

static bool sync_folder_of(const char *path, RtErr *e)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? rt_text("%.*s", (int)(slash - path) + 1, path) : rt_copy_text(".");
    bool ok = rt_sync_folder(folder, e);
    free(folder);
    return ok;
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
    ok = sync_folder_of(w->path, e);
    free(w->path);
    free(w->temporary);
    free(w->buffer);
    *w = (RtWriter){.fd = -1};
    return ok;
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

/* ---- folders ---- */

bool rt_copy_file(const char *from, const char *to, RtErr *e)
{
    char block[1 << 14];
    RtWriter w;
    ssize_t n = 0;
    int fd = open(from, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return rt_err_errno(e, "cannot read '%s'", from);
    bool ok = rt_writer_open(&w, to, e);
    while (ok && (n = read(fd, block, sizeof block)) > 0)
        if (!rt_writer_put(&w, block, (size_t)n, e)) {
            rt_writer_abort(&w);
            ok = false;
        }
    if (ok && n < 0) {
        rt_err_errno(e, "cannot read '%s'", from);
        rt_writer_abort(&w);
        ok = false;
    }
    close(fd);
    return ok && rt_writer_commit(&w, e);
}

bool rt_remove_folder(const char *path, RtErr *e)
{
    DIR *folder = opendir(path);
    const struct dirent *entry;
    bool ok = folder != NULL;
    while (ok && (errno = 0, entry = readdir(folder)) != NULL)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            ok = unlinkat(dirfd(folder), entry->d_name, 0) == 0;
    ok = ok && errno == 0 && rmdir(path) == 0;
    if (!ok)
        rt_err_errno(e, "cannot remove '%s'", path);
    if (folder)
        closedir(folder);
    return ok;
}

/* Has the file that was locked still its name? Who had it before may have removed it in between. */
static bool is_named(int fd, const char *path)
{
    struct stat open_file, named;
    return fstat(fd, &open_file) == 0 && stat(path, &named) == 0 &&
           open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

static bool in_use(int fd, const char *folder, RtErr *e)
{
    char pid[24] = "";
    ssize_t n = pread(fd, pid, sizeof pid - 1, 0);
    pid[n > 0 ? strspn(pid, "0123456789") : 0] = 0;
    rt_err(e, "the folder '%s' is in use by another run%s%s", folder, *pid ? ", process " : "",
           pid);
    rt_hint(e, "wait for its end, or name another folder with --out DIR");
    return false;
}

int rt_lock_folder(const char *path, RtErr *e)
{
    char *name = rt_text("%s/.lock", path), pid[24];
    for (;;) {
        int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        bool ok = fd >= 0 || rt_err_errno(e, "cannot write '%s'", name);
        /* A file system without locks is no reason not to train. */
        if (ok && flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
            ok = in_use(fd, path, e);
        if (ok && !is_named(fd, name)) {
            close(fd);
            continue;
        }
        int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
        if (ok && (ftruncate(fd, 0) != 0 || !rt_write_all(fd, pid, (size_t)n)))
            ok = rt_err_errno(e, "cannot write '%s'", name);
        if (!ok && fd >= 0)
            close(fd);
        free(name);
        return ok ? fd : -1;
    }
}

void rt_unlock_folder(const char *path, int lock)
{
    char *name = rt_text("%s/.lock", path);
    if (lock >= 0) {
        unlink(name);
        close(lock);
    }
    free(name);
}
