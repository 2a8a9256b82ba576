/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock, the threads' own state, and the table of live handles.
 */
#include "tests/simcuda/sim.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sim_state sim = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .work = PTHREAD_COND_INITIALIZER,
    .done = PTHREAD_COND_INITIALIZER,
};

void sim_lock(void)
{
    pthread_mutex_lock(&sim.lock);
}

void sim_unlock(void)
{
    pthread_mutex_unlock(&sim.lock);
}

void sim_unlock_guard(int *guard)
{
    (void)guard;
    sim_unlock();
}

uint64_t sim_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- threads ---- */

static __thread struct sim_thread this_thread;
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static _Atomic uint64_t next_thread = 1;

static void thread_ends(void *value)
{
    struct sim_thread *thread = value;

    free(thread->stack);
    thread->stack = NULL;
    thread->depth = thread->room = 0;
}

static void make_thread_key(void)
{
    pthread_key_create(&thread_key, thread_ends);
}

struct sim_thread *sim_thread(void)
{
    if (!this_thread.id) {
        this_thread.id = atomic_fetch_add_explicit(&next_thread, 1, memory_order_relaxed);
        pthread_once(&thread_once, make_thread_key);
        pthread_setspecific(thread_key, &this_thread);
    }
    return &this_thread;
}

/* ---- live handles: open addressing, linear probing; under sim.lock ---- */

struct slot {
    const void *object; /* NULL: free; TOMB: was used */
    enum sim_kind kind;
};
#define TOMB ((const void *)1)
static struct slot *slots;
static size_t slot_count, slots_used; /* used counts tombs too */

static size_t hash(const void *object)
{
    return ((uintptr_t)object >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 20;
}

static struct slot *find(const void *object)
{
    for (size_t i = hash(object), n = 0; n < slot_count; i++, n++) {
        struct slot *slot = &slots[i & (slot_count - 1)];

        if (!slot->object)
            return NULL;
        if (slot->object == object)
            return slot;
    }
    return NULL;
}

static void put(const void *object, enum sim_kind kind)
{
    size_t i = hash(object);

    while (slots[i & (slot_count - 1)].object)
        i++;
    slots[i & (slot_count - 1)] = (struct slot){object, kind};
    slots_used++;
}

static bool grow(void)
{
    struct slot *old = slots;
    size_t old_count = slot_count, live = 0;

    for (size_t i = 0; i < old_count; i++)
        live += old[i].object && old[i].object != TOMB;
    size_t count = 1024;
    while (count < live * 4)
        count *= 2;
    slots = calloc(count, sizeof(*slots));
    if (!slots) {
        slots = old;
        return false;
    }
    slot_count = count;
    slots_used = 0;
    for (size_t i = 0; i < old_count; i++)
        if (old[i].object && old[i].object != TOMB)
            put(old[i].object, old[i].kind);
    free(old);
    return true;
}

void *sim_object_create(enum sim_kind kind, size_t size)
{
    void *object;

    if (slots_used * 2 >= slot_count && !grow())
        return NULL;
    object = calloc(1, size);
    if (object)
        put(object, kind);
    return object;
}

void sim_object_forget(void *object)
{
    struct slot *slot = object ? find(object) : NULL;

    if (slot)
        *slot = (struct slot){TOMB, SIM_NONE};
}

void sim_object_destroy(void *object)
{
    sim_object_forget(object);
    free(object);
}

bool sim_object_is(const void *object, enum sim_kind kind)
{
    const struct slot *slot = (uintptr_t)object > 2 ? find(object) : NULL;

    return slot && slot->kind == kind;
}

/* ---- small things ---- */

int sim_env_int(const char *name, int fallback, int low, int high)
{
    const char *text = getenv(name);
    char *end;
    long value;

    if (!text || !*text)
        return fallback;
    value = strtol(text, &end, 10);
    if (*end || value < low || value > high) {
        sim_loud(name, "%s: '%s' is not a number from %d to %d; using %d", name, text, low, high, fallback);
        return fallback;
    }
    return (int)value;
}
