/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the time of a call of llama.cpp goes: in waits for a GPU; else on a CPU, and there with which operators;
 * waiting for a CPU; blocked; or stopped by a signal.
 */
#ifndef SCOPE_LLAMA_SPENT_BPF_H
#define SCOPE_LLAMA_SPENT_BPF_H

/* The state of a thread at a moment at which it runs. */
struct llama_mark {
	struct where_mark where;
	__u32 samples[LLAMA_SAMPLED]; /* so far, by enum llama_operator */
};

/* What a call, or a part of it, has taken. */
struct llama_taken {
	__u64 ns;
	struct scope_where where;
	__u32 samples[LLAMA_SAMPLED];
	__u32 pad;
};

static __always_inline void taken_between(struct llama_taken *taken, const struct llama_mark *begin,
					  const struct llama_mark *end)
{
	taken->ns = end->where.at_ns - begin->where.at_ns;
	where_between(&begin->where, &end->where, &taken->where);
	for (__u32 i = 0; i < LLAMA_SAMPLED; i++)
		taken->samples[i] = end->samples[i] - begin->samples[i];
}

/* Adds what a part of a call has taken. */
static __always_inline void add_taken(struct llama_taken *to, const struct llama_taken *more)
{
	to->ns += more->ns;
	where_add(&to->where, &more->where);
	for (__u32 i = 0; i < LLAMA_SAMPLED; i++)
		to->samples[i] += more->samples[i];
}

/* Where the time of a call went that has waited for a GPU in between. */
static __always_inline void spent_in(struct llama_spent *spent, struct llama_taken *call,
				     const struct llama_taken *gpu_waits)
{
	for (__u32 i = 0; i < LLAMA_SAMPLED; i++)
		call->samples[i] -= gpu_waits->samples[i];
	spent->gpu_wait_ns = gpu_waits->ns;
	where_subtract(&spent->where, &call->where, &gpu_waits->where);
	share_out(&spent->operators, spent->where.on_cpu_ns, call->samples);
}

static __always_inline void add_spent(struct llama_spent *to, const struct llama_spent *more)
{
	__u64 *sum = (__u64 *)to;
	const __u64 *term = (const __u64 *)more;

	for (__u32 i = 0; i < sizeof(*to) / sizeof(*sum); i++)
		sum[i] += term[i];
}

static __always_inline void subtract_spent(struct llama_spent *to, const struct llama_spent *from,
					   const struct llama_spent *less)
{
	__u64 *rest = (__u64 *)to;
	const __u64 *whole = (const __u64 *)from, *part = (const __u64 *)less;

	for (__u32 i = 0; i < sizeof(*to) / sizeof(*rest); i++)
		rest[i] = whole[i] - part[i];
}

#endif
