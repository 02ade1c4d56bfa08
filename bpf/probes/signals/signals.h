/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_SIGNALS_H
#define SCOPE_SIGNALS_H

/* What becomes of a signal: include/trace/events/signal.h. */
enum signal_result {
	SIGNAL_DELIVERED, /* it is pending now, or ends the process */
	SIGNAL_IGNORED,
	SIGNAL_ALREADY_PENDING,
	SIGNAL_NO_ROOM,	  /* the queue of a real-time signal was full, and the sender was told */
	SIGNAL_LOST_INFO, /* it is pending, without the sender */
};

/* A signal that is sent. The header describes the receiver. */
struct signal_event {
	struct scope_header header;
	__u64 sender_start_ns;
	__s32 sender_pid;
	__s32 sender_tid;
	__u32 sender_uid;
	__s32 signal;
	__s32 code;
	enum signal_result result;
	char sender_comm[SCOPE_COMM_SIZE];
	__u8 by_process; /* else the kernel: a timer, a fault, the out-of-memory killer */
	__u8 to_thread;
	__u8 pad[6];
};

#endif
