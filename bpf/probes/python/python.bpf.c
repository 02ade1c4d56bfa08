/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of Python functions in CPython. A generator is called each time it is resumed, and ends when it yields. Calls
 * of a thread are nested in each other; an entry is paired with the end that has the same names.
 */
#include "scope.bpf.h"

#include "calls.bpf.h"
#include "stack.bpf.h"
#include "usdt.bpf.h"

#include "python.h"

SCOPE_STREAM(python_call);
SCOPE_STREAM(python_code);
SCOPE_STREAM(python_sample);
SCOPE_SUMMARY(python_call_summary);
SCOPE_SUMMARY(python_sample_summary);

const volatile __u64 min_ns; /* events: record only calls that last as long */

#include "names.bpf.h"

#define PYTHON_NEAR 64	  /* calls kept with the thread; a power of two */
#define PYTHON_DEEP 65536 /* calls of all threads that are nested deeper */

/* An open call. The names are addresses in the process. */
struct open_call {
	__u64 function;
	__u64 file;
	__u64 entered_ns;
	__u64 inner_ns; /* in calls inside */
	__u64 stack;	/* value of the stack pointer at the return; 0: unknown */
	__u32 line;
	__u32 pad;
};

struct calling_thread {
	struct scope_thread thread;
	__u32 depth;  /* number of open calls */
	__u32 unkept; /* and of those inside that could not be kept */
	struct open_call frames[PYTHON_NEAR];
	struct { /* an event being composed; its text is in `names` and follows it */
		struct python_call_event event;
		char text[PYTHON_FUNCTION + PYTHON_FILE + 8];
	} made;
	struct {
		struct python_code_event event;
		char text[PYTHON_FUNCTION + PYTHON_FILE + 8];
	} named;
	struct python_names names;
	struct python_call_summary_key key;
};

SCOPE_THREADS(struct calling_thread);

struct deep_key {
	__s32 tid;
	__u32 depth;
};

/* Programs with deep recursion need it. Entries are deleted when the call ends, or its thread. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PYTHON_DEEP);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct deep_key);
	__type(value, struct open_call);
} deep SEC(".maps");

static const struct open_call no_frame;

static __always_inline __u16 counting_stream(void)
{
	return scope_summarize ? stream_python_call_summary : stream_python_call;
}

static __always_inline struct open_call *frame_at(struct task_struct *task, struct calling_thread *thread, __u32 depth)
{
	struct deep_key key = {.tid = task->pid, .depth = depth};

	barrier_var(depth);
	if (depth < PYTHON_NEAR)
		return &thread->frames[depth & (PYTHON_NEAR - 1)];
	return bpf_map_lookup_elem(&deep, &key);
}

/* Drops the innermost call. */
static __always_inline void drop(struct task_struct *task, struct calling_thread *thread)
{
	struct deep_key key = {.tid = task->pid};

	if (!thread->depth)
		return;
	thread->depth--;
	key.depth = thread->depth;
	if (key.depth >= PYTHON_NEAR)
		bpf_map_delete_elem(&deep, &key);
}

/* A new call; NULL: the thread is not watched, or the call cannot be kept, which is counted. */
static __always_inline struct open_call *begin(struct task_struct *task, struct calling_thread *thread, __u32 place)
{
	struct open_call *frame;

	if (!thread ? !scope_passes(task) : !scope_thread_passes(task, &thread->thread))
		return NULL;
	scope_count_hit(place);
	if (!thread) {
		scope_lose_hit(place, counting_stream(), SCOPE_LOST_NO_STATE);
		return NULL;
	}
	if (thread->depth >= PYTHON_NEAR && !thread->unkept) {
		struct deep_key key = {.tid = task->pid, .depth = thread->depth};

		bpf_map_update_elem(&deep, &key, &no_frame, BPF_ANY);
	}
	frame = thread->unkept ? NULL : frame_at(task, thread, thread->depth);
	if (!frame) {
		thread->unkept++;
		scope_lose_hit(place, counting_stream(), SCOPE_LOST_TOO_DEEP);
		return NULL;
	}
	thread->depth++;
	frame->inner_ns = 0;
	frame->stack = 0;
	return frame;
}

static __always_inline struct calling_thread *thread_of(struct task_struct *task)
{
	return bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
}

#include "record.bpf.h"

struct search {
	__u64 function;
	__u64 file;
	__u32 above; /* calls to drop */
	bool found;
};

static long search_frame(__u32 index, struct search *search)
{
	struct calling_thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	struct open_call *frame;

	if (!thread || index >= thread->depth)
		return 1;
	frame = frame_at(bpf_get_current_task_btf(), thread, thread->depth - 1 - index);
	if (!frame)
		return 1;
	if (frame->function != search->function || frame->file != search->file)
		return 0;
	search->above = index;
	search->found = true;
	return 1;
}

static long drop_one(__u32 index, __u32 *place)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct calling_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (!thread || !thread->depth)
		return 1;
	drop(task, thread);
	scope_lose_hit(*place, counting_stream(), SCOPE_LOST_LEFT);
	return 0;
}

static __always_inline bool is_of(const struct open_call *frame, __u64 function, __u64 file)
{
	return frame && frame->function == function && frame->file == file;
}

/* The innermost call with these names; those inside have been left: a thread that switches stacks does so. */
static __noinline bool drop_inner(__u32 place, __u64 function, __u64 file)
{
	struct search search = {.function = function, .file = file};

	bpf_loop(PYTHON_DEEP, search_frame, &search, 0);
	if (search.found)
		bpf_loop(search.above, drop_one, &place, 0);
	return search.found;
}

/* Adds the duration of the innermost call to the call around it. */
static __always_inline void add_inner(struct task_struct *task, struct calling_thread *thread, __u64 duration_ns)
{
	struct open_call *outer;

	if (thread->depth < 2)
		return;
	outer = frame_at(task, thread, thread->depth - 2);
	if (outer)
		outer->inner_ns += duration_ns;
}

/*
 * At function__entry: file, function, line. In CPython 3.11 it is silent unless the semaphore of the probe `line` is
 * up, too (python/cpython#98894).
 */
SEC("uprobe")
int SCOPE_UNPREEMPTED(python_enter, struct pt_regs *, ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), line = 0;
	struct task_struct *task = bpf_get_current_task_btf();
	const struct usdt_site *site = usdt_site(cookie);
	struct open_call *frame = site ? begin(task, thread_of(task), cookie) : NULL;

	if (!frame)
		return 0;
	frame->file = frame->function = 0;
	usdt_read(ctx, &site->argument[0], &frame->file);
	usdt_read(ctx, &site->argument[1], &frame->function);
	usdt_read(ctx, &site->argument[2], &line);
	frame->line = line;
	frame->entered_ns = bpf_ktime_get_boot_ns();
	return 0;
}

/* At function__return: the same arguments. Also where an exception leaves the function, and where it yields. */
SEC("uprobe")
int SCOPE_UNPREEMPTED(python_leave, struct pt_regs *, ctx)
{
	__u64 now_ns = bpf_ktime_get_boot_ns(), cookie = bpf_get_attach_cookie(ctx), file = 0, function = 0;
	struct task_struct *task = bpf_get_current_task_btf();
	struct calling_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	const struct usdt_site *site = usdt_site(cookie);
	struct open_call *frame;

	if (!site || !thread)
		return 0;
	if (thread->unkept) {
		thread->unkept--;
		return 0;
	}
	if (!thread->depth)
		return 0; /* it began before */
	usdt_read(ctx, &site->argument[0], &file);
	usdt_read(ctx, &site->argument[1], &function);
	frame = frame_at(task, thread, thread->depth - 1);
	if (!is_of(frame, function, file)) {
		if (!drop_inner(cookie, function, file))
			return 0;
		frame = frame_at(task, thread, thread->depth - 1);
	}
	if (!frame)
		return 0;
	add_inner(task, thread, now_ns - frame->entered_ns);
	finish(task, thread, frame, function, file, PYTHON_ENDED, now_ns - frame->entered_ns);
	return 0;
}

/* Attached to a function that is hardly ever called, to raise the semaphore of `line` without a hit per line. */
SEC("uprobe")
int SCOPE_UNPREEMPTED(python_raise, struct pt_regs *, ctx)
{
	return 0;
}

#include "evaluate.bpf.h"
#include "sample.bpf.h"

/* Calls that a thread's end leaves, or exec: their names can no longer be read. */
static __always_inline void leave_all(struct task_struct *task)
{
	struct calling_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u32 place = 0;

	if (!thread)
		return;
	thread->unkept = 0;
	if (thread->depth)
		bpf_loop(PYTHON_NEAR + PYTHON_DEEP, drop_one, &place, 0);
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(calls_exit, struct task_struct *task)
{
	leave_all(task);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(calls_exec, struct task_struct *task)
{
	leave_all(task);
	return 0;
}
