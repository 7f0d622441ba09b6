/* strutil.h: small questions about strings. */
#ifndef MPC_BASE_STRUTIL_H
#define MPC_BASE_STRUTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool str_eq(const char *a, const char *b); /* NULL equals only NULL */
bool str_starts(const char *s, const char *prefix);
bool str_ends(const char *s, const char *suffix);

/* The candidate nearest to `name` (Damerau-Levenshtein, case ignored), for "did you mean";
 * NULL if none is near enough to be a help. NULL candidates are skipped. */
const char *nearest_name(const char *name, const char *const *candidates, int count);

uint32_t str_fnv1a(const char *s); /* 32-bit FNV-1a, the path hash of the random numbers */

/* The length of the valid UTF-8 sequence at s (1..4), or 0 if there is none. */
int str_utf8(const char *s, size_t n);

/* A number of bytes: "64 MiB", "1.5GB", "4096"; units B, kB, MB, GB, TB, KiB, MiB, GiB, TiB. false: it is none, or
 * less than 1 or more than an int64_t. */
bool str_bytes(const char *s, int64_t *bytes);

/* The shortest decimal text that reads back as x, always with a '.' or an exponent ("0.1", "1.0",
 * "1e-05"); infinities and NaNs as inf, -inf, nan. buf holds 32 bytes. */
const char *str_double(char buf[32], double x);

#endif
