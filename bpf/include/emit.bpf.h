/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The only way for events to leave the kernel. CPUs use several rings, since the producers of a ring share its lock.
 * Every event is counted as emitted; every lost event is counted by reason.
 */
#ifndef SCOPE_EMIT_BPF_H
#define SCOPE_EMIT_BPF_H

/*
 * Keeps a struct or enum in the object's BTF for user space: compilers leave out types that no variable has. The
 * pointer is never used.
 */
#define SCOPE_SHARED(kind, name) const kind name *const shared_##name __attribute__((used)) = 0

enum scope_loss {
	SCOPE_LOST_RING_FULL, /* the ring was full: user space was too slow */
	SCOPE_LOST_NO_STATE,  /* no memory for the state of a thread, socket or flow, or no access to it */
	SCOPE_LOST_MAP_FULL,  /* a map with a size was full: a summary's, or a probe's own */
	SCOPE_LOST_FOLLOW,    /* a child could not be marked as watched: scope_pids is full */
	SCOPE_LOST_LEFT,      /* a call never returned, because of an exception, longjmp() or exec */
	SCOPE_LOST_TOO_DEEP,  /* a call was nested deeper than the thread's frames */
	SCOPE_LOSS_REASONS,
};

SCOPE_SHARED(enum, scope_loss);

struct scope_account {
	__u64 emitted; /* events that passed the filter, including lost events */
	__u64 lost[SCOPE_LOSS_REASONS];
	__u64 incomplete; /* emitted events that lack a part, see scope_bpf.capture.account */
};

/* Per stream and CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* replaced at load */
	__type(key, __u32);
	__type(value, struct scope_account);
} scope_accounts SEC(".maps");

struct scope_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096); /* replaced at load */
};

/* Filled at load: slot i is the ring of all CPUs whose number, masked with scope_ring_mask, is i. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1); /* replaced at load */
	__type(key, __u32);
	__array(values, struct scope_ring);
} scope_rings SEC(".maps");

const volatile __u32 scope_ring_mask;	 /* number of rings, a power of two, minus one */
const volatile __u32 scope_wakeup_bytes; /* wake the reader after this many bytes in a ring */

#define SCOPE_MOST_RINGS 16

/* Per ring, each in its own cache line: bytes written since the reader was woken, by all streams and CPUs. */
struct scope_unsignalled {
	__u64 bytes;
	__u64 pad[7];
};

struct scope_unsignalled scope_unsignalled[SCOPE_MOST_RINGS] SEC(".data.rings");

/* Declares an event stream with records struct NAME_event; its number is set at load. */
#define SCOPE_STREAM(name)                                                                                             \
	const volatile __u16 stream_##name;                                                                            \
	SCOPE_SHARED(struct, name##_event)

/* Additions are atomic: an interrupt may emit in between. */
static __always_inline void scope_count_loss(__u32 stream, enum scope_loss reason)
{
	struct scope_account *account = bpf_map_lookup_elem(&scope_accounts, &stream);

	if (!account)
		return;
	__sync_fetch_and_add(&account->emitted, 1);
	__sync_fetch_and_add(&account->lost[reason], 1);
}

static __always_inline void scope_count_incomplete(__u32 stream)
{
	struct scope_account *account = bpf_map_lookup_elem(&scope_accounts, &stream);

	if (account)
		__sync_fetch_and_add(&account->incomplete, 1);
}

static __always_inline void *scope_this_ring(void)
{
	__u32 slot = bpf_get_smp_processor_id() & scope_ring_mask;

	return bpf_map_lookup_elem(&scope_rings, &slot);
}

/* The wakeup flag for an event of this size: wakes the reader if enough bytes wait. */
static __always_inline __u64 scope_signal(__u32 size)
{
	__u32 slot = bpf_get_smp_processor_id() & scope_ring_mask & (SCOPE_MOST_RINGS - 1);
	__u64 *bytes = &scope_unsignalled[slot].bytes;

	if (__sync_fetch_and_add(bytes, size) + size < scope_wakeup_bytes)
		return BPF_RB_NO_WAKEUP;
	*bytes = 0;
	return BPF_RB_FORCE_WAKEUP;
}

static __always_inline void scope_fill_header(struct scope_header *header, struct task_struct *task, __u16 stream,
					      __u64 ktime_ns)
{
	header->ktime_ns = ktime_ns;
	header->start_ns = task_start_ns(task);
	header->cgroup_id = task_cgroup_id(task);
	header->pid = task->tgid;
	header->tid = task->pid;
	header->uid = untrusted(task)->cred->uid.val;
	header->cpu = bpf_get_smp_processor_id();
	header->stream = stream;
	copy_comm(header->comm, task);
}

/* The header of an event for the process `whose`; NULL: for no process. */
static __always_inline void scope_fill_header_for(struct scope_header *header, const struct scope_identity *whose,
						  __u16 stream, __u64 ktime_ns)
{
	static const struct scope_identity nobody;

	if (!whose)
		whose = &nobody;
	header->ktime_ns = ktime_ns;
	header->start_ns = whose->start_ns;
	header->cgroup_id = whose->cgroup_id;
	header->pid = whose->pid;
	header->tid = whose->tid;
	header->uid = whose->uid;
	header->cpu = bpf_get_smp_processor_id();
	header->stream = stream;
	__builtin_memcpy(header->comm, whose->comm, sizeof(header->comm));
}

static __always_inline void *scope_room(__u16 stream, __u32 size)
{
	void *ring = scope_this_ring(), *event;

	if (!ring)
		return NULL;
	event = bpf_ringbuf_reserve(ring, size, 0);
	if (!event)
		scope_count_loss(stream, SCOPE_LOST_RING_FULL);
	return event;
}

/* Reserves an event of a fixed size and fills its header. NULL: the ring is full; the loss was counted. */
static __always_inline void *scope_reserve(struct task_struct *task, __u16 stream, __u64 ktime_ns, __u32 size)
{
	struct scope_header *event = scope_room(stream, size);

	if (event)
		scope_fill_header(event, task, stream, ktime_ns);
	return event;
}

/* Like scope_reserve, for the process `whose`, which may not be the running one; NULL: for no process. */
static __always_inline void *scope_reserve_for(const struct scope_identity *whose, __u16 stream, __u64 ktime_ns,
					       __u32 size)
{
	struct scope_header *event = scope_room(stream, size);

	if (event)
		scope_fill_header_for(event, whose, stream, ktime_ns);
	return event;
}

static __always_inline void scope_submit(void *event, __u32 stream, __u32 size)
{
	struct scope_account *account = bpf_map_lookup_elem(&scope_accounts, &stream);

	if (account)
		__sync_fetch_and_add(&account->emitted, 1);
	bpf_ringbuf_submit(event, scope_signal(size));
}

static __always_inline void scope_output_filled(struct scope_header *event, __u32 stream, __u32 size)
{
	struct scope_account *account = bpf_map_lookup_elem(&scope_accounts, &stream);
	void *ring = scope_this_ring();

	if (!ring || !account)
		return;
	if (bpf_ringbuf_output(ring, event, size, scope_signal(size)))
		scope_count_loss(stream, SCOPE_LOST_RING_FULL);
	else
		__sync_fetch_and_add(&account->emitted, 1);
}

/* Emits an event with a tail. It was composed in other memory, since a ring can only reserve constant sizes. */
static __always_inline void scope_output(struct scope_header *event, struct task_struct *task, __u32 stream,
					 __u64 ktime_ns, __u32 size)
{
	scope_fill_header(event, task, stream, ktime_ns);
	scope_output_filled(event, stream, size);
}

/* Like scope_output, for the process `whose`, which may not be the running one; NULL: for no process. */
static __always_inline void scope_output_for(struct scope_header *event, const struct scope_identity *whose,
					     __u32 stream, __u64 ktime_ns, __u32 size)
{
	scope_fill_header_for(event, whose, stream, ktime_ns);
	scope_output_filled(event, stream, size);
}

#endif
