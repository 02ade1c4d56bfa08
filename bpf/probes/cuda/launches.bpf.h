/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Launches: emits events or counts them. */
#ifndef SCOPE_CUDA_LAUNCHES_BPF_H
#define SCOPE_CUDA_LAUNCHES_BPF_H

SCOPE_SUMMARY(cuda_launch_summary)

static __always_inline void summarize_launch(struct task_struct *task, const struct cuda_frame *frame,
					     const struct scope_code *code, __u32 name, __u64 duration_ns, __s32 result)
{
	struct cuda_launch_summary_key key = {.inode = code->inode,
					      .offset = code->offset,
					      .name = name,
					      .function_id = frame->call.place,
					      .nested = frame->nested};
	struct cuda_launch_summary_value *value;

	if (!code->inode && !name)
		key.handle = frame->shape.handle;
	fill_running_process(&key.process);
	value = cuda_launch_summary_slot(&key);
	if (!value)
		return;
	__sync_fetch_and_add(&value->count, 1);
	if (result)
		__sync_fetch_and_add(&value->errors, 1);
	__sync_fetch_and_add(&value->total_ns, duration_ns);
	scope_histogram_add(&value->latency, duration_ns);
}

static __always_inline void emit_launch(struct task_struct *task, struct cuda_thread *thread, struct cuda_frame *frame,
					__u64 duration_ns, __s32 result, bool returned)
{
	struct cuda_shape *shape = &frame->shape;
	struct cuda_launch_event *event;
	struct cuda_handle_key key;
	struct cuda_handle *known;
	struct scope_code code = {};
	__u32 name = 0;
	long error;

	error = find_code_again(task, shape->handle, &thread->launched[(shape->handle >> 4) & (CUDA_CACHED - 1)],
				&code);
	if (!code.inode) {
		fill_handle_key(&key, task, shape->handle);
		known = bpf_map_lookup_elem(&cuda_handles, &key);
		if (known) {
			code = known->code;
			name = known->name;
		}
		if (known && !code.inode && code.offset)
			error = find_code(task, code.offset, &code);
		if (known && code.inode)
			known->code = code;
		if (error == -EBUSY && !code.inode && !name) /* user space will look it up in the mappings */
			scope_count_incomplete(stream_cuda_launch);
		if (!code.inode)
			code.offset = 0;
	}
	if (scope_summarize) {
		if (returned)
			summarize_launch(task, frame, &code, name, duration_ns, result);
		return;
	}
	event = scope_reserve(task, stream_cuda_launch, frame->call.entered_ns, sizeof(*event));
	if (!event)
		return;
	event->duration_ns = duration_ns;
	event->handle = shape->handle;
	event->inode = code.inode;
	event->offset = code.offset;
	event->arguments = shape->arguments;
	event->stream = shape->stream;
	event->stack_id = frame->call_stack;
	event->name = name;
	event->grid_x = shape->grid[0];
	event->grid_y = shape->grid[1];
	event->grid_z = shape->grid[2];
	event->block_x = shape->block[0];
	event->block_y = shape->block[1];
	event->block_z = shape->block[2];
	event->shared_bytes = shape->shared_bytes;
	event->result = result;
	event->device = thread->device;
	event->function_id = frame->call.place;
	event->nested = frame->nested;
	event->has_device = thread->has_device;
	event->returned = returned;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_cuda_launch, sizeof(*event));
}

#endif
