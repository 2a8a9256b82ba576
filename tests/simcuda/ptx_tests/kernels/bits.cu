/* SPDX-License-Identifier: Apache-2.0
 *
 * Integer and bit instructions; out holds a row of results per thread.
 */
#define ROW 40
extern "C" {

__global__ void bits32(const unsigned *in, unsigned *out)
{
    int i = threadIdx.x;
    unsigned a = in[i], b = in[(i + 1) % blockDim.x], c = in[(i + 2) % blockDim.x], r;
    unsigned *o = out + i * ROW;
    o[0] = __popc(a);
    o[1] = __clz(a);
    o[2] = __ffs(a);
    o[3] = __brev(a);
    o[4] = __byte_perm(a, b, c & 0x7777);
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b & 63), "r"(c & 63));
    o[5] = r;
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b & 63), "r"(c & 63));
    o[6] = r;
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(a), "r"(b), "r"(c & 31), "r"(a & 31));
    o[7] = r;
    asm("bfind.u32 %0, %1;" : "=r"(r) : "r"(a));
    o[8] = r;
    asm("bfind.s32 %0, %1;" : "=r"(r) : "r"(a));
    o[9] = r;
    asm("bfind.shiftamt.u32 %0, %1;" : "=r"(r) : "r"(a));
    o[10] = r;
    asm("fns.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b & 31), "r"((int) (c % 7) - 3));
    o[11] = r;
    asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    o[12] = r;
    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    o[13] = r;
    asm("shf.l.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    o[14] = r;
    asm("shf.r.wrap.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    o[15] = r;
    asm("shf.l.clamp.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c & 63));
    o[16] = r;
    asm("shf.r.clamp.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c & 63));
    o[17] = r;
    o[18] = __umulhi(a, b);
    o[19] = __mulhi((int) a, (int) b);
    o[20] = __umul24(a, b);
    o[21] = __mul24((int) a, (int) b);
    o[22] = __sad((int) a, (int) b, c);
    o[23] = __usad(a, b, c);
    o[24] = __dp4a((int) a, (int) b, (int) c);
    o[25] = __dp4a(a, b, c);
    o[26] = __dp2a_lo((int) a, (int) b, (int) c);
    o[27] = __dp2a_hi(a, b, c);
    o[28] = b ? a / b : 0;
    o[29] = b ? a % b : 0;
    o[30] = b ? (int) a / (int) b : 0;
    o[31] = b ? (int) a % (int) b : 0;
    o[32] = abs((int) a);
    asm("shl.b32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b & 63));
    o[33] = r;
    asm("shr.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b & 63));
    o[34] = r;
    asm("shr.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b & 63));
    o[35] = r;
    asm("cnot.b32 %0, %1;" : "=r"(r) : "r"(a & 1));
    o[36] = r;
    asm("prmt.b32.f4e %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    o[37] = r;
    asm("add.sat.s32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
    o[38] = r;
    asm("slct.u32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    o[39] = r;
}

__global__ void bits64(const unsigned long long *in, unsigned long long *out)
{
    int i = threadIdx.x;
    unsigned long long a = in[i], b = in[(i + 1) % blockDim.x];
    long long sa = a, sb = b;
    unsigned long long *o = out + i * 20;
    o[0] = a * b;
    o[1] = __umul64hi(a, b);
    o[2] = __mul64hi(sa, sb);
    o[3] = b ? a / b : 0;
    o[4] = b ? a % b : 0;
    o[5] = b ? sa / sb : 0;
    o[6] = b ? sa % sb : 0;
    o[7] = __popcll(a);
    o[8] = __clzll(a);
    o[9] = __brevll(a);
    o[10] = __ffsll(a);
    o[11] = a << (b & 63);
    o[12] = a >> (b & 63);
    o[13] = sa >> (b & 63);
    o[14] = llabs(sa);
    o[15] = sa < sb ? a : b;
    o[16] = a < b ? a : b;
    o[17] = (unsigned long long) (unsigned) a * (unsigned) b + a;
    o[18] = (unsigned long long) ((long long) (int) a * (int) b + sa);
    unsigned long long r;
    asm("bfe.s64 %0, %1, %2, %3;" : "=l"(r) : "l"(a), "r"((unsigned) b & 127), "r"((unsigned) (b >> 8) & 127));
    o[19] = r;
}

__global__ void wide128(const unsigned long long *in, unsigned long long *out)
{
    int i = threadIdx.x;
    const unsigned long long *a = in + 4 * i;
    unsigned __int128 x = (unsigned __int128) a[1] << 64 | a[0], y = (unsigned __int128) a[3] << 64 | a[2];
    unsigned __int128 sum = x + y, difference = x - y, product = x * y;
    unsigned long long *o = out + 10 * i;
    o[0] = (unsigned long long) sum;
    o[1] = (unsigned long long) (sum >> 64);
    o[2] = (unsigned long long) difference;
    o[3] = (unsigned long long) (difference >> 64);
    o[4] = (unsigned long long) product;
    o[5] = (unsigned long long) (product >> 64);
    /* the same sum from 32-bit pieces, carry by carry */
    unsigned r0, r1, r2, r3, top;
    asm("add.cc.u32 %0, %5, %9;\n\taddc.cc.u32 %1, %6, %10;\n\taddc.cc.u32 %2, %7, %11;\n\taddc.cc.u32 %3, %8, %12;\n\t"
        "addc.u32 %4, 0, 0;"
        : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3), "=r"(top)
        : "r"((unsigned) a[0]), "r"((unsigned) (a[0] >> 32)), "r"((unsigned) a[1]), "r"((unsigned) (a[1] >> 32)),
          "r"((unsigned) a[2]), "r"((unsigned) (a[2] >> 32)), "r"((unsigned) a[3]), "r"((unsigned) (a[3] >> 32)));
    o[6] = (unsigned long long) r1 << 32 | r0;
    o[7] = (unsigned long long) r3 << 32 | r2;
    o[8] = top;
    unsigned lo, hi;
    asm("mad.lo.cc.u32 %0, %2, %3, %4;\n\tmadc.hi.u32 %1, %2, %3, %5;"
        : "=r"(lo), "=r"(hi)
        : "r"((unsigned) a[0]), "r"((unsigned) a[2]), "r"((unsigned) a[1]), "r"((unsigned) a[3]));
    o[9] = (unsigned long long) hi << 32 | lo;
}
}
