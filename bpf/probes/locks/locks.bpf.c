/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Waits of threads for memory to change: futexes, with which all locks in user space wait that do not spin. A lock that
 * nobody contends makes no call, and costs nothing.
 */
#define STACK_UNWOUND

#include "scope.bpf.h"

#include "calls.bpf.h"
#include "stack.bpf.h"

#include "locks.h"

SCOPE_STREAM(lock_wait);
SCOPE_SUMMARY(lock_wait_summary)

const volatile bool keep_stacks;
const volatile __u64 min_ns; /* events: record only waits that last as long */

/* include/uapi/linux/futex.h */
#define FUTEX_WAIT 0
#define FUTEX_LOCK_PI 6
#define FUTEX_WAIT_BITSET 9
#define FUTEX_LOCK_PI2 13
#define FUTEX_CMD_MASK 127
#define FUTEX_WAITERS 0x80000000
#define FUTEX_TID_MASK 0x3fffffff
#define FUTEX_WAITV_MAX 128

#if defined(__TARGET_ARCH_x86)
#define CALL_FUTEX 202
#else
#define CALL_FUTEX 98
#endif
/* In every table, since 5.16 and 6.7. */
#define CALL_FUTEX_WAITV 449
#define CALL_FUTEX_WAIT 455

/* 32-bit calls, of x86 as of ARM, with the same arguments. */
#define CALL_FUTEX_32 240
#define CALL_FUTEX_TIME64 422

struct lock_thread {
	struct scope_thread thread;
	__u64 since_ns; /* 0: it does not wait */
	__u64 address;	/* of futex_waitv: of the descriptions of what it waits for */
	__s32 owner_tid;
	__s32 waker_pid;
	__s32 waker_tid;
	enum lock_kind kind;
	char waker_comm[SCOPE_COMM_SIZE];
	__u8 has_waker;
	__u8 has_timeout;
	__u8 pad[6];
};

SCOPE_THREADS(struct lock_thread);

/* Memory to walk a thread's stack. Separate from `threads`, because it is larger and not always needed. */
SCOPE_THREAD_STATE(lock_stacks, struct stack_memory);

static __always_inline __u16 counting_stream(void)
{
	return scope_summarize ? stream_lock_wait_summary : stream_lock_wait;
}

#define PTHREAD_OWNER 8 /* offset in pthread_mutex_t: glibc's sysdeps/nptl/bits/struct_mutex.h */

/*
 * Tells locks apart from other waits, and finds the holder, where the memory says so. Locks of glibc, Rust and others
 * have the value 2 while threads wait; glibc has the holder behind it. Locks of musl, and those that the kernel hands
 * on, have the holder's tid in the memory itself.
 */
static __always_inline void read_lock(struct lock_thread *thread, __u64 value, bool kernels)
{
	__u32 word = value;

	thread->kind = LOCK_KIND_OTHER;
	thread->owner_tid = 0;
	if (kernels)
		bpf_probe_read_user(&word, sizeof(word), (void *)thread->address);
	if (kernels || word & FUTEX_WAITERS) {
		thread->kind = LOCK_KIND_LOCK;
		thread->owner_tid = word & FUTEX_TID_MASK;
	} else if (word == 2) {
		thread->kind = LOCK_KIND_LOCK;
		bpf_probe_read_user(&thread->owner_tid, sizeof(thread->owner_tid),
				    (void *)(thread->address + PTHREAD_OWNER));
		if ((__u32)thread->owner_tid > FUTEX_TID_MASK)
			thread->owner_tid = 0;
	}
}

static __always_inline bool is_futex(long nr, bool compat)
{
	return compat ? nr == CALL_FUTEX_32 || nr == CALL_FUTEX_TIME64 : nr == CALL_FUTEX;
}

static __always_inline bool is_call(long nr, bool compat)
{
	return is_futex(nr, compat) || nr == CALL_FUTEX_WAIT || nr == CALL_FUTEX_WAITV;
}

/* Waits for one of several, none of which is known to be a lock, or to have a holder. */
static __always_inline void read_several(struct lock_thread *thread, struct pt_regs *regs, bool compat)
{
	thread->has_timeout = call_arg(regs, 3, compat) != 0;
	thread->kind = LOCK_KIND_OTHER;
	thread->owner_tid = 0;
}

/* The address that has ended a wait for several; of a wait that has failed, the first one. */
static __always_inline void choose(struct lock_thread *thread, long ret)
{
	__u64 place = ret > 0 && ret < FUTEX_WAITV_MAX ? ret : 0;
	struct futex_waitv waiter = {};

	if (bpf_probe_read_user(&waiter, sizeof(waiter), (void *)(thread->address + place * sizeof(waiter))))
		scope_count_incomplete(counting_stream());
	thread->address = waiter.uaddr;
}

/* Begins at the call, because its end alone does not say for what. */
SEC("tp_btf/sys_enter")
int BPF_PROG(lock_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool compat = is_compat(task), futex = is_futex(nr, compat), kernels;
	struct lock_thread *thread;
	__u32 operation;

	if (!is_call(nr, compat))
		return 0;
	operation = call_arg(regs, 1, compat) & FUTEX_CMD_MASK;
	kernels = futex && (operation == FUTEX_LOCK_PI || operation == FUTEX_LOCK_PI2);
	if (futex && operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET && !kernels)
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		if (scope_passes(task))
			scope_count_loss(counting_stream(), SCOPE_LOST_NO_STATE);
		return 0;
	}
	if (!scope_thread_passes(task, &thread->thread))
		return 0;
	thread->address = call_arg(regs, 0, compat);
	thread->has_waker = 0;
	if (nr == CALL_FUTEX_WAITV) {
		read_several(thread, regs, compat);
	} else {
		thread->has_timeout = (futex ? call_arg(regs, 3, compat) : call_arg(regs, 4, compat)) != 0;
		read_lock(thread, futex ? call_arg(regs, 2, compat) : call_arg(regs, 1, compat), kernels);
	}
	thread->since_ns = bpf_ktime_get_boot_ns();
	return 0;
}

/* Runs in the thread that wakes another: of a lock, the one that gives it up. */
SEC("tp_btf/sched_waking")
int BPF_PROG(lock_wake, struct task_struct *task)
{
	struct task_struct *waker = bpf_get_current_task_btf();
	struct lock_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (!thread || !thread->since_ns)
		return 0;
	thread->waker_pid = waker->tgid;
	thread->waker_tid = waker->pid;
	copy_comm(thread->waker_comm, waker);
	thread->has_waker = 1;
	return 0;
}

/* The stack of the running thread, which is at the end of its call. */
static __always_inline __u64 stack_of(struct task_struct *task, struct pt_regs *regs)
{
	struct user_frame frame = {.outer = PT_REGS_FP(regs), .return_address = PT_REGS_IP(regs)};
	struct stack_memory *memory = bpf_task_storage_get(&lock_stacks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!memory) {
		scope_count_incomplete(counting_stream());
		return 0;
	}
	return keep_stack(task, &frame, PT_REGS_SP(regs), memory, counting_stream());
}

static __always_inline void count(struct lock_thread *thread, __u64 duration_ns, long ret, __u64 stack)
{
	struct lock_wait_summary_key key = {.address = thread->address, .stack_id = stack, .kind = thread->kind};
	struct lock_wait_summary_value *value;

	fill_running_process(&key.process);
	value = lock_wait_summary_slot(&key);
	if (!value)
		return;
	__sync_fetch_and_add(&value->count, 1);
	__sync_fetch_and_add(&value->failed, ret < 0);
	__sync_fetch_and_add(&value->total_ns, duration_ns);
	scope_histogram_add(&value->wait, duration_ns);
}

static __always_inline void emit(struct task_struct *task, struct lock_thread *thread, __u64 since_ns,
				 __u64 duration_ns, long ret, __u64 stack)
{
	struct lock_wait_event *event = scope_reserve(task, stream_lock_wait, since_ns, sizeof(*event));

	if (!event)
		return;
	event->duration_ns = duration_ns;
	event->address = thread->address;
	event->ret = ret;
	event->stack_id = stack;
	event->owner_tid = thread->owner_tid;
	event->has_owner = thread->owner_tid > 0;
	event->kind = thread->kind;
	event->has_timeout = thread->has_timeout;
	event->has_waker = thread->has_waker && ret >= 0 && thread->waker_pid; /* else an interrupt has woken it */
	event->waker_pid = thread->waker_pid;
	event->waker_tid = thread->waker_tid;
	__builtin_memcpy(event->waker_comm, thread->waker_comm, sizeof(event->waker_comm));
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_lock_wait, sizeof(*event));
}

SEC("tp_btf/sys_exit")
int BPF_PROG(lock_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	long nr = syscall_number(regs);
	struct lock_thread *thread;
	__u64 since_ns, duration_ns, stack;

	if (!is_call(nr, is_compat(task)))
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!thread || !thread->since_ns)
		return 0;
	since_ns = thread->since_ns;
	thread->since_ns = 0;
	duration_ns = bpf_ktime_get_boot_ns() - since_ns;
	if (!scope_summarize && duration_ns < min_ns)
		return 0;
	if (nr == CALL_FUTEX_WAITV)
		choose(thread, ret);
	stack = keep_stacks && !is_32_bit_code(regs) ? stack_of(task, regs) : 0;
	if (scope_summarize)
		count(thread, duration_ns, ret, stack);
	else
		emit(task, thread, since_ns, duration_ns, ret, stack);
	return 0;
}
