/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Lack of memory: threads that make room themselves, and processes that are killed. */
#ifndef SCOPE_MEMORY_PRESSURE_BPF_H
#define SCOPE_MEMORY_PRESSURE_BPF_H

#define NO_ORDER -1 /* the kernel's, too, of a thread that wants no memory */

static __always_inline int stall_begins(enum reclaim_kind kind, int order)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_thread *thread;

	if (task->flags & PF_KTHREAD) /* kcompactd: no program waits for it */
		return 0;
	thread = watched(task, stream_reclaim);
	if (!thread)
		return 0;
	thread->reclaim_ns[kind] = bpf_ktime_get_boot_ns();
	thread->order = order;
	return 0;
}

static __always_inline int stall_ends(enum reclaim_kind kind, __u64 pages, bool has_pages)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	struct reclaim_event *event;
	__u64 since_ns;

	if (!thread || !thread->reclaim_ns[kind])
		return 0;
	since_ns = thread->reclaim_ns[kind];
	thread->reclaim_ns[kind] = 0;
	event = scope_reserve(task, stream_reclaim, since_ns, sizeof(*event));
	if (!event)
		return 0;
	event->duration_ns = bpf_ktime_get_boot_ns() - since_ns;
	event->reclaimed_bytes = pages << scope_page_shift;
	event->kind = kind;
	event->has_order = thread->order != NO_ORDER;
	event->order = event->has_order ? thread->order : 0;
	event->has_reclaimed = has_pages;
	event->pad = 0;
	scope_submit(event, stream_reclaim, sizeof(*event));
	return 0;
}

SEC("tp_btf/mm_vmscan_direct_reclaim_begin")
int BPF_PROG(reclaim_begins)
{
	return stall_begins(RECLAIM_KIND_MACHINE, reclaim_order(ctx));
}

SEC("tp_btf/mm_vmscan_direct_reclaim_end")
int BPF_PROG(reclaim_ends, unsigned long pages)
{
	return stall_ends(RECLAIM_KIND_MACHINE, pages, true);
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_begin")
int BPF_PROG(reclaim_of_cgroup_begins)
{
	return stall_begins(RECLAIM_KIND_CGROUP, reclaim_order(ctx));
}

SEC("tp_btf/mm_vmscan_memcg_reclaim_end")
int BPF_PROG(reclaim_of_cgroup_ends, unsigned long pages)
{
	return stall_ends(RECLAIM_KIND_CGROUP, pages, true);
}

/* Runs for each zone of memory that a thread goes through. */
SEC("tp_btf/mm_compaction_begin")
int BPF_PROG(compaction_begins)
{
	return stall_begins(RECLAIM_KIND_COMPACTION, NO_ORDER);
}

/* Runs between begin and end, once or more, where the kernel looks whether it has done enough: it says for what. */
SEC("tp_btf/mm_compaction_finished")
int BPF_PROG(compaction_goes_on, struct zone *zone, int order)
{
	struct memory_thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);

	if (thread && thread->reclaim_ns[RECLAIM_KIND_COMPACTION])
		thread->order = order;
	return 0;
}

SEC("tp_btf/mm_compaction_end")
int BPF_PROG(compaction_ends)
{
	return stall_ends(RECLAIM_KIND_COMPACTION, 0, false);
}

#define DEEPEST_CGROUP 8
#define CHARGED_AHEAD 64 /* pages: MEMCG_CHARGE_BATCH */

/* The limit that the victim's cgroup, or one around it, has reached; none: the machine has too little memory. */
static __always_inline void find_limit(struct task_struct *victim, struct oom_kill_event *event)
{
	__u32 number = bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id);
	struct cgroup_subsys_state *state = BPF_CORE_READ(victim, cgroups, subsys[number]);

	for (int i = 0; i < DEEPEST_CGROUP && state; i++) {
		struct mem_cgroup *group = (void *)state; /* its first member is the state */
		__u64 usage = BPF_CORE_READ(group, memory.usage.counter), limit = BPF_CORE_READ(group, memory.max);

		if (usage + CHARGED_AHEAD >= limit) {
			event->reason = OOM_REASON_CGROUP;
			event->usage_bytes = usage << scope_page_shift;
			event->limit_bytes = limit << scope_page_shift;
			event->limited_cgroup_id = BPF_CORE_READ(group, css.cgroup, kn, id);
			return;
		}
		state = BPF_CORE_READ(state, parent);
	}
}

static __always_inline int kill(struct task_struct *victim)
{
	struct task_struct *trigger = bpf_get_current_task_btf();
	struct oom_kill_event *event;

	if (!scope_passes(victim) && !scope_passes(trigger))
		return 0;
	event = scope_reserve(victim, stream_oom_kill, bpf_ktime_get_boot_ns(), sizeof(*event));
	if (!event)
		return 0;
	event->total_bytes = BPF_CORE_READ(victim, mm, total_vm) << scope_page_shift;
	event->limit_bytes = event->usage_bytes = event->limited_cgroup_id = 0;
	event->reason = OOM_REASON_MACHINE;
	event->trigger_pid = trigger->tgid;
	event->trigger_tid = trigger->pid;
	event->score_adj = BPF_CORE_READ(victim, signal, oom_score_adj);
	copy_comm(event->trigger_comm, trigger);
	find_limit(victim, event);
	scope_submit(event, stream_oom_kill, sizeof(*event));
	return 0;
}

/* Runs where the kernel has chosen a victim. Since 72ba14deb40a ("mm: update mark_victim tracepoints fields", 6.8). */
SEC("tp_btf/mark_victim")
int BPF_PROG(oom_killed, struct task_struct *victim)
{
	return kill(victim);
}

/* The function around that tracepoint, which in older kernels has the pid alone. It also runs for one that has died. */
SEC("fentry/mark_oom_victim")
int BPF_PROG(oom_kills, struct task_struct *victim)
{
	return BPF_CORE_READ(victim, signal, oom_mm) ? 0 : kill(victim);
}

/* For older kernels that refuse fentry. */
SEC("raw_tp/mark_victim")
int BPF_PROG(oom_kill_unseen, int victim_pid)
{
	if (scope_passes(bpf_get_current_task_btf()) || scope_tgid_passes(victim_pid))
		scope_count_unseen(SCOPE_UNSEEN_KILLS, 1);
	return 0;
}

#endif
