/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where threads spend their time: samples of their stacks on a CPU, and their stacks whenever they leave it. */
#define STACK_FRAMES 128
#define STACK_PYTHON_FRAMES 128
#define STACK_KERNEL_FRAMES 64

#include "scope.bpf.h"

#include "calls.bpf.h"
#include "stack.bpf.h"

#include "profile.h"

SCOPE_STREAM(profile);
SCOPE_SUMMARY(profile_summary);
SCOPE_SHARED(enum, profile_part);

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

const volatile __u64 min_ns; /* record only times off a CPU that last as long */

struct profile_thread {
	struct scope_thread thread;
	__u64 off_since_ns; /* 0: it runs, or this is unknown */
	__u64 woken_ns;	    /* 0: not yet, or it was runnable all the time */
	__u64 stack_id;
	bool blocked;
};

SCOPE_THREADS(struct profile_thread);

/* Interrupts are off while a program here runs, so one memory per CPU is enough. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_memory);
} profile_stacks SEC(".maps");

/* Walks the user stack of the running thread, from where it entered the kernel. Returns the hash. */
__noinline __u64 walk_interrupted(struct stack_memory *memory)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct user_frame frame = {};
	struct pt_regs *regs;
	__u64 hash, unwound;

	if (!memory) /* never NULL, but the verifier does not know */
		return 0;
	hash = mix(running_start_ns(), 0);
	if (task->mm && !(task->flags & PF_KTHREAD)) {
		regs = (struct pt_regs *)bpf_task_pt_regs(task);
		frame.outer = PT_REGS_FP(regs);
		frame.return_address = PT_REGS_IP(regs) + 1; /* like a return address, after the instruction */
		unwound = unwind_stack(memory, frame.return_address, PT_REGS_SP(regs), frame.outer, hash);
		if (unwound)
			return walk_python(memory, unwound);
	}
	hash = walk_frames(memory, frame, 0, hash);
	return walk_python(memory, hash);
}

/* The running thread's stack, in the kernel too; 0: not kept. */
static __always_inline __u64 find_stack(void *ctx, struct task_struct *task, enum scope_stack_flag flag)
{
	__u32 zero = 0, depth;
	struct stack_memory *memory = bpf_map_lookup_elem(&profile_stacks, &zero);
	struct scope_stack *stack;
	__u64 hash;
	long bytes;

	if (!memory)
		return 0;
	stack = &memory->walked;
	hash = walk_interrupted(memory);
	stack->flags |= flag;
	bytes = bpf_get_stack(ctx, stack->kernel, sizeof(stack->kernel), 0);
	depth = bytes > 0 ? bytes / sizeof(__u64) : 0;
	for (__u32 i = 0; i < STACK_KERNEL_FRAMES; i++) {
		if (i >= depth)
			break;
		hash = mix(hash, stack->kernel[i]);
	}
	stack->kernel_depth = depth;
	if (depth == STACK_KERNEL_FRAMES)
		stack->flags |= STACK_CUT_KERNEL;
	return put_stack(task, memory, hash, scope_summarize ? stream_profile_summary : stream_profile);
}

static __always_inline void record(struct task_struct *task, enum profile_part part, __u64 since_ns, __u64 duration_ns,
				   __u64 stack_id)
{
	struct profile_summary_key key = {.stack_id = stack_id, .part_id = part};
	struct profile_summary_value *value;
	struct profile_event *event;

	if (!scope_summarize) {
		event = scope_reserve(task, stream_profile, since_ns, sizeof(*event));
		if (!event)
			return;
		event->duration_ns = duration_ns;
		event->stack_id = stack_id;
		event->part_id = part;
		event->pad = 0;
		scope_submit(event, stream_profile, sizeof(*event));
		return;
	}
	fill_process(&key.process, task);
	copy_comm(key.thread_comm, task);
	value = profile_summary_slot(&key);
	if (!value)
		return;
	__sync_fetch_and_add(&value->count, 1);
	__sync_fetch_and_add(&value->total_ns, duration_ns);
}

SEC("perf_event")
int profile_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (!task->pid || !scope_passes(task)) /* pid 0: a CPU without work */
		return 0;
	record(task, PROFILE_ON_CPU, bpf_ktime_get_boot_ns(), ctx->sample_period, find_stack(ctx, task, 0));
	return 0;
}

static __always_inline struct profile_thread *watched(struct task_struct *task)
{
	struct profile_thread *thread;

	if (!task->pid)
		return NULL;
	thread = scope_other_thread(&threads, task);
	if (thread)
		return scope_thread_passes(task, &thread->thread) ? thread : NULL;
	if (scope_passes(task))
		scope_count_loss(scope_summarize ? stream_profile_summary : stream_profile, SCOPE_LOST_NO_STATE);
	return NULL;
}

/* A thread is back on a CPU: it was blocked until it was woken, and then waited for the CPU. */
static __always_inline void returned(struct task_struct *task, struct profile_thread *thread, __u64 now_ns)
{
	__u64 runnable_ns = thread->blocked ? thread->woken_ns : thread->off_since_ns;

	if (now_ns - thread->off_since_ns < min_ns)
		return;
	if (!runnable_ns || runnable_ns > now_ns)
		runnable_ns = now_ns;
	if (thread->blocked)
		record(task, PROFILE_BLOCKED, thread->off_since_ns, runnable_ns - thread->off_since_ns,
		       thread->stack_id);
	if (runnable_ns < now_ns)
		record(task, PROFILE_RUN_QUEUE, runnable_ns, now_ns - runnable_ns, thread->stack_id);
}

SEC("tp_btf/sched_switch")
int BPF_PROG(profile_switch, bool preempted, struct task_struct *prev, struct task_struct *next)
{
	struct profile_thread *leaving = watched(prev), *arriving = watched(next);
	__u64 now_ns = bpf_ktime_get_boot_ns();

	if (leaving) {
		leaving->blocked = !preempted && task_state(prev);
		leaving->woken_ns = 0;
		leaving->off_since_ns = now_ns;
		leaving->stack_id = find_stack(ctx, prev, STACK_AT_SWITCH);
	}
	if (arriving && arriving->off_since_ns) {
		returned(next, arriving, now_ns);
		arriving->off_since_ns = 0;
	}
	return 0;
}

SEC("tp_btf/sched_wakeup")
int BPF_PROG(profile_wakeup, struct task_struct *task)
{
	struct profile_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (thread && thread->off_since_ns && !thread->woken_ns)
		thread->woken_ns = bpf_ktime_get_boot_ns();
	return 0;
}
