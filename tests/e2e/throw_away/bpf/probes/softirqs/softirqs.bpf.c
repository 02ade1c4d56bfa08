/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include "softirqs.h"

SCOPE_STREAM(softirq);
SCOPE_SUMMARY(softirq_summary)

/* What the kernel has put off to the end of an interrupt; it is no process's. */
SEC("tp_btf/softirq_entry")
int BPF_PROG(softirq_begins, unsigned int vector)
{
	struct softirq_summary_key key = {.kind = vector};
	struct softirq_summary_value *value;
	struct softirq_event *event;

	if (!scope_nobody_passes())
		return 0;
	if (scope_summarize) {
		value = softirq_summary_slot(&key);
		if (value)
			__sync_fetch_and_add(&value->count, 1);
		return 0;
	}
	event = scope_reserve_for(NULL, stream_softirq, bpf_ktime_get_boot_ns(), sizeof(*event));
	if (!event)
		return 0;
	event->kind = vector;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_softirq, sizeof(*event));
	return 0;
}
