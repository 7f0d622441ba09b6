/* rt_json.c: writes JSON objects into a buffer that is used again and again. Strings from files pass through
 * one escaping function, numbers are written in the C locale. Reading: rt_safetensors.c, with jansson. */
#include "rt_util.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void put(RtJson *j, const char *text, size_t length)
{
    if (j->length + length + 1 > j->cap) {
        j->cap = (j->length + length + 1) * 2;
        j->text = rt_grow(j->text, j->cap);
    }
    memcpy(j->text + j->length, text, length);
    j->length += length;
    j->text[j->length] = 0;
}

/* Length of the well-formed UTF-8 sequence at s, 0 when there is none: a bad byte must not make the whole
 * line unreadable. */
static int utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80)
        return 1;
    int n = s[0] >= 0xc2 && s[0] < 0xe0   ? 2
            : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
            : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                          : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
        return 0;
    return n;
}

static void put_quoted(RtJson *j, const char *text)
{
    put(j, "\"", 1);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        char escape[8];
        int n = utf8_length(s);
        if (*s == '"' || *s == '\\') {
            escape[0] = '\\';
            escape[1] = (char)*s;
            put(j, escape, 2);
            s++;
        } else if (*s < 0x20 || *s == 0x7f) {
            put(j, escape, (size_t)snprintf(escape, sizeof escape, "\\u%04x", *s));
            s++;
        } else if (!n) {
            put(j, "\\ufffd", 6);
            s++;
        } else {
            put(j, (const char *)s, (size_t)n);
            s += n;
        }
    }
    put(j, "\"", 1);
}

static void put_key(RtJson *j, const char *key)
{
    if (!j->first)
        put(j, ",", 1);
    j->first = false;
    if (key) {
        put_quoted(j, key);
        put(j, ":", 1);
    }
}

void rt_json_start(RtJson *j)
{
    j->length = 0;
    j->first = true;
    j->finite = true;
    put(j, "", 0);
}

static void opened(RtJson *j, const char *key, const char *bracket)
{
    put_key(j, key);
    put(j, bracket, 1);
    j->first = true;
}

static void closed(RtJson *j, const char *bracket)
{
    put(j, bracket, 1);
    j->first = false;
}

void rt_json_open(RtJson *j, const char *key)
{
    opened(j, key, "{");
}

void rt_json_close(RtJson *j)
{
    closed(j, "}");
}

void rt_json_raw(RtJson *j, const char *key, const char *json)
{
    put_key(j, key);
    put(j, json, strlen(json));
}

void rt_json_bytes(RtJson *j, const char *text, size_t length)
{
    put(j, text, length);
}

void rt_json_open_list(RtJson *j, const char *key)
{
    opened(j, key, "[");
}

void rt_json_close_list(RtJson *j)
{
    closed(j, "]");
}

void rt_json_text(RtJson *j, const char *key, const char *value)
{
    if (!value) {
        rt_json_null(j, key);
        return;
    }
    put_key(j, key);
    put_quoted(j, value);
}

void rt_json_number(RtJson *j, const char *key, double value)
{
    char buffer[RT_NUMBER_CHARS];
    put_key(j, key);
    rt_number(buffer, value);
    if (isfinite(value)) {
        put(j, buffer, strlen(buffer));
    } else {
        put_quoted(j, buffer);
        j->finite = false;
    }
}

void rt_json_int(RtJson *j, const char *key, int64_t value)
{
    char buffer[RT_NUMBER_CHARS];
    put_key(j, key);
    put(j, buffer, (size_t)snprintf(buffer, sizeof buffer, "%lld", (long long)value));
}

void rt_json_bool(RtJson *j, const char *key, bool value)
{
    put_key(j, key);
    put(j, value ? "true" : "false", value ? 4 : 5);
}

void rt_json_null(RtJson *j, const char *key)
{
    put_key(j, key);
    put(j, "null", 4);
}

void rt_json_ints(RtJson *j, const char *key, const int64_t *values, int n)
{
    rt_json_open_list(j, key);
    for (int i = 0; i < n; i++)
        rt_json_int(j, NULL, values[i]);
    rt_json_close_list(j);
}
