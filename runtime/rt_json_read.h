/* rt_json_read.h: JSON from a file that is not trusted: bounded in size, depth and number of parts, no key
 * twice. Writing: rt_json.c. */
#ifndef MPC_RT_JSON_READ_H
#define MPC_RT_JSON_READ_H

#include "rt_util.h"

#include <jansson.h>

/* Bounds what the parser will build, before it builds it. */
bool rt_json_modest(const char *text, size_t length);

/* A file that holds one object; NULL after an error. To be released by json_decref. */
json_t *rt_json_load(const char *path, RtErr *e);

/* Members of an object; false when there is none of the type. A number that is not finite is written as a
 * string ("nan"), and read back from it. */
bool rt_json_get_int(const json_t *object, const char *key, int64_t *v);
bool rt_json_get_number(const json_t *object, const char *key, double *v);
bool rt_json_get_bool(const json_t *object, const char *key, bool *v);
const char *rt_json_get_text(const json_t *object, const char *key); /* NULL */

#endif
