/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of functions of the CUDA backend, and launches of CUDA graphs, which repeat operations without such calls. */
#ifndef SCOPE_GGML_OPERATIONS_BPF_H
#define SCOPE_GGML_OPERATIONS_BPF_H

struct ggml_replays_key {
	__u64 start_ns;
	__s32 pid;
	__u32 pad;
};

SCOPE_SHARED(struct, ggml_replays_key);

/* Of a process that has launched CUDA graphs. */
struct ggml_replays {
	__u64 since_ns;	   /* of the first launch */
	__u64 called_ns;   /* the latest call with a tensor after it; 0: none */
	__u64 launched_ns; /* the latest launch */
	__u64 launches;	   /* since the latest call */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ggml_replays_key);
	__type(value, struct ggml_replays);
} ggml_replays SEC(".maps");

/* Notes a call, so that user space can tell whether a process only replays graphs. */
static __always_inline void note_call(struct task_struct *task, bool is_launch)
{
	struct ggml_replays_key key = {.start_ns = running_start_ns(), .pid = task->tgid};
	struct ggml_replays *replays = bpf_map_lookup_elem(&ggml_replays, &key);
	struct ggml_replays first = {};
	__u64 now_ns = bpf_ktime_get_boot_ns();

	if (is_launch && !replays) {
		first.since_ns = now_ns;
		bpf_map_update_elem(&ggml_replays, &key, &first, BPF_NOEXIST);
		replays = bpf_map_lookup_elem(&ggml_replays, &key);
	}
	if (!replays)
		return;
	if (is_launch) {
		replays->launched_ns = now_ns;
		__sync_fetch_and_add(&replays->launches, 1);
	} else {
		replays->called_ns = now_ns;
		replays->launches = 0;
	}
}

static __always_inline void enter_operation(struct task_struct *task, struct ggml_thread *thread,
					    struct ggml_frame *frame, const struct ggml_place *place)
{
	struct ggml_frame *outer = outer_call(thread);
	__u32 destination = place->destination;

	barrier_var(destination);
	frame->nested = outer && outer->covers;
	frame->covers = 1;
	frame->tensor = destination < CALL_ARGUMENTS ? thread->args[destination & (CALL_ARGUMENTS - 1)] : 0;
	frame->device = thread->args[0];
	if (frame->tensor || (place->function == GGML_CUDA_GRAPH_LAUNCH && !frame->nested))
		note_call(task, !frame->tensor);
	frame->call.entered_ns = bpf_ktime_get_boot_ns();
}

static __always_inline void emit_operation(struct task_struct *task, struct ggml_thread *thread,
					   struct ggml_frame *frame, enum ggml_function function, bool returned)
{
	__u64 duration_ns = bpf_ktime_get_boot_ns() - frame->call.entered_ns;
	struct ggml_tensor *tensor = &thread->tensor;
	struct ggml_operation_event *event;
	bool has_tensor;

	has_tensor = frame->tensor && !bpf_probe_read_user(tensor, sizeof(*tensor), (void *)frame->tensor);
	if (!has_tensor)
		__builtin_memset(tensor, 0, sizeof(*tensor));
	event = scope_reserve(task, stream_ggml_operation, frame->call.entered_ns, sizeof(*event));
	if (!event)
		return;
	event->duration_ns = duration_ns;
	event->size0 = tensor->ne[0];
	event->size1 = tensor->ne[1];
	event->size2 = tensor->ne[2];
	event->size3 = tensor->ne[3];
	event->op_id = tensor->op;
	event->type_id = tensor->type;
	__builtin_memcpy(event->names, tensor->names, sizeof(event->names));
	event->function = function;
	event->device = frame->device;
	event->has_tensor = has_tensor;
	event->has_device = function == GGML_CUDA_SET_DEVICE;
	event->returned = returned;
	event->nested = frame->nested;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_ggml_operation, sizeof(*event));
}

#endif
