/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The open calls of a thread, for functions that a probe is attached to. A call is identified by the value of the stack
 * pointer at its return. So recursion, tail calls and calls that never return are handled, and every entry is paired
 * with its own return. Calls that cannot be paired are counted as lost, for their place and their stream.
 *
 * A probe defines a struct for a call, which begins with a `struct scope_call`. Its struct for a thread (see
 * thread.bpf.h) has the members `struct scope_calls calls` and `frames`, an array of calls with a power of two as size.
 * It declares both with SCOPE_CALLS. bpf/probes/cuda is an example.
 */
#ifndef SCOPE_CALLS_BPF_H
#define SCOPE_CALLS_BPF_H

#include "place.bpf.h"

#define CALL_ARGUMENTS 16 /* a power of two; ten are read */

/* A stack frame of code compiled with frame pointers. */
struct user_frame {
	__u64 outer;
	__u64 return_address;
};

/*
 * Reads the arguments at the first instruction of a function, including those on the stack if `most` needs them. Also
 * gets the function's future frame: the frame pointer is still the caller's. Integer arguments are passed as in the
 * System V ABI for x86-64 (3.2.3) and the AAPCS64 (6.8.2); a struct of up to 16 bytes takes one argument per eight
 * bytes.
 */
static __always_inline void read_entry(struct pt_regs *ctx, struct user_frame *frame, __u64 args[CALL_ARGUMENTS],
				       __u32 most)
{
#if defined(__TARGET_ARCH_x86)
	__u64 stack[5] = {}; /* the return address, then the arguments after those in registers */

	bpf_probe_read_user(stack, most > 6 ? sizeof(stack) : sizeof(stack[0]), (void *)ctx->sp);
	frame->return_address = stack[0];
	frame->outer = ctx->bp;
	args[0] = ctx->di;
	args[1] = ctx->si;
	args[2] = ctx->dx;
	args[3] = ctx->cx;
	args[4] = ctx->r8;
	args[5] = ctx->r9;
	args[6] = stack[1];
	args[7] = stack[2];
	args[8] = stack[3];
	args[9] = stack[4];
#elif defined(__TARGET_ARCH_arm64)
	struct user_pt_regs *regs = (void *)ctx;

	frame->return_address = regs->regs[30];
	frame->outer = regs->regs[29];
	args[0] = regs->regs[0];
	args[1] = regs->regs[1];
	args[2] = regs->regs[2];
	args[3] = regs->regs[3];
	args[4] = regs->regs[4];
	args[5] = regs->regs[5];
	args[6] = regs->regs[6];
	args[7] = regs->regs[7];
	if (most > 8)
		bpf_probe_read_user(&args[8], 2 * sizeof(args[0]), (void *)regs->sp);
#endif
}

/* The value of the stack pointer at the return of the function that is entered now. */
static __always_inline __u64 return_stack(struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86)
	return ctx->sp + 8; /* ret removes the return address */
#else
	return PT_REGS_SP(ctx);
#endif
}

/*
 * Was the function entered by a jump at the end of another attached function? Then both return to the same place, and
 * the return address is already the kernel's own, with which it runs programs at returns.
 */
static __noinline bool is_tail_call(struct pt_regs *ctx)
{
	struct xol_area *area = bpf_get_current_task_btf()->mm->uprobes_state.xol_area;
	__u64 return_address = 0;

#if defined(__TARGET_ARCH_x86)
	bpf_probe_read_user(&return_address, sizeof(return_address), (void *)ctx->sp);
#elif defined(__TARGET_ARCH_arm64)
	return_address = ((struct user_pt_regs *)ctx)->regs[30];
#endif
	return area && return_address == area->vaddr;
}

/* The first member of a probe's own struct. */
struct scope_call {
	__u64 stack;	  /* value of the stack pointer at the return */
	__u64 entered_ns; /* set last by the program, so that its own run time is not part of the call's */
	__u32 place;
	__u16 stream; /* the stream that counts the call if it is lost */
	__u16 pad;
};

/* The open calls of a thread. */
struct scope_calls {
	__u32 depth; /* number of kept calls, the outermost first */
	__u32 pad;
};

/* The frame with this number; NULL: not below `room`. */
static __always_inline void *frame_numbered(void *frames, __u32 size, __u32 room, __u32 number)
{
	if (number >= room)
		return NULL;
	barrier_var(number);
	return frames + (number & (room - 1)) * size;
}

static __always_inline void *innermost(struct scope_calls *calls, void *frames, __u32 size, __u32 room)
{
	return frame_numbered(frames, size, room, calls->depth - 1);
}

/* Drops calls whose stack is below this one: an exception or longjmp() has left them. Returns the innermost call. */
static __always_inline struct scope_call *drop_left(struct scope_calls *calls, void *frames, __u32 size, __u32 room,
						    __u64 stack)
{
	struct scope_call *call = innermost(calls, frames, size, room);

	for (__u32 i = 0; i < room && call && call->stack < stack; i++) {
		scope_lose_hit(call->place, call->stream, SCOPE_LOST_LEFT);
		calls->depth--;
		call = innermost(calls, frames, size, room);
	}
	return call;
}

static __always_inline void *enter(struct pt_regs *ctx, struct scope_calls *calls, void *frames, __u32 size, __u32 room,
				   __u32 place, __u16 stream)
{
	__u64 stack = return_stack(ctx);
	struct scope_call *call = drop_left(calls, frames, size, room, stack);

	if (call && call->stack == stack && !is_tail_call(ctx)) /* left too: the caller makes a new call */
		drop_left(calls, frames, size, room, stack + 1);
	call = frame_numbered(frames, size, room, calls->depth);
	if (!call) {
		scope_lose_hit(place, stream, SCOPE_LOST_TOO_DEEP);
		return NULL;
	}
	calls->depth++;
	call->stack = stack;
	call->place = place;
	call->stream = stream;
	return call;
}

static __always_inline void *leave(struct pt_regs *ctx, struct scope_calls *calls, void *frames, __u32 size, __u32 room,
				   __u32 place)
{
	struct scope_call *call = drop_left(calls, frames, size, room, PT_REGS_SP(ctx));

	if (!call || call->stack != PT_REGS_SP(ctx) || call->place != place)
		return NULL;
	calls->depth--;
	return call;
}

/*
 * Declares for a probe's own structs, `state` of a thread and `frame` of a call:
 *
 * calling_thread(task, place, stream): the state of a thread that enters a function at a place; NULL if it is not
 * watched. A call that cannot be kept is counted as lost for the stream.
 * enter_call(ctx, thread, place, stream): the new call; NULL if it is nested too deep, which is counted as lost.
 * outer_call(thread): the call around the innermost call, or NULL.
 * leave_call(ctx, thread, place): the call that returns; NULL if its entry was not seen or not kept.
 * end_call(thread): the innermost call, which cannot return since its thread has ended; NULL if there is none.
 * leave_all_calls(thread): drops all calls, which never return.
 * leave_calls_at_exec(task): the same for the running task, whose state it returns; NULL if there is none.
 */
#define SCOPE_CALLS(state, frame)                                                                                      \
	static __always_inline state *calling_thread(struct task_struct *task, __u32 place, __u16 stream)              \
	{                                                                                                              \
		state *thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);               \
                                                                                                                       \
		if (!thread ? !scope_passes(task) : !scope_thread_passes(task, &thread->thread))                       \
			return NULL;                                                                                   \
		scope_count_hit(place);                                                                                \
		if (!thread)                                                                                           \
			scope_lose_hit(place, stream, SCOPE_LOST_NO_STATE);                                            \
		return thread;                                                                                         \
	}                                                                                                              \
	static __always_inline frame *enter_call(struct pt_regs *ctx, state *thread, __u32 place, __u16 stream)        \
	{                                                                                                              \
		return enter(ctx, &thread->calls, thread->frames, sizeof(frame),                                       \
			     sizeof(thread->frames) / sizeof(frame), place, stream);                                   \
	}                                                                                                              \
	static __always_inline __attribute__((unused)) frame *outer_call(state *thread)                                \
	{                                                                                                              \
		return frame_numbered(thread->frames, sizeof(frame), sizeof(thread->frames) / sizeof(frame),           \
				      thread->calls.depth - 2);                                                        \
	}                                                                                                              \
	static __always_inline frame *leave_call(struct pt_regs *ctx, state *thread, __u32 place)                      \
	{                                                                                                              \
		return leave(ctx, &thread->calls, thread->frames, sizeof(frame),                                       \
			     sizeof(thread->frames) / sizeof(frame), place);                                           \
	}                                                                                                              \
	static __always_inline frame *end_call(state *thread)                                                          \
	{                                                                                                              \
		frame *call = innermost(&thread->calls, thread->frames, sizeof(frame),                                 \
					sizeof(thread->frames) / sizeof(frame));                                       \
                                                                                                                       \
		if (call)                                                                                              \
			thread->calls.depth--;                                                                         \
		return call;                                                                                           \
	}                                                                                                              \
	static __always_inline void leave_all_calls(state *thread)                                                     \
	{                                                                                                              \
		drop_left(&thread->calls, thread->frames, sizeof(frame), sizeof(thread->frames) / sizeof(frame), ~0);  \
	}                                                                                                              \
	static __always_inline __attribute__((unused)) state *leave_calls_at_exec(struct task_struct *task)            \
	{                                                                                                              \
		state *thread = bpf_task_storage_get(&threads, task, 0, 0);                                            \
                                                                                                                       \
		if (thread)                                                                                            \
			leave_all_calls(thread);                                                                       \
		return thread;                                                                                         \
	}                                                                                                              \
	_Static_assert(!__builtin_offsetof(frame, call), #frame " begins with its struct scope_call, `call`")

/*
 * Declares the program `NAME`, which runs when a thread ends: by exit(), pthread_exit() or a signal. Its open calls
 * never return: `ends(task, thread, call)` gets each of them, the innermost first. So does a call that an exception
 * left, if its thread made no other call after it.
 */
#define SCOPE_ABANDON(name, state, frame, ends)                                                                        \
	static long name##_next(__u32 index, void *unused)                                                             \
	{                                                                                                              \
		struct task_struct *task = bpf_get_current_task_btf();                                                 \
		state *thread = bpf_task_storage_get(&threads, task, 0, 0);                                            \
		frame *call = thread ? end_call(thread) : NULL;                                                        \
                                                                                                                       \
		if (!call)                                                                                             \
			return 1;                                                                                      \
		ends(task, thread, call);                                                                              \
		return 0;                                                                                              \
	}                                                                                                              \
	SEC("tp_btf/sched_process_exit")                                                                               \
	int BPF_PROG(name, struct task_struct *task)                                                                   \
	{                                                                                                              \
		state *thread = bpf_task_storage_get(&threads, task, 0, 0);                                            \
                                                                                                                       \
		if (thread && thread->calls.depth)                                                                     \
			bpf_loop(sizeof(thread->frames) / sizeof(frame), name##_next, NULL, 0);                        \
		return 0;                                                                                              \
	}

#endif
