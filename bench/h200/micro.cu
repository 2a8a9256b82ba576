// SPDX-License-Identifier: Apache-2.0
//
// What single calls of the driver cost the thread that makes them and the stream in which they lie. From these figures
// follow the engine's choices: how large a parameter area may be, how completion is marked, when lanes may change
// streams, how many threads issue. Nothing of coissue is in it. Prints a line of JSON for each measurement.
//
//   micro [--repeat N]        N: the number of bursts for each figure (default 60)
//
// Host: a burst of BURST calls into a stream that was idle, timed as a whole. Device: the same burst behind a gate, a
// wait for a word that the host writes when all is enqueued, so that the device never waits for the host; the time is
// that between an event behind the gate and one behind the burst.
#include <cuda.h>
#include <cuda_runtime.h>

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#define STRING(name) STRING_(name)
#define STRING_(name) #name
#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        int status_ = (int)(call);                                                                                     \
        if (status_ != 0) {                                                                                            \
            fprintf(stderr, "micro: line %d: %s: error %d\n", __LINE__, #call, status_);                               \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

// By dlsym, so that the program needs no libcuda.so to be linked. cuda.h gives some names a version: the text has it.
#define DRIVER_FUNCTIONS(X)                                                                                            \
    X(cuLaunchKernel)                                                                                                  \
    X(cuStreamCreate)                                                                                                  \
    X(cuStreamSynchronize)                                                                                             \
    X(cuStreamQuery)                                                                                                   \
    X(cuStreamWaitEvent)                                                                                               \
    X(cuStreamWaitValue32)                                                                                             \
    X(cuStreamWriteValue32)                                                                                            \
    X(cuEventCreate)                                                                                                   \
    X(cuEventRecord)                                                                                                   \
    X(cuEventQuery)                                                                                                    \
    X(cuEventElapsedTime)

static struct {
#define X(name) decltype(&name) name##_;
    DRIVER_FUNCTIONS(X)
#undef X
} api;

static void load_driver()
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);

    if (!library) {
        fprintf(stderr, "micro: %s\n", dlerror());
        exit(1);
    }
#define X(name)                                                                                                        \
    api.name##_ = (decltype(&name))dlsym(library, STRING(name));                                                       \
    if (!api.name##_) {                                                                                                \
        fprintf(stderr, "micro: the driver has no %s\n", STRING(name));                                                \
        exit(1);                                                                                                       \
    }
    DRIVER_FUNCTIONS(X)
#undef X
}

enum { BURST = 32, STEADY = 2000, THREADS_MAX = 4 };
enum { GUARD_NS = 100000000 }; // a gate opens by itself then: the driver may block when a queue of its own is full

static int repeat = 60;

// ---- kernels ----

// A kernel that declares this many bytes of parameters, as one that was rewritten for a pack does.
template <int BYTES> struct Area {
    unsigned *out; // NULL: do nothing
    unsigned at, spare;
    unsigned rest[(BYTES - 16) / 4];
};

template <int BYTES> __global__ void with_area(const __grid_constant__ Area<BYTES> area)
{
    static_assert(sizeof(Area<BYTES>) == BYTES, "no padding");
    if (area.out && threadIdx.x == 0)
        *area.out = area.rest[area.at];
}

// The one-thread kernel that marks completion in host memory.
__global__ void store_word(unsigned *word, unsigned value)
{
    __threadfence_system();
    *(volatile unsigned *)word = value;
    __threadfence_system();
}

static __device__ unsigned long long device_ns()
{
    unsigned long long ns;

    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
}

__global__ void stamp(unsigned long long *at)
{
    *at = device_ns();
}

// ---- figures ----

static int64_t now_ns()
{
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// `values` may hold NAN where a measurement did not count.
static void print(const std::string &measure, const std::string &variant, const char *unit, std::vector<double> values)
{
    size_t asked = values.size();

    values.erase(std::remove_if(values.begin(), values.end(), [](double value) { return std::isnan(value); }),
                 values.end());
    std::sort(values.begin(), values.end());
    printf("{\"measure\": \"%s\", \"variant\": \"%s\", \"unit\": \"%s\", \"count\": %zu, \"did not count\": %zu",
           measure.c_str(), variant.c_str(), unit, values.size(), asked - values.size());
    if (!values.empty())
        printf(", \"p10\": %.3f, \"p50\": %.3f, \"p90\": %.3f", values[values.size() / 10], values[values.size() / 2],
               values[values.size() * 9 / 10]);
    printf("}\n");
    fflush(stdout);
}

static void print_answer(const char *measure, const std::string &variant, long answer)
{
    printf("{\"measure\": \"%s\", \"variant\": \"%s\", \"answer\": %ld}\n", measure, variant.c_str(), answer);
    fflush(stdout);
}

static CUstream make_stream()
{
    CUstream stream;

    CHECK(api.cuStreamCreate_(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static CUevent make_event(bool timing)
{
    CUevent event;

    CHECK(api.cuEventCreate_(&event, timing ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING));
    return event;
}

// Words in host memory that the device sees, each in a cache line of its own.
struct Word {
    volatile unsigned *host;
    unsigned *device;

    Word()
    {
        void *memory, *address;

        CHECK(cudaHostAlloc(&memory, 128, cudaHostAllocMapped));
        CHECK(cudaHostGetDevicePointer(&address, memory, 0));
        host = (volatile unsigned *)memory;
        device = (unsigned *)address;
        *host = 0;
    }
};

// ---- the gate ----

static struct Gate {
    Word *word;
    unsigned number = 0;
    std::atomic<int64_t> since{0}; // 0: nobody waits
    std::atomic<bool> late{false}, ended{false};
    std::thread guard;

    void begin()
    {
        word = new Word;
        guard = std::thread([this] {
            while (!ended) {
                int64_t closed = since;

                if (closed && now_ns() - closed > GUARD_NS) {
                    late = true;
                    *word->host = UINT32_MAX >> 1; // opens every gate so far; close() begins again below it
                }
                std::this_thread::sleep_for(std::chrono::milliseconds(5));
            }
        });
    }

    void close(CUstream stream)
    {
        // Everything before has ended: each burst is waited for. So the word may go back to 0.
        *word->host = 0;
        late = false;
        number = 1;
        __sync_synchronize();
        CHECK(api.cuStreamWaitValue32_(stream, (CUdeviceptr)word->device, number, CU_STREAM_WAIT_VALUE_GEQ));
        since = now_ns();
    }

    void open()
    {
        since = 0;
        __sync_synchronize();
        *word->host = number;
    }

    void end()
    {
        ended = true;
        guard.join();
    }
} gate;

// Microseconds of the device for each of `count` steps that `enqueue` puts behind the gate. `last`: where they end.
template <typename Enqueue> static double gated(CUstream stream, int count, CUstream last, Enqueue enqueue)
{
    static CUevent begin = make_event(true), end = make_event(true);
    float ms;
    bool late;

    gate.close(stream);
    CHECK(api.cuEventRecord_(begin, stream));
    for (int i = 0; i < count; i++)
        enqueue(i);
    CHECK(api.cuEventRecord_(end, last));
    late = gate.late;
    gate.open();
    CHECK(api.cuStreamSynchronize_(stream));
    CHECK(api.cuStreamSynchronize_(last));
    CHECK(api.cuEventElapsedTime_(&ms, begin, end));
    return late ? NAN : ms * 1000 / count;
}

template <typename Enqueue> static std::vector<double> device_us(CUstream stream, int count, Enqueue enqueue)
{
    std::vector<double> values;

    // One that blocks in the driver does so each time, and takes long.
    for (int i = 0; i < repeat && !(i == 3 && std::isnan(values[0]) && std::isnan(values[2])); i++)
        values.push_back(gated(stream, count, stream, enqueue));
    return values;
}

// Nanoseconds of the calling thread for each step.
template <typename Enqueue> static std::vector<double> host_ns(CUstream stream, int count, Enqueue enqueue)
{
    std::vector<double> values;

    for (int i = -3; i < repeat; i++) {
        int64_t begin;

        CHECK(api.cuStreamSynchronize_(stream));
        begin = now_ns();
        for (int k = 0; k < count; k++)
            enqueue(k);
        if (i >= 0)
            values.push_back((double)(now_ns() - begin) / count);
    }
    CHECK(api.cuStreamSynchronize_(stream));
    return values;
}

// Microseconds for each of many steps from the first call to the end of the last: what is slower, host or device.
template <typename Enqueue> static std::vector<double> steady_us(CUstream stream, Enqueue enqueue)
{
    std::vector<double> values;

    for (int i = 0; i < 5; i++) {
        int64_t begin = now_ns();

        for (int k = 0; k < STEADY; k++)
            enqueue(k);
        CHECK(api.cuStreamSynchronize_(stream));
        values.push_back((now_ns() - begin) / 1000.0 / STEADY);
    }
    return values;
}

// ---- launches by size of the parameter area ----

struct Shot {
    CUfunction function; // or a CUkernel, which the driver takes as well
    void *area;
    size_t bytes;

    CUresult fire(CUstream stream) const
    {
        size_t size = bytes;
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, area, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};

        return api.cuLaunchKernel_(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, extra);
    }
};

static CUfunction function_of(const void *kernel)
{
    cudaFunction_t function;

    CHECK(cudaGetFuncBySymbol(&function, kernel));
    return (CUfunction)function;
}

static CUfunction kernel_of(const void *kernel)
{
    cudaKernel_t handle;

    CHECK(cudaGetKernel(&handle, kernel));
    return (CUfunction)handle;
}

static void launch_figures(const std::string &variant, CUstream stream, const Shot &shot)
{
    auto fire = [&](int) { CHECK(shot.fire(stream)); };

    print("launch, host, each of a burst", variant, "ns", host_ns(stream, BURST, fire));
    print("launch, host, alone", variant, "ns", host_ns(stream, 1, fire));
    print("launch, device, back to back", variant, "us", device_us(stream, BURST, fire));
    print("launch, steady", variant, "us", steady_us(stream, fire));
}

// What the kernel finds in its last word if the launch hands over fewer bytes than the kernel declares.
template <int BYTES> static void fewer_bytes(CUstream stream)
{
    enum { LAST = (BYTES - 16) / 4 - 1 };
    static Word out;
    std::string name = std::to_string(BYTES) + " B declared, 512 B given";
    auto *area = (Area<BYTES> *)calloc(1, BYTES);
    Shot less = {function_of((const void *)with_area<BYTES>), area, 512};
    CUresult result;

    *out.host = 0;
    area->out = out.device;
    area->rest[0] = 1111;
    area->rest[LAST] = 2222;
    for (unsigned at : {0u, (unsigned)LAST}) {
        area->at = at;
        result = less.fire(stream);
        print_answer("launch with fewer bytes: driver says", name, (long)result);
        if (result != CUDA_SUCCESS)
            break;
        CHECK(api.cuStreamSynchronize_(stream));
        print_answer(at == 0 ? "launch with fewer bytes: first word (1111 was there)"
                             : "launch with fewer bytes: last word (2222 lay beyond what was given)",
                     name, (long)*out.host);
    }
    area->out = NULL;
    if (result == CUDA_SUCCESS)
        launch_figures(name, stream, less);
    free(area);
}

template <int BYTES> static void sizes(CUstream stream)
{
    const void *kernel = (const void *)with_area<BYTES>;
    auto *area = (Area<BYTES> *)calloc(1, BYTES);
    std::string name = std::to_string(BYTES) + " B";
    Shot shot = {function_of(kernel), area, BYTES};

    launch_figures(name, stream, shot);
    if (BYTES == 1024 || BYTES > 30000) {
        void *parameters[] = {area};
        auto by_pointers = [&](int) {
            CHECK(api.cuLaunchKernel_(shot.function, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
        };

        print("launch, host, each of a burst", name + ", kernelParams", "ns", host_ns(stream, BURST, by_pointers));
        launch_figures(name + ", CUkernel", stream, {kernel_of(kernel), area, BYTES});
    }
    free(area);
}

// ---- markers of completion ----

struct Marker {
    const char *name;
    void (*put)(CUstream stream, unsigned number);
    bool (*seen)(unsigned number);
};

static struct {
    Word *word;
    CUevent event;
    Shot kernel;
    struct {
        unsigned *word;
        unsigned value;
    } area; // as store_word has its parameters
} mark;

static bool word_seen(unsigned number)
{
    return *mark.word->host == number;
}

static const Marker markers[] = {
    {"none", [](CUstream, unsigned) {}, [](unsigned) { return true; }},
    {"cuStreamWriteValue32",
     [](CUstream stream, unsigned number) {
         CHECK(
             api.cuStreamWriteValue32_(stream, (CUdeviceptr)mark.word->device, number, CU_STREAM_WRITE_VALUE_DEFAULT));
     },
     word_seen},
    // Without the barrier the driver refuses it (580.159, INVALID_VALUE).
    {"cuEventRecord", [](CUstream stream, unsigned) { CHECK(api.cuEventRecord_(mark.event, stream)); },
     [](unsigned) { return api.cuEventQuery_(mark.event) == CUDA_SUCCESS; }},
    {"kernel that stores a word",
     [](CUstream stream, unsigned number) {
         size_t size = 12;
         void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &mark.area, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                          CU_LAUNCH_PARAM_END};

         mark.area.value = number;
         CHECK(api.cuLaunchKernel_(mark.kernel.function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, extra));
     },
     word_seen},
};

// From the time when the host sees what the kernel itself stored as its last act to the time when it sees the marker.
static double marker_latency(CUstream stream, const Marker &marker, Word &direct, unsigned number)
{
    int64_t stored = 0, seen = 0;

    *direct.host = 0;
    *mark.word->host = 0;
    gate.close(stream);
    store_word<<<1, 1, 0, (cudaStream_t)stream>>>(direct.device, number);
    marker.put(stream, number);
    if (gate.late)
        stored = -1;
    gate.open();
    while (!seen) {
        if (!stored && *direct.host == number)
            stored = now_ns();
        if (stored && marker.seen(number))
            seen = now_ns();
    }
    CHECK(api.cuStreamSynchronize_(stream));
    return stored < 0 ? NAN : (seen - stored) / 1000.0;
}

// From the launch call to the time when the host sees the marker, in an idle stream.
static double round_trip(CUstream stream, const Marker &marker, const Shot &shot, unsigned number)
{
    int64_t begin = now_ns(), end;

    CHECK(shot.fire(stream));
    marker.put(stream, number);
    while (!marker.seen(number))
        ;
    end = now_ns();
    CHECK(api.cuStreamSynchronize_(stream));
    return (end - begin) / 1000.0;
}

static void measure_markers(CUstream stream)
{
    static Area<64> nothing;
    Shot shot = {function_of((const void *)with_area<64>), &nothing, sizeof(nothing)};
    Word direct;
    unsigned number = 0;

    mark.word = new Word;
    mark.event = make_event(false);
    mark.kernel.function = function_of((const void *)store_word);
    mark.area = {mark.word->device, 0};
    for (auto &marker : markers) {
        auto step = [&](int) {
            CHECK(shot.fire(stream));
            marker.put(stream, ++number);
        };
        std::vector<double> latency, trip;

        print("launch and marker, host", marker.name, "ns", host_ns(stream, BURST, step));
        print("launch and marker, device", marker.name, "us", device_us(stream, BURST, step));
        print("launch and marker, steady", marker.name, "us", steady_us(stream, step));
        if (&marker == &markers[0])
            continue;
        for (int i = 0; i < repeat; i++) {
            trip.push_back(round_trip(stream, marker, shot, ++number));
            latency.push_back(marker_latency(stream, marker, direct, ++number));
        }
        print("from the kernel's own last store to the marker, as the host sees it", marker.name, "us", latency);
        print("from the launch call to the marker, as the host sees it", marker.name, "us", trip);
    }
    print("launch and cuStreamSynchronize, host", "idle stream", "ns", host_ns(stream, 1, [&](int) {
              CHECK(shot.fire(stream));
              CHECK(api.cuStreamSynchronize_(stream));
          }));
    print("cuStreamQuery, host", "idle stream", "ns", host_ns(stream, BURST, [&](int) { api.cuStreamQuery_(stream); }));
    print("cuEventQuery, host", "complete event", "ns",
          host_ns(stream, BURST, [&](int) { api.cuEventQuery_(mark.event); }));
    // How long one marker's cost is spread over many launches: one for eight.
    for (auto &marker : markers)
        print("eight launches and one marker, device, for each launch", marker.name, "us",
              device_us(stream, BURST, [&](int i) {
                  CHECK(shot.fire(stream));
                  if (i % 8 == 7)
                      marker.put(stream, ++number);
              }));
}

// ---- from stream to stream ----

static void measure_hops(CUstream a, CUstream b)
{
    static Area<64> nothing;
    Shot shot = {function_of((const void *)with_area<64>), &nothing, sizeof(nothing)};
    CUevent events[BURST], done = make_event(false);
    std::vector<double> hops, same;
    unsigned long long *stamps;
    CUstream streams[2] = {a, b};

    for (auto &event : events)
        event = make_event(false);
    CHECK(api.cuEventRecord_(done, b));
    CHECK(api.cuStreamSynchronize_(b));
    print("cuEventRecord, host", "", "ns", host_ns(a, BURST, [&](int i) { CHECK(api.cuEventRecord_(events[i], a)); }));
    print("cuStreamWaitEvent, host", "complete event", "ns",
          host_ns(a, BURST, [&](int) { CHECK(api.cuStreamWaitEvent_(a, done, 0)); }));
    print("cuEventRecord and cuStreamWaitEvent, host", "two streams", "ns", host_ns(a, BURST, [&](int i) {
              CHECK(api.cuEventRecord_(events[i], a));
              CHECK(api.cuStreamWaitEvent_(b, events[i], 0));
          }));
    CHECK(api.cuStreamSynchronize_(b));
    print("launch behind cuStreamWaitEvent, device", "complete event", "us", device_us(a, BURST, [&](int) {
              CHECK(api.cuStreamWaitEvent_(a, done, 0));
              CHECK(shot.fire(a));
          }));
    // A chain that changes the stream with each kernel, against one that stays.
    for (int i = 0; i < repeat; i++) {
        hops.push_back(gated(a, BURST, streams[BURST % 2], [&](int k) {
            CUstream here = streams[k % 2], next = streams[(k + 1) % 2];

            CHECK(shot.fire(here));
            CHECK(api.cuEventRecord_(events[k], here));
            CHECK(api.cuStreamWaitEvent_(next, events[k], 0));
        }));
        same.push_back(gated(a, BURST, a, [&](int) { CHECK(shot.fire(a)); }));
    }
    print("chain of kernels, device, for each", "one stream", "us", same);
    print("chain of kernels, device, for each", "another stream each time", "us", hops);

    // The same by the device's clock, for one hop: from one kernel's stamp to the next kernel's.
    CHECK(cudaHostAlloc(&stamps, 2 * sizeof(*stamps), cudaHostAllocMapped));
    for (int across = 0; across < 2; across++) {
        std::vector<double> delays;

        for (int i = 0; i < repeat; i++) {
            bool late;

            gate.close(a);
            stamp<<<1, 1, 0, (cudaStream_t)a>>>(&stamps[0]);
            if (across) {
                CHECK(api.cuEventRecord_(events[0], a));
                CHECK(api.cuStreamWaitEvent_(b, events[0], 0));
            }
            stamp<<<1, 1, 0, (cudaStream_t)(across ? b : a)>>>(&stamps[1]);
            CHECK(cudaGetLastError());
            late = gate.late;
            gate.open();
            CHECK(api.cuStreamSynchronize_(a));
            CHECK(api.cuStreamSynchronize_(b));
            delays.push_back(late ? NAN : (double)(int64_t)(stamps[1] - stamps[0]) / 1000);
        }
        print("from one kernel to the next by the device's clock", across ? "event to another stream" : "same stream",
              "us", delays);
    }
    CHECK(cudaFreeHost(stamps));
}

// ---- threads ----

// Each thread launches into a stream of its own; the burst is timed, the wait for it is not.
template <int BYTES> static void measure_threads(int count)
{
    std::vector<double> values[THREADS_MAX], all;
    std::vector<std::thread> threads;
    std::atomic<int> ready{0}, busy{count};
    CUfunction function = function_of((const void *)with_area<BYTES>);

    for (int t = 0; t < count; t++)
        threads.emplace_back([&, t] {
            CUstream stream;
            std::vector<char> area(BYTES);
            Shot shot = {function, area.data(), BYTES};

            CHECK(cudaSetDevice(0));
            stream = make_stream();
            CHECK(shot.fire(stream));
            ready++;
            while (ready < count)
                std::this_thread::yield();
            auto burst = [&] {
                int64_t begin = now_ns();

                for (int i = 0; i < BURST; i++)
                    CHECK(shot.fire(stream));
                double each = (double)(now_ns() - begin) / BURST;

                CHECK(api.cuStreamSynchronize_(stream));
                return each;
            };
            for (int i = 0; i < 4 * repeat; i++)
                values[t].push_back(burst());
            busy--;
            while (busy > 0) // keep the others company until the last one has measured
                burst();
            CHECK(cudaStreamDestroy((cudaStream_t)stream));
        });
    for (auto &thread : threads)
        thread.join();
    for (auto &some : values)
        all.insert(all.end(), some.begin(), some.end());
    print("launch, host, each of a burst, threads at once",
          std::to_string(count) + (count == 1 ? " thread, " : " threads, ") + std::to_string(BYTES) + " B", "ns", all);
}

// One thread that launches while another waits in the driver for a stream: do they hold each other up?
static void measure_beside_waiting(CUstream stream)
{
    static Area<64> nothing;
    Shot shot = {function_of((const void *)with_area<64>), &nothing, sizeof(nothing)};
    std::atomic<bool> ended{false}, begun{false};
    std::thread other([&] {
        CUstream mine;

        CHECK(cudaSetDevice(0));
        mine = make_stream();
        while (!ended) {
            CHECK(shot.fire(mine));
            CHECK(api.cuStreamSynchronize_(mine));
            begun = true;
        }
        CHECK(cudaStreamDestroy((cudaStream_t)mine));
    });

    while (!begun)
        std::this_thread::yield();
    print("launch, host, each of a burst", "64 B, another thread launches and synchronises", "ns",
          host_ns(stream, BURST, [&](int) { CHECK(shot.fire(stream)); }));
    ended = true;
    other.join();
}

// Clocks go up only under load.
static void warm_up(CUstream stream)
{
    static Area<64> nothing;
    Shot shot = {function_of((const void *)with_area<64>), &nothing, sizeof(nothing)};
    int64_t begin = now_ns();

    while (now_ns() - begin < 200000000) {
        for (int i = 0; i < BURST; i++)
            CHECK(shot.fire(stream));
        CHECK(api.cuStreamSynchronize_(stream));
    }
}

int main(int argc, char **argv)
{
    CUstream a, b;

    if (argc == 3 && !strcmp(argv[1], "--repeat")) {
        repeat = std::max(1, atoi(argv[2]));
    } else if (argc != 1) {
        fprintf(stderr, "usage: micro [--repeat N]\n");
        return 2;
    }
    load_driver();
    CHECK(cudaSetDevice(0));
    CHECK(cudaFree(NULL));
    a = make_stream();
    b = make_stream();
    gate.begin();
    warm_up(a);
    sizes<64>(a);
    sizes<1024>(a);
    sizes<4096>(a);
    sizes<8192>(a);
    sizes<16384>(a);
    sizes<32000>(a);
    measure_markers(a);
    measure_hops(a, b);
    for (int threads : {1, 2, 4})
        measure_threads<64>(threads);
    measure_threads<4096>(1);
    measure_threads<4096>(2);
    measure_beside_waiting(a);
    fewer_bytes<1024>(a); // last: it asks for what is not documented
    fewer_bytes<32000>(a);
    gate.end();
    return 0;
}
