/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_LISTENERS_H
#define SCOPE_LISTENERS_H

/* A socket that listens: its queues now, and what it dropped since its last row. */
struct listener_event {
	struct scope_header header;
	__u64 socket; /* the kernel's cookie */
	struct scope_address local;
	__u16 local_port;
	__u8 is_first;
	__u8 is_last;
	__u32 netns;
	__u32 queued;
	__u32 queue_limit;
	__u32 shaking_hands;
	__u32 dropped;
	__u8 is_full;
	__u8 pad[7];
};

#endif
