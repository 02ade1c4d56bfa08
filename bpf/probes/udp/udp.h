/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_UDP_H
#define SCOPE_UDP_H

/* Who sent the first datagram. */
enum udp_direction {
	DIRECTION_UNKNOWN, /* the socket existed before the trace */
	DIRECTION_OUTGOING,
	DIRECTION_INCOMING,
};

/* How a flow ended. */
enum udp_ended {
	ENDED_NOT_YET,
	ENDED_CLOSED,
	ENDED_IDLE,
};

/* What a socket and a peer sent each other since the flow's last row. */
struct udp_flow_event {
	struct scope_header header;
	__u64 socket;	   /* the kernel's cookie */
	__u64 lifetime_ns; /* from the first datagram to the last one */
	__u64 sent_datagrams;
	__u64 sent_bytes;
	__u64 received_datagrams;
	__u64 received_bytes;
	__u64 dropped_datagrams;
	__u64 errors;
	struct scope_address local;
	struct scope_address remote;
	__u16 local_port;
	__u16 remote_port;
	__u32 netns; /* 0: unknown */
	__s32 error; /* -errno */
	enum udp_direction direction;
	enum udp_ended ended;
	__u8 is_first;
	__u8 is_last;
	__u8 tells_drops;
	__u8 pad[1];
};

struct udp_summary_key {
	struct scope_process process;
	struct scope_address remote;
	enum udp_direction direction;
	__u16 port; /* the server's: of incoming flows the local one, else the remote one */
	__u8 pad[6];
};

struct udp_summary_value {
	__u64 begun;
	__u64 ended;
	__u64 sent_datagrams;
	__u64 sent_bytes;
	__u64 received_datagrams;
	__u64 received_bytes;
	__u64 dropped_datagrams;
	__u64 errors;
};

#endif
