/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls other than launches: emits events or counts them. */
#ifndef SCOPE_CUDA_CALL_ROWS_BPF_H
#define SCOPE_CUDA_CALL_ROWS_BPF_H

SCOPE_STREAM(cuda_call);
SCOPE_SUMMARY(cuda_call_summary)

static __always_inline struct cuda_home home_of(struct cuda_thread *thread, const struct cuda_place *function)
{
	struct cuda_home home = {.context = function->pooled ? 0 : thread->context,
				 .device = thread->has_device ? thread->device : -1,
				 .memory = function->memory};

	return home;
}

static __always_inline __u64 bytes_of(const struct cuda_frame *frame, const struct cuda_place *function)
{
	__u64 bytes = argument(frame, function->bytes);

	return function->rows >= 0 ? bytes * argument(frame, function->rows) : bytes;
}

/*
 * Removes memory before the call frees it, because afterwards another thread may get the same address. cudaFree(NULL),
 * with which programs start the runtime, frees nothing.
 */
static __always_inline void release_memory(struct task_struct *task, struct cuda_thread *thread,
					   struct cuda_frame *frame, const struct cuda_place *function)
{
	struct cuda_home home = home_of(thread, function);
	__u64 address = argument(frame, function->ptr);

	if (function->kind == CUDA_UNMAP)
		unmapped(task, &home, address, bytes_of(frame, function));
	else if (function->kind == CUDA_FREE && address)
		forget_allocation(task, address, &frame->was, false);
}

/* Reads the real bytes per row, which may be more than requested. */
static __always_inline void read_pitch(struct cuda_frame *frame, const struct cuda_place *function)
{
	__u32 width = function->bytes;

	if (function->pitch >= 0 && width < CALL_ARGUMENTS)
		bpf_probe_read_user(&frame->args[width & (CALL_ARGUMENTS - 1)], sizeof(frame->args[0]),
				    (void *)argument(frame, function->pitch));
}

/* Counts allocated and freed memory. Ignores nested calls, which are about the same memory; undoes failed frees. */
static __always_inline void account_memory(struct task_struct *task, struct cuda_thread *thread,
					   struct cuda_frame *frame, const struct cuda_place *function, __s32 result)
{
	struct cuda_home home = home_of(thread, function);
	__u64 address = argument(frame, function->ptr);
	bool is_allocated = false;

	if (function->kind == CUDA_RESET && !result)
		release(task, RELEASE_DEVICE,
			function->device >= 0 ? (__s32)argument(frame, function->device) : home.device, 0);
	if (function->kind == CUDA_DESTROY_CONTEXT && !result && frame->args[0])
		release(task, RELEASE_CONTEXT, 0, frame->args[0]);
	if (function->kind == CUDA_FREE && result && frame->was.ktime_ns)
		put_back(task, address, &frame->was);
	if (function->kind == CUDA_FREE && !result && address && !frame->was.ktime_ns)
		count_unknown_free(task, &home);
	if (function->kind == CUDA_ALLOCATE && !result)
		is_allocated = !bpf_probe_read_user(&address, sizeof(address), (void *)address);
	if (function->kind == CUDA_MAP && !result)
		is_allocated = true;
	if (is_allocated)
		allocated(task, &home, address, bytes_of(frame, function), frame->call_stack);
}

static __always_inline void summarize_call(struct task_struct *task, const struct cuda_frame *frame,
					   const struct cuda_place *function, __u64 duration_ns, __s32 result)
{
	struct cuda_call_summary_key key = {.function_id = frame->call.place, .nested = frame->nested};
	struct cuda_call_summary_value *value;

	fill_running_process(&key.process);
	value = cuda_call_summary_slot(&key);
	if (!value)
		return;
	__sync_fetch_and_add(&value->count, 1);
	if (result)
		__sync_fetch_and_add(&value->errors, 1);
	else
		__sync_fetch_and_add(&value->bytes,
				     function->kind == CUDA_FREE ? frame->was.bytes : bytes_of(frame, function));
	__sync_fetch_and_add(&value->total_ns, duration_ns);
	scope_histogram_add(&value->latency, duration_ns);
}

/* Adds the live memory after an allocation or free that the program itself called. */
static __always_inline void tell_live(struct task_struct *task, struct cuda_thread *thread,
				      const struct cuda_frame *frame, const struct cuda_place *function,
				      struct cuda_call_event *event)
{
	struct cuda_home home = home_of(thread, function);
	struct cuda_memory_key key = {.start_ns = running_start_ns(), .pid = task->tgid};
	struct cuda_memory_value *memory;

	if (frame->was.ktime_ns)
		home = (struct cuda_home){.device = frame->was.device, .memory = frame->was.memory};
	event->memory_id = home.memory;
	event->has_live = 0;
	event->live_bytes = 0;
	if (frame->nested || !home.memory)
		return;
	key.device_id = home.device;
	key.memory_id = home.memory;
	memory = bpf_map_lookup_elem(&cuda_memory, &key);
	if (memory) {
		event->has_live = 1;
		event->live_bytes = memory->live_bytes;
	}
}

static __always_inline void emit_call(struct task_struct *task, struct cuda_thread *thread, struct cuda_frame *frame,
				      const struct cuda_place *function, __u64 duration_ns, __s32 result, bool returned)
{
	struct cuda_call_event *event;
	__u32 kind;

	if (scope_summarize) {
		if (returned)
			summarize_call(task, frame, function, duration_ns, result);
		return;
	}
	kind = function->copy >= 0 ? argument(frame, function->copy) : function->copy_kind;
	if (is_copy(function->kind))
		kind = copied_between(task, kind, argument(frame, function->src), argument(frame, function->dst));
	event = scope_reserve(task, stream_cuda_call, frame->call.entered_ns, sizeof(*event));
	if (!event)
		return;
	event->duration_ns = duration_ns;
	event->bytes = function->kind == CUDA_FREE ? frame->was.bytes : bytes_of(frame, function);
	event->ptr = argument(frame, function->ptr);
	event->has_ptr = function->ptr >= 0;
	if (function->kind == CUDA_ALLOCATE) {
		__u64 made = 0;

		bpf_probe_read_user(&made, sizeof(made), (void *)event->ptr);
		event->ptr = made;
		event->has_ptr = returned && result == 0;
	}
	event->src = argument(frame, function->src);
	event->dst = argument(frame, function->dst);
	event->stream = argument(frame, function->stream);
	event->stack_id = frame->call_stack;
	event->result = result;
	event->device = thread->device;
	event->function_id = frame->call.place;
	event->nested = frame->nested;
	event->copy_kind = kind;
	event->has_bytes = function->bytes >= 0 || event->bytes;
	event->has_src = function->src >= 0;
	event->has_dst = function->dst >= 0;
	event->has_stream = function->stream >= 0 || function->stream == CUDA_DEFAULT_STREAM;
	event->has_device = thread->has_device;
	event->returned = returned;
	tell_live(task, thread, frame, function, event);
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_cuda_call, sizeof(*event));
}

#endif
