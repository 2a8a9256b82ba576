/* SPDX-License-Identifier: Apache-2.0
 *
 * Description: between its first launches and the next synchronisation, a thread that launches kernels enters the
 * kernel not once and allocates nothing, in mode full with the device's thread awake. If that thread sleeps, the first
 * launch of a burst makes one futex call to wake it, and nothing else.
 *
 *   launch_path_is_clean SHIM [FOLDER OF libcuda.so.1]
 *
 * System calls are seen by a seccomp filter that is installed in the launching threads alone: it turns each into a
 * signal, whose handler counts it and then makes the call itself, through the one instruction that the filter lets
 * pass. So the program under test goes on as if nothing were there. Allocations are seen because this program defines
 * malloc and its family itself. Both are only counted inside the windows that are to be clean.
 *
 * That this finds anything is shown first: planted calls must be found, in a program that is otherwise the same.
 */
#include "tests/shim/launch_path.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#if !defined(__x86_64__)
#error "the filter and its gate are written for x86_64, as is the preloaded library"
#endif

enum {
    LAUNCHES = 1000, /* per thread and per way to launch */
    BURST = 50,      /* 50 records of 1 KiB and a bit fit into a lane, so nobody has to make room */
    SINGLES = 20,
    THREADS_MAX = 2,
    DEPTH = 24,
};

/* ---- what a window saw ------------------------------------------------------------------------------------------- */

struct findings {
    unsigned int syscalls, futexes, allocations; /* syscalls: without the futexes */
    /* The first finding other than a futex. */
    const char *what;
    long number;
    void *stack[DEPTH];
    int depth;
};

static __thread struct {
    bool open;
    struct findings found;
} window __attribute__((tls_model("initial-exec")));

static bool clock_is_a_syscall; /* this machine's vDSO cannot read the clock, which is not the library's fault */

static void note(const char *what, long number)
{
    struct findings *found = &window.found;

    window.open = false; /* what backtrace does is not the library's */
    if (!found->what) {
        found->what = what;
        found->number = number;
        found->depth = backtrace(found->stack, DEPTH);
    }
    window.open = true;
}

static void window_open(void)
{
    window.found = (struct findings){0};
    window.open = true;
}

static struct findings window_close(void)
{
    window.open = false;
    return window.found;
}

/* ---- allocations ------------------------------------------------------------------------------------------------- */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *memory);

static void note_allocation(const char *what)
{
    if (!window.open)
        return;
    window.found.allocations++;
    note(what, -1);
}

#define SEEN __attribute__((visibility("default")))

SEEN void *malloc(size_t size)
{
    note_allocation("malloc");
    return __libc_malloc(size);
}

SEEN void *calloc(size_t count, size_t size)
{
    note_allocation("calloc");
    return __libc_calloc(count, size);
}

SEEN void *realloc(void *memory, size_t size)
{
    note_allocation("realloc");
    return __libc_realloc(memory, size);
}

SEEN void free(void *memory)
{
    note_allocation("free");
    __libc_free(memory);
}

SEEN void *memalign(size_t alignment, size_t size);
SEEN void *memalign(size_t alignment, size_t size)
{
    note_allocation("memalign");
    return __libc_memalign(alignment, size);
}

SEEN void *aligned_alloc(size_t alignment, size_t size)
{
    note_allocation("aligned_alloc");
    return __libc_memalign(alignment, size);
}

SEEN int posix_memalign(void **memory, size_t alignment, size_t size)
{
    note_allocation("posix_memalign");
    *memory = __libc_memalign(alignment, size);
    return *memory ? 0 : ENOMEM;
}

/* ---- system calls ------------------------------------------------------------------------------------------------ */

/* The only instruction that may enter the kernel in a filtered thread. */
long gate(long number, long a, long b, long c, long d, long e, long f);
extern const char gate_end[];
__asm__(".pushsection .text\n"
        ".globl gate, gate_end\n.hidden gate, gate_end\n"
        ".type gate, @function\n"
        "gate:\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    mov %rdx, %rsi\n"
        "    mov %rcx, %rdx\n"
        "    mov %r8, %r10\n"
        "    mov %r9, %r8\n"
        "    mov 8(%rsp), %r9\n"
        "    syscall\n"
        "gate_end:\n"
        "    ret\n"
        ".size gate, . - gate\n"
        ".popsection\n");

static void on_syscall(int signal, siginfo_t *info, void *context)
{
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    long number = info->si_syscall;

    (void)signal;
    if (window.open && number == SYS_futex)
        window.found.futexes++;
    else if (window.open && !(clock_is_a_syscall && number == SYS_clock_gettime)) {
        window.found.syscalls++;
        note("system call", number);
    }
    registers[REG_RAX] = gate(number, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX], registers[REG_R10],
                              registers[REG_R8], registers[REG_R9]);
}

static bool handle_syscalls(void)
{
    struct sigaction action = {.sa_sigaction = on_syscall, .sa_flags = SA_SIGINFO | SA_NODEFER};
    void *once[DEPTH];

    backtrace(once, DEPTH); /* its first call loads a library */
    return sigaction(SIGSYS, &action, NULL) == 0;
}

/* For the calling thread and what it starts later, for ever. */
static bool filter_syscalls(void)
{
    uint64_t passes = (uint64_t)(uintptr_t)gate_end; /* the kernel reports the address behind the instruction */
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 6, 0), /* the end of the handler */
        /* A new thread begins where the call returns, which must not be in a handler. It does not go unseen: whoever
         * starts a thread also sets signal masks. The simulated device starts some when it has more to do. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 4, 0),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)passes, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(passes >> 32), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* ---- saying what was found --------------------------------------------------------------------------------------- */

static const char *syscall_name(long number)
{
    static const struct {
        long number;
        const char *name;
    } names[] = {
        {SYS_futex, "futex"},
        {SYS_getppid, "getppid"},
        {SYS_getpid, "getpid"},
        {SYS_gettid, "gettid"},
        {SYS_mmap, "mmap"},
        {SYS_munmap, "munmap"},
        {SYS_mprotect, "mprotect"},
        {SYS_madvise, "madvise"},
        {SYS_brk, "brk"},
        {SYS_read, "read"},
        {SYS_write, "write"},
        {SYS_pwrite64, "pwrite64"},
        {SYS_openat, "openat"},
        {SYS_close, "close"},
        {SYS_ioctl, "ioctl"},
        {SYS_poll, "poll"},
        {SYS_nanosleep, "nanosleep"},
        {SYS_clock_nanosleep, "clock_nanosleep"},
        {SYS_sched_yield, "sched_yield"},
        {SYS_clock_gettime, "clock_gettime"},
        {SYS_rt_sigprocmask, "rt_sigprocmask"},
        {SYS_clone, "clone"},
        {SYS_clone3, "clone3"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].number == number)
            return names[i].name;
    return "(see unistd_64.h)";
}

static void say_findings(const char *where, const struct findings *found)
{
    printf("%s: %u system calls, %u futex calls, %u allocations\n", where, found->syscalls, found->futexes,
           found->allocations);
    if (!found->what)
        return;
    if (found->number >= 0)
        printf("  the first: %s %ld %s, from\n", found->what, found->number, syscall_name(found->number));
    else
        printf("  the first: %s, from\n", found->what);
    for (int i = 0; i < found->depth; i++) {
        Dl_info info;

        if (!dladdr(found->stack[i], &info) || !info.dli_fname)
            continue;
        printf("    %s+0x%lx%s%s\n", info.dli_fname, (unsigned long)((char *)found->stack[i] - (char *)info.dli_fbase),
               info.dli_sname ? " " : "", info.dli_sname ? info.dli_sname : "");
    }
}

/* ---- the program under test -------------------------------------------------------------------------------------- */

static struct cu_driver cuda;

enum plant { PLANT_NOTHING, PLANT_SYSCALL, PLANT_ALLOCATION };

struct kernels {
    CUfunction small, large;
};

/* Ways to launch: both forms of arguments, both entry points, few and many bytes. */
static CUresult launch_params(const struct kernels *kernels, CUstream stream)
{
    unsigned long long values[4] = {1, 2, 3, 4};
    void *parameters[] = {&values[0], &values[1], &values[2], &values[3]};

    return cuda.cuLaunchKernel(kernels->small, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}

static CUresult launch_extra(const struct kernels *kernels, CUstream stream)
{
    unsigned long long values[4] = {1, 2, 3, 4};
    size_t size = sizeof(values);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, values, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};

    return cuda.cuLaunchKernel(kernels->small, 1, 1, 1, 32, 1, 1, 0, stream, NULL, extra);
}

static CUresult launch_large(const struct kernels *kernels, CUstream stream)
{
    unsigned char bytes[1024] = {0};
    void *parameters[] = {bytes};

    return cuda.cuLaunchKernel(kernels->large, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL);
}

static CUresult launch_extended(const struct kernels *kernels, CUstream stream)
{
    unsigned long long values[4] = {1, 2, 3, 4};
    void *parameters[] = {&values[0], &values[1], &values[2], &values[3]};
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_IGNORE};
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 32,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = &attribute,
                             .numAttrs = 1};

    return cuda.cuLaunchKernelEx(&config, kernels->small, parameters, NULL);
}

static const struct {
    const char *name;
    CUresult (*launch)(const struct kernels *kernels, CUstream stream);
} ways[] = {
    {"cuLaunchKernel, 32 bytes in kernelParams", launch_params},
    {"cuLaunchKernel, 32 bytes in extra", launch_extra},
    {"cuLaunchKernel, 1 KiB", launch_large},
    {"cuLaunchKernelEx with an attribute", launch_extended},
};

static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                          ".visible .entry small(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) { ret; }\n"
                          ".visible .entry large(.param .align 8 .b8 p[1024]) { ret; }\n";

static void do_what_is_planted(enum plant plant)
{
    static void *volatile memory; /* volatile: the pair must not be optimised away */

    if (plant == PLANT_SYSCALL)
        syscall(SYS_getppid);
    if (plant == PLANT_ALLOCATION) {
        memory = malloc(16);
        free(memory);
    }
}

static bool add(struct findings *sum, const struct findings *found)
{
    sum->syscalls += found->syscalls;
    sum->futexes += found->futexes;
    sum->allocations += found->allocations;
    if (!sum->what && found->what) {
        unsigned int counts[3] = {sum->syscalls, sum->futexes, sum->allocations};

        *sum = *found;
        sum->syscalls = counts[0];
        sum->futexes = counts[1];
        sum->allocations = counts[2];
    }
    return true;
}

/* One burst in a window, then the synchronisation outside. */
static bool burst(size_t way, int launches, const struct kernels *kernels, CUstream stream, enum plant plant,
                  struct findings *sum)
{
    CUresult result = CUDA_SUCCESS;
    struct findings found;

    window_open();
    for (int i = 0; i < launches && result == CUDA_SUCCESS; i++) {
        result = ways[way].launch(kernels, stream);
        if (i == launches / 2)
            do_what_is_planted(plant);
    }
    found = window_close();
    add(sum, &found);
    return cuda_check(result, ways[way].name) && cuda_check(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize");
}

struct thread {
    pthread_t id;
    CUcontext context;
    struct kernels kernels;
    enum plant plant;
    int number;
    bool asleep; /* wait before each launch until the device's thread sleeps */
    bool fine;
};

static pthread_barrier_t together;

/* All ways once, so that functions, lanes and trace rings are known. */
static bool warm_up(const struct thread *thread, CUstream stream)
{
    for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); way++)
        for (int i = 0; i < 3; i++)
            if (!cuda_check(ways[way].launch(&thread->kernels, stream), ways[way].name) ||
                !cuda_check(cuda.cuStreamSynchronize(stream), "cuStreamSynchronize"))
                return false;
    return true;
}

/* Bursts back to back, the device's thread awake: nothing at all may be found. */
static bool run_bursts(const struct thread *thread, CUstream stream)
{
    bool fine = true;

    for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); way++) {
        struct findings sum = {0};

        for (int i = 0; i < LAUNCHES / BURST; i++)
            if (!burst(way, BURST, &thread->kernels, stream, thread->plant, &sum))
                return false;
        printf("thread %d, ", thread->number);
        say_findings(ways[way].name, &sum);
        fine = fine && sum.syscalls == 0 && sum.futexes == 0 && sum.allocations == 0;
    }
    return fine;
}

/* Single launches, each after a while without work: at most one futex call each, but some, or we see nothing. */
static bool run_singles(const struct thread *thread, CUstream stream)
{
    const struct timespec while_it_falls_asleep = {.tv_nsec = 10000000};
    struct findings sum = {0};

    for (int i = 0; i < SINGLES; i++) {
        nanosleep(&while_it_falls_asleep, NULL);
        if (!burst(0, 1, &thread->kernels, stream, PLANT_NOTHING, &sum))
            return false;
    }
    say_findings("single launches to a sleeping thread", &sum);
    return sum.syscalls == 0 && sum.allocations == 0 && sum.futexes > 0 && sum.futexes <= SINGLES;
}

static void *thread_main(void *argument)
{
    struct thread *thread = argument;
    CUstream stream;

    thread->fine = cuda_check(cuda.cuCtxSetCurrent(thread->context), "cuCtxSetCurrent") &&
                   cuda_check(cuda.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate") &&
                   warm_up(thread, stream);
    pthread_barrier_wait(&together);
    if (!filter_syscalls()) {
        printf("seccomp: %s\n", strerror(errno));
        exit(SKIPPED);
    }
    if (thread->fine)
        thread->fine = thread->asleep ? run_singles(thread, stream) : run_bursts(thread, stream);
    return NULL;
}

static int subject(int threads, bool asleep, enum plant plant)
{
    struct thread all[THREADS_MAX] = {0};
    struct kernels kernels;
    CUcontext context;
    CUmodule module;
    int status = PASSED;

    if (!handle_syscalls() || !cuda_begin(&cuda) || !cuda_check(cuda.cuCtxGetCurrent(&context), "cuCtxGetCurrent") ||
        !cuda_check(cuda.cuModuleLoadData(&module, ptx), "cuModuleLoadData") ||
        !cuda_check(cuda.cuModuleGetFunction(&kernels.small, module, "small"), "cuModuleGetFunction") ||
        !cuda_check(cuda.cuModuleGetFunction(&kernels.large, module, "large"), "cuModuleGetFunction"))
        return FAILED;
    pthread_barrier_init(&together, NULL, (unsigned int)threads);
    for (int i = 0; i < threads; i++) {
        all[i] = (struct thread){.context = context, .kernels = kernels, .plant = plant, .number = i, .asleep = asleep};
        if (pthread_create(&all[i].id, NULL, thread_main, &all[i]))
            return FAILED;
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(all[i].id, NULL);
        if (!all[i].fine)
            status = FAILED;
    }
    return status;
}

/* ---- the judge --------------------------------------------------------------------------------------------------- */

static void *find_planted(void *argument)
{
    struct findings nothing, call, allocation, clock;
    struct timespec now;
    bool *found = argument;

    if (!filter_syscalls()) {
        printf("needs seccomp filters: %s\n", strerror(errno));
        exit(SKIPPED);
    }
    window_open();
    nothing = window_close();
    window_open();
    syscall(SYS_getppid);
    call = window_close();
    window_open();
    do_what_is_planted(PLANT_ALLOCATION);
    allocation = window_close();
    window_open();
    clock_gettime(CLOCK_MONOTONIC, &now);
    clock = window_close();
    clock_is_a_syscall = clock.syscalls > 0;
    *found = nothing.syscalls == 0 && nothing.allocations == 0 && call.syscalls == 1 && call.number == SYS_getppid &&
             call.allocations == 0 && allocation.allocations == 2;
    if (!*found) {
        say_findings("nothing", &nothing);
        say_findings("one getppid", &call);
        say_findings("one malloc and one free", &allocation);
    }
    return NULL;
}

/* Without the library: does this program see what it is there to see? The exit status of --self-check. */
static int self_check(void)
{
    bool found = false;
    pthread_t thread;

    if (!handle_syscalls() || pthread_create(&thread, NULL, find_planted, &found))
        return FAILED;
    pthread_join(thread, NULL);
    if (clock_is_a_syscall)
        printf("reading the clock is a system call on this machine, so it is not counted\n");
    return found ? PASSED : FAILED;
}

static char output[65536];

struct expectation {
    const char *what;
    const char *setting, *trace; /* further settings of the library, or NULL */
    const char *arguments[4];    /* of the subject */
    int status;
    long long held;   /* launches, at least */
    const char *text; /* must be in what the subject says; NULL: anything */
};

static bool expect(const char *shim, const char *libraries, const struct expectation *wanted)
{
    struct subject subject = {shim, libraries, {"COISSUE_SUMMARY=on", wanted->setting, wanted->trace, NULL}, {NULL}};
    long long held;
    int status;

    memcpy(subject.arguments, wanted->arguments, sizeof(wanted->arguments));
    status = subject_run(&subject, output, sizeof(output));
    held = summary_number(output, "held in the queue, and then issued");
    if (status == SKIPPED) {
        printf("%s", output);
        exit(SKIPPED);
    }
    if (status == wanted->status && held >= wanted->held && (!wanted->text || strstr(output, wanted->text))) {
        printf("as it should be: %s (%lld launches held)\n", wanted->what, held < 0 ? 0 : held);
        return true;
    }
    printf("NOT SO: %s\nexit status %d instead of %d, %lld launches held of at least %lld%s%s\n%s\n", wanted->what,
           status, wanted->status, held, wanted->held, wanted->text ? ", expected to read: " : "",
           wanted->text ? wanted->text : "", output);
    return false;
}

/* LAUNCHES / BURST windows with one planted call each, found at the place where it was planted. */
#define PLANTED_CALLS "20 system calls, 0 futex calls, 0 allocations\n  the first: system call 110 getppid"
#define PLANTED_ALLOCATIONS "40 allocations\n  the first: malloc"

static int judge(const char *shim, const char *libraries)
{
    enum { ALL = sizeof(ways) / sizeof(ways[0]) * LAUNCHES };
    const char *awake = "COISSUE_SPIN_US=1000000"; /* longest that can be set, and longer than a burst */
    const struct expectation all[] = {
        {"a planted system call among launches is found",
         awake,
         NULL,
         {"--subject", "1", "syscall"},
         FAILED,
         ALL,
         PLANTED_CALLS},
        {"a planted allocation among launches is found",
         awake,
         NULL,
         {"--subject", "1", "allocation"},
         FAILED,
         ALL,
         PLANTED_ALLOCATIONS},
        {"launches of one thread are clean", awake, NULL, {"--subject", "1"}, PASSED, ALL, NULL},
        {"launches of two threads are clean", awake, NULL, {"--subject", "2"}, PASSED, 2 * ALL, NULL},
        {"launches are clean while a trace is written",
         awake,
         "COISSUE_TRACE=/tmp/launch_path_is_clean-%p.json",
         {"--subject", "1", "", "unlink"},
         PASSED,
         ALL,
         NULL},
        {"a launch wakes a sleeping thread by one futex call and no more",
         "COISSUE_SPIN_US=0",
         NULL,
         {"--subject", "1", "asleep"},
         PASSED,
         SINGLES,
         NULL},
    };
    const struct expectation check = {
        "planted calls are found without the library", NULL, NULL, {"--self-check"}, PASSED, -1, NULL};
    bool fine = expect(NULL, libraries, &check);

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        fine = expect(shim, libraries, &all[i]) && fine;
    return fine ? PASSED : FAILED;
}

static int subject_main(int count, char **arguments)
{
    int threads = atoi(arguments[0]), status;
    const char *word = count > 1 ? arguments[1] : "";
    enum plant plant = !strcmp(word, "syscall")      ? PLANT_SYSCALL
                       : !strcmp(word, "allocation") ? PLANT_ALLOCATION
                                                     : PLANT_NOTHING;
    bool asleep = !strcmp(word, "asleep");
    char trace[64];

    status = self_check(); /* for clock_is_a_syscall */
    if (status == PASSED)
        status = subject(threads, asleep, plant);
    if (count > 2) {
        snprintf(trace, sizeof(trace), "/tmp/launch_path_is_clean-%d.json", (int)getpid());
        unlink(trace);
    }
    return status;
}

int main(int argc, char **argv)
{
    const char *shim;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && strcmp(argv[1], "--self-check") == 0)
        return self_check();
    if (argc > 2 && strcmp(argv[1], "--subject") == 0)
        return subject_main(argc - 2, argv + 2);
    if (argc < 2) {
        printf("usage: launch_path_is_clean SHIM [FOLDER OF libcuda.so.1]\n");
        return FAILED;
    }
    shim = realpath(argv[1], NULL);
    if (!shim) {
        perror(argv[1]);
        return FAILED;
    }
    return judge(shim, argc > 2 ? argv[2] : NULL);
}
