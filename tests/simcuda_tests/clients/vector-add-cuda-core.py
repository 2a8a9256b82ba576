# SPDX-License-Identifier: Apache-2.0
"""A vector add with NVIDIA's cuda-core, as its own examples write it. Nothing here knows about the simulated device."""
import sys

try:
    import ctypes

    import cuda.core as core
    from cuda.bindings import nvrtc
except Exception as reason:  # not installed, or installed without what it needs
    print(f"skipped: cuda-core cannot be imported: {reason}")
    sys.exit(77)

CODE = """
extern "C" __global__ void vector_add(const float *a, const float *b, float *c, unsigned long long n)
{
    for (unsigned long long i = threadIdx.x + (unsigned long long)blockIdx.x * blockDim.x; i < n;
         i += (unsigned long long)gridDim.x * blockDim.x)
        c[i] = a[i] + b[i];
}
"""
N = 50000


def main():
    try:
        nvrtc.nvrtcVersion()
    except Exception as reason:
        print(f"skipped: NVRTC cannot be loaded: {reason}")
        return 77
    device = core.Device()
    device.set_current()
    stream = device.create_stream()
    arch = "".join(str(x) for x in device.compute_capability)
    program = core.Program(CODE, code_type="c++", options=core.ProgramOptions(std="c++17", arch=f"compute_{arch}"))
    kernel = program.compile("ptx", name_expressions=()).get_kernel("vector_add")
    print("device:", device.name, "compute capability", device.compute_capability)

    host = core.LegacyPinnedMemoryResource()
    size = 4 * N
    buffers = [device.allocate(size, stream=stream) for _ in range(3)]
    pinned = [host.allocate(size, stream=stream) for _ in range(3)]
    views = [(ctypes.c_float * N).from_address(int(buffer.handle)) for buffer in pinned]
    for i in range(N):
        views[0][i] = i
        views[1][i] = 2 * i
    for i in range(2):
        buffers[i].copy_from(pinned[i], stream=stream)
    config = core.LaunchConfig(grid=(N + 255) // 256, block=256)
    core.launch(stream, config, kernel, *(buffer.handle for buffer in buffers), N)
    pinned[2].copy_from(buffers[2], stream=stream)
    stream.sync()
    wrong = sum(views[2][i] != 3 * i for i in range(N))
    print("wrong elements:", wrong)
    return 1 if wrong else 0


sys.exit(main())
