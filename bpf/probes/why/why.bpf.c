/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the wall time of threads goes. A thread is always in one part: on a CPU, waiting for a CPU, or blocked. One
 * word per thread holds its part, and the time up to which it is counted. A program that counts the next stretch of
 * time, at a change of part or a reading of the summary, replaces the word in one atomic step. So no time is counted
 * twice or left out, and the parts of a thread add up to its wall time.
 */
#include "scope.bpf.h"

/* Whose buffers on a CPU: the iterator may be interrupted by the other programs, which run with interrupts off. */
enum why_buffer {
	WHY_BUFFER_SWITCH,
	WHY_BUFFER_ITERATOR,
};

#define WHY_BUFFERS 2
#define FILE_PATH_BUFFERS WHY_BUFFERS

#include "address.bpf.h"
#include "calls.bpf.h"
#include "file.bpf.h"
#include "stack.bpf.h"

#include "why.h"

SCOPE_STREAM(blocked_file);
SCOPE_SUMMARY(why_summary)
SCOPE_SUMMARY(page_fault_summary)

#include "waits.bpf.h"

/* include/linux/sched.h */
#define TASK_DEAD 0x80
#define TASK_WAKING 0x200
#define TASK_NEW 0x800
#define PF_KTHREAD 0x200000

/* The word: a time, in units of 8 ns; in the low bits the part (enum why_part), and which span describes it. */
#define PART 3ULL
#define FOUND 4ULL
#define TIME (~7ULL)

/* How a thread got into its part. */
struct why_span {
	__u64 began_ns;
	__u64 run_ns;	      /* the thread's whole run time at that moment, as the kernel counts it */
	struct why_wait wait; /* if it is blocked */
};

struct why_thread {
	struct scope_thread thread;
	__u64 open;	       /* the word; 0: not watched, or ended */
	__u64 fault_since_ns;  /* 0: in no page fault */
	__u64 settled_run_ns;  /* the run time when the iterator last found the thread running without a switch to it */
	struct why_span told;  /* from switches and wakeups; the kernel serializes those of a thread */
	struct why_span found; /* from the iterator, before there was a word */
};

SCOPE_THREADS(struct why_thread);

#include "faults.bpf.h"

/* The state of a thread; NULL if it is not watched, or if there is no memory, which is counted as a loss. */
static __always_inline struct why_thread *watched(struct task_struct *task)
{
	struct why_thread *thread;

	if (!task->pid || task->flags & PF_KTHREAD)
		return NULL;
	thread = scope_other_thread(&threads, task);
	if (!thread) {
		if (scope_passes(task))
			scope_count_loss(stream_why_summary, SCOPE_LOST_NO_STATE);
		return NULL;
	}
	if (scope_thread_passes(task, &thread->thread))
		return thread;
	thread->open = 0;
	return NULL;
}

/* A stretch of a thread's time to be counted. */
struct why_stretch {
	__u64 word; /* its begin, and the part */
	__u64 until_ns;
	__u64 began_ns; /* if the part ends with the stretch: when the part began; else 0 */
	__u64 thread;	/* the task's address */
	enum why_buffer buffer;
	__u32 pad;
};

/* Keys of stretches. On the stack, four calls would need more than the 512 bytes that the verifier allows. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WHY_BUFFERS);
	__type(key, __u32);
	__type(value, struct why_summary_key);
} why_keys SEC(".maps");

static __always_inline __u64 time_of(__u64 word)
{
	return word & TIME;
}

static __always_inline bool was_on_cpu(__u64 word)
{
	return word && (word & PART) == WHY_ON_CPU;
}

/* Global, because the verifier checks a global function only once. In the key, only the thread is filled. */
__noinline int add_stretch(const struct why_stretch *stretch, const struct why_wait *wait)
{
	struct why_summary_value *value;
	struct why_summary_key *key;
	__u32 buffer;
	__u64 ns;

	if (!stretch || !wait) /* never NULL, but the verifier does not know */
		return 0;
	buffer = stretch->buffer;
	key = bpf_map_lookup_elem(&why_keys, &buffer); /* before 6.2, the memory of an argument cannot be a key */
	if (!key)
		return 0;
	key->part = stretch->word & PART;
	if (key->part == WHY_BLOCKED) {
		key->nr = wait->nr;
		key->compat = wait->compat;
		key->file = wait->file;
		key->remote = wait->remote;
		key->remote_port = wait->remote_port;
		key->stack_id = wait->stack_id;
	}
	value = why_summary_slot(key);
	if (!value)
		return 0;
	if (key->file.inode && !value->total_ns)
		emit_file_path(stretch->thread, wait->fd, &wait->file, stream_blocked_file, stretch->buffer);
	ns = stretch->until_ns - time_of(stretch->word);
	__sync_fetch_and_add(&value->total_ns, ns);
	if (key->part == WHY_ON_CPU)
		__sync_fetch_and_add(&value->on_cpu_ns, ns);
	else if (key->part == WHY_RUN_QUEUE)
		__sync_fetch_and_add(&value->run_queue_ns, ns);
	else
		__sync_fetch_and_add(&value->blocked_ns, ns);
	if (stretch->began_ns) {
		__sync_fetch_and_add(&value->count, 1);
		scope_histogram_add(&value->duration, stretch->until_ns - stretch->began_ns);
	}
	return 0;
}

static __noinline int count_stretch(struct task_struct *task, struct why_stretch *stretch, const struct why_wait *wait)
{
	struct why_summary_key *key = bpf_map_lookup_elem(&why_keys, &stretch->buffer);

	if (!key)
		return 0;
	__builtin_memset(key, 0, sizeof(*key));
	key->tid = task->pid;
	fill_process(&key->process, task);
	copy_comm(key->thread_comm, task);
	stretch->thread = (__u64)task;
	return add_stretch(stretch, wait);
}

/*
 * Counts a stretch during which the programs missed a switch, as happens on some kernels. The kernel's count of the
 * thread's run time tells how long the thread was on a CPU. That time is taken as the end of the stretch.
 *
 * rest: the part of the remaining time, if the stretch began on a CPU.
 */
static __always_inline void count_unseen(struct task_struct *task, const struct why_thread *thread,
					 struct why_stretch *stretch, const struct why_span *span, enum why_part rest)
{
	__u64 run_ns = task->se.sum_exec_runtime, until_ns = stretch->until_ns, began_ns = stretch->began_ns;
	__u64 since_ns = time_of(stretch->word);

	run_ns -= span->run_ns > thread->settled_run_ns ? span->run_ns : thread->settled_run_ns;
	if (run_ns > until_ns - since_ns)
		run_ns = until_ns - since_ns;
	if (was_on_cpu(stretch->word))
		stretch->word = since_ns | rest;
	stretch->until_ns -= run_ns & TIME;
	count_stretch(task, stretch, &span->wait);
	if (stretch->until_ns == until_ns)
		return;
	stretch->word = stretch->until_ns | WHY_ON_CPU;
	stretch->until_ns = until_ns;
	stretch->began_ns = began_ns ? time_of(stretch->word) : 0;
	count_stretch(task, stretch, &span->wait);
}

static __always_inline struct why_span *span_of(struct why_thread *thread, __u64 word)
{
	return word & FOUND ? &thread->found : &thread->told;
}

/*
 * A thread changes from one part to another, or ends: counts its time up to now. For one thread, these calls never run
 * at the same time, because the kernel holds the lock of its run queue. Only the iterator, on another CPU, may have
 * counted up to a later time meanwhile, and at most once.
 */
static __always_inline void change_part(struct task_struct *task, struct why_thread *thread, __u64 now_ns,
					enum why_part from, enum why_part to, bool ended)
{
	struct why_stretch stretch = {.word = thread->open, .until_ns = now_ns & TIME, .buffer = WHY_BUFFER_SWITCH};
	__u64 next = ended ? 0 : stretch.until_ns | to, seen;
	struct why_span *span;

	seen = __sync_val_compare_and_swap(&thread->open, stretch.word, next);
	if (seen != stretch.word) {
		stretch.word = seen;
		if (stretch.until_ns < time_of(seen))
			stretch.until_ns = time_of(seen);
		__sync_lock_test_and_set(&thread->open, ended ? 0 : stretch.until_ns | to);
	}
	span = span_of(thread, stretch.word);
	stretch.began_ns = span->began_ns;
	if (stretch.word && was_on_cpu(stretch.word) == (from == WHY_ON_CPU))
		count_stretch(task, &stretch, &span->wait);
	else if (stretch.word)
		count_unseen(task, thread, &stretch, span, from);
	thread->told.began_ns = stretch.until_ns;
	thread->told.run_ns = task->se.sum_exec_runtime;
}

static __always_inline void leave_cpu(struct task_struct *task, struct why_thread *thread, __u64 now_ns, bool preempted)
{
	__u32 state = task_state(task);
	enum why_part to = preempted || !state ? WHY_RUN_QUEUE : WHY_BLOCKED; /* preempted: still runnable */
	bool ends = state & TASK_DEAD;

	if (to == WHY_BLOCKED && !ends) {
		find_wait(task, state, thread->fault_since_ns, &thread->told.wait);
		if (keep_stacks)
			thread->told.wait.stack_id = find_stack(task);
	}
	change_part(task, thread, now_ns, WHY_ON_CPU, to, ends);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(why_switch, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	struct why_thread *leaving = watched(prev), *arriving = watched(next);
	__u64 now_ns;

	if (!leaving && !arriving)
		return 0;
	now_ns = bpf_ktime_get_boot_ns();
	if (leaving)
		leave_cpu(prev, leaving, now_ns, preempted);
	if (arriving)
		change_part(next, arriving, now_ns, WHY_RUN_QUEUE, WHY_ON_CPU, false);
	return 0;
}

static __always_inline int woken(struct task_struct *task)
{
	struct why_thread *thread = watched(task);

	if (!thread || is_on_cpu(task))
		return 0; /* it was about to block, but still runs */
	if (was_on_cpu(thread->open))
		find_wait(task, 0, thread->fault_since_ns, &thread->told.wait);
	if (!thread->open || (thread->open & PART) != WHY_RUN_QUEUE)
		change_part(task, thread, bpf_ktime_get_boot_ns(), WHY_BLOCKED, WHY_RUN_QUEUE, false);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(why_wakeup, struct task_struct *task)
{
	return woken(task);
}

/* A new thread. */
SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(why_wakeup_new, struct task_struct *task)
{
	return woken(task);
}

/* Starts the account of a thread that has had no switch yet. If a switch comes meanwhile, its word stays. */
static __always_inline void find_part(struct task_struct *task, struct why_thread *thread)
{
	__u64 now_ns = bpf_ktime_get_boot_ns() & TIME, part = WHY_BLOCKED;
	__u32 state = task_state(task);

	if (is_on_cpu(task))
		part = WHY_ON_CPU;
	else if (!state || state & TASK_WAKING)
		part = WHY_RUN_QUEUE;
	else
		find_wait(task, state, thread->fault_since_ns, &thread->found.wait);
	thread->found.began_ns = now_ns;
	thread->found.run_ns = task->se.sum_exec_runtime;
	__sync_val_compare_and_swap(&thread->open, 0, now_ns | FOUND | part);
}

/*
 * User space runs this program when the trace begins and before each reading of the summary. It counts the parts that
 * threads are still in up to now, and finds threads that have had no switch yet. Another program may change the thread
 * at any moment. But a word never comes back: if the word is unchanged, then all data read belongs to it.
 */
SEC("iter/task")
int why_settle(struct bpf_iter__task *ctx)
{
	struct why_stretch stretch = {.buffer = WHY_BUFFER_ITERATOR};
	struct task_struct *task = ctx->task;
	struct why_thread *thread;
	struct why_span span;
	__u64 next;
	bool runs;

	if (!task || task->exit_state)
		return 0;
	if (task_state(task) & TASK_NEW) /* sched_process_fork may not have told yet whose child it is */
		return 0;
	thread = watched(task);
	if (!thread)
		return 0;
	stretch.word = __sync_fetch_and_add(&thread->open, 0);
	if (!stretch.word) {
		find_part(task, thread);
		return 0;
	}
	span = *span_of(thread, stretch.word);
	stretch.until_ns = bpf_ktime_get_boot_ns() & TIME;
	runs = is_on_cpu(task);
	next = stretch.until_ns | (runs && !was_on_cpu(stretch.word) ? WHY_ON_CPU : stretch.word & ~TIME);
	if (__sync_val_compare_and_swap(&thread->open, stretch.word, next) != stretch.word)
		return 0;
	if (was_on_cpu(stretch.word) == runs)
		return count_stretch(task, &stretch, &span.wait);
	if (!runs) /* it is about to run, or about to block */
		find_wait(task, 0, thread->fault_since_ns, &span.wait);
	count_unseen(task, thread, &stretch, &span, WHY_BLOCKED);
	thread->settled_run_ns = task->se.sum_exec_runtime;
	return 0;
}
