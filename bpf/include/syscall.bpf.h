/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Syscalls as sys_enter and sys_exit see them, per architecture. */
#ifndef SCOPE_SYSCALL_BPF_H
#define SCOPE_SYSCALL_BPF_H

#define SYSCALLS 1024	 /* elements of a table by number of call; a power of 2, for masks */
#define TS_COMPAT 0x0002 /* arch/x86/include/asm/thread_info.h */
#define TIF_32BIT 22	 /* arch/arm64/include/asm/thread_info.h */
#define USER32_CS 0x23	 /* arch/x86/include/asm/segment.h */
#define PSR_MODE32 0x10	 /* arch/arm64/include/uapi/asm/ptrace.h */

/* Is the task in a 32-bit call? Then its number is from another table. */
static __always_inline bool is_compat(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return task->thread_info.status & TS_COMPAT;
#else
	return task->thread_info.flags & (1UL << TIF_32BIT);
#endif
}

/*
 * Argument 0 to 5 (a constant) of a 32-bit call, at entry: do_int80_emulation() and __do_fast_syscall_32(),
 * arch/x86/entry/common.c, and __SC_IA32_REGS, arch/x86/include/asm/syscall_wrapper.h; on arm64, r0 to r5.
 */
static __always_inline __u32 compat_arg(struct pt_regs *regs, int n)
{
#if defined(__TARGET_ARCH_x86)
	switch (n) {
	case 0:
		return regs->bx;
	case 1:
		return regs->cx;
	case 2:
		return regs->dx;
	case 3:
		return regs->si;
	case 4:
		return regs->di;
	default:
		return regs->bp;
	}
#else
	return n == 0 ? regs->orig_x0 : regs->regs[n];
#endif
}

/* Argument 0 to 5 (a constant) of a 64-bit call, at entry. */
static __always_inline __u64 syscall_arg(struct pt_regs *regs, int n)
{
#if defined(__TARGET_ARCH_x86)
	switch (n) {
	case 0:
		return regs->di;
	case 1:
		return regs->si;
	case 2:
		return regs->dx;
	case 3:
		return regs->r10;
	case 4:
		return regs->r8;
	default:
		return regs->r9;
	}
#else
	return n == 0 ? regs->orig_x0 : regs->regs[n];
#endif
}

/* Argument 0 to 5 (a constant) of a call, at entry. */
static __always_inline __u64 call_arg(struct pt_regs *regs, int n, bool compat)
{
	return compat ? compat_arg(regs, n) : syscall_arg(regs, n);
}

/* Does the thread that entered the kernel with these registers run 32-bit code? Its stack is not walked then. */
static __always_inline bool is_32_bit_code(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->cs == USER32_CS;
#else
	return regs->pstate & PSR_MODE32;
#endif
}

/* The number of the ending call, unless the call changed it (rt_sigreturn does). */
static __always_inline long syscall_number(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->orig_ax;
#else
	return regs->syscallno;
#endif
}

#endif
