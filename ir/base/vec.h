/* vec.h: growable arrays that live in an arena.
 *
 *     typedef VEC(Node *) NodeVec;         NodeVec v = {0};
 *     vec_push(arena, &v, node);           for (int i = 0; i < v.n; i++) use(v.at[i]);
 *
 * The old storage of a grown array stays in the arena until that is freed: pointers into it remain
 * readable, but are stale. A zeroed VEC is an empty one.
 */
#ifndef MPC_BASE_VEC_H
#define MPC_BASE_VEC_H

#include "ir/base/arena.h"

#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *at;                                                                                     \
        int n, cap;                                                                                \
    }

/* room for one more element of `size` bytes after the n there are */
void *vec_room(Arena *a, void *at, int n, int *cap, size_t size);

#define vec_push(a, v, x)                                                                          \
    ((v)->at = vec_room((a), (v)->at, (v)->n, &(v)->cap, sizeof *(v)->at), (v)->at[(v)->n++] = (x))
#define vec_last(v) ((v)->at[(v)->n - 1])
#define vec_pop(v) ((v)->at[--(v)->n])
#define vec_clear(v) ((void)((v)->n = 0))

#endif
