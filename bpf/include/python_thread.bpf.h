/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The interpreter's own state of the running thread, which is searched once among the states of all threads. */
#ifndef SCOPE_PYTHON_THREAD_BPF_H
#define SCOPE_PYTHON_THREAD_BPF_H

#include "python_interpreter.bpf.h"

#define PYTHON_INTERPRETERS 8
#define PYTHON_THREADS 1024
#define PYTHON_AGAIN_NS 50000000 /* until a thread without Python is looked up again */

/* The interpreter's own state of a thread, found once. */
struct python_thread {
	__u64 state; /* address of its PyThreadState; 0: none */
	__u64 looked_ns;
};

SCOPE_THREAD_STATE(python_threads, struct python_thread);

/* What pthread_self() returns in the running thread, which is what Python keeps as the thread's id. */
static __always_inline __u64 own_thread_id(struct task_struct *task)
{
#if defined(__TARGET_ARCH_x86)
	return task->thread.fsbase;
#elif defined(__TARGET_ARCH_arm64)
	return task->thread.uw.tp_value;
#endif
}

/* The rest of a walk is in its memory. */
struct python_walk {
	const struct python_process *process;
	struct stack_memory *memory;
};

static long search_thread(__u32 index, struct python_walk *walk)
{
	const struct python_offsets *at = &walk->process->at;
	struct python_position *search = &walk->memory->python;

	if (!search->state || word_at(search->state + at->thread_id) == search->thread_id)
		return 1;
	search->state = word_at(search->state + at->next_thread);
	return 0;
}

static long search_interpreter(__u32 index, struct python_walk *walk)
{
	const struct python_offsets *at = &walk->process->at;
	struct python_position *search = &walk->memory->python;

	if (!search->interpreter)
		return 1;
	search->state = word_at(search->interpreter + at->threads);
	bpf_loop(PYTHON_THREADS, search_thread, walk, 0);
	if (search->state && word_at(search->state + at->thread_id) == search->thread_id)
		return 1;
	search->state = 0; /* there are more threads than were looked at */
	search->interpreter = word_at(search->interpreter + at->next_interpreter);
	return 0;
}

/* The PyThreadState of the running thread; 0: it has none, or there is no memory. */
static __always_inline __u64 thread_state_of(struct task_struct *task, struct python_walk *walk)
{
	const struct python_process *process = walk->process;
	struct python_position *search = &walk->memory->python;
	struct python_thread *thread = bpf_task_storage_get(&python_threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	__u64 now_ns = bpf_ktime_get_boot_ns();

	search->thread_id = own_thread_id(task);
	if (!thread || !search->thread_id)
		return 0;
	if (thread->state && word_at(thread->state + process->at.thread_id) == search->thread_id)
		return thread->state;
	if (!thread->state && now_ns - thread->looked_ns < PYTHON_AGAIN_NS)
		return 0;
	search->state = 0;
	search->interpreter = word_at(process->runtime + process->at.interpreters);
	bpf_loop(PYTHON_INTERPRETERS, search_interpreter, walk, 0);
	thread->state = search->state;
	thread->looked_ns = now_ns;
	return search->state;
}

#endif
