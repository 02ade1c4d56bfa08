/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls added up in the kernel, by function and rank. */
#ifndef SCOPE_NCCL_TOTALS_BPF_H
#define SCOPE_NCCL_TOTALS_BPF_H

/* Counts a call, unless it is inside another one. */
static __always_inline void summarize(const struct nccl_frame *frame, __u64 bytes, __u64 duration_ns, __s32 result)
{
	struct nccl_call_summary_key key = {.function_id = frame->call.place};
	struct nccl_call_summary_value *value;

	if (frame->nested)
		return;
	if (frame->has_communicator) {
		key.communicator = frame->communicator;
		key.has_communicator = 1;
	}
	if (frame->has_rank) {
		key.rank = frame->rank;
		key.has_rank = 1;
	}
	fill_running_process(&key.process);
	value = nccl_call_summary_slot(&key);
	if (!value)
		return;
	__sync_fetch_and_add(&value->count, 1);
	if (fails(result))
		__sync_fetch_and_add(&value->errors, 1);
	else
		__sync_fetch_and_add(&value->bytes, bytes);
	__sync_fetch_and_add(&value->late_ns, frame->late_ns);
	__sync_fetch_and_add(&value->total_ns, duration_ns);
	scope_histogram_add(&value->latency, duration_ns);
}

#endif
