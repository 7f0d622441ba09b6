/* label_checks.c: what the labels and indices of a data set must lie within, as passes/labels.c found out. */
#include "codegen/program.h"
#include "ir/base/strutil.h"

static int field_number(Emit *e, const Decl *data, const char *name)
{
    int n;
    FieldDecl *fields = data_fields(e, data, &n);
    for (int i = 0; i < n; i++) {
        if (str_eq(fields[i].name, name)) {
            return i;
        }
    }
    ICE("no field %s in data set %s", name, data->name);
}

static int loader_checks(Emit *e, const Decl *loader, int before)
{
    const Attr *fields = attrs_find(&loader->attrs, ATTR_label_fields);
    const Attr *classes = attrs_find(&loader->attrs, ATTR_label_classes);
    const Attr *ignore = attrs_find(&loader->attrs, ATTR_label_ignore);
    const Attr *lines = attrs_find(&loader->attrs, ATTR_label_lines);
    const char *set = attrs_str(&loader->attrs, ATTR_dataset);
    bool whole = fields != NULL && classes != NULL && ignore != NULL && lines != NULL;
    int n = whole ? fields->strs.n : 0;
    if (n > 0 && before == 0) {
        ln_open(e, "static const MpcLabelCheck label_checks[] =");
    }
    for (int k = 0; k < n; k++) {
        int64_t other = ignore->ints.v[k];
        int field = field_number(e, module_find(e->m, DECL_data, set), fields->strs.v[k]);
        ln(e, "{%d, %d, .classes = %lld, .has_ignore = %s, .ignore = %lld, .line = %lld},",
           data_set_number(e, set), field, (long long)classes->ints.v[k],
           other != -1 ? "true" : "false", (long long)other, (long long)lines->ints.v[k]);
    }
    return before + n;
}

int label_checks_emit(Emit *e)
{
    int loaders, n = 0;
    Decl **all = module_decls(e, DECL_loader, &loaders);
    for (int i = 0; i < loaders; i++) {
        n = loader_checks(e, all[i], n);
    }
    if (n > 0) {
        ln_close(e, ";");
        ln_blank(e);
    }
    return n;
}
