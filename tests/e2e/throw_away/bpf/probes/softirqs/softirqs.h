/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_SOFTIRQS_H
#define SCOPE_SOFTIRQS_H

enum softirq_kind { /* as the kernel numbers them, include/linux/interrupt.h */
		    SOFTIRQ_HI,
		    SOFTIRQ_TIMER,
		    SOFTIRQ_NET_TX,
		    SOFTIRQ_NET_RX,
		    SOFTIRQ_BLOCK,
		    SOFTIRQ_IRQ_POLL,
		    SOFTIRQ_TASKLET,
		    SOFTIRQ_SCHED,
		    SOFTIRQ_HRTIMER,
}; /* RCU, the last one, is left without a name */

struct softirq_event {
	struct scope_header header;
	enum softirq_kind kind;
	__u8 pad[4];
};

struct softirq_summary_key {
	enum softirq_kind kind;
};

struct softirq_summary_value {
	__u64 count;
};

#endif
