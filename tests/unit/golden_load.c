/* golden_load.c: see golden_load.h. */
#include "golden_load.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void give_up(const char *path, const char *what)
{
    fprintf(stderr, "%s: %s\n", path, what);
    exit(1);
}

static unsigned char *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL) {
        return NULL;
    }
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    unsigned char *bytes = malloc(*size + 1);
    if (bytes == NULL || fread(bytes, 1, *size, f) != *size) {
        give_up(path, "cannot be read");
    }
    bytes[*size] = 0;
    fclose(f);
    return bytes;
}

static int element_size(const char *dtype)
{
    static const struct {
        const char *name;
        int size;
    } sizes[] = {{"F64", 8}, {"F32", 4}, {"I64", 8}, {"I32", 4},
                 {"U16", 2}, {"U8", 1},  {"BOOL", 1}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (strcmp(dtype, sizes[i].name) == 0) {
            return sizes[i].size;
        }
    }
    return 0;
}

static double element(const char *dtype, const unsigned char *at)
{
    double d;
    float f;
    int64_t i;
    int32_t w;
    uint16_t h;
    if (strcmp(dtype, "F64") == 0) {
        memcpy(&d, at, sizeof d);
        return d;
    }
    if (strcmp(dtype, "F32") == 0) {
        memcpy(&f, at, sizeof f);
        return (double)f;
    }
    if (strcmp(dtype, "I64") == 0) {
        memcpy(&i, at, sizeof i);
        return (double)i;
    }
    if (strcmp(dtype, "I32") == 0) {
        memcpy(&w, at, sizeof w);
        return w;
    }
    if (strcmp(dtype, "U16") == 0) {
        memcpy(&h, at, sizeof h);
        return h;
    }
    return *at;
}

static void read_tensor(const char *path, const cJSON *entry, const unsigned char *data,
                        size_t size, GoldenTensor *t)
{
    const cJSON *shape = cJSON_GetObjectItem(entry, "shape");
    const cJSON *offsets = cJSON_GetObjectItem(entry, "data_offsets");
    snprintf(t->dtype, sizeof t->dtype, "%s", golden_string(entry, "dtype"));
    t->name = strdup(entry->string);
    t->rank = cJSON_GetArraySize(shape);
    t->count = 1;
    for (int i = 0; i < t->rank; i++) {
        t->dims[i] = (int64_t)cJSON_GetArrayItem(shape, i)->valuedouble;
        t->count *= t->dims[i];
    }
    size_t lo = (size_t)cJSON_GetArrayItem(offsets, 0)->valuedouble;
    int each = element_size(t->dtype);
    if (each == 0 || lo + (size_t)t->count * (size_t)each > size) {
        give_up(path, t->name);
    }
    t->raw = data + lo;
    t->v = calloc((size_t)t->count + 1, sizeof *t->v);
    for (int64_t i = 0; i < t->count; i++) {
        t->v[i] = element(t->dtype, t->raw + i * each);
    }
}

static void read_tensors(GoldenFile *f, const char *path)
{
    size_t size = 0;
    uint64_t head = 0;
    f->bytes = read_file(path, &size);
    if (f->bytes == NULL) {
        return;
    }
    for (int i = 7; i >= 0 && size >= 8; i--) {
        head = head << 8 | f->bytes[i];
    }
    cJSON *json = size >= 8 && head <= size - 8
                      ? cJSON_ParseWithLength((const char *)f->bytes + 8, (size_t)head)
                      : NULL;
    if (json == NULL) {
        give_up(path, "is no safetensors file");
    }
    f->tensors = calloc((size_t)cJSON_GetArraySize(json) + 1, sizeof *f->tensors);
    const cJSON *entry;
    cJSON_ArrayForEach(entry, json)
    {
        if (strcmp(entry->string, "__metadata__") != 0) {
            read_tensor(path, entry, f->bytes + 8 + head, size - 8 - (size_t)head,
                        &f->tensors[f->ntensors++]);
        }
    }
    cJSON_Delete(json);
}

GoldenFile *golden_open(const char *folder, const char *name)
{
    const char *root = getenv("MPC_SOURCE_DIR");
    char path[4096];
    size_t size;
    GoldenFile *f = calloc(1, sizeof *f);
    snprintf(path, sizeof path, "%s/tests/golden/%s/%s.json", root ? root : ".", folder, name);
    unsigned char *text = read_file(path, &size);
    if (text != NULL) {
        f->json = cJSON_ParseWithLength((const char *)text, size);
        if (f->json == NULL) {
            give_up(path, "is no JSON");
        }
        free(text);
    }
    snprintf(path, sizeof path, "%s/tests/golden/%s/%s.safetensors", root ? root : ".", folder,
             name);
    read_tensors(f, path);
    if (f->json == NULL && f->bytes == NULL) {
        give_up(path, "there is neither this nor a .json (is MPC_SOURCE_DIR set?)");
    }
    return f;
}

GoldenFile *golden_read(const char *path)
{
    GoldenFile *f = calloc(1, sizeof *f);
    read_tensors(f, path);
    if (f->bytes == NULL) {
        give_up(path, "cannot be read");
    }
    return f;
}

void golden_close(GoldenFile *f)
{
    for (int i = 0; i < f->ntensors; i++) {
        free(f->tensors[i].name);
        free(f->tensors[i].v);
    }
    free(f->tensors);
    free(f->bytes);
    cJSON_Delete(f->json);
    free(f);
}

const GoldenTensor *golden_find(const GoldenFile *f, const char *fmt, ...)
{
    char name[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    for (int i = 0; i < f->ntensors; i++) {
        if (strcmp(f->tensors[i].name, name) == 0) {
            return &f->tensors[i];
        }
    }
    return NULL;
}

double golden_item(const cJSON *value)
{
    if (cJSON_IsString(value)) {
        return strtod(value->valuestring, NULL);
    }
    return cJSON_IsBool(value) ? cJSON_IsTrue(value) : value->valuedouble;
}

double golden_number(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *v = cJSON_GetObjectItem(object, key);
    return v == NULL || cJSON_IsNull(v) ? otherwise : golden_item(v);
}

const char *golden_string(const cJSON *object, const char *key)
{
    const cJSON *v = cJSON_GetObjectItem(object, key);
    return cJSON_IsString(v) ? v->valuestring : NULL;
}

bool golden_bool(const cJSON *object, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItem(object, key));
}
