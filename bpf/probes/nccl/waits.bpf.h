/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Waits of the host for CUDA streams with calls of NCCL in them, and for all streams of a device. */
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
	__uint(max_entries, 4096); /* a wait for all streams looks at each */
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

struct pending_walk {
	struct nccl_frame *frame;
	__u64 start_ns;
	__s32 pid;
};

static long take_next(void *map, const struct nccl_pending_key *key, const struct nccl_pending *pending,
		      struct pending_walk *walk)
{
	if (key->pid != walk->pid || key->start_ns != walk->start_ns)
		return 0;
	walk->frame->calls += pending->calls;
	walk->frame->bytes += pending->bytes;
	bpf_map_delete_elem(map, key);
	return 0;
}

/* The same of all streams of the process. */
static __always_inline void take_all_pending(struct task_struct *task, struct nccl_frame *frame)
{
	struct pending_walk walk = {.frame = frame, .start_ns = running_start_ns(), .pid = task->tgid};

	bpf_for_each_map_elem(&nccl_pending, take_next, &walk, 0);
}

static __always_inline void emit_wait(struct task_struct *task, const struct nccl_frame *frame, bool of_stream,
				      __u64 duration_ns, __s32 result)
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
	event->stream = of_stream ? frame->args[0] : 0;
	event->has_stream = of_stream;
	event->calls = frame->calls;
	event->bytes = frame->bytes;
	event->result = result;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_nccl_wait, sizeof(*event));
}

#endif
