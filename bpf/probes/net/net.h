/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_NET_H
#define SCOPE_NET_H

enum net_direction {
	DIRECTION_UNKNOWN, /* the connection existed before the trace */
	DIRECTION_OUTGOING,
	DIRECTION_INCOMING,
};

/* How a connection ended. */
enum net_ended {
	ENDED_NOT_YET,
	ENDED_CLOSED_HERE,
	ENDED_CLOSED_BY_PEER,
	ENDED_RESET_HERE,
	ENDED_RESET_BY_PEER,
	ENDED_TIMED_OUT,
	ENDED_CONNECT_FAILED,
};

/* include/net/tcp_states.h */
enum net_state {
	STATE_NONE,
	STATE_ESTABLISHED,
	STATE_SYN_SENT,
	STATE_SYN_RECV,
	STATE_FIN_WAIT1,
	STATE_FIN_WAIT2,
	STATE_TIME_WAIT,
	STATE_CLOSE,
	STATE_CLOSE_WAIT,
	STATE_LAST_ACK,
	STATE_LISTEN,
	STATE_CLOSING,
};

/* Both ends of a connection. */
struct net_ends {
	struct scope_address local;
	struct scope_address remote;
	__u16 local_port;
	__u16 remote_port;
	__u32 netns;
};

/* What a connection did since its last row, at the end of the interval or of the connection. */
struct connection_event {
	struct scope_header header;
	__u64 connection; /* the kernel's cookie of the socket */
	__u64 lifetime_ns;
	__u64 connect_ns; /* 0: unknown */
	__u64 established_ns;
	__u64 fin_wait1_ns;
	__u64 fin_wait2_ns;
	__u64 closing_ns;
	__u64 close_wait_ns;
	__u64 last_ack_ns;
	__u64 sent_bytes;
	__u64 received_bytes;
	__u64 retransmitted_bytes;
	__u64 srtt_ns;	  /* 0: not measured */
	__u64 min_rtt_ns; /* 0: not measured */
	struct net_ends ends;
	__u32 sent_segments;
	__u32 received_segments;
	__u32 retransmits;
	__u32 syn_retransmits;
	__u32 timeout_retransmits;
	__u32 fast_retransmits;
	__u32 probe_retransmits;
	__u32 unseen_retransmits;
	__u32 zero_windows;
	__u32 reorderings;
	__u32 out_of_order;
	__s32 error; /* -errno */
	__u32 users;
	enum net_direction direction;
	enum net_state state;
	enum net_ended ended;
	__u8 existed;
	__u8 is_first;
	__u8 is_last;
	__u8 pad[5];
};

/* Another process than the first uses a connection, for the first time. */
struct connection_user_event {
	struct scope_header header;
	__u64 connection;
	struct net_ends ends;
	__s32 first_pid;
};

struct connection_summary_key {
	struct scope_process process;
	struct scope_address remote;
	enum net_direction direction;
	__u16 port; /* the server's: of incoming connections the local one, else the remote one */
	__u8 pad[6];
};

struct connection_summary_value {
	__u64 begun;
	__u64 ended;
	__u64 failed;
	__u64 sent_bytes;
	__u64 received_bytes;
	__u64 retransmits;
	__u64 connect_count;
	__u64 connect_ns;
	__u64 rtt_count;
	__u64 rtt_ns;
	struct scope_histogram connect;
	struct scope_histogram rtt;
};

#endif
