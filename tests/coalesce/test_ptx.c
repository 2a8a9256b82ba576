/* SPDX-License-Identifier: Apache-2.0
 *
 * What ptx_rewrite() refuses, and the shape of what it writes. That the result computes the same is shown by
 * tests/simcuda_tests/packs.c, which runs it.
 */
#include "coalesce/coalesce.h"
#include "coalesce/ptx_body.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <unistd.h>

#define HEADER ".version 8.4\n.target sm_80\n.address_size 64\n"
#define REGISTERS ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>; "
#define K(body) HEADER ".visible .entry k(.param .u64 a, .param .u32 b) { " REGISTERS body " ret; }"

static uint64_t nowhere(void *context, const char *symbol)
{
    return 0;
}

static uint64_t somewhere(void *context, const char *symbol)
{
    return strcmp(symbol, "variable") == 0 ? 0x7f0012345600 : 0;
}

struct options {
    unsigned sm, form;
    uint32_t members;
    uint64_t (*address)(void *context, const char *symbol);
};

static int rewrite_with(const char *text, size_t size, struct options options, struct coalesce_output *output,
                        enum coalesce_refusal *refusal)
{
    struct coalesce_source source = {
        .code = COALESCE_PTX, .bytes = text, .size = size, .kernel = "k", .address = options.address};

    return ptx_rewrite(&source, options.sm, options.members, options.form, output, refusal);
}

static struct coalesce_output rewrite(const char *text, struct options options)
{
    enum coalesce_refusal refusal = COALESCE_NONE;
    struct coalesce_output output = {0};

    cr_assert(eq(int, rewrite_with(text, strlen(text), options, &output, &refusal), 0), "refusal %d: %s", refusal,
              text);
    cr_assert(eq(sz, strlen(output.image), output.size));
    return output;
}

static bool has(const struct coalesce_output *output, const char *text)
{
    return strstr(output->image, text) != NULL;
}

static const struct options usual = {90, 0, 16, NULL};

/* The new text has `expected` in it. */
static void expect_text_with(const char *text, const char *expected, struct options options)
{
    struct coalesce_output output = rewrite(text, options);

    cr_expect(eq(int, has(&output, expected), 1), "no '%s' in:\n%s", expected, (char *)output.image);
    free(output.image);
}

static void expect_text(const char *text, const char *expected)
{
    expect_text_with(text, expected, usual);
}

static void expect_no_text(const char *text, const char *unexpected)
{
    struct coalesce_output output = rewrite(text, usual);

    cr_expect(eq(int, has(&output, unexpected), 0), "'%s' in:\n%s", unexpected, (char *)output.image);
    free(output.image);
}

static void expect_error(const char *text, struct options options, int error, enum coalesce_refusal why)
{
    struct coalesce_output output = {.size = 4711};
    enum coalesce_refusal refusal = COALESCE_NONE;

    cr_expect(eq(int, rewrite_with(text, strlen(text), options, &output, &refusal), error), "%s", text);
    cr_expect(eq(int, refusal, why), "%s", text);
    cr_expect(eq(sz, output.size, 4711)); /* set on success only */
}

static void expect_refused(const char *text, enum coalesce_refusal why)
{
    expect_error(text, usual, -ENOTSUP, why);
}

static void expect_refused_form(const char *text, unsigned form, enum coalesce_refusal why)
{
    expect_error(text, (struct options){90, form, 16, NULL}, -ENOTSUP, why);
}

/* ---- parameters and layout ---- */

static struct coalesce_layout layout_of(const char *parameters, unsigned sm, uint32_t members)
{
    struct coalesce_output output;
    char text[4096];

    snprintf(text, sizeof(text), HEADER ".entry k(%s) { ret; }", parameters);
    output = rewrite(text, (struct options){sm, 0, members, NULL});
    free(output.image);
    return output.layout;
}

Test(layout, is_as_the_driver_lays_parameters_out)
{
    static const char mixed[] = ".param .u8 a, .param .f64 b, .param .u16 c, .param .align 4 .b8 d[6], .param .u8 e";
    /* From the records that ptxas 13.0 wrote for these. */
    static const char wide[] = ".param .u32 a, .param .align 64 .b8 b[128], .param .u64 c, "
                               ".param .align 128 .b8 d[256], .param .align 32 .b8 e[32], .param .u16 f";

    cr_expect(eq(u32, layout_of(mixed, 90, 4).parameter_bytes, 27));
    cr_expect(eq(u32, layout_of("", 90, 4).parameter_bytes, 0));
    cr_expect(eq(u32, layout_of(".param .u64 .ptr .global .align 128 a, .param .b32 b", 90, 4).parameter_bytes, 12));
    cr_expect(eq(u32, layout_of(wide, 90, 4).parameter_bytes, 530));
    cr_expect(eq(u32, layout_of(wide, 100, 4).parameter_bytes, 546));
    cr_expect(eq(u32, layout_of(".param .align 32 .b8 a[8], .param .align 16 .b8 b[16]", 80, 4).parameter_bytes, 32));
    cr_expect(eq(u32, layout_of(".param .align 32 .b8 a[8], .param .align 16 .b8 b[16]", 90, 4).parameter_bytes, 48));
}

Test(layout, holds_as_many_members_as_fit)
{
    struct coalesce_layout layout = layout_of(".param .align 8 .b8 a[112]", 90, 1000);

    cr_expect(eq(u32, layout.capacity, 252));
    cr_expect(eq(u32, layout.stride, 128));
    cr_expect(eq(u32, layout.base, 512));
    cr_expect(eq(u32, layout.bytes, 512 + 251 * 128 + 112));
    cr_expect(eq(u32, layout_of(".param .align 8 .b8 a[113]", 90, 1000).stride, 256));
    cr_expect(eq(u32, layout_of(".param .u64 a", 90, 3).capacity, 3));
    cr_expect(eq(u32, layout_of(".param .u64 a", 90, 3).bytes, 512 + 2 * 128 + 8));
    cr_expect(eq(u32, layout_of(".param .align 8 .b8 a[31360]", 90, 1).bytes, 512 + 31360));
}

Test(layout, old_modules_have_less_room)
{
    struct coalesce_output output = rewrite(".version 7.8\n.target sm_80\n.address_size 64\n.entry k() { ret; }",
                                            (struct options){90, 0, 1000, NULL});

    cr_expect(le(u32, output.layout.bytes, 4096));
    cr_expect(gt(u32, output.layout.capacity, 20));
    free(output.image);
}

Test(layout, too_large_parameters_are_refused)
{
    expect_refused(HEADER ".entry k(.param .b8 a[20000]) { ret; }", COALESCE_PARAMETERS);
    /* ptxas lets the offset of an indexed constant load wrap. */
    expect_error(HEADER ".entry k(.param .b8 a[31361]) { ret; }", (struct options){90, 0, 1, NULL}, -ENOTSUP,
                 COALESCE_PARAMETERS);
    expect_refused(HEADER ".entry k(.param .b8 a[32700], .param .b8 b[100]) { ret; }", COALESCE_PARAMETERS);
    expect_error(HEADER ".entry k() { ret; }", (struct options){90, 0, 0, NULL}, -ENOTSUP, COALESCE_PARAMETERS);
    expect_error(HEADER ".entry k(.param .b8 a[32253]) { ret; }", (struct options){90, 0, 1, NULL}, -ENOTSUP,
                 COALESCE_PARAMETERS);
}

Test(layout, declarations_that_make_no_sense_are_refused)
{
    static const char *const bad[] = {
        ".param .u64",
        ".param a",
        ".param .u32 a[0]",
        ".param .u32 a[]",
        ".param .u32 a[99999]",
        ".param .align 3 .b8 a",
        ".param .align 256 .b8 a",
        ".param .pred a",
        ".reg .u32 a",
        ".param .u32 .u32 a",
        ".param .u32 a, .param .u32 a",
        ".param .u32 a,",
        ".param .align 0 .b8 a[4]",
        ".param .u32 a[8000][8000]",
        ".param .u64 a[18446744073709551615]",
        "12",
    };
    char text[4096];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        snprintf(text, sizeof(text), HEADER ".entry k(%s) { ret; }", bad[i]);
        expect_refused(text, COALESCE_PTX_UNKNOWN);
    }
    expect_refused(HEADER ".entry k(.param .texref t) { ret; }", COALESCE_TEXTURE);
    expect_error(HEADER ".entry k(.param .align 64 .b8 a[64]) { ret; }", (struct options){80, 0, 4, NULL}, -ENOTSUP,
                 COALESCE_OPERAND);
}

/* ---- what is replaced ---- */

Test(parameters, reads_go_to_the_member)
{
    expect_text(K("ld.param.u64 %rd1, [a];"), "ld.param.u64 %rd1, [%coissue_base+512];");
    expect_text(K("ld.param.u32 %r1, [b + 0];"), "ld.param.u32 %r1, [%coissue_base+520];");
    expect_text(K("@!%p1 ld.param::entry.u16 %r1, [a+0x6];"), "@!%p1 ld.param::entry.u16 %r1, [%coissue_base+518];");
    expect_text(K("ld.param.v2.b32 {%r1, %r2}, [ a ];"), "ld.param.v2.b32 {%r1, %r2}, [ %coissue_base+512 ];");
    expect_text(K("mov.u64 %rd1, a;"), "add.s64 %rd1, %coissue_base, 512;");
    expect_text(K("@%p1 mov.b64 %rd1, b+3;"), "@%p1 add.s64 %rd1, %coissue_base, 523;");
    expect_text(K("@%p1 cvta.param.u64 %rd1, b;"),
                "add.s64 %coissue_t0, %coissue_base, 520;\n\t@%p1 cvta.param.u64 %rd1, %coissue_t0;");
    expect_text(K("prefetch.param.tensormap [a];"), "prefetch.param.tensormap [%coissue_base+512];");
    expect_text(K("ld.param.u32 %r1, [%rd1+4];"), "ld.param.u32 %r1, [%rd1+4];"); /* its address was rewritten */
}

Test(parameters, other_uses_are_refused)
{
    expect_refused(K("ld.param.u32 %r1, [b+4];"), COALESCE_OPERAND);
    expect_refused(K("ld.param.u32 %r1, [b-1];"), COALESCE_OPERAND);
    expect_refused(K("ld.param.u32 %r1, [a+-4];"), COALESCE_OPERAND);
    expect_refused(K("ld.param.u32 %r1, [a+%r2];"), COALESCE_OPERAND);
    expect_refused(K("ld.u32 %r1, [a];"), COALESCE_OPERAND);
    expect_refused(K("mov.u32 %r1, a;"), COALESCE_OPERAND);
    expect_refused(K("add.u64 %rd1, %rd2, a;"), COALESCE_OPERAND);
    expect_refused(K("cvta.u64 %rd1, a;"), COALESCE_OPERAND);
    expect_refused(K("st.param.u32 [a], %r1;"), COALESCE_OPERAND);
    expect_refused(K("mov.b64 %rd1, {a, b};"), COALESCE_OPERAND);
}

Test(parameters, a_name_that_the_body_declares_again_is_refused)
{
    expect_refused(K("{ .reg .b32 b; ld.param.u32 %r1, [b]; }"), COALESCE_PTX_UNKNOWN);
    expect_refused(K("{ .param .b32 b; st.param.b32 [b], %r1; }"), COALESCE_PTX_UNKNOWN);
    expect_text(K("{ .param .b32 c; st.param.b32 [c], %r1; }"), "st.param.b32 [c], %r1;");
    expect_refused(K(".reg .b32 q<3>; b: ld.param.u32 %r1, [b];"), COALESCE_PTX_UNKNOWN);
}

Test(grid, numbers_of_blocks_are_those_of_the_member)
{
    expect_text(K("mov.u32 %r1, %ctaid.z;"), "mov.u32 %r1, %coissue_z;");
    expect_text(K("mov.u32 %r1, %ctaid.x;"), "mov.u32 %r1, %ctaid.x;");
    expect_text(K("mad.lo.u32 %r1, %nctaid.x, %ctaid.y, %nctaid.z;"),
                "mad.lo.u32 %r1, %coissue_gx, %ctaid.y, %coissue_gz;");
    expect_text(K("mov.v4.u32 {%r1, %r2, %r3, %r4}, %nctaid;"),
                "{%r1, %r2, %r3, %r4}, {%coissue_gx, %coissue_gy, %coissue_gz, %coissue_w};");
    expect_text_with(K(""), "mul.hi.u32", (struct options){90, COALESCE_FOLD, 4, NULL});
    expect_text_with(K(""), "exit;", (struct options){90, COALESCE_RAGGED, 4, NULL});
    expect_no_text(K(""), "exit;");
    expect_no_text(K(""), "mul.hi.u32");
}

Test(grid, registers_that_a_pack_changes_are_refused)
{
    static const char *const changed[] = {"%gridid",   "%envreg2",   "%clusterid.z", "%nclusterid.z",      "%ctaid.w",
                                          "%nonsense", "%clusterid", "%r9",          "%current_graph_exec"};
    char text[4096];

    for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++) {
        snprintf(text, sizeof(text), HEADER ".entry k() { .reg .b32 %%r<9>; mov.u32 %%r1, %s; ret; }", changed[i]);
        expect_refused(text, COALESCE_SPECIAL);
    }
    expect_refused(K("mov.u16 %r1, %nctaid.x;"), COALESCE_SPECIAL);
    expect_text(K("mov.u32 %r1, %clusterid.x;"), "%clusterid.x");
    expect_refused_form(K("mov.u32 %r1, %clusterid.x;"), COALESCE_RAGGED, COALESCE_SPECIAL);
}

#define F(body) HEADER ".func (.param .b32 o) f(.param .b32 i) { " REGISTERS body " ret; }\n"
#define CALL "{ .param .b32 i; .param .b32 o; st.param.b32 [i], %r1; call.uni (o), f, (i); ld.param.b32 %r1, [o]; }"
#define KC " .entry k(.param .u64 a) { " REGISTERS CALL " ret; } "

Test(functions, that_are_called_come_along)
{
    expect_text(F("ld.param.b32 %r1, [i];") KC, "ld.param.b32 %r1, [i];");
    expect_text(F("mov.u32 %r1, %ctaid.z;") KC, "mov.u32 %r1, %coissue_z;");
    expect_refused_form(F("mov.u32 %r1, %ctaid.z;") KC, COALESCE_FOLD, COALESCE_SPECIAL);
    expect_refused(F("mov.u32 %r1, %nctaid.x;") KC, COALESCE_SPECIAL);
    expect_no_text(F("") ".entry k() { ret; }", "f(");
    expect_no_text(F("") ".entry other(.param .u32 z) { ret; }" KC, "other");
    expect_text(HEADER ".func (.param .b32 o) f(.param .b32 i);" KC ".func (.param .b32 o) f(.param .b32 i) { ret; }",
                "f(.param .b32 i);");
}

Test(functions, of_the_driver_are_refused)
{
    static const char outside[] =
        HEADER ".extern .func (.param .b32 o) %s(.param .b32 i);\n.entry k() { .reg .b32 %%r1;"
               " { .param .b32 i, o; call (o), %s, (i); } ret; }";
    static const struct {
        const char *name;
        enum coalesce_refusal why;
    } calls[] = {
        {"vprintf", COALESCE_CALLS_OUT},
        {"__assertfail", COALESCE_CALLS_OUT},
        {"malloc", COALESCE_CALLS_OUT},
        {"cudaLaunchDeviceV2", COALESCE_CHILDREN},
        {"cudaGetParameterBufferV2", COALESCE_CHILDREN},
        {"cudaCGSynchronizeGrid", COALESCE_COOPERATIVE},
    };
    char text[4096];

    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        snprintf(text, sizeof(text), outside, calls[i].name, calls[i].name);
        expect_refused(text, calls[i].why);
    }
}

Test(functions, that_are_reached_through_pointers_are_refused)
{
    expect_refused(F("") ".entry k() { " REGISTERS "mov.u64 %rd1, f; ret; }", COALESCE_PTX_UNKNOWN);
    expect_refused(F("") ".entry k() { " REGISTERS "{ .param .b32 i, o; call (o), %rd1, (i), p; } ret; }",
                   COALESCE_PTX_UNKNOWN);
    expect_refused(K("p: .callprototype _ (.param .b32 _);"), COALESCE_PTX_UNKNOWN);
    expect_refused(HEADER ".entry k() { " REGISTERS "mov.u64 %rd1, k; ret; }", COALESCE_CHILDREN);
}

#define G HEADER ".visible .global .align 4 .u32 variable = 7;\n.entry k() { " REGISTERS

Test(variables, get_the_address_that_the_program_has)
{
    static const struct options known = {90, 0, 16, somewhere};

    expect_text_with(G "mov.u64 %rd1, variable; ret; }", "mov.u64 %rd1, 139638282147328;", known);
    expect_text_with(G "mov.u64 %rd1, variable+8; ret; }", "mov.u64 %rd1, 139638282147336;", known);
    expect_text_with(G "ld.global.u32 %r1, [variable+4]; ret; }",
                     "mov.u64 %coissue_t0, 139638282147332;\n\tld.global.u32 %r1, [%coissue_t0];", known);
    expect_text_with(G "@%p1 atom.global.add.u32 %r1, [variable], 1; ret; }",
                     "@%p1 atom.global.add.u32 %r1, [%coissue_t0], 1;", known);
    expect_text_with(G "cvta.global.u64 %rd1, variable; ret; }", "cvta.global.u64 %rd1, %coissue_t0;", known);
    expect_refused(G "mov.u64 %rd1, variable; ret; }", COALESCE_GLOBAL);
    expect_error(G "mov.u64 %rd1, variable; ret; }", (struct options){90, 0, 16, nowhere}, -ENOTSUP, COALESCE_GLOBAL);
    expect_error(G "add.u64 %rd1, %rd2, variable; ret; }", known, -ENOTSUP, COALESCE_GLOBAL);
    expect_error(G "mov.u32 %r1, variable; ret; }", known, -ENOTSUP, COALESCE_GLOBAL);
    expect_text_with(G "ret; }", "{", usual); /* not mentioned: no matter */
}

Test(variables, that_are_constant_are_copied_and_said)
{
    static const char text[] = HEADER ".const .align 4 .b8 table[4] = {1, 2, 3, 4}; .const .u32 other = 1;\n"
                                      ".entry k() { " REGISTERS "ld.const.u32 %r1, [table]; ret; }";
    struct coalesce_output output = rewrite(text, usual);

    cr_expect(eq(int, output.constants, 1));
    cr_expect(eq(int, has(&output, "{1, 2, 3, 4}"), 1));
    cr_expect(eq(int, has(&output, "other"), 0));
    free(output.image);
    output = rewrite(K(""), usual);
    cr_expect(eq(int, output.constants, 0));
    free(output.image);
    expect_refused(HEADER ".global .u32 g; .const .u64 table = generic(g);\n"
                          ".entry k() { " REGISTERS "ld.const.u64 %rd1, [table]; ret; }",
                   COALESCE_GLOBAL);
    expect_refused(HEADER ".extern .const .u64 table;\n.entry k() { " REGISTERS "ld.const.u64 %rd1, [table]; ret; }",
                   COALESCE_GLOBAL);
}

Test(variables, that_are_shared_stay)
{
    expect_text(HEADER ".extern .shared .align 16 .b8 memory[];\n.entry k() { " REGISTERS "mov.u32 %r1, memory; ret; }",
                ".extern .shared .align 16 .b8 memory[];");
}

Test(variables, textures_are_refused)
{
    expect_refused(HEADER ".global .texref t;\n.entry k() { " REGISTERS "tex.1d.v4.s32.s32 {%r1,%r2,%r3,%r4}, [t, "
                          "{%r5}]; ret; }",
                   COALESCE_TEXTURE);
    expect_text(K("tex.1d.v4.s32.s32 {%r1,%r2,%r3,%r4}, [%rd1, {%r5}];"), "[%rd1, {%r5}]"); /* through a handle */
}

/* ---- the module ---- */

Test(module, what_debuggers_read_is_dropped)
{
    static const char text[] =
        HEADER ".file 1 \"x.cu\", 123, 456\n.entry k() {\n.loc 1 2 3\nret;\n.loc 1 3 0, function_name $L__s+4, "
               "inlined_at 1 2 3\n}\n.section .debug_str { $L__s: .b8 95, 0 }\n.section .debug_info\n{\n.b32 1\n}\n";
    struct coalesce_output output = rewrite(text, usual);

    cr_expect(eq(int, has(&output, ".loc") | has(&output, ".file") | has(&output, ".section"), 0));
    cr_expect(eq(int, has(&output, "ret;"), 1));
    free(output.image);
}

Test(module, directives_of_the_kernel_stay)
{
    expect_text(HEADER ".entry k() .maxntid 128, 1, 1 .minnctapersm 2 { .pragma \"nounroll\"; ret; }",
                ".maxntid 128, 1, 1 .minnctapersm 2 {");
    expect_refused(HEADER ".entry k() .frobnicate 1 { ret; }", COALESCE_PTX_UNKNOWN);
}

Test(module, clusters)
{
    expect_text(HEADER ".entry k() .reqnctapercluster 2, 2, 1 { ret; }", "2, 2, 1");
    expect_refused(HEADER ".entry k() .reqnctapercluster 1, 1, 2 { ret; }", COALESCE_CLUSTER);
    expect_refused(HEADER ".entry k() .reqnctapercluster 2 .blocksareclusters { ret; }", COALESCE_CLUSTER);
    expect_refused_form(HEADER ".entry k() .reqnctapercluster 2 { ret; }", COALESCE_RAGGED, COALESCE_CLUSTER);
    expect_refused_form(HEADER ".entry k() .explicitcluster { ret; }", COALESCE_RAGGED, COALESCE_CLUSTER);
}

Test(module, of_another_kind_is_refused)
{
    static const char rest[] = ".entry k() { ret; }";
    static const struct {
        const char *header;
        enum coalesce_refusal why;
    } headers[] = {
        {".version 8.0\n.target sm_100\n.address_size 64\n", COALESCE_NO_CODE},
        {".version 8.0\n.target sm_80a\n.address_size 64\n", COALESCE_NO_CODE},
        {".version 8.0\n.target sm_80, debug\n.address_size 64\n", COALESCE_DEBUG},
        {".version 8.0\n.target sm_80\n.address_size 32\n", COALESCE_PTX_UNKNOWN},
        {".version 8.0\n.target sm_80\n", COALESCE_PTX_UNKNOWN},
        {".version 8.0\n.target compute_80\n.address_size 64\n", COALESCE_PTX_UNKNOWN},
        {".version 8.0\n.address_size 64\n", COALESCE_PTX_UNKNOWN},
    };
    char text[4096];

    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        snprintf(text, sizeof(text), "%s%s", headers[i].header, rest);
        expect_refused(text, headers[i].why);
    }
    expect_refused(HEADER ".entry other() { ret; }", COALESCE_NO_KERNEL);
    expect_refused(HEADER ".func k() { ret; }", COALESCE_NO_KERNEL);
    expect_refused(HEADER ".entry k();", COALESCE_NO_KERNEL);
    expect_refused(HEADER ".frobnicate; .entry k() { ret; }", COALESCE_PTX_UNKNOWN);
    expect_refused(HEADER "entry k() { ret; }", COALESCE_PTX_UNKNOWN);
}

Test(module, unknown_statements_are_refused)
{
    expect_refused(K("frobnicate.u32 %r1, %r2;"), COALESCE_PTX_UNKNOWN);
    expect_refused(K("clusterlaunchcontrol.try_cancel.async.b128 [%r1], [%r2];"), COALESCE_PTX_UNKNOWN);
    expect_refused(K(".global .u32 g;"), COALESCE_PTX_UNKNOWN);
    expect_refused(K("@%p1 ;"), COALESCE_PTX_UNKNOWN);
    expect_refused(K("%r1;"), COALESCE_PTX_UNKNOWN);
    expect_refused(K("mov.b64 {%r1, %rd1; ret; }"), COALESCE_PTX_UNKNOWN); /* which brace ends the body? */
    expect_text(K("L: bra.uni L; ; { } T: .branchtargets L, L; brx.idx %r1, T;"), ".branchtargets L, L;");
}

Test(module, names_of_ours_are_refused)
{
    expect_refused(K(".reg .b32 %coissue_z;"), COALESCE_PTX_UNKNOWN);
    expect_refused(K("coissue_area: ret;"), COALESCE_PTX_UNKNOWN);
    expect_refused(K("mov.u32 %r1, %coissue_z;"), COALESCE_PTX_UNKNOWN);
}

Test(module, comments_and_strings_are_not_read)
{
    expect_text(K("// ld.param.u64 %rd1, [a]; }\n/* } %gridid */ .pragma \"} a %gridid\"; ld.param/**/.u64 %rd1,[a];"),
                "ld.param/**/.u64 %rd1,[%coissue_base+512];");
}

Test(module, that_breaks_off_is_broken_wherever_it_does)
{
    static const char text[] = HEADER ".visible .entry k(.param .u64 a) { .reg .b64 %rd<2>; ld.param.u64 %rd1, [a]; "
                                      ".loc 1 2 3 L: @%p1 bra L; { ret; } }";
    size_t size = strlen(text);

    for (size_t cut = 0; cut < size; cut++) {
        struct coalesce_output output = {0};
        enum coalesce_refusal refusal = COALESCE_NONE;
        char *copy = malloc(cut ? cut : 1); /* so that a read behind the end is seen by ASan */

        memcpy(copy, text, cut);
        cr_expect(lt(int, rewrite_with(copy, cut, usual, &output, &refusal), 0), "%zu", cut);
        cr_expect(ne(int, refusal, COALESCE_NONE), "%zu", cut);
        free(copy);
    }
}

Test(module, ends_at_a_nul)
{
    static const char text[] = HEADER ".entry k() { ret; }\0 rubbish {{{";
    struct coalesce_output output = {0};
    enum coalesce_refusal refusal;

    cr_expect(eq(int, rewrite_with(text, sizeof(text), usual, &output, &refusal), 0));
    free(output.image);
}

Test(module, deep_nesting_and_long_statements_are_no_problem)
{
    enum { DEPTH = 200000 };
    char *text = malloc(4 * DEPTH + 1000), *at;
    struct coalesce_output output;

    at = stpcpy(text, HEADER ".entry k() { ");
    memset(at, '{', DEPTH);
    memset(at + DEPTH, '}', DEPTH);
    strcpy(at + 2 * DEPTH, " ret; }");
    output = rewrite(text, usual);
    free(output.image);
    at = stpcpy(text, HEADER ".entry k() { .reg .b32 a");
    for (int i = 0; i < DEPTH; i++)
        at = stpcpy(at, ",a");
    strcpy(at, "; ret; }");
    expect_refused(text, COALESCE_PTX_UNKNOWN);
    free(text);
}

/* Each name is declared as often as it is used: what looks each up by walking takes hours. */
Test(module, the_same_name_again_and_again_takes_no_time, .timeout = 20)
{
    enum { TIMES = 200000 };
    char *text = malloc(80 * TIMES), *at = stpcpy(text, HEADER);
    struct coalesce_output output;

    for (int i = 0; i < TIMES; i++)
        at = stpcpy(at, ".extern .func f;\n");
    at = stpcpy(at, ".func f { ret; }\n.entry k() {\n");
    for (int i = 0; i < TIMES; i++)
        at = stpcpy(at, ".reg .b32 a<2>; .reg .b32 b, b5;\n");
    for (int i = 0; i < TIMES; i++)
        at = stpcpy(at, "mov.u32 a5, a1; call f;\n");
    strcpy(at, "ret; }\n");
    output = rewrite(text, usual);
    free(output.image);
    free(text);
}

/* ---- tables ---- */

Test(tables, are_sorted_so_that_all_is_found)
{
    static const char *const words[] = {"abs",        "activemask",
                                        "atom",       "bar",
                                        "barrier",    "bfe",
                                        "bra",        "brx",
                                        "call",       "cp",
                                        "cvt",        "cvta",
                                        "div",        "dp4a",
                                        "elect",      "ex2",
                                        "exit",       "fma",
                                        "ld",         "ldmatrix",
                                        "lg2",        "mad",
                                        "max",        "mbarrier",
                                        "membar",     "min",
                                        "mma",        "mov",
                                        "mul",        "neg",
                                        "not",        "or",
                                        "popc",       "prmt",
                                        "rcp",        "red",
                                        "redux",      "rem",
                                        "ret",        "rsqrt",
                                        "selp",       "set",
                                        "setp",       "shf",
                                        "shfl",       "shl",
                                        "shr",        "sin",
                                        "sqrt",       "st",
                                        "sub",        "tanh",
                                        "trap",       "vote",
                                        "wgmma",      "wmma",
                                        "xor",        "griddepcontrol",
                                        "setmaxnreg", "cos",
                                        "lop3",       "cnot",
                                        "addc",       "and"};
    static const char *const kept[] = {"%aggr_smem_size", "%clock64", "%cluster_ctaid", "%laneid", "%lanemask_lt",
                                       "%ntid",           "%pm7_64",  "%smid",          "%tid",    "%warpid",
                                       "%globaltimer"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        cr_expect(eq(int, ptx_opcode_known((struct ptx_span){words[i], strlen(words[i])}), 1), "%s", words[i]);
    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
        cr_expect(eq(int, ptx_special_of((struct ptx_span){kept[i], strlen(kept[i])}), PTX_SPECIAL_KEPT), "%s",
                  kept[i]);
    cr_expect(eq(int, ptx_opcode_known((struct ptx_span){"mo", 2}), 0));
    cr_expect(eq(int, ptx_special_of((struct ptx_span){"%nctaid", 7}), PTX_SPECIAL_GRID));
    cr_expect(eq(int, ptx_special_of((struct ptx_span){"tid", 3}), PTX_SPECIAL_NONE));
}

/* ---- the compiler ---- */

static char *read_file(const char *folder, const char *name)
{
    char path[4096], *text = calloc(1, 1 << 20);
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rb");
    cr_assert(ne(ptr, file, NULL), "%s", path);
    cr_assert(gt(sz, fread(text, 1, (1 << 20) - 1, file), 0));
    fclose(file);
    return text;
}

static bool compiles(const struct coalesce_output *output)
{
    char path[] = "/tmp/coissue-ptx-XXXXXX", command[256];
    int file = mkstemp(path), status;

    cr_assert(ge(int, file, 0));
    cr_assert(eq(sz, (size_t)write(file, output->image, output->size), output->size));
    close(file);
    snprintf(command, sizeof(command), "ptxas -arch=sm_90 %s -o /dev/null", path);
    status = system(command);
    unlink(path);
    return status == 0;
}

static int compile_all(const char *text)
{
    int done = 0;

    for (const char *at = text; (at = strstr(at, ".entry ")); at++) {
        char kernel[128] = "";
        enum coalesce_refusal refusal;
        struct coalesce_output output;

        cr_assert(eq(int, sscanf(at, ".entry %127[A-Za-z0-9_]", kernel), 1));
        for (unsigned form = 0; form < 4; form += 3) {
            struct coalesce_source source = {
                .code = COALESCE_PTX, .bytes = text, .size = strlen(text), .kernel = kernel, .address = somewhere};

            if (ptx_rewrite(&source, 90, 64, form, &output, &refusal))
                continue;
            cr_expect(eq(int, compiles(&output), 1), "%s", kernel);
            free(output.image);
            done++;
        }
    }
    return done;
}

Test(compiler, takes_what_is_written)
{
    const char *folder = getenv("COALESCE_TESTS_DATA") ? getenv("COALESCE_TESTS_DATA") : ".";
    char *own = read_file(folder, "../coalesce/pack_kernels.ptx"), *other = read_file(folder, "kernels.ptx");

    if (system("ptxas --version >/dev/null 2>&1") != 0)
        cr_skip("ptxas is not installed");
    cr_expect(ge(int, compile_all(own), 16));
    cr_expect(ge(int, compile_all(other), 38));
    free(own);
    free(other);
}

/* ---- what must stay in its process ---- */

static enum coalesce_refusal isolation(const char *text)
{
    struct coalesce_source source = {.code = COALESCE_PTX, .bytes = text, .size = strlen(text), .kernel = "k"};
    enum coalesce_refusal refusal = COALESCE_NONE;
    int error = coalesce_isolated(&source, &refusal);

    cr_expect(eq(int, error, refusal == COALESCE_NONE ? 0 : -ENOTSUP), "%s", text);
    return refusal;
}

Test(isolated, by_what_a_kernel_mentions)
{
    const char *global = HEADER ".global .u32 v;\n"
                                ".visible .entry k() { .reg .b32 %r<3>; ld.global.u32 %r1, [v]; ret; }";
    const char *others = HEADER ".global .u32 v;\n.visible .entry k() { ret; }\n"
                                ".visible .entry other() { .reg .b32 %r<3>; ld.global.u32 %r1, [v]; ret; }";
    const char *through = HEADER ".global .u32 v;\n"
                                 ".func f() { .reg .b32 %r<3>; ld.global.u32 %r1, [v]; ret; }\n"
                                 ".visible .entry k() { call f; ret; }";
    const char *pointed = HEADER ".global .u32 v;\n.const .u64 p = v;\n"
                                 ".visible .entry k() { .reg .b64 %rd<3>; ld.const.u64 %rd1, [p]; ret; }";
    const char *out = HEADER ".extern .func vprintf();\n.visible .entry k() { call vprintf; ret; }";
    const char *assertion = HEADER ".extern .func __assertfail();\n.visible .entry k() { call __assertfail; ret; }";
    const char *texture = HEADER ".global .texref t;\n"
                                 ".visible .entry k() { .reg .f32 %f<5>; .reg .b32 %r<2>; "
                                 "tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [t, {%r1}]; ret; }";
    const char *constant = HEADER ".const .u32 c = 1;\n"
                                  ".visible .entry k() { .reg .b32 %r<3>; ld.const.u32 %r1, [c]; ret; }";

    cr_expect(eq(int, isolation(global), COALESCE_GLOBAL));
    cr_expect(eq(int, isolation(others), COALESCE_NONE));
    cr_expect(eq(int, isolation(through), COALESCE_GLOBAL));
    cr_expect(eq(int, isolation(pointed), COALESCE_GLOBAL));
    cr_expect(eq(int, isolation(out), COALESCE_CALLS_OUT));
    cr_expect(eq(int, isolation(assertion), COALESCE_NONE));
    cr_expect(eq(int, isolation(texture), COALESCE_TEXTURE));
    cr_expect(eq(int, isolation(constant), COALESCE_NONE));
    cr_expect(eq(int, isolation(HEADER ".visible .entry other() { ret; }"), COALESCE_NO_KERNEL));
}
