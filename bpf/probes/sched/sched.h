/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_SCHED_H
#define SCOPE_SCHED_H

/* A thread leaves a CPU and another takes it. The header describes the leaving thread. */
struct switch_event {
	struct scope_header header;
	__u64 run_queue_ns; /* how long it had waited for the CPU; 0: unknown */
	__u64 on_cpu_ns;    /* how long it was on the CPU; 0: unknown */
	__u64 off_cpu_ns;   /* how long it had been asleep before run_queue_ns; 0: unknown, or not at all */
	__u64 next_start_ns;
	__s32 next_pid;
	__s32 next_tid;
	char next_comm[SCOPE_COMM_SIZE];
	__s32 waker_pid;
	__s32 waker_tid;
	char waker_comm[SCOPE_COMM_SIZE];
	__u32 prev_state; /* 0: still runnable; else TASK_* bits, include/linux/sched.h */
	__u8 involuntary;
	__u8 woken; /* it had been woken before it waited; else it was switched out while runnable */
	__u8 pad[2];
};

struct sched_summary_key {
	struct scope_process process;
	__s32 tid;
	char thread_comm[SCOPE_COMM_SIZE];
	__u8 pad[4];
};

struct sched_summary_value {
	__u64 on_cpu_count;
	__u64 on_cpu_ns;
	__u64 run_queue_count;
	__u64 run_queue_ns;
	__u64 off_cpu_count;
	__u64 off_cpu_ns;
	struct scope_histogram on_cpu;
	struct scope_histogram run_queue;
	struct scope_histogram off_cpu;
};

#endif
