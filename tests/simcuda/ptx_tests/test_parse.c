/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that are wrong, each with the message that a user gets; what the reader tells about texts that are right; and a
 * few thousand texts that were damaged at random.
 */
#include "tests/simcuda/ptx_tests/harness.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD ".version 8.0\n.target sm_90\n.address_size 64\n"
#define KERNEL(body)                                                                                                   \
    HEAD ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>; .reg .f32 %f<9>; " \
         ".reg .b16 %h<9>; .reg .f64 %d<9>;\n" body "\nret;\n}\n"
/* The body begins on line 7. */

struct bad {
    char text[600];
    char message[160];
    int error;
};

static const struct bad bad[] = {
    {"", "line 1: the text is empty", -EINVAL},
    {"hello", "line 1: expected '.version' before 'hello'", -EINVAL},
    {".version", "line 1: expected a version number before the end of the text", -EINVAL},
    {".version 7", "line 1: expected a version number before '7'", -EINVAL},
    {".version 8.0\n.target gfx90", "line 2: target 'gfx90' is not known", -EINVAL},
    {".version 8.0\n.target sm_100\n.address_size 64\n", "line 2: target sm_100 is newer than the device's sm_90",
     -ENOEXEC},
    {".version 8.0\n.target sm_90\n.address_size 32\n", "line 3: address size 32 is not supported, only 64", -ENOTSUP},
    {".version 8.0\n.target sm_90\n", "line 3: expected '.address_size 64'", -ENOTSUP},
    {HEAD ".visible .foo x;", "line 4: directive '.foo' is not known", -EINVAL},
    {HEAD ".global .q32 x;", "line 4: type '.q32' is not known", -EINVAL},
    {HEAD ".global .u32 x", "line 4: expected ';' before the end of the text", -EINVAL},
    {HEAD ".global .u32 x;\n.global .u32 x;", "line 5: 'x' is declared twice", -EINVAL},
    {HEAD ".global .align 3 .u32 x;", "line 4: alignment 3 is not a power of two", -EINVAL},
    {HEAD ".global .u32 x[2] = {1, 2, 3};", "line 4: more initial values than 'x' holds", -EINVAL},
    {HEAD ".global .u32 x[2] = {1, 2;", "line 4: expected ',' or '}' before ';'", -EINVAL},
    {HEAD ".global .u64 x = y;", "line 4: 'y' is no variable or function that has an address here", -EINVAL},
    {HEAD ".global .b8 x[99999999999];", "line 4: array size 99999999999 is larger than 4294967296", -E2BIG},
    {HEAD ".global .b8 x[4000000000][4000000000];", "line 4: 'x' is larger than 4 GiB", -E2BIG},
    {HEAD ".extern .global .u32 x;", "line 4: variable 'x' is extern and defined nowhere", -EINVAL},
    {HEAD ".global .texref t;", "line 4: variables of type .texref are not supported", -ENOTSUP},
    {HEAD ".visible .entry k(.param .u32 p", "line 4: expected ',' or ')' before the end of the text", -EINVAL},
    {HEAD ".visible .entry k()\n{\nret;\n", "line 5: the body that starts here is not closed", -EINVAL},
    {HEAD ".entry k() { ret; }\n.entry k() { ret; }", "line 5: 'k' is defined twice", -EINVAL},
    {HEAD ".entry k(.param .align 8 .b8 p[32765]) { ret; }", "line 4: parameters are larger than 32764 bytes", -E2BIG},
    {HEAD ".entry k() .fancy 3 { ret; }", "line 4: directive '.fancy' is not known", -EINVAL},
    {KERNEL("frobnicate.u32 %r1, %r2;"), "line 7: unknown instruction 'frobnicate.u32'", -EINVAL},
    {KERNEL("\n\nmma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 %r1, %r2;"),
     "line 9: instruction 'mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32' is not supported", -ENOTSUP},
    {KERNEL("tex.2d.v4.f32.s32 %r1, %r2;"), "line 7: instruction 'tex.2d.v4.f32.s32' is not supported", -ENOTSUP},
    {KERNEL("cp.async.bulk.commit_group;"), "line 7: instruction 'cp.async.bulk.commit_group' is not supported",
     -ENOTSUP},
    {KERNEL("add.u32.fast %r1, %r2, %r3;"), "line 7: modifier '.fast' of 'add.u32.fast' is not known", -EINVAL},
    {KERNEL("cvt.rn.satfinite.e4m3x2.f32 %h1, %f1, %f2;"),
     "line 7: modifier '.e4m3x2' of 'cvt.rn.satfinite.e4m3x2.f32' is not supported", -ENOTSUP},
    {KERNEL("add %r1, %r2, %r3;"), "line 7: 'add' has no valid type", -EINVAL},
    {KERNEL("add.u32 %r1, %r2;"), "line 7: 'add.u32' takes 3 operands, not 2", -EINVAL},
    {KERNEL("add.u32 %r1, %r2, %r10;"), "line 7: register '%r10' is not declared", -EINVAL},
    {KERNEL("add.u32 %r1, %r2, %rd3;"), "line 7: register '%rd3' of 'add.u32' has 64 bits where 32 are needed",
     -EINVAL},
    {KERNEL("add.u32 5, %r2, %r3;"), "line 7: an operand of 'add.u32' must be a register", -EINVAL},
    {KERNEL("add.f32 %f1, %f2, 1;"), "line 7: an operand of 'add.f32' must be a floating-point number", -EINVAL},
    {KERNEL("mul.u32 %r1, %r2, %r3;"), "line 7: integer mul and mad need one of .lo, .hi, .wide", -EINVAL},
    {KERNEL("setp.u32 %p1, %r2, %r3;"), "line 7: a comparison such as .eq or .lt is missing", -EINVAL},
    {KERNEL("setp.lt.u32 %r1, %r2, %r3;"), "line 7: an operand of 'setp.lt.u32' must be a predicate", -EINVAL},
    {KERNEL("@%r1 bra L;"), "line 7: a guard needs a predicate", -EINVAL},
    {KERNEL("bra nowhere;"), "line 7: label 'nowhere' is not defined", -EINVAL},
    {KERNEL("L:\nL:"), "line 8: 'L' is declared twice", -EINVAL},
    {KERNEL("{ L: }\nbra L;"), "line 8: label 'L' is not defined", -EINVAL},
    {KERNEL("ld.global.u32 %r1, %rd1;"), "line 7: an operand of 'ld.global.u32' must be an address in brackets",
     -EINVAL},
    {KERNEL("ld.global.u32 %r1, [%r2];"), "line 7: register '%r2' is no address of that space", -EINVAL},
    {KERNEL("ld.global.u32 %r1, [p];"), "line 7: 'p' is no variable of the space that the instruction names", -EINVAL},
    {KERNEL("ld.param.u64 %rd1, [p+4];"), "line 7: access outside of parameter 'p'", -EINVAL},
    {KERNEL("ld.param.u32 %r1, [p+2];"), "line 7: misaligned access to parameter 'p'", -EINVAL},
    {KERNEL("st.param.u64 [p], %rd1;"), "line 7: 'p' is no parameter that can be accessed so", -EINVAL},
    {KERNEL("ld.global.u32 %r1, [%rd1"), "line 8: expected ']' before 'ret'", -EINVAL},
    {KERNEL("ld.global.v2.u32 {%r1,%r2,%r3}, [%rd1];"),
     "line 7: an operand of 'ld.global.v2.u32' must be a vector of the size that the instruction names", -EINVAL},
    {KERNEL("call foo, ();"), "line 7: function 'foo' is not declared", -EINVAL},
    {KERNEL("call k, ();"), "line 7: kernel 'k' cannot be called", -EINVAL},
    {KERNEL("bar.sync 16;"), "line 7: an operand of 'bar.sync' must be a barrier of 0 to 15", -EINVAL},
    {KERNEL("shfl.down.b32 %r1, %r2, 1, 31;"), "line 7: instruction 'shfl.down.b32' is not supported", -ENOTSUP},
    {KERNEL("lop3.b32 %r1, %r2, %r3, %r4, 256;"), "line 7: an operand of 'lop3.b32' must be a lookup table of 0 to 255",
     -EINVAL},
    {KERNEL("mov.u32 %r1, %tid;"), "line 7: '%tid' without .x, .y or .z is not supported", -ENOTSUP},
    {KERNEL("mov.u32 %r1, 0xzz;"), "line 7: expected an operand before '0xzz'", -EINVAL},
    {KERNEL("mov.u32 %r1, 99999999999999999999;"), "line 7: expected an operand before '99999999999999999999'",
     -EINVAL},
    {KERNEL(".reg .b32 %q<9999999>;"), "line 7: register count 9999999 is larger than 1048576", -E2BIG},
    {KERNEL(".reg .b128 %q;"), "line 7: variables of type .b128 are not supported", -ENOTSUP},
    {KERNEL(".shared .b8 big[2000000];"), "line 7: more than 1048576 bytes of shared memory", -E2BIG},
    {KERNEL(".local .b8 big[2000000];"), "line 7: more than 524288 bytes of local memory", -E2BIG},
    {KERNEL("add.u32 %r1, %r2, %r3"), "line 8: expected ',' or ';' before 'ret'", -EINVAL},
    {KERNEL("`"), "line 7: expected an instruction before '`'", -EINVAL},
    {HEAD ".func f();\n.entry k() { call f, (); ret; }", "line 5: function 'f' is called but defined nowhere", -EINVAL},
    {HEAD ".func f(.param .b32 a) { ret; }\n.entry k() { call f, (); ret; }", "line 5: 'f' takes 1 arguments, not 0",
     -EINVAL},
    {HEAD ".func f(.param .b32 a) { ret; }\n.entry k() { .param .b64 x; call f, (x); ret; }",
     "line 5: argument 1 of 'f' has 4 bytes, not 8", -EINVAL},
    {HEAD ".func f(.reg .b32 a) { ret; }", "line 4: functions with .reg parameters are not supported", -ENOTSUP},
    {HEAD ".alias a, b;\n.alias b, a;", "line 4: alias 'b' refers to itself", -EINVAL},
};

ParameterizedTestParameters(ptx_parse, wrong_text_gets_a_message_with_line_and_cause)
{
    const size_t count = sizeof(bad) / sizeof(bad[0]);
    struct bad *copy = cr_malloc(sizeof(bad)); /* the worker sees memory of cr_malloc only */
    memcpy(copy, bad, sizeof(bad));
    return cr_make_param_array(struct bad, copy, count, NULL);
}

ParameterizedTest(struct bad *b, ptx_parse, wrong_text_gets_a_message_with_line_and_cause)
{
    const struct ptx_options options = {.max_target = 90};
    struct ptx_module *module = (struct ptx_module *)(uintptr_t)0x1234;
    char error[PTX_ERROR_TEXT_MAX] = "untouched";
    int result = ptx_module_create(b->text, strlen(b->text), &options, &module, error, sizeof(error));
    cr_expect_str_eq(error, b->message, "text %s: message \"%s\", not \"%s\"", b->text, error, b->message);
    cr_expect_eq(result, b->error, "error %d, not %d: %s", result, b->error, error);
    cr_expect_eq((uintptr_t)module, 0x1234, "nothing is handed out");
}

Test(ptx_parse, short_message_buffers_are_respected)
{
    struct ptx_module *module;
    char error[16];
    memset(error, 'x', sizeof(error));
    cr_assert_eq(ptx_module_create("hello", 5, NULL, &module, error, 10), -EINVAL);
    cr_assert_str_eq(error, "line 1: e");
    cr_assert_eq(error[10], 'x');
    cr_assert_eq(ptx_module_create("hello", 5, NULL, &module, NULL, 0), -EINVAL);
    cr_assert_eq(ptx_module_create(NULL, 0, NULL, &module, error, sizeof(error)), -EINVAL);
    ptx_module_destroy(NULL);
    ptx_instance_destroy(NULL);
}

Test(ptx_parse, text_needs_no_terminator_and_ends_at_one)
{
    static const char text[] = HEAD ".visible .entry k() { ret; }";
    struct ptx_module *module;
    char error[PTX_ERROR_TEXT_MAX];
    size_t length = strlen(text);
    char *tight = malloc(length); /* a read beyond the end is seen by the address sanitizer */
    memcpy(tight, text, length);
    cr_assert_eq(ptx_module_create(tight, length, NULL, &module, error, sizeof(error)), 0, "%s", error);
    cr_assert_str_empty(error);
    ptx_module_destroy(module);
    char *padded = calloc(1, length + 100);
    memcpy(padded, text, length);
    padded[length + 50] = '#';
    cr_assert_eq(ptx_module_create(padded, length + 100, NULL, &module, error, sizeof(error)), 0, "%s", error);
    ptx_module_destroy(module);
    free(tight);
    free(padded);
}

Test(ptx_parse, kernels_and_their_parameters_are_described)
{
    static const char text[] =
        HEAD "// a comment\n/* another\n one */\n.shared .align 4 .b8 pool[100];\n"
             ".extern .shared .align 128 .b8 dynamic[];\n"
             ".visible .entry first(.param .u8 a, .param .u64 .ptr .global .align 16 b, .param .align 16 .b8 c[20], "
             ".param .u16 d)\n.maxntid 64, 2\n.minnctapersm 3\n{ .shared .f64 s[3]; .local .align 8 .b8 l[40];\n"
             ".reg .b32 %r<2>; mov.u32 %r1, pool; ret; }\n"
             ".entry second() .reqntid 96 .maxnreg 32 { .reg .b32 %r; mov.u32 %r, dynamic; ret; }\n";
    struct ptx_module *module;
    struct ptx_module_info info;
    char error[PTX_ERROR_TEXT_MAX];
    cr_assert_eq(ptx_module_create(text, sizeof(text), NULL, &module, error, sizeof(error)), 0, "%s", error);
    ptx_module_info(module, &info);
    cr_assert_eq(info.version, 80);
    cr_assert_eq(info.target, 90);
    cr_assert_eq(info.address_size, 64);
    cr_assert_eq(info.kernels, 2);
    cr_assert_eq(info.globals, 0);
    const struct ptx_kernel *first = ptx_module_kernel(module, 0), *second = ptx_module_kernel(module, 1);
    cr_assert_str_eq(first->name, "first");
    cr_assert_eq(first->param_count, 4);
    static const struct ptx_param want[] = {{0, 1, 1}, {8, 8, 8}, {16, 20, 16}, {36, 2, 2}};
    cr_assert_eq(memcmp(first->params, want, sizeof(want)), 0);
    cr_assert_eq(first->param_bytes, 38);
    cr_assert_eq(first->static_shared, 24 + 100, "what it uses: its own and the pool");
    cr_assert_eq(first->local_bytes, 48, "40, in units of 16");
    cr_assert_eq(first->maxntid[0], 64);
    cr_assert_eq(first->maxntid[1], 2);
    cr_assert_eq(first->maxntid[2], 1);
    cr_assert_eq(first->minnctapersm, 3);
    cr_assert_eq(first->max_threads, 128);
    cr_assert_not(first->uses_dynamic_shared);
    cr_assert_eq(second->param_bytes, 0);
    cr_assert_eq(second->static_shared, 0);
    cr_assert_eq(second->reqntid[0], 96);
    cr_assert_eq(second->max_threads, 96);
    cr_assert_leq(second->registers, 32);
    cr_assert(second->uses_dynamic_shared);
    cr_assert_null(ptx_module_kernel(module, 2));
    cr_assert_eq(ptx_module_find_kernel(module, "second"), 1);
    cr_assert_eq(ptx_module_find_kernel(module, "secon"), -ENOENT);
    ptx_module_destroy(module);
}

Test(ptx_parse, register_estimate_follows_what_is_live)
{
    char text[20000];
    struct ptx_module *module;
    char error[PTX_ERROR_TEXT_MAX];
    /* 200 values that live together, then 200 that follow each other */
    for (int together = 0; together < 2; together++) {
        int used = snprintf(text, sizeof(text),
                            HEAD ".entry k(.param .u64 p) { .reg .b32 %%r<300>; .reg .b64 %%rd1;\n"
                                 "ld.param.u64 %%rd1, [p];\n");
        for (int i = 0; i < 200; i++) {
            used += snprintf(text + used, sizeof(text) - (size_t)used, "ld.global.u32 %%r%d, [%%rd1+%d];\n", i, 4 * i);
            if (!together)
                used +=
                    snprintf(text + used, sizeof(text) - (size_t)used, "st.global.u32 [%%rd1+%d], %%r%d;\n", 4 * i, i);
        }
        for (int i = 0; i < 200 && together; i++)
            used += snprintf(text + used, sizeof(text) - (size_t)used, "st.global.u32 [%%rd1+%d], %%r%d;\n", 4 * i, i);
        snprintf(text + used, sizeof(text) - (size_t)used, "ret; }\n");
        cr_assert_eq(ptx_module_create(text, strlen(text), NULL, &module, error, sizeof(error)), 0, "%s", error);
        unsigned registers = ptx_module_kernel(module, 0)->registers;
        cr_assert(together ? registers >= 200 && registers <= 224 : registers == 16, "%u registers", registers);
        ptx_module_destroy(module);
    }
}

Test(ptx_parse, initialisers_of_all_forms_are_read)
{
    static const char text[] = HEAD ".global .f32 f[3] = {0f3F800000, -2.5, 3.0e2};\n"
                                    ".const .s16 h[2][3] = {{1, -2}, {3}};\n"
                                    ".global .f64 d = 0d3FF8000000000000;\n"
                                    ".global .b32 open[] = {1, 0x10, 010, 0b11};\n"
                                    ".global .v2 .u32 pair = {7, 8};\n"
                                    ".visible .global .u64 list[2] = {generic(d)+8, f};\n"
                                    ".visible .entry k() { ret; }\n";
    static const float f[3] = {1.0f, -2.5f, 300.0f};
    static const int16_t h[6] = {1, -2, 0, 3, 0, 0};
    static const uint32_t open[4] = {1, 16, 8, 3}, pair[2] = {7, 8};
    struct device d;
    device_open_text(&d, text);
#define AT(name)                                                                                                       \
    ((const void *)(uintptr_t)ptx_instance_global_address(d.instance, (size_t)ptx_module_find_global(d.module, name)))
    cr_assert_eq(memcmp(AT("f"), f, sizeof(f)), 0);
    cr_assert_eq(memcmp(AT("h"), h, sizeof(h)), 0);
    cr_assert_eq(*(const double *)AT("d"), 1.5);
    cr_assert_eq(memcmp(AT("open"), open, sizeof(open)), 0);
    cr_assert_eq(memcmp(AT("pair"), pair, sizeof(pair)), 0);
    cr_assert_eq(((const char *const *)AT("list"))[0], (const char *)AT("d") + 8);
    cr_assert_eq(((const void *const *)AT("list"))[1], AT("f"));
    cr_assert(ptx_module_global(d.module, 5)->visible);
    cr_assert_not(ptx_module_global(d.module, 0)->visible);
    device_close(&d);
}

Test(ptx_parse, labels_and_registers_are_private_to_their_block)
{
    static const char text[] =
        HEAD ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %rd1; .reg .b32 %r<3>;\nld.param.u64 %rd1, [out];\n"
             "mov.u32 %r1, 1;\n{\n.reg .b32 %r1; .reg .pred p;\nmov.u32 %r1, 0;\nL: add.u32 %r1, %r1, 1;\n"
             "setp.lt.u32 p, %r1, 10;\n@p bra L;\nst.global.u32 [%rd1], %r1;\n}\n{\n.reg .pred p;\n"
             "L: add.u32 %r1, %r1, 1;\nsetp.lt.u32 p, %r1, 5;\n@p bra L;\n}\nst.global.u32 [%rd1+4], %r1;\nret;\n}\n";
    struct device d;
    device_open_text(&d, text);
    uint32_t *out = device_alloc(&d, 8);
    device_run(&d, "k", SIZE1(1, 1), ARGS(&out));
    cr_assert_eq(out[0], 10);
    cr_assert_eq(out[1], 5);
    device_close(&d);
}

Test(ptx_parse, a_jump_table_takes_lanes_apart)
{
    static const char text[] =
        HEAD ".visible .entry k(.param .u64 out)\n{\n.reg .b64 %rd<4>; .reg .b32 %r<5>;\nld.param.u64 %rd1, [out];\n"
             "mov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\nrem.u32 %r2, %r1, 3;\n"
             "table: .branchtargets A, B, C;\nbrx.idx %r2, table;\nA: mov.u32 %r3, 10;\nbra END;\nB: mov.u32 %r3, 20;\n"
             "bra END;\nC: mov.u32 %r3, 30;\nEND:\nst.global.u32 [%rd3], %r3;\nret;\n}\n";
    struct device d;
    device_open_text(&d, text);
    uint32_t *out = device_alloc(&d, 128);
    device_run(&d, "k", SIZE1(1, 32), ARGS(&out));
    for (unsigned i = 0; i < 32; i++)
        cr_assert_eq(out[i], 10 * (i % 3 + 1));
    device_close(&d);
}

/* ---- damaged texts ---- */

/* Runs what could be read, for a short while: kernels may do anything but harm. */
static bool no_access(void *arg, uint64_t address, size_t bytes, bool write, struct ptx_range *range)
{
    (void)arg, (void)address, (void)bytes, (void)write, (void)range;
    return false;
}

static void try_to_run(struct ptx_module *module)
{
    struct ptx_instance *instance;
    struct ptx_module_info info;
    static _Alignas(4096) char memory[1 << 16];
    static const char params[PTX_PARAM_BYTES_MAX];
    ptx_module_info(module, &info);
    cr_assert_eq(ptx_instance_create(module, &instance), 0);
    for (size_t i = 0; i < info.globals; i++) {
        if (ptx_module_global(module, i)->size <= sizeof(memory))
            ptx_instance_place_global(instance, i, (uint64_t)(uintptr_t)memory);
    }
    for (size_t i = 0; i < info.kernels; i++) {
        struct ptx_fault fault;
        struct ptx_launch launch = {.grid = {1, 1, 1},
                                    .block = {33, 1, 1},
                                    .params = params,
                                    .params_size = sizeof(params),
                                    .may_access = no_access,
                                    .max_instructions = 20000};
        int error = ptx_run(instance, i, &launch, &fault);
        cr_assert(error == 0 || error == -EFAULT || error == -EINVAL || error == -ECANCELED, "error %d", error);
        cr_assert((fault.kind != PTX_FAULT_NONE) == (error == -EFAULT || error == -EINVAL));
    }
    ptx_instance_destroy(instance);
}

static size_t damage(char *text, size_t length, size_t room, uint32_t *seed)
{
    static const char *const pieces[] = {";",          ",",
                                         "{",          "}",
                                         "[",          "]",
                                         "(",          ")",
                                         ".",          ":",
                                         "@",          "!",
                                         "-",          "+",
                                         "|",          "%r1",
                                         "%rd1",       "%p1",
                                         "0",          "-1",
                                         "4294967295", "0x8000000000000000",
                                         ".v4",        ".b64",
                                         ".f16x2",     ".reg .b32 %r<3>;",
                                         "ret;",       "bar.sync 0;",
                                         "\n",         "\0",
                                         "_",          "<",
                                         ">",          ".align 0",
                                         "call",       "18446744073709551615",
                                         ".shared",    ".param"};
    unsigned changes = 1 + random32(seed) % 4;
    for (unsigned i = 0; i < changes && length > 2; i++) {
        size_t at = random32(seed) % length;
        size_t other = random32(seed) % length, span = 1 + random32(seed) % 30;
        const char *piece = pieces[random32(seed) % (sizeof(pieces) / sizeof(pieces[0]))];
        size_t size = strlen(piece) ? strlen(piece) : 1;
        switch (random32(seed) % 6) {
        case 0:
            text[at] = (char)random32(seed);
            break;
        case 1:
            text[at] = (char)(text[at] ^ 1 << random32(seed) % 8);
            break;
        case 2: /* remove */
            span = span < length - at ? span : length - at;
            memmove(text + at, text + at + span, length - at - span);
            length -= span;
            break;
        case 3: /* insert */
            if (length + size <= room) {
                memmove(text + at + size, text + at, length - at);
                memcpy(text + at, piece, size);
                length += size;
            }
            break;
        case 4: /* copy one place over another */
            span = span < length - at ? span : length - at;
            span = span < length - other ? span : length - other;
            memmove(text + at, text + other, span);
            break;
        default: /* cut the end off, rarely */
            if (random32(seed) % 8 == 0)
                length = at + 1;
        }
    }
    return length;
}

static void damage_file(const char *file, unsigned rounds)
{
    size_t length;
    char *text = harness_read(file, &length), *work = malloc(length + 4096), error[PTX_ERROR_TEXT_MAX];
    uint32_t seed = 71;
    unsigned read = 0;
    for (unsigned i = 0; i < rounds; i++) {
        struct ptx_module *module;
        memcpy(work, text, length);
        size_t size = damage(work, length, length + 4096, &seed);
        char *tight = malloc(size);
        memcpy(tight, work, size);
        int result = ptx_module_create(tight, size, NULL, &module, error, sizeof(error));
        free(tight);
        cr_assert(result == 0 || result == -EINVAL || result == -ENOTSUP || result == -E2BIG || result == -ENOEXEC,
                  "%s", error);
        cr_assert_eq(result == 0, error[0] == '\0');
        cr_assert_eq(result != 0, strncmp(error, "line ", 5) == 0, "%s", error);
        if (result == 0) {
            read++;
            try_to_run(module);
            ptx_module_destroy(module);
        }
    }
    cr_assert(read > rounds / 50 && read < rounds, "%u of %u damaged texts were readable", read, rounds);
    free(text);
    free(work);
}

Test(ptx_parse, damaged_texts_end_in_success_or_error, .timeout = 100)
{
    damage_file("faults.ptx", 2500);
    damage_file("globals.ptx", 700);
    damage_file("sync.ptx", 400);
    damage_file("control.ptx", 200);
    damage_file("half.ptx", 300);
}
