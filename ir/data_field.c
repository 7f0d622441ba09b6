/* data_field.c: the text of a field of a data set, "image: u8[28, 28]". */
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

bool field_of_text(const char *text, size_t *name_len, DType *dtype, Dims *dims)
{
    const char *colon = strchr(text, ':');
    *dims = (Dims){0};
    if (colon == NULL || colon == text) {
        return false;
    }
    *name_len = (size_t)(colon - text);
    while (*name_len > 0 && text[*name_len - 1] == ' ') {
        --*name_len;
    }
    const char *at = colon + 1 + strspn(colon + 1, " ");
    char type[16];
    size_t n = strcspn(at, "[ ");
    if (n == 0 || n >= sizeof type) {
        return false;
    }
    memcpy(type, at, n);
    type[n] = 0;
    at += n;
    if (!dtype_find(type, dtype) || *dtype == DT_grads) {
        return false;
    }
    if (*at == 0) {
        return true;
    }
    do {
        char *end;
        long long k = strtoll(at + 1, &end, 10);
        if (*at != (dims->rank == 0 ? '[' : ',') || end == at + 1 || k < 1 ||
            dims->rank == MAX_RANK - 1) {
            return false;
        }
        dims->d[dims->rank++] = dim_of(k);
        at = end + strspn(end, " ");
    } while (*at == ',');
    return at[0] == ']' && at[1] == 0;
}

int64_t data_record_bytes(const Decl *data)
{
    const Attr *fields = attrs_find(&data->attrs, ATTR_fields);
    int64_t bytes = 0;
    for (int i = 0; fields != NULL && i < fields->strs.n; i++) {
        size_t n;
        DType dt;
        Dims dims;
        Dim count;
        if (field_of_text(fields->strs.v[i], &n, &dt, &dims) && dims_count(&dims, &count)) {
            bytes += count.k * dtype_info[dt].bytes;
        }
    }
    return bytes;
}
