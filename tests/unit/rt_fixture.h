/* rt_fixture.h: what the runtime's unit tests share: a folder for files, files of given bytes. */
#ifndef RT_FIXTURE_H
#define RT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The folder is made below the current one, and everything happens inside it. */
static inline int enter_folder(void **state)
{
    static char name[] = "rt-test-XXXXXX";
    (void)state;
    return mkdtemp(name) && chdir(name) == 0 ? 0 : -1;
}

static inline int leave_folder(void **state)
{
    char cwd[1024], command[1100];
    (void)state;
    if (!getcwd(cwd, sizeof cwd) || chdir("..") != 0)
        return -1;
    snprintf(command, sizeof command, "rm -rf '%s'", cwd);
    return system(command);
}

static inline void write_file(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

#define assert_says(text, part)                                                                    \
    do {                                                                                           \
        if (!strstr(text, part))                                                                   \
            fail_msg("\"%s\" does not contain \"%s\"", text, part);                                \
    } while (0)

#endif
