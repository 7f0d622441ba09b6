/* golden_load.h: reads the reference results under tests/golden: a .json that describes cases and a
 * .safetensors with their tensors. What does not read ends the test program with a message. */
#ifndef MPC_TEST_GOLDEN_LOAD_H
#define MPC_TEST_GOLDEN_LOAD_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct GoldenTensor {
    char *name;
    char dtype[8]; /* as safetensors spells it: F64 F32 I64 U16 U8 BOOL ... */
    int rank;
    int64_t dims[8], count;
    double *v;                /* every type, U16 and U8 as the integers that they are */
    const unsigned char *raw; /* the bytes */
} GoldenTensor;

typedef struct GoldenFile {
    cJSON *json; /* NULL: there is none */
    unsigned char *bytes;
    int ntensors;
    GoldenTensor *tensors;
} GoldenFile;

/* tests/golden/FOLDER/NAME.json and .safetensors; one of them may be absent. */
GoldenFile *golden_open(const char *folder, const char *name);
GoldenFile *golden_read(const char *path); /* any .safetensors file */
void golden_close(GoldenFile *f);

/* The tensor of a name, printf-style; NULL when there is none. */
__attribute__((format(printf, 2, 3))) const GoldenTensor *golden_find(const GoldenFile *f,
                                                                      const char *fmt, ...);

/* Numbers of a JSON object, which may be the strings "inf", "-inf" and "nan". */
double golden_number(const cJSON *object, const char *key, double otherwise);
double golden_item(const cJSON *value);
const char *golden_string(const cJSON *object, const char *key); /* NULL when absent */
bool golden_bool(const cJSON *object, const char *key);

#endif
