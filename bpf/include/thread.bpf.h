/* SPDX-License-Identifier: GPL-2.0-or-later */
/* State per thread, in task storage: the cached result of the pid filter, and the probe's own members. */
#ifndef SCOPE_THREAD_BPF_H
#define SCOPE_THREAD_BPF_H

/* The first member of a probe's own struct. */
struct scope_thread {
	__u32 generation; /* of the filter at the time of the lookup */
	__u32 included;
};

/*
 * The largest state of a thread. Linux 7.2 creates no larger one, 6.18 still does: with the kernel's own head it has to
 * fit into the largest slab, of two pages (kmalloc_nolock() in mm/slub.c). A probe keeps more in several maps.
 */
#define THREAD_STATE_BYTES 8000

/* Declares the map `name`, with a `state` for each thread that one was created for. */
#define SCOPE_THREAD_STATE(name, state)                                                                                \
	_Static_assert(sizeof(state) <= THREAD_STATE_BYTES, #state " is too large");                                   \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_TASK_STORAGE);                                                               \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                                  \
		__type(key, int);                                                                                      \
		__type(value, state);                                                                                  \
	} name SEC(".maps")

/* The map of a probe's own struct. */
#define SCOPE_THREADS(state) SCOPE_THREAD_STATE(threads, state)

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
