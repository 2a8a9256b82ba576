/* SPDX-License-Identifier: Apache-2.0
 *
 * dlsym must be left by a jump when the name is none of ours: for RTLD_NEXT and RTLD_DEFAULT the C library looks at the
 * return address to see who asks. A C function cannot promise that its last call is a jump.
 *
 * And the thunks for driver functions that this version of coissue does not know: cuGetProcAddress gave the program a
 * function of unknown signature, so everything is flushed before it runs, with all argument registers kept. Stack
 * arguments stay where they are because the thunk ends in a jump.
 */
    .text

    .globl  shim_dlsym_entry
    .hidden shim_dlsym_entry
    .type   shim_dlsym_entry, @function
    .p2align 4
shim_dlsym_entry:
    .cfi_startproc
    endbr64
    pushq   %rdi
    .cfi_adjust_cfa_offset 8
    pushq   %rsi
    .cfi_adjust_cfa_offset 8
    subq    $8, %rsp                    /* room for the result; the stack is 16-aligned again */
    .cfi_adjust_cfa_offset 8
    leaq    (%rsp), %rdx
    call    shim_dlsym_filter           /* (handle, name, &result): 1 if result is the answer */
    popq    %rdx
    .cfi_adjust_cfa_offset -8
    popq    %rsi
    .cfi_adjust_cfa_offset -8
    popq    %rdi
    .cfi_adjust_cfa_offset -8
    testl   %eax, %eax
    jz      1f
    movq    %rdx, %rax
    ret
1:  movq    shim_real_dlsym(%rip), %rax
    jmp     *%rax
    .cfi_endproc
    .size   shim_dlsym_entry, . - shim_dlsym_entry

    /* Both versions under which programs bind dlsym. */
    .globl  dlsym_old
    .set    dlsym_old, shim_dlsym_entry
    .globl  dlsym_new
    .set    dlsym_new, shim_dlsym_entry
    .symver dlsym_old, dlsym@GLIBC_2.2.5
    .symver dlsym_new, dlsym@@GLIBC_2.34

    /* In: %r11 = slot number. Saves what may carry arguments, flushes, restores, jumps to the slot's function. */
    .type   unknown_common, @function
    .p2align 4
unknown_common:
    .cfi_startproc
    pushq   %rbp
    .cfi_adjust_cfa_offset 8
    movq    %rsp, %rbp
    pushq   %rdi
    pushq   %rsi
    pushq   %rdx
    pushq   %rcx
    pushq   %r8
    pushq   %r9
    pushq   %rax                        /* %al counts vector registers of a variadic call */
    pushq   %r11
    subq    $128, %rsp
    movups  %xmm0, (%rsp)
    movups  %xmm1, 16(%rsp)
    movups  %xmm2, 32(%rsp)
    movups  %xmm3, 48(%rsp)
    movups  %xmm4, 64(%rsp)
    movups  %xmm5, 80(%rsp)
    movups  %xmm6, 96(%rsp)
    movups  %xmm7, 112(%rsp)
    movl    %r11d, %edi
    andq    $-16, %rsp
    subq    $16, %rsp
    call    shim_unknown_called         /* (slot): the real function */
    movq    %rax, %r10
    leaq    -192(%rbp), %rsp
    movups  (%rsp), %xmm0
    movups  16(%rsp), %xmm1
    movups  32(%rsp), %xmm2
    movups  48(%rsp), %xmm3
    movups  64(%rsp), %xmm4
    movups  80(%rsp), %xmm5
    movups  96(%rsp), %xmm6
    movups  112(%rsp), %xmm7
    addq    $128, %rsp
    popq    %r11
    popq    %rax
    popq    %r9
    popq    %r8
    popq    %rcx
    popq    %rdx
    popq    %rsi
    popq    %rdi
    popq    %rbp
    .cfi_adjust_cfa_offset -8
    jmp     *%r10
    .cfi_endproc
    .size   unknown_common, . - unknown_common

    .globl  shim_unknown_thunks
    .hidden shim_unknown_thunks
    .type   shim_unknown_thunks, @function
    .p2align 4
shim_unknown_thunks:                    /* 64 entries of 16 bytes: shim/hooks.c counts on both */
    .set    slot, 0
    .rept   64
    .p2align 4
    movl    $slot, %r11d
    jmp     unknown_common
    .set    slot, slot + 1
    .endr
    .p2align 4
    .size   shim_unknown_thunks, . - shim_unknown_thunks

    .section .note.GNU-stack,"",@progbits
