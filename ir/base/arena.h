/* arena.h: memory that is freed all at once.
 *
 * The compiler has three lifetimes (session, module, scratch), each one an arena. Memory comes back
 * zeroed and aligned for any type; running out of memory ends the program with a message, so no
 * caller checks for NULL. Growable arrays on top: vec.h; text on top: text.h.
 */
#ifndef MPC_BASE_ARENA_H
#define MPC_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

#if defined(__GNUC__)
#define MPC_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define MPC_NORETURN __attribute__((noreturn))
#else
#define MPC_PRINTF(fmt, args)
#define MPC_NORETURN
#endif

typedef struct Arena Arena;

Arena *arena_new(void);
void arena_free(Arena *a); /* a may be NULL */
size_t arena_used(const Arena *a);

void *arena_alloc(Arena *a, size_t size); /* zeroed */
void *arena_copy(Arena *a, const void *from, size_t size);
char *arena_strdup(Arena *a, const char *s);
char *arena_strndup(Arena *a, const char *s, size_t n); /* at most n bytes, always terminated */
char *arena_printf(Arena *a, const char *fmt, ...) MPC_PRINTF(2, 3);
char *arena_vprintf(Arena *a, const char *fmt, va_list ap) MPC_PRINTF(2, 0);

/* size * count with an overflow check */
void *arena_array(Arena *a, size_t count, size_t size);

#define ARENA_NEW(a, T) ((T *)arena_alloc((a), sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_array((a), (size_t)(n), sizeof(T)))

#endif
