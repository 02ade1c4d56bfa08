/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory that is freed implicitly: with its context, or when exec replaces the program. */
#ifndef SCOPE_CUDA_IMPLICIT_BPF_H
#define SCOPE_CUDA_IMPLICIT_BPF_H

enum release { RELEASE_ALL, RELEASE_DEVICE, RELEASE_CONTEXT };

struct release_walk {
	struct task_struct *task;
	__u64 start_ns;
	__u64 context;
	__s32 pid;
	__s32 device;
	enum release what;
};

static long release_next(struct bpf_map *map, struct cuda_allocations_key *key, struct cuda_allocation *found,
			 struct release_walk *walk)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cuda_allocation was;

	if (key->pid != walk->pid || key->start_ns != walk->start_ns)
		return 0;
	if (walk->what == RELEASE_DEVICE && found->device != walk->device)
		return 0;
	if (walk->what == RELEASE_CONTEXT && found->context != walk->context)
		return 0;
	forget_allocation(task, key->address, &was, true);
	return 0;
}

/* Walks the allocations of all processes: some milliseconds for a million, but only once per program. */
static __always_inline void release(struct task_struct *task, enum release what, __s32 device, __u64 context)
{
	struct release_walk walk = {
		.start_ns = running_start_ns(), .context = context, .pid = task->tgid, .device = device, .what = what};

	bpf_for_each_map_elem(&cuda_allocations, release_next, &walk, 0);
}

#define MOST_DEVICES 16 /* searched at an exec; memory of more devices is released when the process ends */

static __always_inline bool holds_memory(struct task_struct *task)
{
	struct cuda_memory_key key = {.start_ns = running_start_ns(), .pid = task->tgid};
	struct cuda_memory_value *memory;

	for (int device = -1; device < MOST_DEVICES; device++) {
		for (int kind = CUDA_DEVICE; kind <= CUDA_MANAGED; kind++) {
			key.device_id = device;
			key.memory_id = kind;
			memory = bpf_map_lookup_elem(&cuda_memory, &key);
			if (memory && memory->live_count)
				return true;
		}
	}
	return false;
}

#endif
