/* SPDX-License-Identifier: GPL-2.0-or-later */
#define STACK_UNWOUND

#include "scope.bpf.h"

#include "calls.bpf.h"
#include "held.bpf.h"
#include "stack.bpf.h"
#include "unseen.bpf.h"

#include "memory.h"

SCOPE_STREAM(mapping);
SCOPE_STREAM(reclaim);
SCOPE_STREAM(oom_kill);
SCOPE_HELD(memory_faults, 65536);

const volatile bool keep_stacks;

#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

struct memory_thread {
	struct scope_thread thread;
	__u64 fault; /* error code of a fault of the program that is not served yet, with FAULT_OPEN */
	__u64 call_args[4];
	__u64 total_pages;
	__u64 brk;
	__u64 reclaim_ns[3]; /* by enum reclaim_kind: since when; 0: not */
	__s32 order;	     /* of the stall */
	__u32 called;	     /* enum mapping_call, plus one; 0: none */
	struct stack_memory stacks;
};

SCOPE_THREADS(struct memory_thread);

/* The state of the running thread; NULL if it is not watched, or if there is no memory, which is counted. */
static __always_inline struct memory_thread *watched(struct task_struct *task, __u16 stream)
{
	struct memory_thread *thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (thread)
		return scope_thread_passes(task, &thread->thread) ? thread : NULL;
	if (scope_passes(task))
		scope_count_loss(stream, SCOPE_LOST_NO_STATE);
	return NULL;
}

#include "faults.bpf.h"
#include "mappings.bpf.h"
#include "pressure.bpf.h"
#include "resident.bpf.h"
