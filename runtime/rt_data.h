/* rt_data.h: data declarations as tables in memory, and the sets that are parts of them.
 * rt_data.c finds files and checks; rt_data_idx.c, rt_data_csv.c and rt_data_bin.c read; rt_split.c makes sets. */
#ifndef MPC_RT_DATA_H
#define MPC_RT_DATA_H

#include "abi/mpc_rt.h"
#include "rt_util.h"

/* A declaration's rows. Field f of row i lies at column[f] + i * stride[f]. */
typedef struct RtTable {
    const MpcData *decl;
    int64_t rows;
    unsigned char **column;
    size_t *stride;
    char **files;       /* as found, one a path of the declaration */
    uint32_t *line;     /* csv, tsv: the line of each row; else NULL */
    int64_t *first_row; /* bin: the first row of each file; else NULL */
} RtTable;

/* The rows of a set, ascending. NULL rows: all of them. */
typedef struct RtSet {
    const RtTable *table;
    uint32_t *rows;
    int64_t count;
} RtSet;

/* Where data are looked for; either may be NULL. */
typedef struct RtPlaces {
    const char *data_dir, *home;
} RtPlaces;

size_t rt_dtype_bytes(MpcDType dtype);
const char *rt_dtype_name(MpcDType dtype);
int64_t rt_field_elements(const MpcField *f);
size_t rt_field_bytes(const MpcField *f);
/* "[28, 28]" */
const char *rt_dims_text(char *buffer, size_t size, int rank, const int64_t *dims);

char *rt_find_data(const RtPlaces *places, const char *path, RtErr *e); /* to be freed */

bool rt_table_load(RtTable *t, const MpcData *decl, const RtPlaces *places, RtErr *e);
void rt_table_free(RtTable *t);
bool rt_table_read_idx(RtTable *t, RtErr *e); /* files found, the rest empty */
bool rt_table_read_csv(RtTable *t, RtErr *e);
bool rt_table_read_jsonl(RtTable *t, RtErr *e);
bool rt_is_jsonl(const char *path); /* by its first byte */

/* A number in the type of a field; false: why it cannot be that, to be put behind the number. */
enum { RT_FAULT = 64 };
bool rt_is_floating(MpcDType dtype);
/* Elements of a file, most or least significant byte first, in this machine's order. */
void rt_bytes_to_native(unsigned char *data, size_t bytes, size_t element, bool big_endian);
bool rt_store_float(double v, MpcDType dtype, void *out, char fault[RT_FAULT]);
bool rt_store_integer(int64_t v, MpcDType dtype, void *out, char fault[RT_FAULT]);
bool rt_store_whole(double v, MpcDType dtype, void *out,
                    char fault[RT_FAULT]); /* an integer type */
bool rt_table_read_bin(RtTable *t, RtErr *e);
/* Values of a field as a file of numbers has them, `rows` rows from `first` on: all finite, booleans 0 or 1. */
bool rt_values_fit(const char *path, const MpcField *f, const unsigned char *data, int64_t first,
                   int64_t rows, RtErr *e);
/* Bytes the table will take, for --plan, from headers and sizes alone. */
bool rt_table_bytes(const MpcData *decl, const RtPlaces *places, size_t *bytes, RtErr *e);
bool rt_idx_bytes(const char *path, size_t *bytes, RtErr *e);
bool rt_bin_bytes(const MpcData *decl, const char *path, size_t *bytes, RtErr *e);
bool rt_csv_rows(const char *path, bool tabs, int64_t *rows, RtErr *e);

/* "train.csv:18" or "sample 17 of labels.gz", for messages. */
const char *rt_row_text(char *buffer, size_t size, const RtTable *t, int field, int64_t row);

bool rt_set_make(RtSet *set, const MpcSet *decl, const RtTable *tables, const RtSet *sets,
                 RtErr *e);
void rt_set_free(RtSet *set);
int64_t rt_integer_at(const unsigned char *p, MpcDType dtype);
double rt_number_at(const unsigned char *p, MpcDType dtype);
bool rt_check_labels(const RtSet *set, const MpcLabelCheck *check, RtErr *e);

/* ---- byte streams, gzip or not by their first bytes ---- */

typedef struct RtStream {
    const char *path;
    void *gz;
    unsigned char *buffer;
    size_t at, end;
    bool packed;
    uint64_t size; /* of the file as it lies on disk */
} RtStream;
bool rt_stream_open(RtStream *s, const char *path, RtErr *e);
void rt_stream_close(RtStream *s);
/* Reads up to `bytes`; *got is less only at the end. Damage of any kind is an error. */
bool rt_stream_read(RtStream *s, void *out, size_t bytes, size_t *got, RtErr *e);
bool rt_stream_fill(RtStream *s,
                    RtErr *e); /* buffer used up: the next piece; at == end at the end */

#endif
