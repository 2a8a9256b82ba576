/* SPDX-License-Identifier: Apache-2.0
 *
 * From what a program gives to cuModuleLoadData to PTX text: PTX itself, or a fatbin that holds PTX.
 *
 * The fatbin layout is not documented by NVIDIA; what is used here was seen in the output of nvcc 13.0:
 *   wrapper:  u32 0x466243b1, u32 version, pointer to the container
 *   container: u32 0xba55ed50, u16 version, u16 header size, u64 size of what follows; several may follow each other
 *   entry:    u16 kind (1 PTX, 2 ELF), u16, u32 header size, u64 payload size, u32 compressed size, ...,
 *             u32 architecture at 28, u64 flags at 40 (0x2000 LZ4 block, 0x8000 zstd), u64 unpacked size at 56
 */
#include "tests/simcuda/sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#ifdef SIM_HAVE_LZ4
#include <lz4.h>
#endif
#ifdef SIM_HAVE_ZSTD
#include <zstd.h>
#endif

#define WRAPPER_MAGIC 0x466243b1u
#define CONTAINER_MAGIC 0xba55ed50u
#define ELF_MAGIC 0x464c457fu
enum { KIND_PTX = 1, ENTRY_HEADER_MIN = 64 };
enum { FLAG_LZ4 = 0x2000, FLAG_ZSTD = 0x8000 };
/* No PTX text is larger; protects from a wild size in a damaged container. */
enum { UNPACKED_MAX = 1 << 30 };

static uint32_t u32(const unsigned char *at)
{
    uint32_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static uint64_t u64(const unsigned char *at)
{
    uint64_t value;

    memcpy(&value, at, sizeof(value));
    return value;
}

static char *unpack(const unsigned char *entry, const unsigned char *payload, size_t payload_size)
{
    uint64_t flags = u64(entry + 40), full = u64(entry + 56);
    uint32_t packed = u32(entry + 16);
    char *text;
    bool done = false;

    if (!(flags & (FLAG_LZ4 | FLAG_ZSTD))) {
        text = malloc(payload_size + 1);
        if (text) {
            memcpy(text, payload, payload_size);
            text[payload_size] = '\0';
        }
        return text;
    }
    if (full > UNPACKED_MAX || packed > payload_size)
        return NULL;
    text = malloc(full + 1);
    if (!text)
        return NULL;
#ifdef SIM_HAVE_LZ4
    if (flags & FLAG_LZ4)
        done = LZ4_decompress_safe((const char *)payload, text, (int)packed, (int)full) == (int)full;
#endif
#ifdef SIM_HAVE_ZSTD
    if (flags & FLAG_ZSTD)
        done = ZSTD_decompress(text, full, payload, packed) == full;
#endif
    if (!done) {
        static const char key;

        sim_loud(&key, "PTX in a fatbin could not be unpacked (%s)", flags & FLAG_LZ4 ? "LZ4" : "zstd");
        free(text);
        return NULL;
    }
    text[full] = '\0';
    return text;
}

/* The PTX of the highest architecture in the containers that begin here. */
static CUresult fatbin_text(const unsigned char *at, char **text)
{
    const unsigned char *best = NULL, *best_payload = NULL;
    uint32_t best_arch = 0;

    while (u32(at) == CONTAINER_MAGIC) {
        size_t size = u64(at + 8), used = 0;
        const unsigned char *entry = at + (u32(at + 4) >> 16);

        while (used + ENTRY_HEADER_MIN <= size) {
            uint16_t kind = (uint16_t)u32(entry);
            size_t header = u32(entry + 4), payload = u64(entry + 8);

            if (header < ENTRY_HEADER_MIN || header > size - used || payload > size - used - header)
                return CUDA_ERROR_INVALID_IMAGE;
            if (kind == KIND_PTX && u32(entry + 28) >= best_arch) {
                best = entry;
                best_payload = entry + header;
                best_arch = u32(entry + 28);
            }
            used += header + payload;
            entry += header + payload;
        }
        at += (u32(at + 4) >> 16) + size;
        break; /* the rest of the section is not ours to walk: its size is not known */
    }
    if (!best)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    *text = unpack(best, best_payload, u64(best + 8));
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_IMAGE;
}

CUresult sim_image_text(const void *image, char **text)
{
    const unsigned char *bytes = image;
    uint32_t magic;

    /* PTX may be shorter than a magic number; do not read past its end. */
    for (int i = 0; i < 4; i++)
        if (!bytes[i])
            return CUDA_ERROR_INVALID_IMAGE;
    magic = u32(bytes);
    if (magic == ELF_MAGIC)
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (magic == WRAPPER_MAGIC) {
        bytes = (const unsigned char *)(uintptr_t)u64(bytes + 8);
        magic = u32(bytes);
    }
    if (magic == CONTAINER_MAGIC)
        return fatbin_text(bytes, text);
    *text = strdup((const char *)bytes);
    return *text ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_file_read(const char *path, void **bytes, size_t *size)
{
    FILE *file = fopen(path, "rb");
    struct stat info;
    char *buffer;

    if (!file)
        return CUDA_ERROR_FILE_NOT_FOUND;
    if (fstat(fileno(file), &info) || !(buffer = calloc(1, (size_t)info.st_size + 16))) {
        fclose(file);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *size = fread(buffer, 1, (size_t)info.st_size, file);
    fclose(file);
    *bytes = buffer;
    return CUDA_SUCCESS;
}
