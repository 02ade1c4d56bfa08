/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Computations of graphs, operations on GPUs, and memory. The cookie is the function's number. */
#define STACK_UNWOUND

#include "scope.bpf.h"

#include "calls.bpf.h"
#include "stack.bpf.h"
#include "where.bpf.h"

#include "ggml.h"

SCOPE_STREAM(ggml_graph);
SCOPE_STREAM(ggml_operation);
SCOPE_STREAM(ggml_allocation);

const volatile bool keep_stacks;

#include "frames.bpf.h"
#include "graphs.bpf.h"
#include "memory.bpf.h"
#include "operations.bpf.h"

static __always_inline void emit_allocation(struct task_struct *task, enum ggml_function function, __u64 bytes,
					    __u64 address, __u64 stack)
{
	struct ggml_allocation_event *event =
		scope_reserve(task, stream_ggml_allocation, bpf_ktime_get_boot_ns(), sizeof(*event));

	if (!event)
		return;
	event->bytes = bytes;
	event->address = address;
	event->stack_id = stack;
	event->function = function;
	event->has_bytes = bytes != 0;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_ggml_allocation, sizeof(*event));
}

SEC("uprobe")
int SCOPE_UNPREEMPTED(ggml_enter, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct ggml_place *place = place_numbered(number);
	struct user_frame entry;
	enum ggml_function function;
	struct ggml_thread *thread;
	struct ggml_frame *frame;

	if (!place)
		return 0;
	function = place->function;
	thread = calling_thread(task, number, stream_of(function));
	if (!thread)
		return 0;
	frame = enter_call(ctx, thread, number, stream_of(function));
	if (!frame)
		return 0;
	frame->nested = thread->calls.depth > 1;
	frame->covers = 0;
	read_entry(ctx, &entry, thread->args, 0);
	if (operates(function)) {
		enter_operation(task, thread, frame, place);
		return 0;
	}
	if (!computes(function)) {
		frame->bytes = thread->args[function == GGML_ALIGNED_MALLOC ? 0 : 1];
		frame->real_at = thread->args[2];
		frame->stack = keep_stacks ? keep_stack(task, &entry, frame->call.stack, &thread->stacks,
							stream_ggml_allocation)
					   : 0;
		return 0;
	}
	read_graph(frame, thread->args[function == GGML_GRAPH_COMPUTE ? 0 : 1]);
	where_mark(&frame->begun);
	frame->call.entered_ns = frame->begun.at_ns;
	return 0;
}

/* CUDA graphs of a process's other code are not ggml's: ggml launches its own while it computes its graphs. */
SEC("uprobe")
int SCOPE_UNPREEMPTED(ggml_launch, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct ggml_place *place = place_numbered(number);
	struct ggml_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	struct user_frame entry;
	struct ggml_frame *frame;

	if (!place || !thread || !thread->calls.depth)
		return 0;
	thread = calling_thread(task, number, stream_ggml_operation);
	frame = thread ? enter_call(ctx, thread, number, stream_ggml_operation) : NULL;
	if (!frame)
		return 0;
	read_entry(ctx, &entry, thread->args, 0);
	enter_operation(task, thread, frame, place);
	return 0;
}

/* Frees are recorded at their begin: afterwards another thread may have got the same memory. */
SEC("uprobe")
int SCOPE_UNPREEMPTED(ggml_free, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct ggml_place *place = place_numbered(number);
	__u64 first = PT_REGS_PARM1(ctx), second = PT_REGS_PARM2(ctx), address;
	bool pooled;

	barrier_var(first); /* the verifier refuses reading at one of two places in ctx */
	barrier_var(second);
	if (!place || !calling_thread(task, number, stream_ggml_allocation))
		return 0;
	pooled = place->function == GGML_CUDA_POOL_FREE;
	address = pooled ? second : first;
	if (address)
		emit_allocation(task, place->function, forget_allocation(task, pooled ? GGML_POOL : GGML_HOST, address),
				address, 0);
	return 0;
}

SEC("uretprobe")
int SCOPE_UNPREEMPTED(ggml_return, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct ggml_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct ggml_place *place = place_numbered(number);
	__u64 result = PT_REGS_RC(ctx);
	struct ggml_frame *frame;

	if (!thread || !place)
		return 0;
	if (computes(place->function))
		where_mark(&thread->ended);
	frame = leave_call(ctx, thread, number);
	if (!frame)
		return 0;
	if (computes(place->function)) {
		emit_graph(task, thread, frame, place->function, true, result);
		return 0;
	}
	if (operates(place->function)) {
		emit_operation(task, thread, frame, place->function, true);
		return 0;
	}
	if (!result)
		return 0;
	if (place->function == GGML_CUDA_POOL_ALLOC)
		bpf_probe_read_user(&frame->bytes, sizeof(frame->bytes), (void *)frame->real_at);
	keep_allocation(task, place->function == GGML_CUDA_POOL_ALLOC ? GGML_POOL : GGML_HOST, result, frame->bytes,
			frame->stack);
	emit_allocation(task, place->function, frame->bytes, result, frame->stack);
	return 0;
}

static __always_inline void abandon(struct task_struct *task, struct ggml_thread *thread, struct ggml_frame *frame)
{
	const struct ggml_place *place = place_numbered(frame->call.place);

	if (place && operates(place->function))
		emit_operation(task, thread, frame, place->function, false);
	if (!place || !computes(place->function))
		return;
	where_mark(&thread->ended);
	emit_graph(task, thread, frame, place->function, false, 0);
}

SCOPE_ABANDON(ggml_abandon, struct ggml_thread, struct ggml_frame, abandon)

SEC("tp_btf/sched_process_exec")
int BPF_PROG(ggml_replace, struct task_struct *task)
{
	leave_calls_at_exec(task);
	leave_memory(task);
	return 0;
}
