/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include "sched.h"

SCOPE_STREAM(switch);
SCOPE_SUMMARY(sched_summary)

/* include/linux/sched.h */
#define TASK_UNINTERRUPTIBLE 2
#define TASK_REPORT_MASK 0xff /* the states that ps shows; higher bits alone (TASK_FROZEN, ...): uninterruptible */

struct sched_thread {
	struct scope_thread thread;
	__u64 on_since_ns;   /* 0: not running, or unknown */
	__u64 off_since_ns;  /* went to sleep */
	__u64 wait_since_ns; /* runnable, not running */
	__u64 waited_ns;     /* for the CPU that it has now; 0: unknown */
	__u64 slept_ns;	     /* before it was woken for that; 0: unknown */
	__s32 waker_pid;     /* 0: an interrupt during the idle thread */
	__s32 waker_tid;
	bool woken; /* it waited for a CPU after a wakeup; else it was switched out while runnable */
	char waker_comm[SCOPE_COMM_SIZE];
};

SCOPE_THREADS(struct sched_thread);

/* The state of a thread; NULL if it is not watched, or if there is no memory, which is counted as a loss. */
static __always_inline struct sched_thread *watched(struct task_struct *task)
{
	struct sched_thread *thread;

	if (!task->pid)
		return NULL; /* the idle thread of a CPU */
	thread = scope_other_thread(&threads, task);
	if (thread)
		return scope_thread_passes(task, &thread->thread) ? thread : NULL;
	if (scope_passes(task))
		scope_count_loss(scope_summarize ? stream_sched_summary : stream_switch, SCOPE_LOST_NO_STATE);
	return NULL;
}

static __always_inline struct sched_summary_value *summary_of(struct task_struct *task)
{
	struct sched_summary_key key = {.tid = task->pid};

	fill_process(&key.process, task);
	bpf_probe_read_kernel(key.thread_comm, sizeof(key.thread_comm), task->comm);
	return sched_summary_slot(&key);
}

/* Why and how long the thread had waited for the CPU that it leaves now. */
static __always_inline void fill_wait(struct switch_event *event, struct sched_thread *thread)
{
	event->run_queue_ns = thread->waited_ns;
	event->woken = thread->woken;
	if (!thread->woken)
		return;
	event->off_cpu_ns = thread->slept_ns;
	event->waker_pid = thread->waker_pid;
	event->waker_tid = thread->waker_tid;
	__builtin_memcpy(event->waker_comm, thread->waker_comm, sizeof(event->waker_comm));
}

/* `leaving` is NULL if only next is watched, not prev. */
static __always_inline void emit_switch(struct task_struct *prev, struct task_struct *next,
					struct sched_thread *leaving, __u64 now_ns, __u64 on_cpu_ns, __u32 prev_state)
{
	struct switch_event *event = scope_reserve(prev, stream_switch, now_ns, sizeof(*event));

	if (!event)
		return;
	__builtin_memset(&event->header + 1, 0, sizeof(*event) - sizeof(event->header));
	event->on_cpu_ns = on_cpu_ns;
	event->next_start_ns = task_start_ns(next);
	event->next_pid = next->tgid;
	event->next_tid = next->pid;
	bpf_probe_read_kernel(event->next_comm, sizeof(event->next_comm), next->comm);
	event->prev_state = prev_state;
	event->involuntary = !prev_state;
	if (leaving && on_cpu_ns && leaving->waited_ns)
		fill_wait(event, leaving);
	scope_submit(event, stream_switch, sizeof(*event));
}

/* The thread leaves the CPU after this time on it; 0: unknown. */
static __always_inline void leave(struct task_struct *task, struct sched_thread *thread, __u64 now_ns, __u64 on_cpu_ns,
				  bool runnable)
{
	struct sched_summary_value *value;

	thread->on_since_ns = 0;
	thread->off_since_ns = runnable ? 0 : now_ns;
	thread->wait_since_ns = runnable ? now_ns : 0;
	thread->woken = false;
	if (!scope_summarize || !on_cpu_ns)
		return;
	value = summary_of(task);
	if (value) {
		__sync_fetch_and_add(&value->on_cpu_count, 1);
		__sync_fetch_and_add(&value->on_cpu_ns, on_cpu_ns);
		scope_histogram_add(&value->on_cpu, on_cpu_ns);
	}
}

/* The thread gets the CPU. */
static __always_inline void arrive(struct task_struct *task, struct sched_thread *thread, __u64 now_ns)
{
	__u64 waited_ns = thread->wait_since_ns ? now_ns - thread->wait_since_ns : 0;
	struct sched_summary_value *value;

	thread->on_since_ns = now_ns;
	thread->waited_ns = waited_ns;
	thread->wait_since_ns = 0;
	if (!scope_summarize || !waited_ns)
		return;
	value = summary_of(task);
	if (value) {
		__sync_fetch_and_add(&value->run_queue_count, 1);
		__sync_fetch_and_add(&value->run_queue_ns, waited_ns);
		scope_histogram_add(&value->run_queue, waited_ns);
	}
}

/* The state to show; 0: runnable. A preempted thread stays runnable, even if it was about to sleep. */
static __always_inline __u32 shown_state(bool preempted, __u32 state)
{
	if (preempted || !state)
		return 0;
	return state & TASK_REPORT_MASK ? state & TASK_REPORT_MASK : TASK_UNINTERRUPTIBLE;
}

static __always_inline int switched(bool preempted, struct task_struct *prev, struct task_struct *next,
				    __u32 prev_state)
{
	struct sched_thread *leaving = watched(prev), *arriving = watched(next);
	__u64 now_ns, on_cpu_ns = 0;

	if (!leaving && !arriving)
		return 0;
	now_ns = bpf_ktime_get_boot_ns();
	prev_state = shown_state(preempted, prev_state);
	if (leaving && leaving->on_since_ns)
		on_cpu_ns = now_ns - leaving->on_since_ns;
	if (!scope_summarize)
		emit_switch(prev, next, leaving, now_ns, on_cpu_ns, prev_state);
	if (leaving)
		leave(prev, leaving, now_ns, on_cpu_ns, !prev_state);
	if (arriving)
		arrive(next, arriving, now_ns);
	return 0;
}

/*
 * The kernel passes the state of prev at the decision to switch (since 9c2136be0878, 5.18). Its current state may
 * differ: another CPU may already be waking it.
 */
SEC("tp_btf/sched_switch")
int BPF_PROG(switch_with_state, bool preempted, struct task_struct *prev, struct task_struct *next,
	     unsigned int prev_state)
{
	return switched(preempted, prev, next, prev_state);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(switch_reading_state, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	return switched(preempted, prev, next, task_state(prev));
}

static __always_inline int woken(struct task_struct *task)
{
	struct sched_thread *thread = watched(task);
	struct task_struct *waker = bpf_get_current_task_btf();
	struct sched_summary_value *value;
	__u64 now_ns;

	if (!thread || thread->wait_since_ns || thread->on_since_ns)
		return 0; /* it was already runnable */
	now_ns = bpf_ktime_get_boot_ns();
	thread->wait_since_ns = now_ns;
	thread->slept_ns = thread->off_since_ns ? now_ns - thread->off_since_ns : 0;
	thread->woken = true;
	thread->waker_pid = waker->tgid;
	thread->waker_tid = waker->pid;
	bpf_probe_read_kernel(thread->waker_comm, sizeof(thread->waker_comm), waker->comm);
	if (scope_summarize && thread->slept_ns) {
		value = summary_of(task);
		if (value) {
			__sync_fetch_and_add(&value->off_cpu_count, 1);
			__sync_fetch_and_add(&value->off_cpu_ns, thread->slept_ns);
			scope_histogram_add(&value->off_cpu, thread->slept_ns);
		}
	}
	thread->off_since_ns = 0;
	return 0;
}

/* When the thread has become runnable, on the waker's CPU; an interrupt counts as the interrupted thread. */
SEC("tp_btf/sched_wakeup")
int BPF_PROG(wakeup_done, struct task_struct *task)
{
	return woken(task);
}

SEC("tp_btf/sched_wakeup_new")
int BPF_PROG(wakeup_new_done, struct task_struct *task)
{
	return woken(task);
}
