/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: a program that uses 120 streams and 2,000 kernels grows by less than 64 MiB when the library is
 * preloaded: in resident memory at its highest, and in private writable memory. Compared with the same program without
 * the preload.
 *
 *   launch_path_memory SHIM [FOLDER OF libcuda.so.1]
 */
#include "tests/shim/launch_path.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LIMIT_KIB = 64 * 1024,
    STREAMS = 120,
    KERNELS = 2000,
    ROUNDS = 4, /* launches of each kernel: each of them in another stream */
    PLANTED_KIB = 96 * 1024,
    AROUND = 1024,             /* a lane's ring is 128 KiB; records of that many launches go once around it */
    RINGS_KIB = STREAMS * 128, /* and so much is mapped at least, or we see nothing */
};

/* ---- address space that the library takes ------------------------------------------------------------------------ */

static _Atomic uintptr_t library_begin, library_end;
static _Atomic long long mapped; /* bytes; what is freed is not subtracted, but what is unmapped is */

static bool is_library(const void *caller)
{
    uintptr_t at = (uintptr_t)caller;

    return at >= atomic_load(&library_begin) && at < atomic_load(&library_end);
}

static int note_library(struct dl_phdr_info *info, size_t size, void *name)
{
    uintptr_t end = 0;

    (void)size;
    if (!strstr(info->dlpi_name, name))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            end = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    atomic_store(&library_begin, info->dlpi_addr);
    atomic_store(&library_end, end);
    return 1;
}

#define SEEN __attribute__((visibility("default")))

/* Both names by assembly: which of them <sys/mman.h> means by mmap depends on _FILE_OFFSET_BITS. */
SEEN void *counted_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset) __asm__("mmap64");
__asm__(".globl mmap\n.type mmap, @function\n.set mmap, mmap64\n");

SEEN void *counted_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
    if (is_library(__builtin_return_address(0)))
        atomic_fetch_add(&mapped, (long long)size);
    return (void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
}

SEEN int munmap(void *address, size_t size)
{
    if (is_library(__builtin_return_address(0)))
        atomic_fetch_sub(&mapped, (long long)size);
    return (int)syscall(SYS_munmap, address, size);
}

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

SEEN void *malloc(size_t size)
{
    if (is_library(__builtin_return_address(0)))
        atomic_fetch_add(&mapped, (long long)size);
    return __libc_malloc(size);
}

SEEN void *calloc(size_t count, size_t size)
{
    if (is_library(__builtin_return_address(0)))
        atomic_fetch_add(&mapped, (long long)(count * size));
    return __libc_calloc(count, size);
}

SEEN void *realloc(void *memory, size_t size)
{
    if (is_library(__builtin_return_address(0)))
        atomic_fetch_add(&mapped, (long long)size);
    return __libc_realloc(memory, size);
}

/* ---- the program under test -------------------------------------------------------------------------------------- */

static struct cu_driver cuda;

/* 2,000 small kernels as PTX text, with parameter lists of several lengths. */
static char *write_kernels(void)
{
    size_t size = (size_t)KERNELS * 256 + 1024;
    char *text = malloc(size), *at = text;

    at += sprintf(at, ".version 8.0\n.target sm_80\n.address_size 64\n");
    for (int i = 0; i < KERNELS; i++) {
        at += sprintf(at, ".visible .entry a_kernel_with_a_name_of_usual_length_%d(", i);
        for (int p = 0; p <= i % 4; p++)
            at += sprintf(at, "%s.param .u64 p%d_%d", p ? ", " : "", i, p);
        at += sprintf(at, ") { ret; }\n");
    }
    return text;
}

static bool launch_all(CUmodule module, CUstream *streams)
{
    unsigned long long values[4] = {0};
    void *parameters[] = {&values[0], &values[1], &values[2], &values[3]};
    int launches = 0;

    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < KERNELS; i++, launches++) {
            CUfunction function;
            char name[80];

            snprintf(name, sizeof(name), "a_kernel_with_a_name_of_usual_length_%d", i);
            if (!cuda_check(cuda.cuModuleGetFunction(&function, module, name), "cuModuleGetFunction") ||
                !cuda_check(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, streams[(i + round) % STREAMS],
                                                parameters, NULL),
                            "cuLaunchKernel"))
                return false;
            if (launches % AROUND == 0 && !cuda_check(cuda.cuCtxSynchronize(), "cuCtxSynchronize"))
                return false;
        }
    return cuda_check(cuda.cuCtxSynchronize(), "cuCtxSynchronize");
}

/* One stream gets enough launches to touch its whole ring, then the next: all rings are resident in the end. */
static bool fill_rings(CUmodule module, CUstream *streams)
{
    unsigned long long value = 0;
    void *parameters[] = {&value};
    CUfunction function;

    if (!cuda_check(cuda.cuModuleGetFunction(&function, module, "a_kernel_with_a_name_of_usual_length_0"),
                    "cuModuleGetFunction"))
        return false;
    for (int i = 0; i < STREAMS; i++) {
        for (int n = 0; n < AROUND; n++)
            if (!cuda_check(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, streams[i], parameters, NULL),
                            "cuLaunchKernel"))
                return false;
        if (!cuda_check(cuda.cuStreamSynchronize(streams[i]), "cuStreamSynchronize"))
            return false;
    }
    return true;
}

static bool say_memory(void)
{
    char line[128];
    FILE *file = fopen("/proc/self/status", "r");

    if (!file)
        return false;
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, "VmHWM:", 6) == 0)
            fputs(line, stdout);
    fclose(file);
    printf("Mapped: %lld kB\n", atomic_load(&mapped) / 1024);
    return true;
}

/* `library`: its path, or nothing. */
static int subject(const char *library, bool plant)
{
    char *text = write_kernels(), *planted = NULL;
    CUstream streams[STREAMS];
    CUmodule module;

    if (*library)
        dl_iterate_phdr(note_library, (char *)library);
    if (!cuda_begin(&cuda) || !cuda_check(cuda.cuModuleLoadData(&module, text), "cuModuleLoadData"))
        return FAILED;
    for (int i = 0; i < STREAMS; i++)
        if (!cuda_check(cuda.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), "cuStreamCreate"))
            return FAILED;
    if (!launch_all(module, streams) || !fill_rings(module, streams))
        return FAILED;
    if (plant) {
        planted = malloc((size_t)PLANTED_KIB * 1024);
        memset(planted, 1, (size_t)PLANTED_KIB * 1024);
        __asm__ volatile("" : : "r"(planted) : "memory"); /* it is used: the compiler must not remove it */
    }
    if (!say_memory())
        return FAILED;
    free(planted);
    free(text);
    return PASSED;
}

struct memory {
    long long resident, mapped, held; /* KiB, KiB, launches */
};

static long long field(const char *output, const char *name)
{
    const char *at = strstr(output, name);

    return at ? atoll(at + strlen(name)) : -1;
}

static bool measure(struct subject *subject, struct memory *memory)
{
    static char output[65536];
    int status = subject_run(subject, output, sizeof(output));

    memory->resident = field(output, "VmHWM:");
    memory->mapped = field(output, "Mapped:");
    memory->held = summary_number(output, "held in the queue, and then issued");
    if (status == 0 && memory->resident > 0 && memory->mapped >= 0)
        return true;
    printf("the program under test ended with %d:\n%s\n", status, output);
    return false;
}

static bool is_bounded(const char *what, const struct memory *with, const struct memory *without)
{
    long long resident = with->resident - without->resident;
    bool fine = resident < LIMIT_KIB && with->mapped < LIMIT_KIB;

    printf("%s: resident %+lld KiB (of %lld), mapped and allocated by the library %lld KiB, limit %d: %s\n", what,
           resident, with->resident, with->mapped, LIMIT_KIB, fine ? "bounded" : "NOT bounded");
    return fine;
}

static int judge(const char *shim, const char *libraries)
{
    /* A real driver compiles the kernels, or finds them in its cache of the last run: each must do the same. */
    const char *no_cache = "CUDA_CACHE_DISABLE=1";
    struct subject plain = {NULL, libraries, {no_cache, NULL}, {"--subject", "", NULL}};
    struct subject planted = {NULL, libraries, {no_cache, NULL}, {"--subject", "", "plant", NULL}};
    struct subject loaded = {shim, libraries, {no_cache, "COISSUE_SUMMARY=on", NULL}, {"--subject", shim, NULL}};
    struct memory without, with, with_plant;

    if (!measure(&plain, &without) || !measure(&planted, &with_plant))
        return FAILED;
    if (is_bounded("96 MiB planted, not preloaded", &with_plant, &without)) {
        printf("this test finds nothing: the planted memory went unseen\n");
        return FAILED;
    }
    if (!measure(&loaded, &with))
        return FAILED;
    printf("%lld launches were held\n", with.held);
    if (with.held < KERNELS * ROUNDS || with.mapped < RINGS_KIB) {
        printf("that is too few, or too little was mapped (%lld KiB): what is to be measured did not happen\n",
               with.mapped);
        return FAILED;
    }
    return is_bounded("preloaded", &with, &without) ? PASSED : FAILED;
}

int main(int argc, char **argv)
{
    const char *shim;

    if (argc > 1 && strcmp(argv[1], "--subject") == 0)
        return subject(argc > 2 ? argv[2] : "", argc > 3);
    if (argc < 2) {
        printf("usage: launch_path_memory SHIM [FOLDER OF libcuda.so.1]\n");
        return FAILED;
    }
    shim = realpath(argv[1], NULL);
    if (!shim) {
        perror(argv[1]);
        return FAILED;
    }
    return judge(shim, argc > 2 ? argv[2] : NULL);
}
