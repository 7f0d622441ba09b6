# layers.awk: who may include whom.
#
#     driver --> frontend | passes | codegen --> ir --> ir/base          runtime --> runtime/abi
#     ir and codegen read runtime/abi, frontend its metrics.def. Siblings never include each other. No cycles.
#
# Input: every .c .h .def .l .y of the tree, in one run. A folder's private headers are seen by that
# folder only; its exported ones, and its .def tables, by the layers above. Tests may see all.
# Names without a folder that are no file of ours are made by the build (parser.h) or the system's.

function layer_of(path)
{
    if (path ~ /^ir\/base\//) return "ir/base"
    if (path ~ /^runtime\/abi\//) return "runtime/abi"
    return substr(path, 1, index(path, "/") - 1)
}

BEGIN {
    split("driver frontend passes codegen ir ir/base runtime runtime/abi", names, " ")
    for (i in names) known[names[i]] = 1

    below["driver"] = " frontend passes codegen ir ir/base "
    below["frontend"] = " ir ir/base "
    below["passes"] = " ir ir/base "
    below["codegen"] = " ir ir/base runtime/abi "
    below["ir"] = " ir/base runtime/abi "
    below["ir/base"] = " "
    below["runtime"] = " runtime/abi "
    below["runtime/abi"] = " "

    exported["frontend/frontend.h"] = exported["ir/ir.h"] = exported["ir/plan.h"] = 1
    exported["passes/pass.h"] = exported["codegen/codegen.h"] = 1

    for (i = 1; i < ARGC; i++) files[ARGV[i]] = 1
}

/^[ \t]*#[ \t]*include[ \t]*"/ {
    name = $0
    sub(/^[^"]*"/, "", name)
    sub(/".*/, "", name)
    count++
    from[count] = FILENAME; line[count] = FNR; what[count] = name
}

# The included file's path from the root: as written, beside the includer, or below runtime/.
function resolve(file, name,    dir)
{
    if (name in files) return name
    dir = file
    sub(/[^\/]*$/, "", dir)
    if ((dir name) in files) return dir name
    if (("runtime/" name) in files && layer_of(file) ~ /^(runtime|tests|bench)/) return "runtime/" name
    return ""
}

function visit(file,    i, n, list)
{
    state[file] = 1
    n = split(edges[file], list, " ")
    for (i = 1; i <= n; i++) {
        if (state[list[i]] == 1) { print file ": includes itself by way of " list[i]; bad = 1 }
        else if (!state[list[i]]) visit(list[i])
    }
    state[file] = 2
}

END {
    for (k = 1; k <= count; k++) {
        target = resolve(from[k], what[k])
        where = from[k] ":" line[k] ": "
        if (target == "") {
            if (what[k] ~ /\//) { print where "no such file: " what[k]; bad = 1 }
            continue
        }
        if (target !~ /\.def$/ && target !~ /\.c$/) edges[from[k]] = edges[from[k]] " " target
        mine = layer_of(from[k])
        theirs = layer_of(target)
        if (mine == theirs || !(mine in known)) continue
        if (!(theirs in known)) { print where "a layer includes " target; bad = 1; continue }
        if (mine == "frontend" && target == "runtime/abi/metrics.def") continue
        if (!index(below[mine], " " theirs " ")) {
            print where mine " must not include " theirs " (" target ")"; bad = 1; continue
        }
        if (theirs ~ /^(ir\/base|runtime\/abi)$/ || target ~ /\.def$/ || target in exported) continue
        print where target " is private to " theirs; bad = 1
    }
    for (file in edges) if (!state[file]) visit(file)
    exit bad
}
