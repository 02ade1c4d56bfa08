/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of CPython 3.6 to 3.10 without USDT probes: there, each call of a Python function is a call of
 * _PyEval_EvalFrameDefault(). Its frame has the code, which has the names. A call is identified by the stack pointer at
 * its return.
 */
#ifndef SCOPE_PYTHON_EVALUATE_BPF_H
#define SCOPE_PYTHON_EVALUATE_BPF_H

/* Offsets in an interpreter's structs, which user space has read from the file. */
struct python_place {
	__u16 frame_code;
	__u16 code_file;
	__u16 code_function;
	__u16 code_line;
	__u8 second; /* the frame is the second argument: since 3.9, the first is the thread */
	__u8 pad[7];
};

SCOPE_PLACES(struct python_place);

#define EVALUATED_DEPTH 64 /* the kernel reports no deeper returns: MAX_URETPROBE_DEPTH, include/linux/uprobes.h */

/* PyASCIIObject and PyCompactUnicodeObject, Include/unicodeobject.h of 3.6 to 3.8, Include/cpython/ of 3.9 and 3.10 */
#define UNICODE_STATE 32
#define UNICODE_COMPACT (1 << 5)
#define UNICODE_ASCII (1 << 6)
#define UNICODE_ASCII_TEXT 48
#define UNICODE_UTF8 56

/* The address of a str's text in UTF-8. 0: Python has not made it; it makes it of non-ASCII texts when it needs it. */
static __noinline __u64 utf8_of(__u64 object)
{
	__u64 text = 0;
	__u32 state = 0;

	if (!object || bpf_probe_read_user(&state, sizeof(state), (void *)(object + UNICODE_STATE)))
		return 0;
	if ((state & (UNICODE_COMPACT | UNICODE_ASCII)) == (UNICODE_COMPACT | UNICODE_ASCII))
		return object + UNICODE_ASCII_TEXT;
	bpf_probe_read_user(&text, sizeof(text), (void *)(object + UNICODE_UTF8));
	return text;
}

/* Drops the calls that have been left: the stack is already above them. Returns the innermost call. */
static __always_inline struct open_call *innermost_evaluation(struct task_struct *task, struct calling_thread *thread,
							      __u32 place, __u64 stack)
{
	struct open_call *frame = thread->depth ? frame_at(task, thread, thread->depth - 1) : NULL;

	for (int i = 0; i < EVALUATED_DEPTH && frame && frame->stack < stack; i++) {
		drop(task, thread);
		scope_lose_hit(place, counting_stream(), SCOPE_LOST_LEFT);
		frame = thread->depth ? frame_at(task, thread, thread->depth - 1) : NULL;
	}
	return frame;
}

SEC("uprobe")
int SCOPE_UNPREEMPTED(python_evaluate, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct calling_thread *thread = thread_of(task);
	__u32 number = bpf_get_attach_cookie(ctx), line = 0;
	const struct python_place *place = place_numbered(number);
	__u64 first = PT_REGS_PARM1(ctx), at = PT_REGS_PARM2(ctx), stack = PT_REGS_SP(ctx);
	struct open_call *frame;

	if (!place)
		return 0;
	barrier_var(first);
	if (!place->second)
		at = first;
#if defined(__TARGET_ARCH_x86)
	stack += 8; /* ret removes the return address */
#endif
	if (thread)
		innermost_evaluation(task, thread, number, stack + 1);
	if (thread && thread->depth >= EVALUATED_DEPTH) {
		scope_count_hit(number);
		scope_lose_hit(number, counting_stream(), SCOPE_LOST_TOO_DEEP);
		return 0;
	}
	frame = begin(task, thread, number);
	if (!frame)
		return 0;
	frame->stack = stack;
	frame->function = word_at(at + place->frame_code);
	bpf_probe_read_user(&line, sizeof(line), (void *)(frame->function + place->code_line));
	frame->line = line;
	frame->entered_ns = bpf_ktime_get_boot_ns();
	return 0;
}

/* The caller still has the frame, and so the code. NULL is returned if an exception leaves the function. */
SEC("uretprobe")
int SCOPE_UNPREEMPTED(python_evaluated, struct pt_regs *, ctx)
{
	__u64 now_ns = bpf_ktime_get_boot_ns(), code;
	struct task_struct *task = bpf_get_current_task_btf();
	struct calling_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct python_place *place = place_numbered(number);
	struct open_call *frame;

	if (!place || !thread)
		return 0;
	frame = innermost_evaluation(task, thread, number, PT_REGS_SP(ctx));
	if (!frame || frame->stack != PT_REGS_SP(ctx))
		return 0;
	code = frame->function;
	add_inner(task, thread, now_ns - frame->entered_ns);
	finish(task, thread, frame, utf8_of(word_at(code + place->code_function)),
	       utf8_of(word_at(code + place->code_file)), PT_REGS_RC(ctx) ? PYTHON_RETURNED : PYTHON_RAISED,
	       now_ns - frame->entered_ns);
	return 0;
}

#endif
