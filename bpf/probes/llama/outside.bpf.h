/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The time between two calls of a context: where it went in the thread, if the same one makes both. */
#ifndef SCOPE_LLAMA_OUTSIDE_BPF_H
#define SCOPE_LLAMA_OUTSIDE_BPF_H

static __always_inline void add_outside(struct llama_outside *outside, const struct scope_where *where)
{
	outside->outside_on_cpu_ns += where->on_cpu_ns;
	outside->outside_run_queue_ns += where->run_queue_ns;
	outside->outside_blocked_ns += where->blocked_ns;
	outside->outside_stopped_ns += where->stopped_ns;
	outside->outside_unknown_ns += where->unknown_ns;
}

static __always_inline void subtract_outside(struct llama_outside *to, const struct llama_outside *from,
					     const struct llama_outside *less)
{
	to->outside_on_cpu_ns = from->outside_on_cpu_ns - less->outside_on_cpu_ns;
	to->outside_run_queue_ns = from->outside_run_queue_ns - less->outside_run_queue_ns;
	to->outside_blocked_ns = from->outside_blocked_ns - less->outside_blocked_ns;
	to->outside_stopped_ns = from->outside_stopped_ns - less->outside_stopped_ns;
	to->outside_unknown_ns = from->outside_unknown_ns - less->outside_unknown_ns;
}

static __always_inline __u64 sum_of_outside(const struct llama_outside *outside)
{
	return outside->outside_on_cpu_ns + outside->outside_run_queue_ns + outside->outside_blocked_ns +
	       outside->outside_stopped_ns + outside->outside_unknown_ns;
}

#endif
