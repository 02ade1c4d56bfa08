/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Owners: the process that a socket or a disk request belongs to. Interrupts handle packets and requests, whatever task
 * they interrupt. So a probe keeps the owner with the socket or request, and sets it where a thread of the owner runs.
 */
#ifndef SCOPE_OWNER_BPF_H
#define SCOPE_OWNER_BPF_H

enum scope_owner_state {
	SCOPE_OWNER_UNKNOWN,
	SCOPE_OWNER_CHANGING, /* another CPU writes it */
	SCOPE_OWNER_KNOWN,
};

/* The first member of a probe's own struct. */
struct scope_owner {
	struct scope_identity whose;
	__u64 cgroup;	  /* address of its cgroup, which may be gone */
	__u64 exe_inode;  /* address of its executable's inode, as in the filter */
	__u32 state;	  /* enum scope_owner_state */
	__u32 generation; /* of the filter when it was asked about the owner */
	__u32 included;	  /* the filter's answer */
	__u8 pad[4];
};

/* Declares the map `sockets`, with one `value` per socket that lasts as long as the socket. */
#define SCOPE_SOCKETS(value_type)                                                                                      \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_SK_STORAGE);                                                                 \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                                  \
		__type(key, int);                                                                                      \
		__type(value, value_type);                                                                             \
	} sockets SEC(".maps")

/* Declares the map `requests`, by the address of the request; the probe deletes ended requests. */
#define SCOPE_REQUESTS(value_type, entries)                                                                            \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_HASH);                                                                       \
		__uint(max_entries, entries);                                                                          \
		__type(key, __u64);                                                                                    \
		__type(value, value_type);                                                                             \
	} requests SEC(".maps")

/* Set by user space while an iter program settles: 1 if the trace ends, so that all rows are due. */
bool scope_settles_all SEC(".data.settle");

/* The socket that an iterator over open files visits; NULL: it is another file, or the end. */
static __always_inline struct sock *scope_visited_socket(struct bpf_iter__task_file *ctx)
{
	struct file *file = ctx->file;
	struct socket *socket;

	socket = file ? bpf_sock_from_file(file) : NULL;
	return socket ? socket->sk : NULL;
}

/* The value of a socket, made if there is none; another CPU may be making it now. NULL: no memory. */
static __always_inline void *scope_new_socket(void *map, struct sock *socket)
{
	void *value = bpf_sk_storage_get(map, socket, 0, BPF_SK_STORAGE_GET_F_CREATE);

	return value ? value : bpf_sk_storage_get(map, socket, 0, 0);
}

/* False: another CPU is just changing the owner. */
static __always_inline bool scope_begins_change(struct scope_owner *owner)
{
	__u32 state = owner->state;

	return state != SCOPE_OWNER_CHANGING &&
	       __sync_val_compare_and_swap(&owner->state, state, SCOPE_OWNER_CHANGING) == state;
}

/* Makes the task's process the owner, unless another CPU is just changing the owner. */
static __always_inline void scope_own(struct scope_owner *owner, struct task_struct *task)
{
	__u32 generation = scope_filter.generation;

	if (!scope_begins_change(owner))
		return;
	fill_identity(&owner->whose, task);
	owner->cgroup = (__u64)untrusted(task)->cgroups->dfl_cgrp;
	owner->exe_inode = scope_exe_of(task);
	owner->included = scope_passes(task);
	owner->generation = generation;
	barrier();
	owner->state = SCOPE_OWNER_KNOWN;
}

/* Makes another owner's process the owner, unless another CPU is just changing it. */
static __always_inline void scope_own_as(struct scope_owner *owner, const struct scope_owner *other)
{
	if (!scope_begins_change(owner))
		return;
	owner->whose = other->whose;
	owner->cgroup = other->cgroup;
	owner->exe_inode = other->exe_inode;
	owner->included = other->included;
	owner->generation = other->generation;
	barrier();
	owner->state = SCOPE_OWNER_KNOWN;
}

/* Is the owner this task's process, as the filter knows it now? */
static __always_inline bool scope_is_owner(const struct scope_owner *owner, struct task_struct *task)
{
	return owner->state == SCOPE_OWNER_KNOWN && owner->whose.pid == task->tgid &&
	       owner->generation == scope_filter.generation;
}

/* A cgroup that is gone no longer has its id at its address: then the filter has no such cgroup either. */
static __always_inline bool scope_owner_cgroup_passes(const struct scope_owner *owner)
{
	struct cgroup *cgroup = (void *)owner->cgroup;

	return BPF_CORE_READ(cgroup, kn, id) == owner->whose.cgroup_id &&
	       cgroup_ancestor_id(cgroup, scope_filter.cgroup_level) == scope_filter.cgroup_id;
}

static __always_inline bool scope_ask_about(const struct scope_owner *owner)
{
	if (!scope_tgid_passes(owner->whose.pid))
		return false;
	if (scope_filter.by_comm && !scope_name_passes(owner->whose.comm))
		return false;
	if (scope_filter.exe_inode && scope_filter.exe_inode != owner->exe_inode)
		return false;
	return !scope_filter.by_cgroup || scope_owner_cgroup_passes(owner);
}

/*
 * Is the owner watched? The filter's answer is kept, since a process may end before its sockets do, and asked for again
 * once the filter has changed. Without an owner, only traces of the whole machine watch the socket or request.
 */
static __always_inline bool scope_owner_passes(struct scope_owner *owner)
{
	__u32 generation = scope_filter.generation;

	if (owner->state != SCOPE_OWNER_KNOWN)
		return scope_nobody_passes();
	if (owner->generation != generation) {
		owner->included = scope_ask_about(owner);
		owner->generation = generation;
	}
	return owner->included;
}

/* Like scope_reserve, for the owner. An event without an owner has no process and is counted as incomplete. */
static __always_inline void *scope_reserve_owned(const struct scope_owner *owner, __u16 stream, __u64 ktime_ns,
						 __u32 size)
{
	bool known = owner->state == SCOPE_OWNER_KNOWN;
	void *event = scope_reserve_for(known ? &owner->whose : NULL, stream, ktime_ns, size);

	if (event && !known)
		scope_count_incomplete(stream);
	return event;
}

#endif
