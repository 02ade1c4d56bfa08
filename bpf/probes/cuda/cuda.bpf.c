/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One pair of programs for all functions. A table describes each function's arguments; the cookie is its number. */
#include "scope.bpf.h"

#include "calls.bpf.h"
#include "code.bpf.h"
#include "stack.bpf.h"

#include "cuda.h"

#include "memory.bpf.h"

#include "frames.bpf.h"

#include "kernels.bpf.h"

#include "copies.bpf.h"
#include "implicit.bpf.h"

#include "call_rows.bpf.h"
#include "launches.bpf.h"

/* The stream that counts a call without a row. */
static __always_inline __u16 stream_of(const struct cuda_place *function)
{
	if (is_launch(function->kind))
		return scope_summarize ? stream_cuda_launch_summary : stream_cuda_launch;
	if (function->kind >= CUDA_GET_KERNEL)
		return SCOPE_NO_STREAM;
	return scope_summarize ? stream_cuda_call_summary : stream_cuda_call;
}

/*
 * Attached at the first instruction of each function, or after its endbr64. Uprobes see all calls, from all libraries.
 * In a statically linked and stripped runtime they see only launches, whose functions are found without their names.
 */
SEC("uprobe")
int SCOPE_UNPREEMPTED(cuda_enter, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct cuda_place *function = place_numbered(number);
	struct cuda_thread *thread;
	struct cuda_frame *outer, *frame;
	struct user_frame entry;
	bool nested;

	if (!function)
		return 0;
	thread = calling_thread(task, number, stream_of(function));
	if (!thread)
		return 0;
	thread->has_device |= only_device;
	frame = enter_call(ctx, thread, number, stream_of(function));
	if (!frame)
		return 0;
	outer = outer_call(thread);
	nested = outer && outer->covers;
	frame->nested = nested;
	frame->covers = nested || function->kind < CUDA_GET_KERNEL;
	read_entry(ctx, &entry, frame->args, function->arguments);
	if (is_launch(function->kind))
		read_shape(frame, function->kind);
	else if (function->kind == CUDA_COPY_2D || function->kind == CUDA_COPY_3D)
		read_copy(task, frame, function->kind == CUDA_COPY_3D);
	frame->call_stack = 0;
	frame->was.bytes = 0;
	frame->was.ktime_ns = 0;
	if (keep_stacks && !nested &&
	    (is_launch(function->kind) || function->kind == CUDA_ALLOCATE || function->kind == CUDA_MAP))
		frame->call_stack = keep_stack(task, &entry, frame->call.stack, &thread->stacks,
					       is_launch(function->kind) ? stream_cuda_launch : stream_cuda_call);
	if (!nested)
		release_memory(task, thread, frame, function);
	frame->call.entered_ns = bpf_ktime_get_boot_ns();
	return 0;
}

SEC("uretprobe")
int SCOPE_UNPREEMPTED(cuda_return, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cuda_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct cuda_place *function = place_numbered(number);
	__s32 result = PT_REGS_RC(ctx);
	struct cuda_frame *frame;
	__u64 duration_ns;

	if (!thread || !function)
		return 0;
	frame = leave_call(ctx, thread, number);
	if (!frame)
		return 0;
	duration_ns = bpf_ktime_get_boot_ns() - frame->call.entered_ns;
	if (function->kind == CUDA_SET_DEVICE && result == 0) {
		thread->device = frame->args[0];
		thread->has_device = 1;
	}
	if (function->kind == CUDA_DESTROY_CONTEXT && result == 0 && thread->context == frame->args[0])
		thread->context = 0;
	if (!result)
		read_pitch(frame, function);
	if (!frame->nested)
		account_memory(task, thread, frame, function, result);
	if (function->kind >= CUDA_MAKE_CONTEXT)
		learn_context(thread, frame, function, result);
	else if (function->kind == CUDA_GET_NAMED && thread->calls.depth)
		return 0;
	else if (function->kind >= CUDA_GET_KERNEL)
		learn_handle(task, frame, function->kind, result);
	else if (is_launch(function->kind))
		emit_launch(task, thread, frame, duration_ns, result, true);
	else
		emit_call(task, thread, frame, function, duration_ns, result, true);
	return 0;
}

/* The row of a call that never returns has no result. */
static __always_inline void abandon(struct task_struct *task, struct cuda_thread *thread, struct cuda_frame *frame)
{
	const struct cuda_place *function = place_numbered(frame->call.place);
	__u64 duration_ns = bpf_ktime_get_boot_ns() - frame->call.entered_ns;

	if (!function || function->kind >= CUDA_GET_KERNEL)
		return;
	if (is_launch(function->kind))
		emit_launch(task, thread, frame, duration_ns, 0, false);
	else
		emit_call(task, thread, frame, function, duration_ns, 0, false);
}

SCOPE_ABANDON(cuda_abandon, struct cuda_thread, struct cuda_frame, abandon)

/* An exec frees the process's memory. The process stays the same, so no other event shows this. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(cuda_replace, struct task_struct *task)
{
	struct cuda_thread *thread = leave_calls_at_exec(task);

	if (holds_memory(task))
		release(task, RELEASE_ALL, 0, 0);
	if (thread) {
		thread->has_device = 0;
		thread->context = 0;
	}
	return 0;
}
