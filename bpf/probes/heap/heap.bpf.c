/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Two programs for all functions that allocate, and one for those that free; the cookie is the function's number. */
#define STACK_UNWOUND

#include "scope.bpf.h"

#include "calls.bpf.h"
#include "stack.bpf.h"

#include "heap.h"

#include "blocks.bpf.h"

/* A function by its arguments and its result. */
enum heap_kind {
	HEAP_ALLOCATE,	    /* (size) */
	HEAP_ALLOCATE_MANY, /* (count, size) */
	HEAP_ALIGNED,	    /* (alignment, size) */
	HEAP_ALIGNED_INTO,  /* (pointer *, alignment, size): the pointer is stored there, and the result is an error */
	HEAP_AGAIN,	    /* (pointer, size): frees the pointer, unless it fails */
	HEAP_AGAIN_MANY,    /* (pointer, count, size) */
	HEAP_FREE,	    /* (pointer) */
};

struct heap_place {
	enum heap_kind kind;
};

#define HEAP_DEPTH 4 /* nested calls; a power of two */
#define HEAP_ARGUMENTS 3

const volatile bool keep_stacks;

struct heap_frame {
	struct scope_call call;
	__u64 size;
	__u64 pointer; /* the first argument */
	struct heap_block block;
	struct heap_block was; /* the block that the call frees */
	__u8 nested;	       /* inside another call, which counts: the memory is the same */
	__u8 chosen;
	__u8 pad[6];
};

struct heap_thread {
	struct scope_thread thread;
	struct scope_calls calls;
	__u64 freed; /* what the thread has freed last, until it allocates that again */
	struct heap_frame frames[HEAP_DEPTH];
	struct stack_memory stacks;
};

SCOPE_PLACES(struct heap_place);
SCOPE_THREADS(struct heap_thread);
SCOPE_CALLS(struct heap_thread, struct heap_frame);

static __always_inline struct heap_blocks_key key_of(struct task_struct *task, __u64 address)
{
	struct heap_blocks_key key = {.start_ns = running_start_ns(), .address = address, .pid = task->tgid};

	return key;
}

static __always_inline bool is_again(enum heap_kind kind)
{
	return kind == HEAP_AGAIN || kind == HEAP_AGAIN_MANY;
}

/* Saturates where the allocator refuses. */
static __always_inline __u64 product(__u64 count, __u64 size)
{
	__u64 most = size ? ~0ULL / size : ~0ULL;

	barrier_var(most); /* else clang multiplies 128 bits, which BPF cannot */
	return count > most ? ~0ULL : count * size;
}

static __always_inline __u64 size_of(enum heap_kind kind, const __u64 args[CALL_ARGUMENTS])
{
	switch (kind) {
	case HEAP_ALLOCATE:
		return args[0];
	case HEAP_ALLOCATE_MANY:
		return product(args[0], args[1]);
	case HEAP_AGAIN_MANY:
		return product(args[1], args[2]);
	case HEAP_ALIGNED_INTO:
		return args[2];
	default:
		return args[1];
	}
}

/* At the entry, because afterwards another thread may get the same address. */
static __always_inline void release(struct task_struct *task, struct heap_frame *frame)
{
	struct heap_blocks_key key = key_of(task, frame->pointer);

	take_block(&key, &frame->was);
}

/*
 * At the first instruction of a function that allocates. Uprobes see all calls, from all libraries; calls that the
 * allocator makes itself, and calls in which a call of the program is wrapped, are nested.
 */
SEC("uprobe")
int SCOPE_UNPREEMPTED(heap_enter, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct heap_place *function = place_numbered(number);
	__u64 args[CALL_ARGUMENTS] = {};
	struct heap_thread *thread;
	struct heap_frame *frame;
	struct user_frame entry;

	if (!function)
		return 0;
	thread = calling_thread(task, number, stream_heap_live);
	if (!thread)
		return 0;
	frame = enter_call(ctx, thread, number, stream_heap_live);
	if (!frame)
		return 0;
	frame->nested = thread->calls.depth > 1;
	if (frame->nested)
		return 0;
	read_entry(ctx, &entry, args, HEAP_ARGUMENTS);
	frame->size = size_of(function->kind, args);
	frame->pointer = args[0];
	frame->was.count = 0;
	frame->block.stack = 0;
	frame->chosen = is_chosen(frame->size, &frame->block);
	if (frame->chosen && keep_stacks)
		frame->block.stack = keep_stack(task, &entry, frame->call.stack, &thread->stacks, stream_heap_live);
	if (is_again(function->kind) && frame->pointer)
		release(task, frame);
	return 0;
}

/* The memory that a call returns; 0: it failed. */
static __always_inline __u64 allocated_by(struct pt_regs *ctx, enum heap_kind kind, const struct heap_frame *frame)
{
	__u64 address = PT_REGS_RC(ctx);

	if (kind != HEAP_ALIGNED_INTO)
		return address;
	if ((__s32)address || bpf_probe_read_user(&address, sizeof(address), (void *)frame->pointer))
		return 0;
	return address;
}

/* A call that failed has not freed; realloc(pointer, 0) may return nothing, and has. */
static __always_inline void finish_release(struct task_struct *task, struct heap_frame *frame, bool failed)
{
	struct heap_blocks_key key = key_of(task, frame->pointer);

	if (!failed)
		count_free(&key, &frame->was);
	else if (frame->was.count)
		put_block(&key, &frame->was);
}

SEC("uretprobe")
int SCOPE_UNPREEMPTED(heap_return, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct heap_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct heap_place *function = place_numbered(number);
	struct heap_blocks_key key;
	struct heap_frame *frame;
	struct heap_block was;

	if (!thread || !function)
		return 0;
	frame = leave_call(ctx, thread, number);
	if (!frame || frame->nested)
		return 0;
	key = key_of(task, allocated_by(ctx, function->kind, frame));
	if (is_again(function->kind) && frame->pointer)
		finish_release(task, frame, !key.address && frame->size);
	if (key.address == thread->freed)
		thread->freed = 0;
	if (!key.address || !frame->chosen)
		return 0;
	frame->block.since_us = (bpf_ktime_get_boot_ns() - key.start_ns) / 1000;
	take_block(&key, &was); /* it was freed by a call that was not recorded */
	if (put_block(&key, &frame->block))
		count_allocation(&key, &frame->block);
	return 0;
}

#define OWN_CODE 4096

/* glibc frees what a thread had cached, at the thread's end: blocks that the program has freed before. */
static __always_inline bool is_of_allocator(struct pt_regs *ctx)
{
	__u64 args[CALL_ARGUMENTS], function = PT_REGS_IP(ctx);
	struct user_frame entry;

	read_entry(ctx, &entry, args, 0);
	return entry.return_address + OWN_CODE > function && entry.return_address < function + OWN_CODE;
}

/*
 * At the first instruction of a function that frees, as in `release`. Its return does not matter: it cannot fail. It
 * may go on to another such function, as operator delete does, which sees the same address.
 */
SEC("uprobe")
int SCOPE_UNPREEMPTED(heap_free, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	struct heap_block was = {};
	struct heap_thread *thread;
	struct heap_blocks_key key;

	key = key_of(task, PT_REGS_PARM1(ctx));
	if (!key.address)
		return 0;
	thread = calling_thread(task, number, stream_heap_live);
	if (!thread || thread->calls.depth || thread->freed == key.address)
		return 0;
	thread->freed = key.address;
	if (take_block(&key, &was) || !is_of_allocator(ctx))
		count_free(&key, &was);
	return 0;
}

/* The memory that a call was about to free is still there. */
static __always_inline void abandon(struct task_struct *task, struct heap_thread *thread, struct heap_frame *frame)
{
	if (!frame->nested)
		finish_release(task, frame, true);
}

SCOPE_ABANDON(heap_abandon, struct heap_thread, struct heap_frame, abandon)

/* The memory of a program ends with it. Its process stays the same, so no other event shows this. */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(heap_replace, struct task_struct *task)
{
	leave_blocks(task);
	leave_calls_at_exec(task);
	return 0;
}
