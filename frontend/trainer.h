/* trainer.h: the keys of a trainer block, read and checked. Private to the frontend. */
#ifndef MPC_FRONTEND_TRAINER_H
#define MPC_FRONTEND_TRAINER_H

#include "frontend/ast.h"

typedef enum TrainerKey {
#define KEY(name, type, def, doc) KEY_##name,
#define CHOICE(key, value)
#define ALIAS(other, key, old)
#define SPELLING(key, other, value)
#include "frontend/trainer_keys.def"
    KEY_COUNT
} TrainerKey;

typedef struct Trainer {
    const Ast *block;
    Ast *given[KEY_COUNT]; /* the values in the file, NULL where there is none */
    Ast *value[KEY_COUNT]; /* those or the defaults; NULL where neither is */
    Loc loc[KEY_COUNT];    /* of the key in the file, or of the block */
} Trainer;

/* False after an error. */
bool trainer_read(AstMaker *m, const Ast *block, Trainer *t);

bool trainer_flag(const Trainer *t, TrainerKey key); /* absent: false */
bool trainer_is(const Trainer *t, TrainerKey key, const char *text);
bool trainer_is_zero(const Trainer *t, TrainerKey key); /* literally 0 */

const char *trainer_key_name(TrainerKey key);
int trainer_key_of(const char *name); /* -1 if there is none */

#endif
