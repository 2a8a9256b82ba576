/* SPDX-License-Identifier: Apache-2.0
 *
 * What a row of entries.def can be turned into. A row gives its parameters as Pn(type1, name1, type2, name2, ...).
 * Before including entries.def, a user writes one of these in its CU_ENTRY:
 *
 *   CU_PARAMS(Pn(...))   (type1 name1, type2 name2)          for prototypes and definitions
 *   CU_ARGS(Pn(...))     (name1, name2)                       for calls
 *   CU_TYPES(Pn(...))    (type1, type2)                       for function pointer types
 *   CU_FIELDS(Pn(...))   type1 name1; type2 name2;            for structures that hold a call
 *   CU_FROM(p, Pn(...))  (p->name1, p->name2)                 to call from such a structure
 *   CU_STORE(Pn(...))    .name1 = name1, .name2 = name2       to fill one
 *   CU_UNUSED(Pn(...))   (void)name1; (void)name2;            for stubs
 *
 * Made for up to 16 parameters, which is what the longest call of CUDA 13.0 has.
 */
#ifndef COISSUE_DRIVER_PARAMS_H
#define COISSUE_DRIVER_PARAMS_H

#define CU_PASTE_(a, b) a##b
#define CU_PASTE(a, b) CU_PASTE_(a, b)

#define CU_PARAMS(pn) CU_PASTE(CU_PARAMS_, pn)
#define CU_ARGS(pn) CU_PASTE(CU_ARGS_, pn)
#define CU_TYPES(pn) CU_PASTE(CU_TYPES_, pn)
#define CU_FIELDS(pn) CU_PASTE(CU_FIELDS_, pn)
#define CU_STORE(pn) CU_PASTE(CU_STORE_, pn)
#define CU_UNUSED(pn) CU_PASTE(CU_UNUSED_, pn)
/* The structure pointer is always called `call` here, so that one macro argument is enough. */
#define CU_FROM_CALL(pn) CU_PASTE(CU_FROM_, pn)

#define CU_PARAMS_P0() (void)
#define CU_PARAMS_P1(t1, n1) (t1 n1)
#define CU_PARAMS_P2(t1, n1, t2, n2) (t1 n1, t2 n2)
#define CU_PARAMS_P3(t1, n1, t2, n2, t3, n3) (t1 n1, t2 n2, t3 n3)
#define CU_PARAMS_P4(t1, n1, t2, n2, t3, n3, t4, n4) (t1 n1, t2 n2, t3 n3, t4 n4)
#define CU_PARAMS_P5(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5) (t1 n1, t2 n2, t3 n3, t4 n4, t5 n5)
#define CU_PARAMS_P6(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6) (t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6)
#define CU_PARAMS_P7(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7)                                           \
    (t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7)
#define CU_PARAMS_P8(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8)                                   \
    (t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8)
#define CU_PARAMS_P9(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9)                           \
    (t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8, t9 n9)
#define CU_PARAMS_P10(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10)                \
    (t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8, t9 n9, t10 n10)
#define CU_PARAMS_P11(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11)      \
    (t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8, t9 n9, t10 n10, t11 n11)
#define CU_PARAMS_P12(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12)                                                                                             \
    (t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8, t9 n9, t10 n10, t11 n11, t12 n12)
#define CU_PARAMS_P13(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12, t13, n13)                                                                                   \
    (t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8, t9 n9, t10 n10, t11 n11, t12 n12, t13 n13)
#define CU_PARAMS_P14(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12, t13, n13, t14, n14)                                                                         \
    (t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8, t9 n9, t10 n10, t11 n11, t12 n12, t13 n13, t14 n14)
#define CU_PARAMS_P15(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12, t13, n13, t14, n14, t15, n15)                                                               \
    (t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8, t9 n9, t10 n10, t11 n11, t12 n12, t13 n13, t14 n14,       \
     t15 n15)
#define CU_PARAMS_P16(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12, t13, n13, t14, n14, t15, n15, t16, n16)                                                     \
    (t1 n1, t2 n2, t3 n3, t4 n4, t5 n5, t6 n6, t7 n7, t8 n8, t9 n9, t10 n10, t11 n11, t12 n12, t13 n13, t14 n14,       \
     t15 n15, t16 n16)

#define CU_ARGS_P0() ()
#define CU_ARGS_P1(t1, n1) (n1)
#define CU_ARGS_P2(t1, n1, t2, n2) (n1, n2)
#define CU_ARGS_P3(t1, n1, t2, n2, t3, n3) (n1, n2, n3)
#define CU_ARGS_P4(t1, n1, t2, n2, t3, n3, t4, n4) (n1, n2, n3, n4)
#define CU_ARGS_P5(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5) (n1, n2, n3, n4, n5)
#define CU_ARGS_P6(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6) (n1, n2, n3, n4, n5, n6)
#define CU_ARGS_P7(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7) (n1, n2, n3, n4, n5, n6, n7)
#define CU_ARGS_P8(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8) (n1, n2, n3, n4, n5, n6, n7, n8)
#define CU_ARGS_P9(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9)                             \
    (n1, n2, n3, n4, n5, n6, n7, n8, n9)
#define CU_ARGS_P10(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10)                  \
    (n1, n2, n3, n4, n5, n6, n7, n8, n9, n10)
#define CU_ARGS_P11(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11)        \
    (n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11)
#define CU_ARGS_P12(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,   \
                    n12)                                                                                               \
    (n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12)
#define CU_ARGS_P13(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,   \
                    n12, t13, n13)                                                                                     \
    (n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13)
#define CU_ARGS_P14(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,   \
                    n12, t13, n13, t14, n14)                                                                           \
    (n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14)
#define CU_ARGS_P15(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,   \
                    n12, t13, n13, t14, n14, t15, n15)                                                                 \
    (n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15)
#define CU_ARGS_P16(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,   \
                    n12, t13, n13, t14, n14, t15, n15, t16, n16)                                                       \
    (n1, n2, n3, n4, n5, n6, n7, n8, n9, n10, n11, n12, n13, n14, n15, n16)

#define CU_TYPES_P0() (void)
#define CU_TYPES_P1(t1, n1) (t1)
#define CU_TYPES_P2(t1, n1, t2, n2) (t1, t2)
#define CU_TYPES_P3(t1, n1, t2, n2, t3, n3) (t1, t2, t3)
#define CU_TYPES_P4(t1, n1, t2, n2, t3, n3, t4, n4) (t1, t2, t3, t4)
#define CU_TYPES_P5(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5) (t1, t2, t3, t4, t5)
#define CU_TYPES_P6(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6) (t1, t2, t3, t4, t5, t6)
#define CU_TYPES_P7(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7) (t1, t2, t3, t4, t5, t6, t7)
#define CU_TYPES_P8(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8) (t1, t2, t3, t4, t5, t6, t7, t8)
#define CU_TYPES_P9(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9)                            \
    (t1, t2, t3, t4, t5, t6, t7, t8, t9)
#define CU_TYPES_P10(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10)                 \
    (t1, t2, t3, t4, t5, t6, t7, t8, t9, t10)
#define CU_TYPES_P11(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11)       \
    (t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11)
#define CU_TYPES_P12(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,  \
                     n12)                                                                                              \
    (t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12)
#define CU_TYPES_P13(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,  \
                     n12, t13, n13)                                                                                    \
    (t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13)
#define CU_TYPES_P14(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,  \
                     n12, t13, n13, t14, n14)                                                                          \
    (t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14)
#define CU_TYPES_P15(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,  \
                     n12, t13, n13, t14, n14, t15, n15)                                                                \
    (t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14, t15)
#define CU_TYPES_P16(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,  \
                     n12, t13, n13, t14, n14, t15, n15, t16, n16)                                                      \
    (t1, t2, t3, t4, t5, t6, t7, t8, t9, t10, t11, t12, t13, t14, t15, t16)

#define CU_FIELDS_P0() char none_;
#define CU_FIELDS_P1(t1, n1) t1 n1;
#define CU_FIELDS_P2(t1, n1, t2, n2)                                                                                   \
    t1 n1;                                                                                                             \
    t2 n2;
#define CU_FIELDS_P3(t1, n1, t2, n2, t3, n3)                                                                           \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;
#define CU_FIELDS_P4(t1, n1, t2, n2, t3, n3, t4, n4)                                                                   \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;                                                                                                             \
    t4 n4;
#define CU_FIELDS_P5(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5)                                                           \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;                                                                                                             \
    t4 n4;                                                                                                             \
    t5 n5;
#define CU_FIELDS_P6(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6)                                                   \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;                                                                                                             \
    t4 n4;                                                                                                             \
    t5 n5;                                                                                                             \
    t6 n6;
#define CU_FIELDS_P7(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7)                                           \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;                                                                                                             \
    t4 n4;                                                                                                             \
    t5 n5;                                                                                                             \
    t6 n6;                                                                                                             \
    t7 n7;
#define CU_FIELDS_P8(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8)                                   \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;                                                                                                             \
    t4 n4;                                                                                                             \
    t5 n5;                                                                                                             \
    t6 n6;                                                                                                             \
    t7 n7;                                                                                                             \
    t8 n8;
#define CU_FIELDS_P9(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9)                           \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;                                                                                                             \
    t4 n4;                                                                                                             \
    t5 n5;                                                                                                             \
    t6 n6;                                                                                                             \
    t7 n7;                                                                                                             \
    t8 n8;                                                                                                             \
    t9 n9;
#define CU_FIELDS_P10(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10)                \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;                                                                                                             \
    t4 n4;                                                                                                             \
    t5 n5;                                                                                                             \
    t6 n6;                                                                                                             \
    t7 n7;                                                                                                             \
    t8 n8;                                                                                                             \
    t9 n9;                                                                                                             \
    t10 n10;
#define CU_FIELDS_P11(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11)      \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;                                                                                                             \
    t4 n4;                                                                                                             \
    t5 n5;                                                                                                             \
    t6 n6;                                                                                                             \
    t7 n7;                                                                                                             \
    t8 n8;                                                                                                             \
    t9 n9;                                                                                                             \
    t10 n10;                                                                                                           \
    t11 n11;
#define CU_FIELDS_P12(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12)                                                                                             \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;                                                                                                             \
    t4 n4;                                                                                                             \
    t5 n5;                                                                                                             \
    t6 n6;                                                                                                             \
    t7 n7;                                                                                                             \
    t8 n8;                                                                                                             \
    t9 n9;                                                                                                             \
    t10 n10;                                                                                                           \
    t11 n11;                                                                                                           \
    t12 n12;
#define CU_FIELDS_P13(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12, t13, n13)                                                                                   \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;                                                                                                             \
    t4 n4;                                                                                                             \
    t5 n5;                                                                                                             \
    t6 n6;                                                                                                             \
    t7 n7;                                                                                                             \
    t8 n8;                                                                                                             \
    t9 n9;                                                                                                             \
    t10 n10;                                                                                                           \
    t11 n11;                                                                                                           \
    t12 n12;                                                                                                           \
    t13 n13;
#define CU_FIELDS_P14(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12, t13, n13, t14, n14)                                                                         \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;                                                                                                             \
    t4 n4;                                                                                                             \
    t5 n5;                                                                                                             \
    t6 n6;                                                                                                             \
    t7 n7;                                                                                                             \
    t8 n8;                                                                                                             \
    t9 n9;                                                                                                             \
    t10 n10;                                                                                                           \
    t11 n11;                                                                                                           \
    t12 n12;                                                                                                           \
    t13 n13;                                                                                                           \
    t14 n14;
#define CU_FIELDS_P15(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12, t13, n13, t14, n14, t15, n15)                                                               \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;                                                                                                             \
    t4 n4;                                                                                                             \
    t5 n5;                                                                                                             \
    t6 n6;                                                                                                             \
    t7 n7;                                                                                                             \
    t8 n8;                                                                                                             \
    t9 n9;                                                                                                             \
    t10 n10;                                                                                                           \
    t11 n11;                                                                                                           \
    t12 n12;                                                                                                           \
    t13 n13;                                                                                                           \
    t14 n14;                                                                                                           \
    t15 n15;
#define CU_FIELDS_P16(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12, t13, n13, t14, n14, t15, n15, t16, n16)                                                     \
    t1 n1;                                                                                                             \
    t2 n2;                                                                                                             \
    t3 n3;                                                                                                             \
    t4 n4;                                                                                                             \
    t5 n5;                                                                                                             \
    t6 n6;                                                                                                             \
    t7 n7;                                                                                                             \
    t8 n8;                                                                                                             \
    t9 n9;                                                                                                             \
    t10 n10;                                                                                                           \
    t11 n11;                                                                                                           \
    t12 n12;                                                                                                           \
    t13 n13;                                                                                                           \
    t14 n14;                                                                                                           \
    t15 n15;                                                                                                           \
    t16 n16;

#define CU_STORE_P0() .none_ = 0
#define CU_STORE_P1(t1, n1) .n1 = n1
#define CU_STORE_P2(t1, n1, t2, n2) .n1 = n1, .n2 = n2
#define CU_STORE_P3(t1, n1, t2, n2, t3, n3) .n1 = n1, .n2 = n2, .n3 = n3
#define CU_STORE_P4(t1, n1, t2, n2, t3, n3, t4, n4) .n1 = n1, .n2 = n2, .n3 = n3, .n4 = n4
#define CU_STORE_P5(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5) .n1 = n1, .n2 = n2, .n3 = n3, .n4 = n4, .n5 = n5
#define CU_STORE_P6(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6)                                                    \
    .n1 = n1, .n2 = n2, .n3 = n3, .n4 = n4, .n5 = n5, .n6 = n6
#define CU_STORE_P7(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7)                                            \
    .n1 = n1, .n2 = n2, .n3 = n3, .n4 = n4, .n5 = n5, .n6 = n6, .n7 = n7
#define CU_STORE_P8(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8)                                    \
    .n1 = n1, .n2 = n2, .n3 = n3, .n4 = n4, .n5 = n5, .n6 = n6, .n7 = n7, .n8 = n8
#define CU_STORE_P9(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9)                            \
    .n1 = n1, .n2 = n2, .n3 = n3, .n4 = n4, .n5 = n5, .n6 = n6, .n7 = n7, .n8 = n8, .n9 = n9
#define CU_STORE_P10(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10)                 \
    .n1 = n1, .n2 = n2, .n3 = n3, .n4 = n4, .n5 = n5, .n6 = n6, .n7 = n7, .n8 = n8, .n9 = n9, .n10 = n10
#define CU_STORE_P11(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11)       \
    .n1 = n1, .n2 = n2, .n3 = n3, .n4 = n4, .n5 = n5, .n6 = n6, .n7 = n7, .n8 = n8, .n9 = n9, .n10 = n10, .n11 = n11
#define CU_STORE_P12(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,  \
                     n12)                                                                                              \
    .n1 = n1, .n2 = n2, .n3 = n3, .n4 = n4, .n5 = n5, .n6 = n6, .n7 = n7, .n8 = n8, .n9 = n9, .n10 = n10, .n11 = n11,  \
    .n12 = n12
#define CU_STORE_P13(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,  \
                     n12, t13, n13)                                                                                    \
    .n1 = n1, .n2 = n2, .n3 = n3, .n4 = n4, .n5 = n5, .n6 = n6, .n7 = n7, .n8 = n8, .n9 = n9, .n10 = n10, .n11 = n11,  \
    .n12 = n12, .n13 = n13
#define CU_STORE_P14(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,  \
                     n12, t13, n13, t14, n14)                                                                          \
    .n1 = n1, .n2 = n2, .n3 = n3, .n4 = n4, .n5 = n5, .n6 = n6, .n7 = n7, .n8 = n8, .n9 = n9, .n10 = n10, .n11 = n11,  \
    .n12 = n12, .n13 = n13, .n14 = n14
#define CU_STORE_P15(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,  \
                     n12, t13, n13, t14, n14, t15, n15)                                                                \
    .n1 = n1, .n2 = n2, .n3 = n3, .n4 = n4, .n5 = n5, .n6 = n6, .n7 = n7, .n8 = n8, .n9 = n9, .n10 = n10, .n11 = n11,  \
    .n12 = n12, .n13 = n13, .n14 = n14, .n15 = n15
#define CU_STORE_P16(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,  \
                     n12, t13, n13, t14, n14, t15, n15, t16, n16)                                                      \
    .n1 = n1, .n2 = n2, .n3 = n3, .n4 = n4, .n5 = n5, .n6 = n6, .n7 = n7, .n8 = n8, .n9 = n9, .n10 = n10, .n11 = n11,  \
    .n12 = n12, .n13 = n13, .n14 = n14, .n15 = n15, .n16 = n16

#define CU_UNUSED_P0()
#define CU_UNUSED_P1(t1, n1) (void)n1;
#define CU_UNUSED_P2(t1, n1, t2, n2)                                                                                   \
    (void)n1;                                                                                                          \
    (void)n2;
#define CU_UNUSED_P3(t1, n1, t2, n2, t3, n3)                                                                           \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;
#define CU_UNUSED_P4(t1, n1, t2, n2, t3, n3, t4, n4)                                                                   \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;                                                                                                          \
    (void)n4;
#define CU_UNUSED_P5(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5)                                                           \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;                                                                                                          \
    (void)n4;                                                                                                          \
    (void)n5;
#define CU_UNUSED_P6(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6)                                                   \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;                                                                                                          \
    (void)n4;                                                                                                          \
    (void)n5;                                                                                                          \
    (void)n6;
#define CU_UNUSED_P7(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7)                                           \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;                                                                                                          \
    (void)n4;                                                                                                          \
    (void)n5;                                                                                                          \
    (void)n6;                                                                                                          \
    (void)n7;
#define CU_UNUSED_P8(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8)                                   \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;                                                                                                          \
    (void)n4;                                                                                                          \
    (void)n5;                                                                                                          \
    (void)n6;                                                                                                          \
    (void)n7;                                                                                                          \
    (void)n8;
#define CU_UNUSED_P9(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9)                           \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;                                                                                                          \
    (void)n4;                                                                                                          \
    (void)n5;                                                                                                          \
    (void)n6;                                                                                                          \
    (void)n7;                                                                                                          \
    (void)n8;                                                                                                          \
    (void)n9;
#define CU_UNUSED_P10(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10)                \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;                                                                                                          \
    (void)n4;                                                                                                          \
    (void)n5;                                                                                                          \
    (void)n6;                                                                                                          \
    (void)n7;                                                                                                          \
    (void)n8;                                                                                                          \
    (void)n9;                                                                                                          \
    (void)n10;
#define CU_UNUSED_P11(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11)      \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;                                                                                                          \
    (void)n4;                                                                                                          \
    (void)n5;                                                                                                          \
    (void)n6;                                                                                                          \
    (void)n7;                                                                                                          \
    (void)n8;                                                                                                          \
    (void)n9;                                                                                                          \
    (void)n10;                                                                                                         \
    (void)n11;
#define CU_UNUSED_P12(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12)                                                                                             \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;                                                                                                          \
    (void)n4;                                                                                                          \
    (void)n5;                                                                                                          \
    (void)n6;                                                                                                          \
    (void)n7;                                                                                                          \
    (void)n8;                                                                                                          \
    (void)n9;                                                                                                          \
    (void)n10;                                                                                                         \
    (void)n11;                                                                                                         \
    (void)n12;
#define CU_UNUSED_P13(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12, t13, n13)                                                                                   \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;                                                                                                          \
    (void)n4;                                                                                                          \
    (void)n5;                                                                                                          \
    (void)n6;                                                                                                          \
    (void)n7;                                                                                                          \
    (void)n8;                                                                                                          \
    (void)n9;                                                                                                          \
    (void)n10;                                                                                                         \
    (void)n11;                                                                                                         \
    (void)n12;                                                                                                         \
    (void)n13;
#define CU_UNUSED_P14(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12, t13, n13, t14, n14)                                                                         \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;                                                                                                          \
    (void)n4;                                                                                                          \
    (void)n5;                                                                                                          \
    (void)n6;                                                                                                          \
    (void)n7;                                                                                                          \
    (void)n8;                                                                                                          \
    (void)n9;                                                                                                          \
    (void)n10;                                                                                                         \
    (void)n11;                                                                                                         \
    (void)n12;                                                                                                         \
    (void)n13;                                                                                                         \
    (void)n14;
#define CU_UNUSED_P15(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12, t13, n13, t14, n14, t15, n15)                                                               \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;                                                                                                          \
    (void)n4;                                                                                                          \
    (void)n5;                                                                                                          \
    (void)n6;                                                                                                          \
    (void)n7;                                                                                                          \
    (void)n8;                                                                                                          \
    (void)n9;                                                                                                          \
    (void)n10;                                                                                                         \
    (void)n11;                                                                                                         \
    (void)n12;                                                                                                         \
    (void)n13;                                                                                                         \
    (void)n14;                                                                                                         \
    (void)n15;
#define CU_UNUSED_P16(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12, \
                      n12, t13, n13, t14, n14, t15, n15, t16, n16)                                                     \
    (void)n1;                                                                                                          \
    (void)n2;                                                                                                          \
    (void)n3;                                                                                                          \
    (void)n4;                                                                                                          \
    (void)n5;                                                                                                          \
    (void)n6;                                                                                                          \
    (void)n7;                                                                                                          \
    (void)n8;                                                                                                          \
    (void)n9;                                                                                                          \
    (void)n10;                                                                                                         \
    (void)n11;                                                                                                         \
    (void)n12;                                                                                                         \
    (void)n13;                                                                                                         \
    (void)n14;                                                                                                         \
    (void)n15;                                                                                                         \
    (void)n16;

#define CU_FROM_P0() ()
#define CU_FROM_P1(t1, n1) (call->n1)
#define CU_FROM_P2(t1, n1, t2, n2) (call->n1, call->n2)
#define CU_FROM_P3(t1, n1, t2, n2, t3, n3) (call->n1, call->n2, call->n3)
#define CU_FROM_P4(t1, n1, t2, n2, t3, n3, t4, n4) (call->n1, call->n2, call->n3, call->n4)
#define CU_FROM_P5(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5) (call->n1, call->n2, call->n3, call->n4, call->n5)
#define CU_FROM_P6(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6)                                                     \
    (call->n1, call->n2, call->n3, call->n4, call->n5, call->n6)
#define CU_FROM_P7(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7)                                             \
    (call->n1, call->n2, call->n3, call->n4, call->n5, call->n6, call->n7)
#define CU_FROM_P8(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8)                                     \
    (call->n1, call->n2, call->n3, call->n4, call->n5, call->n6, call->n7, call->n8)
#define CU_FROM_P9(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9)                             \
    (call->n1, call->n2, call->n3, call->n4, call->n5, call->n6, call->n7, call->n8, call->n9)
#define CU_FROM_P10(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10)                  \
    (call->n1, call->n2, call->n3, call->n4, call->n5, call->n6, call->n7, call->n8, call->n9, call->n10)
#define CU_FROM_P11(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11)        \
    (call->n1, call->n2, call->n3, call->n4, call->n5, call->n6, call->n7, call->n8, call->n9, call->n10, call->n11)
#define CU_FROM_P12(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,   \
                    n12)                                                                                               \
    (call->n1, call->n2, call->n3, call->n4, call->n5, call->n6, call->n7, call->n8, call->n9, call->n10, call->n11,   \
     call->n12)
#define CU_FROM_P13(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,   \
                    n12, t13, n13)                                                                                     \
    (call->n1, call->n2, call->n3, call->n4, call->n5, call->n6, call->n7, call->n8, call->n9, call->n10, call->n11,   \
     call->n12, call->n13)
#define CU_FROM_P14(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,   \
                    n12, t13, n13, t14, n14)                                                                           \
    (call->n1, call->n2, call->n3, call->n4, call->n5, call->n6, call->n7, call->n8, call->n9, call->n10, call->n11,   \
     call->n12, call->n13, call->n14)
#define CU_FROM_P15(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,   \
                    n12, t13, n13, t14, n14, t15, n15)                                                                 \
    (call->n1, call->n2, call->n3, call->n4, call->n5, call->n6, call->n7, call->n8, call->n9, call->n10, call->n11,   \
     call->n12, call->n13, call->n14, call->n15)
#define CU_FROM_P16(t1, n1, t2, n2, t3, n3, t4, n4, t5, n5, t6, n6, t7, n7, t8, n8, t9, n9, t10, n10, t11, n11, t12,   \
                    n12, t13, n13, t14, n14, t15, n15, t16, n16)                                                       \
    (call->n1, call->n2, call->n3, call->n4, call->n5, call->n6, call->n7, call->n8, call->n9, call->n10, call->n11,   \
     call->n12, call->n13, call->n14, call->n15, call->n16)

#endif
