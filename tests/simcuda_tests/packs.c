/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: kernels that coalesce/ rewrote in PTX: one launch for N members against N launches, bit for bit.
 */
#include "coalesce/coalesce.h"
#include "coalesce/pack.h"
#include "tests/simcuda_tests/cu.h"

#include <stdint.h>

enum { MEMBERS_MAX = 252, WORDS = 8192, PARAMETERS_MAX = 4096 };

static char *texts[2]; /* of the modules below */
static CUmodule modules[2];
static int sm;

struct member {
    uint32_t grid[3];
    unsigned char parameters[PARAMETERS_MAX];
};

/* Puts arguments where the driver says that they are. */
static void put(CUfunction function, struct member *member, int index, const void *value)
{
    size_t offset, size;

    MUST(cuFuncGetParamInfo(function, (size_t)index, &offset, &size));
    memcpy(member->parameters + offset, value, size);
}

/* A kernel and what its members are. */
struct subject {
    const char *kernel;
    void (*fill)(CUfunction function, struct member *member, int i); /* the arguments behind the first, the output */
    uint32_t block[3], shared;
    int members; /* at most */
};

static CUdeviceptr outputs[2], inputs;

static void fill_sizes(CUfunction function, struct member *member, int i)
{
    char a = (char)(i * 3 - 60);
    double b = i * 1.5;
    short c = (short)(i * 77);
    float d = (float)i / 3;
    long long e = i * 0x123456789abll;
    unsigned n = 100 + (unsigned)i;

    put(function, member, 1, &a);
    put(function, member, 2, &b);
    put(function, member, 3, &c);
    put(function, member, 4, &d);
    put(function, member, 5, &e);
    put(function, member, 6, &n);
}

static void fill_nothing(CUfunction function, struct member *member, int i)
{
}

static void fill_table(CUfunction function, struct member *member, int i)
{
    unsigned step = (unsigned)i + 1;
    int words[24];

    for (int k = 0; k < 24; k++)
        words[k] = i * 1000 + k * k;
    put(function, member, 1, words);
    put(function, member, 2, &step);
}

static void fill_address(CUfunction function, struct member *member, int i)
{
    unsigned seed = (unsigned)i * 2654435761u;
    int words[24];

    for (int k = 0; k < 24; k++)
        words[k] = i * 77 - k;
    put(function, member, 1, &seed);
    put(function, member, 2, words);
}

static void fill_wide(CUfunction function, struct member *member, int i)
{
    unsigned words[32], last = (unsigned)i << 20;

    for (int k = 0; k < 32; k++)
        words[k] = (unsigned)(i * 32 + k);
    put(function, member, 1, words);
    put(function, member, 2, &last);
}

static void fill_reduce(CUfunction function, struct member *member, int i)
{
    CUdeviceptr in = inputs + 4 * (unsigned)i;
    unsigned n = 1000 + (unsigned)i * 7;

    put(function, member, 1, &in);
    put(function, member, 2, &n);
}

static void fill_number(CUfunction function, struct member *member, int i)
{
    unsigned kind = (unsigned)i % 7;

    put(function, member, 1, &kind);
}

/* C = A x A, of the output's own 8 x 8 or 16 x 16 floats. */
static void fill_gemm(CUfunction function, struct member *member, int i)
{
    CUdeviceptr out, in = inputs + 16 * (unsigned)i;
    int n = (int)member->grid[0] * 8;

    memcpy(&out, member->parameters, sizeof(out));
    put(function, member, 0, &in);
    put(function, member, 1, &in);
    put(function, member, 2, &out);
    put(function, member, 3, &n);
}

static void fill_big1000(CUfunction function, struct member *member, int i)
{
    CUdeviceptr out;
    int words[250];

    memcpy(&out, member->parameters, sizeof(out));
    for (int k = 0; k < 250; k++)
        words[k] = k * i;
    put(function, member, 0, words);
    put(function, member, 1, &out);
}

static void fill_shared(CUfunction function, struct member *member, int i)
{
    int words = 1 + i;

    put(function, member, 1, &words);
}

static const struct subject subjects[] = {
    {"sizes", fill_sizes, {32, 1, 1}, 0, MEMBERS_MAX},
    {"grid", fill_nothing, {32, 1, 1}, 0, 40},
    {"indexed", fill_table, {64, 1, 1}, 0, 40},
    {"address", fill_address, {32, 1, 1}, 0, 40},
    {"wide", fill_wide, {32, 1, 1}, 0, 40},
    {"reduce", fill_reduce, {64, 1, 1}, 256, 20},
    {"count", fill_number, {64, 1, 1}, 0, 21},
    {"constants", fill_number, {32, 1, 1}, 0, 8},
    {"gemm", fill_gemm, {8, 8, 1}, 0, 12},
    {"big1000", fill_big1000, {1, 1, 1}, 0, 40},
    {"use_shared", fill_shared, {1, 1, 1}, 1024, 40},
    {"many_registers", fill_number, {32, 1, 1}, 0, 4},
    {"no_params", NULL, {32, 1, 1}, 0, MEMBERS_MAX},
};

static uint64_t address(void *context, const char *symbol)
{
    CUdeviceptr at = 0;
    size_t size;

    return cuModuleGetGlobal_v2(&at, &size, context, symbol) == CUDA_SUCCESS ? at : 0;
}

static int module_of(const char *kernel)
{
    CUfunction function;

    return cuModuleGetFunction(&function, modules[0], kernel) == CUDA_SUCCESS ? 0 : 1;
}

static bool rewrite(const char *kernel, uint32_t members, unsigned form, struct coalesce_output *output)
{
    int m = module_of(kernel);
    struct coalesce_source source = {
        .code = COALESCE_PTX,
        .bytes = texts[m],
        .size = strlen(texts[m]),
        .kernel = kernel,
        .address = address,
        .context = modules[m],
    };
    enum coalesce_refusal refusal = COALESCE_NONE;
    int error = ptx_rewrite(&source, (unsigned)sm, members, form, output, &refusal);

    if (error)
        fprintf(stderr, "%s, form %u: error %d, refusal %d\n", kernel, form, error, refusal);
    return error == 0;
}

static void reset(void)
{
    for (int side = 0; side < 2; side++)
        MUST(cuMemsetD32_v2(outputs[side], 0x5a5a5a5a, MEMBERS_MAX * WORDS));
}

/* The grids: the same for all, or some blocks more or less; no more than fit into the words of an output. */
static void shape(struct member *member, int i, unsigned form)
{
    bool ragged = (form & COALESCE_RAGGED) != 0;

    member->grid[0] = ragged ? 1 + (unsigned)i % 3 : 2;
    member->grid[1] = ragged ? 1 + (unsigned)(i / 3) % 2 : 2;
    member->grid[2] = form & COALESCE_FOLD ? 3 : 1;
}

static void launch(CUfunction function, const struct subject *subject, const uint32_t grid[3], void *bytes, size_t size)
{
    void *extra[] = {(void *)1 /* CU_LAUNCH_PARAM_BUFFER_POINTER */, bytes, (void *)2 /* ..._SIZE */, &size, NULL};

    MUST(cuLaunchKernel(function, grid[0], grid[1], grid[2], subject->block[0], subject->block[1], subject->block[2],
                        subject->shared, NULL, NULL, size ? extra : NULL));
}

static void fill(const struct subject *subject, CUfunction function, struct member *member, int i, int side,
                 unsigned form)
{
    CUdeviceptr out = outputs[side] + (size_t)i * WORDS * 4;

    memset(member, 0, sizeof(*member));
    shape(member, i, form);
    if (!subject->fill)
        return;
    memcpy(member->parameters, &out, sizeof(out));
    subject->fill(function, member, i);
}

/* The parameters end where the driver says. */
static void check_extent(const struct subject *subject, CUfunction function, const struct coalesce_layout *layout)
{
    size_t offset, size, end = 0;

    for (size_t i = 0; cuFuncGetParamInfo(function, i, &offset, &size) == CUDA_SUCCESS; i++)
        end = offset + size;
    if (end != layout->parameter_bytes)
        fprintf(stderr, "%s: %u bytes of parameters, not %zu\n", subject->kernel, layout->parameter_bytes, end);
    CHECK(end == layout->parameter_bytes);
}

static void compare(const struct subject *subject, unsigned form, int members)
{
    size_t bytes = (size_t)members * WORDS * 4;
    unsigned *words[2];

    for (int side = 0; side < 2; side++) {
        words[side] = malloc(bytes);
        if (!words[side])
            _exit(1);
        MUST(cuMemcpyDtoH_v2(words[side], outputs[side], bytes));
    }
    for (size_t i = 0; i < bytes / 4; i++) {
        if (words[0][i] == words[1][i])
            continue;
        fprintf(stderr, "%s, form %u: member %zu word %zu is %x, not %x\n", subject->kernel, form, i / WORDS, i % WORDS,
                words[1][i], words[0][i]);
        CHECK(!"equal");
        break;
    }
    free(words[0]);
    free(words[1]);
}

/* N members alone, then in packs of at most `most`. */
static void run(const struct subject *subject, unsigned form, uint32_t most)
{
    CUfunction original, packed;
    struct coalesce_output output;
    struct coalesce_pack pack;
    struct member member;
    unsigned char *area;
    CUmodule module;

    if (!rewrite(subject->kernel, most, form, &output)) {
        CHECK(!"rewritten");
        return;
    }
    reset();
    MUST(cuModuleGetFunction(&original, modules[module_of(subject->kernel)], subject->kernel));
    MUST(cuModuleLoadData(&module, output.image));
    MUST(cuModuleGetFunction(&packed, module, subject->kernel));
    check_extent(subject, original, &output.layout);
    area = calloc(1, output.layout.bytes);
    if (!area)
        _exit(1);
    for (int i = 0; i < subject->members; i++) {
        fill(subject, original, &member, i, 0, form);
        launch(original, subject, member.grid, member.parameters, output.layout.parameter_bytes);
    }
    coalesce_pack_begin(&pack, &output.layout, area);
    for (int i = 0; i < subject->members; i++) {
        fill(subject, original, &member, i, 1, form);
        CHECK(coalesce_pack_add(&pack, member.grid, member.parameters) == 0);
        if (pack.count < output.layout.capacity && i + 1 < subject->members)
            continue;
        launch(packed, subject, pack.grid, area, output.layout.bytes);
        memset(area, 0xee, output.layout.bytes); /* nothing of an earlier pack may be read */
        coalesce_pack_begin(&pack, &output.layout, area);
    }
    MUST(cuCtxSynchronize());
    compare(subject, form, subject->members);
    MUST(cuModuleUnload(module));
    free(area);
    free(output.image);
}

static void each(unsigned form, uint32_t most)
{
    for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
        if (sm < 90 && strcmp(subjects[i].kernel, "wide") == 0)
            continue; /* refused there: ptx_rewrite.c says why */
        run(&subjects[i], form, most);
    }
}

static void a_pack_of_one_does_what_the_kernel_does(void)
{
    for (unsigned form = 0; form < 4; form++)
        each(form, 1);
}

static void members_with_equal_grids_in_one_launch(void)
{
    each(0, 5);
    each(0, MEMBERS_MAX);
}

static void members_with_different_grids_in_one_launch(void)
{
    each(COALESCE_RAGGED, MEMBERS_MAX);
}

static void members_with_grids_of_three_dimensions_in_one_launch(void)
{
    each(COALESCE_FOLD, MEMBERS_MAX);
}

static void members_with_different_grids_of_three_dimensions_in_one_launch(void)
{
    each(COALESCE_FOLD | COALESCE_RAGGED, MEMBERS_MAX);
}

/* The rewritten module has no variables of its own: what it changes is seen in the program's. */
static void variables_are_those_of_the_program(void)
{
    static const struct subject subject = {"variables", fill_nothing, {32, 1, 1}, 0, 10};
    CUdeviceptr total = address(modules[0], "total"), history = address(modules[0], "history");
    unsigned words[2][65];

    for (int once = 0; once < 2; once++) {
        MUST(cuMemsetD32_v2(total, 5, 1));
        MUST(cuMemsetD32_v2(history, 0, 64));
        run(&subject, 0, once ? 10 : 1);
        MUST(cuMemcpyDtoH_v2(words[once], total, 4));
        MUST(cuMemcpyDtoH_v2(words[once] + 1, history, 64 * 4));
    }
    CHECK(words[0][0] == 5 + 2 * 10 * 4); /* alone and in packs, ten members, four blocks */
    CHECK(memcmp(words[0], words[1], sizeof(words[0])) == 0);
}

static const struct test tests[] = {
#define TEST(name)                                                                                                     \
    {                                                                                                                  \
#name, name                                                                                                    \
    }
    TEST(a_pack_of_one_does_what_the_kernel_does),
    TEST(members_with_equal_grids_in_one_launch),
    TEST(members_with_different_grids_in_one_launch),
    TEST(members_with_grids_of_three_dimensions_in_one_launch),
    TEST(members_with_different_grids_of_three_dimensions_in_one_launch),
    TEST(variables_are_those_of_the_program),
};

int main(int argc, char **argv)
{
    static const char *const files[] = {"../coalesce/pack_kernels.ptx", "kernels.ptx"};
    int major, minor, status;
    float values[4096];

    set_up();
    MUST(cuDeviceGetAttribute(&major, 75, 0)); /* compute capability */
    MUST(cuDeviceGetAttribute(&minor, 76, 0));
    sm = major * 10 + minor;
    for (int i = 0; i < 2; i++) {
        texts[i] = test_file(files[i]);
        MUST(cuModuleLoadData(&modules[i], texts[i]));
        MUST(cuMemAlloc_v2(&outputs[i], (size_t)MEMBERS_MAX * WORDS * 4));
    }
    MUST(cuMemAlloc_v2(&inputs, sizeof(values)));
    for (int i = 0; i < 4096; i++)
        values[i] = (float)(i % 251) / 7;
    MUST(cuMemcpyHtoD_v2(inputs, values, sizeof(values)));
    status = RUN_TESTS(tests, argc, argv);
    free(texts[0]);
    free(texts[1]);
    return status;
}
