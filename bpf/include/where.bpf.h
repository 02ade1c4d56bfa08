/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where the time of a call goes: on a CPU, waiting for a CPU, blocked, or stopped by a signal; and how much of it is in
 * page faults. The sums of a thread grow with each switch. A probe marks them at the call's begin and end, at which the
 * thread runs; the differences add up to the time between both marks.
 *
 * The kernel counts the switches of a thread, too. If the programs have missed a switch, the time between the switches
 * around it is unknown: that is one of the sums.
 */
#ifndef SCOPE_WHERE_BPF_H
#define SCOPE_WHERE_BPF_H

SCOPE_SHARED(enum, perf_sw_ids);

#define TASK_STOPPED 0x4 /* include/linux/sched.h: __TASK_STOPPED */
#define TASK_TRACED 0x8	 /* __TASK_TRACED */

enum where_part {
	WHERE_ON_CPU,
	WHERE_RUN_QUEUE,
	WHERE_BLOCKED,
	WHERE_STOPPED,
	WHERE_UNKNOWN,
};

/*
 * The account of a thread. The programs at switches and wakeups change the sums while the kernel holds the thread's run
 * queue; the thread itself begins the account, and adds its page faults.
 */
struct where_thread {
	__u64 since_ns; /* the sums are complete up to this time, and add up to it; 0: not followed yet */
	__u64 fault_since_ns;
	__u64 switches; /* the kernel's count, when the thread was last seen to leave or get a CPU */
	struct scope_where sums;
	enum where_part part;
	__u32 pad;
};

SCOPE_THREAD_STATE(where_threads, struct where_thread);

/* The sums of a thread at a moment at which it runs; they add up to `at_ns`. */
struct where_mark {
	__u64 at_ns;
	struct scope_where sums;
};

#define WHERE_TRIES 8

static __always_inline void add_part(struct scope_where *sums, enum where_part part, __u64 ns)
{
	if (part == WHERE_ON_CPU)
		sums->on_cpu_ns += ns;
	else if (part == WHERE_RUN_QUEUE)
		sums->run_queue_ns += ns;
	else if (part == WHERE_BLOCKED)
		sums->blocked_ns += ns;
	else if (part == WHERE_STOPPED)
		sums->stopped_ns += ns;
	else
		sums->unknown_ns += ns;
}

/* How often a thread has left a CPU. */
static __always_inline __u64 switches_of(const struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

/* Begins to follow the running thread, if it is not followed yet. What was before is unknown. NULL: no memory. */
static __always_inline struct where_thread *where_followed(struct task_struct *task)
{
	struct where_thread *thread = bpf_task_storage_get(&where_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u64 now_ns = bpf_ktime_get_boot_ns();

	if (thread && !thread->since_ns) {
		thread->part = WHERE_ON_CPU;
		thread->switches = switches_of(task);
		thread->sums.unknown_ns = now_ns;
		__sync_lock_test_and_set(&thread->since_ns, now_ns);
	}
	return thread;
}

/* The part that a thread was in since it was last seen. `switches`: the kernel's count, if none was missed. */
static __always_inline enum where_part part_since(const struct where_thread *thread, bool on_cpu, __u64 switches)
{
	return (thread->part == WHERE_ON_CPU) == on_cpu && thread->switches == switches ? thread->part : WHERE_UNKNOWN;
}

/*
 * Marks the sums of the running thread, up to now. The thread may be switched out and in while this program runs: then
 * the mark is taken again.
 */
static __noinline int where_mark(struct where_mark *mark)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct where_thread *thread = where_followed(task);
	__u64 since_ns;

	if (!thread) {
		__builtin_memset(mark, 0, sizeof(*mark));
		mark->at_ns = mark->sums.unknown_ns = bpf_ktime_get_boot_ns();
		return 0;
	}
	for (__u32 i = 0; i < WHERE_TRIES; i++) {
		since_ns = __sync_fetch_and_add(&thread->since_ns, 0);
		mark->at_ns = bpf_ktime_get_boot_ns();
		mark->sums = thread->sums;
		add_part(&mark->sums, part_since(thread, true, switches_of(task)), mark->at_ns - since_ns);
		if (__sync_fetch_and_add(&thread->since_ns, 0) == since_ns)
			return 0;
	}
	return 0;
}

static __always_inline void where_add(struct scope_where *to, const struct scope_where *more)
{
	to->on_cpu_ns += more->on_cpu_ns;
	to->run_queue_ns += more->run_queue_ns;
	to->blocked_ns += more->blocked_ns;
	to->stopped_ns += more->stopped_ns;
	to->unknown_ns += more->unknown_ns;
	to->page_fault_ns += more->page_fault_ns;
}

static __always_inline void where_subtract(struct scope_where *to, const struct scope_where *from,
					   const struct scope_where *less)
{
	to->on_cpu_ns = from->on_cpu_ns - less->on_cpu_ns;
	to->run_queue_ns = from->run_queue_ns - less->run_queue_ns;
	to->blocked_ns = from->blocked_ns - less->blocked_ns;
	to->stopped_ns = from->stopped_ns - less->stopped_ns;
	to->unknown_ns = from->unknown_ns - less->unknown_ns;
	to->page_fault_ns = from->page_fault_ns - less->page_fault_ns;
}

/* Where the time between two marks of a thread went. */
static __always_inline void where_between(const struct where_mark *begin, const struct where_mark *end,
					  struct scope_where *sums)
{
	where_subtract(sums, &end->sums, &begin->sums);
}

/* A thread was in a part until now, and is in another one from now on. */
static __always_inline void where_change(struct where_thread *thread, const struct task_struct *task,
					 enum where_part was, enum where_part is)
{
	__u64 now_ns = bpf_ktime_get_boot_ns();

	add_part(&thread->sums, was, now_ns - thread->since_ns);
	thread->since_ns = now_ns;
	thread->part = is;
	thread->switches = switches_of(task);
}

static __always_inline enum where_part part_after(struct task_struct *task, bool preempted)
{
	__u32 state = task_state(task);

	if (preempted || !state)
		return WHERE_RUN_QUEUE;
	return state & (TASK_STOPPED | TASK_TRACED) ? WHERE_STOPPED : WHERE_BLOCKED;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(where_switch, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	struct where_thread *leaving = bpf_task_storage_get(&where_threads, prev, 0, 0);
	struct where_thread *arriving = bpf_task_storage_get(&where_threads, next, 0, 0);

	if (leaving && leaving->since_ns) /* this switch is counted already */
		where_change(leaving, prev, part_since(leaving, true, switches_of(prev) - 1),
			     part_after(prev, preempted));
	if (arriving && arriving->since_ns)
		where_change(arriving, next, part_since(arriving, false, switches_of(next)), WHERE_ON_CPU);
	return 0;
}

/* A thread that was about to block, but still runs, is woken too: its part does not change. */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(where_wakeup, struct task_struct *task)
{
	struct where_thread *thread = bpf_task_storage_get(&where_threads, task, 0, 0);

	if (thread && thread->since_ns && (thread->part == WHERE_BLOCKED || thread->part == WHERE_STOPPED))
		where_change(thread, task, part_since(thread, false, switches_of(task)), WHERE_RUN_QUEUE);
	return 0;
}

/*
 * The kernel counts a page fault of the running thread when the fault begins, and again, as one of two kinds, once the
 * fault is served. A fault that ends in a signal is not served.
 */
SEC("perf_event")
int where_fault(struct bpf_perf_event_data *ctx)
{
	struct where_thread *thread = bpf_task_storage_get(&where_threads, bpf_get_current_task_btf(), 0, 0);

	if (thread)
		thread->fault_since_ns = bpf_ktime_get_boot_ns();
	return 0;
}

static __always_inline int where_served(void)
{
	struct where_thread *thread = bpf_task_storage_get(&where_threads, bpf_get_current_task_btf(), 0, 0);

	if (!thread || !thread->fault_since_ns)
		return 0;
	thread->sums.page_fault_ns += bpf_ktime_get_boot_ns() - thread->fault_since_ns;
	thread->fault_since_ns = 0;
	return 0;
}

SEC("perf_event")
int where_minor_served(struct bpf_perf_event_data *ctx)
{
	return where_served();
}

SEC("perf_event")
int where_major_served(struct bpf_perf_event_data *ctx)
{
	return where_served();
}

#endif
