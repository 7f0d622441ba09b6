/* rt_util.h: what every part of the runtime uses: error texts, numbers that do not depend on the locale,
 * nearest names, JSON lines, files written whole or not at all. Nothing here knows of a run. */
#ifndef MPC_RT_UTIL_H
#define MPC_RT_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- errors: what happened, and what to do about it (may be empty) ---- */

typedef struct RtErr {
    char text[1200];
    char hint[1200];
} RtErr;

/* Both give false, so that a failing function can return them. The second adds errno's text. */
bool rt_err(RtErr *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool rt_err_errno(RtErr *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
void rt_hint(RtErr *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Allocation for what cannot go on without; ends the program with a sentence. */
void *rt_alloc(size_t bytes);
void *rt_alloc_zero(size_t count, size_t bytes);
void *rt_alloc_aligned(size_t bytes); /* to 64; bytes may be 0; freed by free */
void *rt_grow(void *old, size_t bytes);
char *rt_copy_text(const char *text);
char *rt_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

double rt_seconds(void); /* monotonic */

/* ---- numbers ---- */

/* Shortest digits that give the same number back; of a number that is an f32, the same f32. */
enum { RT_NUMBER_CHARS = 32 };
const char *rt_number(char buffer[RT_NUMBER_CHARS], double v);
const char *rt_bytes_text(char buffer[RT_NUMBER_CHARS], double bytes); /* "7.4 MiB" */
const char *rt_count_text(char buffer[RT_NUMBER_CHARS], int64_t n);    /* "141,200" */

/* The whole text must be one number (blanks around it allowed); nan and inf are numbers to the first. */
bool rt_parse_double(const char *text, size_t length, double *v);
bool rt_parse_int(const char *text, size_t length, int64_t *v);

/* ---- names ---- */

/* Edits (insert, delete, replace, swap neighbours) from a to b. */
int rt_distance(const char *a, const char *b);

/* Keeps the nearest of the names it is shown; near.best is NULL when none is near enough. */
typedef struct RtNear {
    const char *word, *best;
    int distance, prefix;
} RtNear;
void rt_near_start(RtNear *near, const char *word);
void rt_near_try(RtNear *near, const char *name);

/* ---- one line of JSON at a time ---- */

typedef struct RtJson {
    char *text;
    size_t length, cap;
    bool first;  /* in the innermost object */
    bool finite; /* no number was nan or inf */
} RtJson;
void rt_json_start(RtJson *j);                 /* empties; the memory is kept */
void rt_json_open(RtJson *j, const char *key); /* an object; key NULL inside nothing or an array */
void rt_json_close(RtJson *j);
void rt_json_raw(RtJson *j, const char *key, const char *json); /* as it is */
void rt_json_bytes(RtJson *j, const char *text, size_t length); /* without key or comma */
void rt_json_open_list(RtJson *j, const char *key);             /* its members have no keys */
void rt_json_close_list(RtJson *j);
void rt_json_text(RtJson *j, const char *key, const char *value); /* value NULL: null */
void rt_json_number(RtJson *j, const char *key,
                    double value); /* "nan", "inf", "-inf" where not finite */
void rt_json_int(RtJson *j, const char *key, int64_t value);
void rt_json_bool(RtJson *j, const char *key, bool value);
void rt_json_null(RtJson *j, const char *key);
void rt_json_ints(RtJson *j, const char *key, const int64_t *values, int n);

/* ---- files ---- */

bool rt_make_folders(const char *path, RtErr *e); /* like mkdir -p */
bool rt_is_folder(const char *path);
bool rt_is_file(const char *path);

/* A file that appears under its name only when it is complete: written beside it, synced, renamed. */
typedef struct RtWriter {
    char *path, *temporary;
    int fd;
    unsigned char *buffer;
    size_t used;
} RtWriter;
bool rt_writer_open(RtWriter *w, const char *path, RtErr *e);
bool rt_writer_put(RtWriter *w, const void *data, size_t bytes, RtErr *e);
bool rt_writer_commit(RtWriter *w, RtErr *e); /* frees in any case */
void rt_writer_abort(RtWriter *w);            /* removes the temporary file, frees */
bool rt_copy_file(const char *from, const char *to, RtErr *e);
bool rt_write_all(int fd, const void *data, size_t bytes);

/* A name survives a power failure only when the folder that it stands in is on disk, too. Some file systems
 * cannot sync a folder; then there is nothing more that could be done, and it is no error. */
bool rt_sync_folder(const char *path, RtErr *e);
bool rt_remove_folder(const char *path,
                      RtErr *e); /* with the files in it; folders in it are an error */

/* One run a folder: the lock is kept until rt_unlock_folder or the end of the process, however it ends.
 * -1: somebody else has it, or an error. */
int rt_lock_folder(const char *path, RtErr *e);
void rt_unlock_folder(const char *path, int lock);

#endif
