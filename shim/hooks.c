/* SPDX-License-Identifier: Apache-2.0
 *
 * How callers reach us.
 *
 * Three ways lead to the driver. Programs linked with it get the names that we export, because a preloaded library
 * comes first. Programs that look names up (every CUDA runtime does) call dlsym, which we export too, and then
 * cuGetProcAddress, for which dlsym gave them our own.
 *
 * Look-ups ask the real driver first, with the caller's own arguments, and then exchange the address that it returned.
 * By address, not by name: it settles version, suffix and stream flavour at once, also for versions that do not exist
 * yet. What the driver does not have stays missing; what is not at a known address stays as it is, except functions of
 * unknown names, which are wrapped so that they flush everything (design rule: unknown names flush).
 *
 * In here nothing is initialised, allocated, logged or locked: look-ups happen before cuInit, under the loader's lock,
 * and inside allocators.
 */
#include "shim/shim.h"

#include <ctype.h>
#include <dlfcn.h>
#include <string.h>

enum { UNKNOWN_SLOTS = 64, UNKNOWN_BYTES = 16 }; /* as in entry_x86_64.S */

struct cu_driver shim_driver;

typedef void *(*dlsym_fn)(void *handle, const char *name);
extern unsigned char shim_unknown_thunks[];

/* Used by the assembly. */
__attribute__((visibility("hidden"))) void *shim_real_dlsym;
__attribute__((visibility("hidden"))) int shim_dlsym_filter(void *handle, const char *name, void **result);
__attribute__((visibility("hidden"))) void *shim_unknown_called(int slot);

static _Atomic bool bound;
static _Atomic(void *) unknown_real[UNKNOWN_SLOTS];

#define KEEPS_ANSWER_AUTO(symbol) NULL
#define KEEPS_ANSWER_HAND(symbol) (void *)symbol
#define KEEPS_QUEUE_HAND(symbol) (void *)symbol
#define KEEPS_LAUNCH_HAND(symbol) (void *)symbol
#define KEEPS_LANE_AUTO(symbol) (void *)symbol
#define KEEPS_LANE_HAND(symbol) (void *)symbol
#define KEEPS_EVENT_AUTO(symbol) (void *)symbol
#define KEEPS_EVENT_HAND(symbol) (void *)symbol
#define KEEPS_CONTEXT_AUTO(symbol) (void *)symbol
#define KEEPS_CONTEXT_HAND(symbol) (void *)symbol
#define KEEPS_ALL_AUTO(symbol) (void *)symbol
#define KEEPS_ALL_HAND(symbol) (void *)symbol

void *shim_wrapper(enum cu_entry entry)
{
    static void *const wrappers[CU_ENTRY_COUNT] = {
#define CU_ENTRY(symbol, cls, how, key, params) [CU_ID_##symbol] = KEEPS_##cls##_##how(symbol),
#include "driver/entries.def"
    };

    return wrappers[entry];
}

static dlsym_fn real_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    void *found = __atomic_load_n(&shim_real_dlsym, __ATOMIC_ACQUIRE);

    for (size_t i = 0; !found && i < sizeof(versions) / sizeof(versions[0]); i++)
        found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    __atomic_store_n(&shim_real_dlsym, found, __ATOMIC_RELEASE);
    return (dlsym_fn)found;
}

static void *lookup_real(void *library, const char *symbol)
{
    void *found = real_dlsym()(library, symbol);

    return found;
}

bool shim_bind(void)
{
    void *library;

    if (atomic_load_explicit(&bound, memory_order_acquire))
        return true;
    if (!real_dlsym())
        return false;
    /* Only look: if the program has not loaded the driver, it is not for us to do it. */
    library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    if (!library)
        return false;
    /* Threads that bind at the same time write the same values. The reference stays: our pointers lead there. */
    cu_driver_fill(&shim_driver, lookup_real, library);
    atomic_store_explicit(&bound, true, memory_order_release);
    return true;
}

void *shim_real_late(enum cu_entry entry)
{
    return shim_bind() ? ((void **)&shim_driver)[entry] : NULL;
}

static bool is_driver_name(const char *name)
{
    return name[0] == 'c' && name[1] == 'u' && isupper((unsigned char)name[2]);
}

/* 1: `*result` is what dlsym returns. 0: the caller jumps to the real one. */
int shim_dlsym_filter(void *handle, const char *name, void **result)
{
    dlsym_fn real = real_dlsym();
    int entry;

    if (!real) { /* a C library that we do not know: there is no way to go on, and no way to say so but this */
        *result = NULL;
        return 1;
    }
    if (!is_driver_name(name) || handle == RTLD_NEXT || shim_disabled())
        return 0;
    entry = cu_entry_find(name);
    if (entry < 0 || !shim_wrapper((enum cu_entry)entry))
        return 0;
    if (handle == RTLD_DEFAULT) {
        /* The real one would find our export. Without a driver there is nothing behind it: say what is true. */
        if (shim_bind())
            return 0;
        *result = NULL;
        return 1;
    }
    *result = real(handle, name);
    if (*result && shim_bind() && *result == ((void **)&shim_driver)[entry])
        *result = shim_wrapper((enum cu_entry)entry);
    return 1;
}

/* "cuMemAlloc" for "cuMemAlloc_v2_ptsz". Returns the length. */
static size_t base_length(const char *symbol)
{
    size_t length = strlen(symbol);

    if (length > 5 && (!strcmp(symbol + length - 5, "_ptsz") || !strcmp(symbol + length - 5, "_ptds")))
        length -= 5;
    if (length > 3 && symbol[length - 3] == '_' && symbol[length - 2] == 'v' &&
        isdigit((unsigned char)symbol[length - 1]))
        length -= 3;
    return length;
}

static bool same_base(const char *symbol, const char *base)
{
    size_t length = base_length(symbol);

    return strncmp(symbol, base, length) == 0 && base[length] == '\0';
}

static bool per_thread_flavour(const char *symbol)
{
    size_t length = strlen(symbol);

    return length > 5 && symbol[length - 5] == '_' && symbol[length - 4] == 'p' && symbol[length - 3] == 't';
}

/*
 * The entry whose real function is at `address`. If several names share it, the one that was asked for, in the flavour
 * that was asked for. -1: none.
 */
static int entry_at(const void *address, const char *base, bool per_thread)
{
    void *const *real = (void **)&shim_driver;
    int any = -1, named = -1;

    for (int i = 0; i < CU_ENTRY_COUNT; i++) {
        if (real[i] != address)
            continue;
        any = i;
        if (!same_base(cu_entry_name((enum cu_entry)i), base))
            continue;
        named = i;
        if (per_thread_flavour(cu_entry_name((enum cu_entry)i)) == per_thread)
            return i;
    }
    return named >= 0 ? named : any;
}

/* A name of which some version needs no order: then a new version of it will not either. */
static bool base_needs_no_order(const char *base)
{
    for (int i = 0; i < CU_ENTRY_COUNT; i++)
        if (same_base(cu_entry_name((enum cu_entry)i), base) && !shim_wrapper((enum cu_entry)i))
            return true;
    return false;
}

/* A thunk for a function that nobody here knows. NULL when all slots are taken. */
static void *wrap_unknown(void *real)
{
    for (int i = 0; i < UNKNOWN_SLOTS; i++) {
        void *expected = NULL;

        if (atomic_load(&unknown_real[i]) == real ||
            atomic_compare_exchange_strong(&unknown_real[i], &expected, real) || expected == real)
            return shim_unknown_thunks + i * UNKNOWN_BYTES;
    }
    return NULL;
}

void *shim_unknown_called(int slot)
{
    if (shim_active())
        order_all(CU_ENTRY_COUNT);
    return atomic_load(&unknown_real[slot]);
}

/* A driver whose own references can be interposed hands out what we export: that needs no exchange. */
static bool is_wrapper(const void *address)
{
    for (int i = 0; i < CU_ENTRY_COUNT; i++)
        if (shim_wrapper((enum cu_entry)i) == address)
            return true;
    return false;
}

/* Exchanges an address that the driver returned for the name `base`. */
static void *exchange(void *address, const char *base, bool per_thread)
{
    int entry;
    void *wrapper;

    if (!address || !shim_bind() || is_wrapper(address))
        return address;
    entry = entry_at(address, base, per_thread);
    if (entry >= 0) {
        wrapper = shim_wrapper((enum cu_entry)entry);
        return wrapper ? wrapper : address;
    }
    if (base_needs_no_order(base))
        return address;
    wrapper = wrap_unknown(address);
    if (!wrapper) {
        /* More new functions than thunks: we cannot keep their order, so hold nothing. */
        shim_fall_back("a driver with many functions that are not known here", CUDA_SUCCESS);
        return address;
    }
    return wrapper;
}

static bool wants_per_thread(cuuint64_t flags)
{
    return (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
}

SHIM_EXPORT CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    typeof(shim_driver.cuGetProcAddress) real = shim_real(cuGetProcAddress);
    CUresult result;

    if (!real)
        return SHIM_NO_DRIVER;
    result = real(symbol, pfn, cudaVersion, flags);
    if (result == CUDA_SUCCESS && pfn && symbol && !shim_disabled())
        *pfn = exchange(*pfn, symbol, wants_per_thread(flags));
    return result;
}

SHIM_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                         CUdriverProcAddressQueryResult *symbolStatus)
{
    typeof(shim_driver.cuGetProcAddress_v2) real = shim_real(cuGetProcAddress_v2);
    CUresult result;

    if (!real)
        return SHIM_NO_DRIVER;
    result = real(symbol, pfn, cudaVersion, flags, symbolStatus);
    if (result == CUDA_SUCCESS && pfn && symbol && !shim_disabled())
        *pfn = exchange(*pfn, symbol, wants_per_thread(flags));
    return result;
}
