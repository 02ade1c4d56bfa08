/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs of functions and packets: nothing preempts them.
 *
 * A kernel with full or lazy preemption, such as Debian 14's, may preempt a thread in a program and run the program for
 * another thread on the same CPU. This one would write over the first one's memory per CPU; also over its stack, of
 * which each CPU has one since "bpf: Enable private stack for eligible subprogs" (6.13). The kernel itself leaves out
 * such a run of a tracepoint's program, and counts it.
 */
#ifndef SCOPE_PROGRAM_BPF_H
#define SCOPE_PROGRAM_BPF_H

extern void bpf_preempt_disable(void) __ksym __weak;
extern void bpf_preempt_enable(void) __ksym __weak;

struct bpf_subprog_info___since_6_15 {
	bool might_sleep;
} __attribute__((preserve_access_index));

/* Programs call global functions, too: "bpf: Summarize sleepable global subprogs" (6.15) lets them do so. */
static __always_inline bool can_disable_preemption(void)
{
	return bpf_preempt_disable && bpf_core_field_exists(struct bpf_subprog_info___since_6_15, might_sleep);
}

/*
 * The program `name` with its context, `type ctx`. An instruction that the compiler does not know copies the context,
 * or it might be kept on the stack before.
 */
#define SCOPE_UNPREEMPTED(name, type, ctx)                                                                             \
	name(type ctx);                                                                                                \
	static __always_inline int ____##name(type ctx);                                                               \
	int name(type ctx)                                                                                             \
	{                                                                                                              \
		type own;                                                                                              \
		int result;                                                                                            \
                                                                                                                       \
		if (can_disable_preemption())                                                                          \
			bpf_preempt_disable();                                                                         \
		asm volatile("%0 = %1" : "=r"(own) : "r"(ctx));                                                        \
		result = ____##name(own);                                                                              \
		if (can_disable_preemption())                                                                          \
			bpf_preempt_enable();                                                                          \
		return result;                                                                                         \
	}                                                                                                              \
	static __always_inline int ____##name(type ctx)

#endif
