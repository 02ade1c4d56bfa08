/* SPDX-License-Identifier: GPL-2.0-or-later */
/* State per thread, in task storage: the cached result of the pid filter, and the probe's own members. */
#ifndef SCOPE_THREAD_BPF_H
#define SCOPE_THREAD_BPF_H

/* The first member of a probe's own struct. */
struct scope_thread {
	__u32 generation; /* of the filter at the time of the lookup */
	__u32 included;
};

/* Declares the map `threads`, with one `state` per thread. */
#define SCOPE_THREADS(state)                                                                                           \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_TASK_STORAGE);                                                               \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                                  \
		__type(key, int);                                                                                      \
		__type(value, state);                                                                                  \
	} threads SEC(".maps")

/* The state of a thread that may not be the running one: another CPU may be creating it now. NULL: no memory. */
static __always_inline void *scope_other_thread(void *map, struct task_struct *task)
{
	void *state = bpf_task_storage_get(map, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	return state ? state : bpf_task_storage_get(map, task, 0, 0);
}

static __always_inline bool scope_thread_passes(struct task_struct *task, struct scope_thread *thread)
{
	if (thread->generation != scope_filter.generation) {
		thread->included = scope_pid_passes(task);
		thread->generation = scope_filter.generation;
	}
	return thread->included && scope_changeable_passes(task);
}

#endif
