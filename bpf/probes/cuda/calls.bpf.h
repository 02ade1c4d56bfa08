/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls that are no launches, as events or counted. */
#ifndef SCOPE_CUDA_CALLS_BPF_H
#define SCOPE_CUDA_CALLS_BPF_H

SCOPE_STREAM(cuda_call);
SCOPE_SUMMARY(cuda_call_summary)

static __always_inline struct cuda_place place_of(struct cuda_thread *thread,
						  const volatile struct cuda_function *function)
{
	struct cuda_place place = {.device = thread->has_device ? thread->device : -1, .memory = function->memory};

	return place;
}

static __always_inline __u64 bytes_of(const struct cuda_frame *frame, const volatile struct cuda_function *function)
{
	__u64 bytes = argument(frame, function->bytes);

	return function->rows >= 0 ? bytes * argument(frame, function->rows) : bytes;
}

/*
 * Memory is taken out before the call frees it: once it is free, another thread may get it. cudaFree(NULL) is how
 * programs start the runtime: nothing is freed.
 */
static __always_inline void release_memory(struct task_struct *task, struct cuda_thread *thread,
					   struct cuda_frame *frame, const volatile struct cuda_function *function)
{
	struct cuda_place place = place_of(thread, function);
	__u64 address = argument(frame, function->ptr);

	if (function->kind == CUDA_UNMAP)
		unmapped(task, &place, address, bytes_of(frame, function));
	else if (function->kind == CUDA_FREE && address && !forget_allocation(task, address, &frame->was))
		count_unknown_free(task, &place);
}

/* Nested calls are the same memory once more; what could not be freed is there still. */
static __always_inline void account_memory(struct task_struct *task, struct cuda_thread *thread,
					   struct cuda_frame *frame, const volatile struct cuda_function *function,
					   __s32 result)
{
	struct cuda_place place = place_of(thread, function);
	__u64 address = argument(frame, function->ptr);

	if (function->kind == CUDA_FREE && result && frame->was.bytes) {
		place = (struct cuda_place){.device = frame->was.device, .memory = frame->was.memory};
		allocated(task, &place, address, frame->was.bytes, frame->was.stack);
	}
	if (function->kind == CUDA_ALLOCATE && !result) {
		bpf_probe_read_user(&address, sizeof(address), (void *)address);
		allocated(task, &place, address, bytes_of(frame, function), frame->call_stack);
	}
	if (function->kind == CUDA_MAP && !result)
		allocated(task, &place, address, bytes_of(frame, function), frame->call_stack);
}

static __always_inline void summarize_call(struct task_struct *task, const struct cuda_frame *frame,
					   const volatile struct cuda_function *function, __u64 duration_ns,
					   __s32 result)
{
	struct cuda_call_summary_key key = {.function_id = frame->function, .nested = frame->nested};
	struct cuda_call_summary_value *value;

	fill_process(&key.process, task);
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

static __always_inline void emit_call(struct task_struct *task, struct cuda_thread *thread, struct cuda_frame *frame,
				      const volatile struct cuda_function *function, __u64 duration_ns, __s32 result)
{
	struct cuda_call_event *event;

	if (scope_summarize) {
		summarize_call(task, frame, function, duration_ns, result);
		return;
	}
	event = scope_reserve(task, stream_cuda_call, frame->entered_ns, sizeof(*event));
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
		event->has_ptr = result == 0;
	}
	event->src = argument(frame, function->src);
	event->dst = argument(frame, function->dst);
	event->stream = argument(frame, function->stream);
	event->stack_id = frame->call_stack;
	event->result = result;
	event->device = thread->device;
	event->function_id = frame->function;
	event->nested = frame->nested;
	event->copy_kind = function->copy >= 0 ? argument(frame, function->copy) : function->copy_kind;
	event->has_bytes = function->bytes >= 0 || event->bytes;
	event->has_src = function->src >= 0;
	event->has_dst = function->dst >= 0;
	event->has_stream = function->stream >= 0;
	event->has_device = thread->has_device;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_cuda_call, sizeof(*event));
}

#endif
