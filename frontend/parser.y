/* parser.y: the grammar of .mpt files.
 *
 * Reads the tokens that token.c has prepared: every statement ends with a NEWLINE, also before a
 * `}` and at the end, and declaration words are tokens of their own only where they declare.
 * Each action is one call of an ast_*() constructor. yyerrok: a second error may follow at once. After a syntax error the statement is skipped
 * as a whole (parse.c), so that one run reports several.
 *
 * `evaluate(...) { }` is not an expression: it stands alone or on the right of an assignment, which
 * keeps its `{` out of the heads of if and for.
 */
%require "3.8"
%define api.pure full
%define api.prefix {mpc_yy}
%define api.token.prefix {T_}
%define api.location.type {Loc}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%parse-param {Parse *p}
%lex-param {Parse *p}

%code requires {
#include "frontend/parse.h"
}
%code provides {
int mpc_yylex(MPC_YYSTYPE *value, Loc *loc, Parse *p);
void mpc_yyerror(Loc *loc, Parse *p, const char *message);
}
%code {
#define YYMAXDEPTH 60000
#define YYLLOC_DEFAULT(now, rhs, n)                                                                \
    ((now) = (n) ? loc_span(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n)) : YYRHSLOC(rhs, 0))
#define M (&p->maker)
#define NO_LIST ((AstList){0})
}

%union {
    const char *text;
    Ast *ast;
    AstList list;
    AstOp op;
}

%token <text> NAME "a name" NUMBER "a number" STRING "a string" SUFFIX "a type suffix"
%token NEWLINE "end of line"
%token MODULE "'module'" PARAM "'param'" STATE "'state'" OPTION "'option'" DATA "'data'" BATCH "'batch of'"
%token TRAINER "'trainer'" INCLUDE "'include'"
%token IF "'if'" ELSE "'else'" FOR "'for'" IN "'in'" RETURN "'return'" WITH "'with'" BREAK "'break'"
%token CONTINUE "'continue'" EVALUATE "'evaluate'"
%token TRUE "'true'" FALSE "'false'" NONE "'none'" AND "'and'" OR "'or'" NOT "'not'"
%token ELLIPSIS "'...'" DOTDOT "'..'" ARROW "'->'" POW "'**'" FDIV "'//'"
%token EQ "'=='" NE "'!='" LE "'<='" GE "'>='"
%token ADD_ASSIGN "'+='" SUB_ASSIGN "'-='" MUL_ASSIGN "'*='" DIV_ASSIGN "'/='"

%left OR
%left AND
%precedence NOT
%nonassoc EQ NE '<' LE '>' GE
%nonassoc DOTDOT
%left '+' '-'
%left '*' '/' FDIV '%' '@'
%precedence NEGATE
%right POW

%type <ast> item statement simple value evaluate if_statement member expr test postfix atom
%type <ast> argument subscript type type_opt arg_decl field key initial default_opt bound
%type <ast> comprehension_if
%type <list> items block body statements members args arguments subscripts dims arg_decls
%type <list> arg_decl_list fields keys names exprs more_exprs elements sets decls_opt
%type <op> assign_op

%start file

%%

file: items                     { p->root = ast_decl(M, AST_file, @$, NULL, $1, NO_LIST); }
    ;

items: %empty                   { $$ = NO_LIST; }
    | items item NEWLINE        { $$ = ast_append(M, $1, $2); }
    | items error NEWLINE       { yyerrok; $$ = ast_append(M, $1, ast_leaf(M, AST_error, @2, NULL)); }
    ;

item: statement
    | MODULE NAME decls_opt '{' members '}'
        { $$ = ast_decl(M, AST_module, loc_span(@1, @2), $2, $3, $5); }
    | OPTION NAME type_opt '=' expr
        { $$ = ast_typed(M, AST_option, @2, $2, $3, $5, NULL); }
    | DATA NAME '=' postfix ARROW '(' fields ')'
        { $$ = ast_data(M, @2, $2, $4, $7, NULL); }
    | DATA NAME '=' postfix ARROW NAME '(' args ')'
        { $$ = ast_data(M, @2, $2, $4, NO_LIST,
                        ast_call(M, loc_span(@6, @9), ast_name(M, @6, $6), $8)); }
    | BATCH sets block          { $$ = ast_decl(M, AST_batch, loc_span(@1, @2), NULL, $2, $3); }
    | TRAINER '{' keys '}'      { $$ = ast_decl(M, AST_trainer, @1, NULL, $3, NO_LIST); }
    | INCLUDE STRING            { $$ = ast_leaf(M, AST_include, @2, $2); }
    ;

sets: postfix                   { $$ = ast_list(M, $1); }
    | sets ',' postfix          { $$ = ast_append(M, $1, $3); }
    ;

fields: field                   { $$ = ast_list(M, $1); }
    | fields ',' field          { $$ = ast_append(M, $1, $3); }
    | fields ','                { $$ = $1; }
    ;

field: NAME ':' type default_opt { $$ = ast_typed(M, AST_field, @1, $1, $3, $4, NULL); }
    ;

keys: %empty                    { $$ = NO_LIST; }
    | keys key NEWLINE          { $$ = ast_append(M, $1, $2); }
    | keys error NEWLINE        { yyerrok; $$ = $1; }
    ;

key: NAME '=' expr              { $$ = ast_keyword(M, @1, $1, $3); }
    ;

  /* modules */

decls_opt: %empty               { $$ = NO_LIST; }
    | '(' arg_decls ')'         { $$ = $2; }
    ;

arg_decls: %empty               { $$ = NO_LIST; }
    | arg_decl_list             { $$ = $1; }
    | arg_decl_list ','         { $$ = $1; }
    ;

arg_decl_list: arg_decl         { $$ = ast_list(M, $1); }
    | arg_decl_list ',' arg_decl { $$ = ast_append(M, $1, $3); }
    ;

arg_decl: NAME type_opt default_opt { $$ = ast_typed(M, AST_arg, @1, $1, $2, $3, NULL); }
    ;

type_opt: %empty                { $$ = NULL; }
    | ':' type                  { $$ = $2; }
    ;

default_opt: %empty             { $$ = NULL; }
    | '=' expr                  { $$ = $2; }
    ;

members: %empty                 { $$ = NO_LIST; }
    | members member NEWLINE    { $$ = ast_append(M, $1, $2); }
    | members error NEWLINE     { yyerrok; $$ = ast_append(M, $1, ast_leaf(M, AST_error, @2, NULL)); }
    ;

member: PARAM NAME ':' type     { $$ = ast_typed(M, AST_param, @2, $2, $4, NULL, NULL); }
    | PARAM NAME ':' type IF test
        { $$ = ast_typed(M, AST_param, @2, $2, $4, NULL, $6); }
    | PARAM NAME ':' type '=' initial
        { $$ = ast_typed(M, AST_param, @2, $2, $4, $6, NULL); }
    | PARAM NAME ':' type '=' test IF test
        { $$ = ast_typed(M, AST_param, @2, $2, $4, $6, $8); }
    | STATE NAME ':' type '=' initial
        { $$ = ast_typed(M, AST_state, @2, $2, $4, $6, NULL); }
    | STATE NAME ':' type '=' test IF test
        { $$ = ast_typed(M, AST_state, @2, $2, $4, $6, $8); }
    | NAME '=' expr             { $$ = ast_assign(M, @1, ast_name(M, @1, $1), AST_OP_none, $3); }
    | NAME '(' arg_decls ')' block { $$ = ast_decl(M, AST_func, @1, $1, $3, $5); }
    ;

initial: test
    | test IF test ELSE expr    { $$ = ast_cond(M, @$, $1, $3, $5); }
    ;

  /* statements */

block: '{' body '}'             { $$ = $2; }
    ;

body: statements
    ;

statements: %empty              { $$ = NO_LIST; }
    | statements statement NEWLINE { $$ = ast_append(M, $1, $2); }
    | statements error NEWLINE  { yyerrok; $$ = ast_append(M, $1, ast_leaf(M, AST_error, @2, NULL)); }
    ;

statement: simple
    | if_statement
    | FOR names IN expr block   { $$ = ast_for(M, loc_span(@1, @4), $2, $4, $5); }
    | WITH exprs block          { $$ = ast_with(M, loc_span(@1, @2), $2, $3); }
    ;

simple: exprs                   { $$ = ast_expr(M, @1, ast_tuple(M, @1, $1)); }
    | evaluate                  { $$ = ast_expr(M, @1, $1); }
    | exprs '=' value           { $$ = ast_assign(M, @1, ast_tuple(M, @1, $1), AST_OP_none, $3); }
    | exprs assign_op expr      { $$ = ast_assign(M, @1, ast_tuple(M, @1, $1), $2, $3); }
    | RETURN                    { $$ = ast_return(M, @1, NULL); }
    | RETURN exprs              { $$ = ast_return(M, @1, ast_tuple(M, @2, $2)); }
    | BREAK                     { $$ = ast_leaf(M, AST_break, @1, NULL); }
    | CONTINUE                  { $$ = ast_leaf(M, AST_continue, @1, NULL); }
    ;

value: exprs                    { $$ = ast_tuple(M, @1, $1); }
    | evaluate
    ;

assign_op: ADD_ASSIGN           { $$ = AST_OP_add; }
    | SUB_ASSIGN                { $$ = AST_OP_sub; }
    | MUL_ASSIGN                { $$ = AST_OP_mul; }
    | DIV_ASSIGN                { $$ = AST_OP_div; }
    ;

evaluate: EVALUATE '(' args ')' block { $$ = ast_evaluate(M, loc_span(@1, @4), $3, $5); }
    ;

if_statement: IF expr block     { $$ = ast_if(M, loc_span(@1, @2), $2, $3, NO_LIST); }
    | IF expr block ELSE block  { $$ = ast_if(M, loc_span(@1, @2), $2, $3, $5); }
    | IF expr block ELSE if_statement
        { $$ = ast_if(M, loc_span(@1, @2), $2, $3, ast_list(M, $5)); }
    ;

names: NAME                     { $$ = ast_list(M, ast_name(M, @1, $1)); }
    | names ',' NAME            { $$ = ast_append(M, $1, ast_name(M, @3, $3)); }
    ;

  /* expressions */

exprs: expr                     { $$ = ast_list(M, $1); }
    | more_exprs                { $$ = $1; }
    | more_exprs ','            { $$ = $1; }
    ;

more_exprs: expr ',' expr       { $$ = ast_append(M, ast_list(M, $1), $3); }
    | more_exprs ',' expr       { $$ = ast_append(M, $1, $3); }
    ;

expr: test
    | test IF test ELSE expr    { $$ = ast_cond(M, @$, $1, $3, $5); }
    ;

test: postfix
    | test OR test              { $$ = ast_binary(M, @$, AST_OP_or, $1, $3); }
    | test AND test             { $$ = ast_binary(M, @$, AST_OP_and, $1, $3); }
    | NOT test                  { $$ = ast_unary(M, @$, AST_OP_not, $2); }
    | test EQ test              { $$ = ast_binary(M, @$, AST_OP_eq, $1, $3); }
    | test NE test              { $$ = ast_binary(M, @$, AST_OP_ne, $1, $3); }
    | test '<' test             { $$ = ast_binary(M, @$, AST_OP_lt, $1, $3); }
    | test LE test              { $$ = ast_binary(M, @$, AST_OP_le, $1, $3); }
    | test '>' test             { $$ = ast_binary(M, @$, AST_OP_gt, $1, $3); }
    | test GE test              { $$ = ast_binary(M, @$, AST_OP_ge, $1, $3); }
    | test DOTDOT test          { $$ = ast_range(M, @$, $1, $3); }
    | test '+' test             { $$ = ast_binary(M, @$, AST_OP_add, $1, $3); }
    | test '-' test             { $$ = ast_binary(M, @$, AST_OP_sub, $1, $3); }
    | test '*' test             { $$ = ast_binary(M, @$, AST_OP_mul, $1, $3); }
    | test '/' test             { $$ = ast_binary(M, @$, AST_OP_div, $1, $3); }
    | test FDIV test            { $$ = ast_binary(M, @$, AST_OP_fdiv, $1, $3); }
    | test '%' test             { $$ = ast_binary(M, @$, AST_OP_mod, $1, $3); }
    | test '@' test             { $$ = ast_binary(M, @$, AST_OP_matmul, $1, $3); }
    | '-' test %prec NEGATE     { $$ = ast_unary(M, @$, AST_OP_neg, $2); }
    | test POW test             { $$ = ast_binary(M, @$, AST_OP_pow, $1, $3); }
    ;

postfix: atom
    | postfix '.' NAME          { $$ = ast_member(M, @$, $1, $3, @3); }
    | postfix '(' args ')'      { $$ = ast_call(M, @$, $1, $3); }
    | postfix '[' subscripts ']' { $$ = ast_index(M, @$, $1, $3); }
    | postfix SUFFIX            { $$ = ast_retype(M, @$, $1, $2); }
    ;

atom: NAME                      { $$ = ast_name(M, @1, $1); }
    | NUMBER                    { $$ = ast_number(M, @1, $1); }
    | STRING                    { $$ = ast_str(M, @1, $1); }
    | TRUE                      { $$ = ast_bool(M, @1, true); }
    | FALSE                     { $$ = ast_bool(M, @1, false); }
    | NONE                      { $$ = ast_leaf(M, AST_none, @1, NULL); }
    | '(' exprs ')'             { $$ = ast_tuple(M, @$, $2); }
    | '[' elements ']'          { $$ = ast_sequence(M, AST_list, @$, $2); }
    | '[' expr FOR names IN test comprehension_if ']'
        { $$ = ast_comprehension(M, @$, $2, $4, $6, $7); }
    ;

comprehension_if: %empty        { $$ = NULL; }
    | IF test                   { $$ = $2; }
    ;

elements: %empty                { $$ = NO_LIST; }
    | exprs
    ;

args: %empty                    { $$ = NO_LIST; }
    | arguments
    | arguments ','             { $$ = $1; }
    ;

arguments: argument             { $$ = ast_list(M, $1); }
    | arguments ',' argument    { $$ = ast_append(M, $1, $3); }
    ;

argument: expr
    | NAME '=' expr             { $$ = ast_keyword(M, @1, $1, $3); }
    ;

subscripts: subscript           { $$ = ast_list(M, $1); }
    | subscripts ',' subscript  { $$ = ast_append(M, $1, $3); }
    | subscripts ','            { $$ = $1; }
    ;

subscript: expr                 { $$ = ast_subscript(M, $1); }
    | ELLIPSIS                  { $$ = ast_leaf(M, AST_ellipsis, @1, NULL); }
    | bound ':' bound           { $$ = ast_slice(M, @$, $1, $3, NULL); }
    | bound ':' bound ':' bound { $$ = ast_slice(M, @$, $1, $3, $5); }
    | DOTDOT test               { $$ = ast_slice(M, @$, NULL, $2, NULL); }
    | test DOTDOT               { $$ = ast_slice(M, @$, $1, NULL, NULL); }
    ;

bound: %empty                   { $$ = NULL; }
    | expr
    ;

type: NAME                      { $$ = ast_type(M, @$, $1, NO_LIST); }
    | NAME '[' dims ']'         { $$ = ast_type(M, @$, $1, $3); }
    ;

dims: expr                      { $$ = ast_list(M, $1); }
    | dims ',' expr             { $$ = ast_append(M, $1, $3); }
    ;

%%

static int yyreport_syntax_error(const yypcontext_t *context, Parse *p)
{
    yysymbol_kind_t kinds[6];
    const char *expected[6];
    int n = yypcontext_expected_tokens(context, kinds, 6);
    for (int i = 0; i < n; i++)
        expected[i] = yysymbol_name(kinds[i]);
    parse_error(p, *yypcontext_location(context), yysymbol_name(yypcontext_token(context)),
                expected, n);
    return 0;
}
