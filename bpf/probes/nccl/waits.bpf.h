/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Waits of the host for CUDA streams with calls of NCCL in them. */
#ifndef SCOPE_NCCL_WAITS_BPF_H
#define SCOPE_NCCL_WAITS_BPF_H

struct nccl_pending_key {
	__u64 start_ns;
	__u64 stream;
	__s32 pid;
	__u32 pad;
};

SCOPE_SHARED(struct, nccl_pending_key);

/* What a process has called on a stream since it last waited for the stream. */
struct nccl_pending {
	__u64 calls;
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct nccl_pending_key);
	__type(value, struct nccl_pending);
} nccl_pending SEC(".maps");

static __always_inline void add_pending(struct task_struct *task, __u64 stream, __u64 bytes)
{
	struct nccl_pending_key key = {.start_ns = running_start_ns(), .stream = stream, .pid = task->tgid};
	struct nccl_pending none = {}, *pending = scope_insert(&nccl_pending, &key, &none, stream_nccl_wait);

	if (!pending)
		return;
	__sync_fetch_and_add(&pending->calls, 1);
	__sync_fetch_and_add(&pending->bytes, bytes);
}

/* At the begin of a wait: calls that others add from now on are for the next one. */
static __always_inline void take_pending(struct task_struct *task, struct nccl_frame *frame)
{
	struct nccl_pending_key key = {.start_ns = running_start_ns(), .stream = frame->args[0], .pid = task->tgid};
	struct nccl_pending *pending = bpf_map_lookup_elem(&nccl_pending, &key);

	if (!pending)
		return;
	frame->calls = pending->calls;
	frame->bytes = pending->bytes;
	bpf_map_delete_elem(&nccl_pending, &key);
}

static __always_inline void emit_wait(struct task_struct *task, const struct nccl_frame *frame, __u64 duration_ns,
				      __s32 result)
{
	struct nccl_wait_event *event;

	if (!frame->calls)
		return;
	if (scope_summarize) {
		summarize(frame, frame->bytes, duration_ns, result);
		return;
	}
	event = scope_reserve(task, stream_nccl_wait, frame->call.entered_ns, sizeof(*event));
	if (!event)
		return;
	event->duration_ns = duration_ns;
	event->stream = frame->args[0];
	event->calls = frame->calls;
	event->bytes = frame->bytes;
	event->result = result;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_nccl_wait, sizeof(*event));
}

#endif
