/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All differences between kernels, checked in the running kernel's BTF. Each cites the commit that made the difference.
 */
#ifndef SCOPE_CORE_FIXES_BPF_H
#define SCOPE_CORE_FIXES_BPF_H

extern void *bpf_rdonly_cast(const void *pointer, __u32 btf_id) __ksym __weak;

enum bpf_map_type___since_6_2 {
	BPF_MAP_TYPE_CGRP_STORAGE___since_6_2,
};

static __always_inline void *scope_untrusted(void *pointer, __u32 type)
{
	/* a35b9af4ec2c ("bpf: Add a kfunc for generic type cast", 6.2), the release of this type of maps */
	if (bpf_core_enum_value_exists(enum bpf_map_type___since_6_2, BPF_MAP_TYPE_CGRP_STORAGE___since_6_2))
		return bpf_rdonly_cast(pointer, type);
	return pointer;
}

/*
 * The same pointer, for loads only. Since 57539b1c0ac2 ("bpf: Enable annotating trusted nested pointers", 6.3),
 * whenever the verifier sees a pointer loaded through a trusted one, such as an argument of a tracepoint or the running
 * task, it searches the names of all types of the kernel up to four times, which takes a millisecond; not so through
 * this one.
 */
#define untrusted(pointer) ((typeof(pointer))scope_untrusted(pointer, bpf_core_type_id_kernel(typeof(*(pointer)))))

struct task_struct___before_5_14 {
	volatile long state;
} __attribute__((preserve_access_index));

/* 2f064a59a11f ("sched: Change task_struct::state", 5.14) renamed and narrowed the field. */
static __always_inline __u32 task_state(struct task_struct *task)
{
	struct task_struct___before_5_14 *old = (void *)task;

	if (bpf_core_field_exists(task->__state))
		return BPF_CORE_READ(task, __state);
	return BPF_CORE_READ(old, state);
}

struct trace_event_raw_sched_process_exit___since_6_16 {
	bool group_dead;
} __attribute__((preserve_access_index));

/*
 * "exit: move and extend sched_process_exit() tracepoint" (6.16) added an argument that says whether the thread is the
 * last.
 */
static __always_inline bool last_thread_is_told(void)
{
	return bpf_core_field_exists(struct trace_event_raw_sched_process_exit___since_6_16, group_dead);
}

/*
 * In sched_process_exit: is this the last thread of the process to exit? Kernels without the argument decrement the
 * count of threads earlier; so if several threads end at once, each may look like the last one.
 */
static __always_inline bool is_last_thread(const unsigned long long *args, struct task_struct *task)
{
	return last_thread_is_told() ? (bool)args[1] : untrusted(task)->signal->live.counter == 0;
}

/*
 * A number that changes whenever the process's mappings may have changed; 0: the kernel has none. eb449bd96954
 * ("mm: convert mm_lock_seq to a proper seqcount", 6.13) increments it at every lock for writing.
 */
static __always_inline __u32 mappings_version(struct task_struct *task)
{
	if (bpf_core_field_exists(task->mm->mm_lock_seq.sequence))
		return untrusted(task)->mm->mm_lock_seq.sequence;
	return 0;
}

enum bpf_features___since_6_17 {
	BPF_FEAT_RDONLY_CAST_TO_VOID___since_6_17,
};

/*
 * Reads words of kernel memory. Since f2362a57aeff ("bpf: allow void* cast using bpf_rdonly_cast()", 6.17), programs
 * may load them, which takes less time than the helper. False: the helper could not read them; loads then give 0.
 */
static __always_inline bool read_words(void *to, const void *from, int bytes)
{
	if (bpf_core_enum_value_exists(enum bpf_features___since_6_17, BPF_FEAT_RDONLY_CAST_TO_VOID___since_6_17)) {
		const __u64 *words = bpf_rdonly_cast(from, 0);

#pragma unroll
		for (int i = 0; i < bytes / 8; i++)
			((__u64 *)to)[i] = words[i];
		return true;
	}
	return !bpf_probe_read_kernel(to, bytes, from);
}

struct file___since_6_13 {
	struct {
		struct {
			__s64 counter;
		} refcnt;
	} f_ref;
} __attribute__((preserve_access_index));

/*
 * Does anything else than one descriptor refer to the file, such as a copy of the descriptor? 90ee6ed776c0 ("fs: port
 * files to file_ref", 6.13) replaced the count, and counts from 0.
 */
static __always_inline bool file_has_copies(struct file *file)
{
	struct file___since_6_13 *newer = (void *)file;

	if (bpf_core_field_exists(newer->f_ref))
		return BPF_CORE_READ(newer, f_ref.refcnt.counter) > 0;
	return BPF_CORE_READ(file, f_count.counter) > 1;
}

struct cgroup___before_6_1 {
	__u64 ancestor_ids[1];
} __attribute__((preserve_access_index));

/* 7f203bc89eb6 ("cgroup: Replace cgroup->ancestor_ids[] with ->ancestors[]", 6.1). */
static __always_inline __u64 cgroup_ancestor_id(struct cgroup *cgroup, __u32 level)
{
	struct cgroup___before_6_1 *old = (void *)cgroup;
	struct cgroup *ancestor = 0;
	__u64 id = 0;

	if (level > (__u32)BPF_CORE_READ(cgroup, level))
		return 0;
	if (bpf_core_field_exists(old->ancestor_ids)) {
		bpf_probe_read_kernel(&id, sizeof(id), &old->ancestor_ids[level]);
		return id;
	}
	bpf_probe_read_kernel(&ancestor, sizeof(ancestor), &cgroup->ancestors[level]);
	return ancestor ? BPF_CORE_READ(ancestor, kn, id) : 0;
}

/* In kfree_skb: c504e5c2f964 ("net: skb: introduce kfree_skb_reason()", 5.17) added the reason. 0: the kernel has none.
 */
static __always_inline __u32 drop_reason(const unsigned long long *args)
{
	return bpf_core_field_exists(struct trace_event_raw_kfree_skb, reason) ? args[2] : 0;
}

/* c53795d48ee8 ("net: add rx_sk to trace_kfree_skb", 6.11) added the socket that the packet was for. */
static __always_inline struct sock *drop_receiver(const unsigned long long *args)
{
	return bpf_core_field_exists(struct trace_event_raw_kfree_skb, rx_sk) ? (struct sock *)args[3] : NULL;
}

struct trace_event_raw_mm_vmscan_direct_reclaim_begin_template___with_cgroup {
	__u64 memcg_id;
} __attribute__((preserve_access_index));

/* In mm_vmscan_direct_reclaim_begin and mm_vmscan_memcg_reclaim_begin. Those that tell a cgroup (7.2) begin with flags.
 */
static __always_inline int reclaim_order(const unsigned long long *args)
{
	return bpf_core_field_exists(struct trace_event_raw_mm_vmscan_direct_reclaim_begin_template___with_cgroup,
				     memcg_id)
		       ? args[1]
		       : args[0];
}

/*
 * Like bpf_probe_read_user_str, which returned 0, not 1, for an empty string before "maccess: fix
 * strncpy_from_user_nofault() empty string handling" (6.13).
 */
static __always_inline long read_user_string(void *to, __u32 most, const void *from)
{
	long length = bpf_probe_read_user_str(to, most, from);

	return length ? length : 1;
}

struct mm_rss_stat___before_6_2 {
	struct {
		__s64 counter;
	} count[4];
} __attribute__((preserve_access_index));

struct mm_struct___before_6_2 {
	struct mm_rss_stat___before_6_2 rss_stat;
} __attribute__((preserve_access_index));

/*
 * Pages of an address space by kind, such as MM_ANONPAGES; what CPUs or threads have not added yet, some dozens each,
 * is missing. f1a7941243c1 ("mm: convert mm's rss stats into percpu_counter", 6.2).
 */
#define pages_of_kind(mm, kind)                                                                                        \
	({                                                                                                             \
		struct mm_struct___before_6_2 *old_mm = (void *)(mm);                                                  \
		__s64 pages_ = bpf_core_field_exists((mm)->rss_stat[kind].count)                                       \
				       ? BPF_CORE_READ(mm, rss_stat[kind].count)                                       \
				       : BPF_CORE_READ(old_mm, rss_stat.count[kind].counter);                          \
		pages_ > 0 ? (__u64)pages_ : 0;                                                                        \
	})

enum rqf_flags___since_6_12 {
	__RQF_FLUSH_SEQ___since_6_12,
};

/*
 * Is the request a flush that the block layer makes, or one that it does in steps, with flushes before or after its
 * data? "block: Use enum to define RQF_x bit indexes" (6.12) gave the bits names; before, this one was the fourth.
 */
static __always_inline bool is_in_flush_sequence(const struct request *request)
{
	__u32 bit = 4;

	if (bpf_core_enum_value_exists(enum rqf_flags___since_6_12, __RQF_FLUSH_SEQ___since_6_12))
		bit = bpf_core_enum_value(enum rqf_flags___since_6_12, __RQF_FLUSH_SEQ___since_6_12);
	return (__u32)request->rq_flags >> bit & 1;
}

/* task_struct.on_cpu is an int up to 6.18, at least, and a byte in 7.2: a plain load of an int does not fit both. */
static __always_inline bool is_on_cpu(const struct task_struct *task)
{
	return BPF_CORE_READ_BITFIELD(task, on_cpu);
}

#endif
