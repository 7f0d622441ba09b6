/* rt_json_read.c: reads small JSON files that somebody may have damaged: a checkpoint's host.json. */
#include "rt_json_read.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 4 << 20, DEPTH_MOST = 8, NODES_MOST = 400000 };

bool rt_json_modest(const char *text, size_t length)
{
    int depth = 0, nodes = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
            nodes++;
        } else if (c == '}' || c == ']') {
            depth--;
        } else if (c == ',') {
            nodes++;
        }
        if (depth > DEPTH_MOST || nodes > NODES_MOST)
            return false;
    }
    return true;
}

/* The whole file; NULL after an error. */
static char *read_text(const char *path, size_t *length, RtErr *e)
{
    FILE *f = fopen(path, "rbe");
    if (!f) {
        rt_err_errno(e, "cannot open '%s'", path);
        return NULL;
    }
    size_t cap = 1 << 16, n;
    char *text = rt_alloc(cap);
    *length = 0;
    while ((n = fread(text + *length, 1, cap - *length, f)) > 0) {
        *length += n;
        if (*length == cap && cap <= FILE_MOST)
            text = rt_grow(text, cap *= 2);
    }
    bool ok = !ferror(f) || rt_err_errno(e, "cannot read '%s'", path);
    fclose(f);
    if (ok && *length > FILE_MOST)
        ok = rt_err(e, "'%s' is longer than 4 MiB", path);
    if (ok)
        return text;
    free(text);
    return NULL;
}

json_t *rt_json_load(const char *path, RtErr *e)
{
    size_t length;
    json_error_t error;
    json_t *root = NULL;
    char *text = read_text(path, &length, e);
    if (!text)
        return NULL;
    if (!rt_json_modest(text, length))
        rt_err(e, "'%s' has too many parts or nests too deeply", path);
    else if (!(root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error)))
        rt_err(e, "'%s' is no valid JSON: line %d: %s", path, error.line, error.text);
    free(text);
    if (root && !json_is_object(root)) {
        rt_err(e, "'%s' is no JSON object", path);
        json_decref(root);
        return NULL;
    }
    return root;
}

bool rt_json_get_int(const json_t *object, const char *key, int64_t *v)
{
    const json_t *member = json_object_get(object, key);
    if (!json_is_integer(member))
        return false;
    *v = json_integer_value(member);
    return true;
}

bool rt_json_get_number(const json_t *object, const char *key, double *v)
{
    const json_t *member = json_object_get(object, key);
    if (json_is_string(member)) {
        const char *text = json_string_value(member);
        return rt_parse_double(text, strlen(text), v) && !isfinite(*v);
    }
    *v = json_number_value(member);
    return json_is_number(member);
}

bool rt_json_get_bool(const json_t *object, const char *key, bool *v)
{
    const json_t *member = json_object_get(object, key);
    *v = json_is_true(member);
    return json_is_boolean(member);
}

const char *rt_json_get_text(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}
