/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include "alarms.h"

SCOPE_STREAM(alarm);

/* Who has set an alarm, by process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, __s32);
	__type(value, struct scope_identity);
} setters SEC(".maps");

/* Runs in setitimer. */
SEC("tp_btf/itimer_state")
int BPF_PROG(alarm_set, int which)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct scope_identity setter;
	__s32 pid = task->tgid;

	if (which || !scope_passes(task)) /* 0 is ITIMER_REAL */
		return 0;
	fill_identity(&setter, task);
	if (bpf_map_update_elem(&setters, &pid, &setter, BPF_ANY))
		scope_count_loss(stream_alarm, SCOPE_LOST_NO_STATE);
	return 0;
}

/* Runs in the timer's interrupt, whatever task that interrupts. */
SEC("tp_btf/itimer_expire")
int BPF_PROG(alarm_rings, int which, struct pid *pid)
{
	struct task_struct *interrupted = bpf_get_current_task_btf();
	__s32 number = BPF_CORE_READ(pid, numbers[0].nr);
	struct scope_identity *setter = bpf_map_lookup_elem(&setters, &number);
	struct alarm_event *event;

	if (which || !setter)
		return 0;
	event = scope_reserve_for(setter, stream_alarm, bpf_ktime_get_boot_ns(), sizeof(*event));
	if (!event)
		return 0;
	event->interrupted_pid = interrupted->tgid;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_alarm, sizeof(*event));
	return 0;
}
