/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is kept of sockets and of their flows, and how it is told: in a row, or in the summary. */
#ifndef SCOPE_UDP_FLOW_BPF_H
#define SCOPE_UDP_FLOW_BPF_H

#define MOST_SOCKETS 65536
#define MOST_FLOWS 65536

enum udp_count {
	COUNT_SENT,
	COUNT_SENT_BYTES,
	COUNT_RECEIVED,
	COUNT_RECEIVED_BYTES,
	COUNT_DROPPED,
	COUNT_ERRORS,
	COUNTS,
};

struct udp_peer {
	struct scope_address remote;
	__u16 remote_port;
	__u8 pad[2];
};

struct udp_flow_key {
	__u64 socket; /* its cookie */
	struct udp_peer peer;
};

struct udp_flow {
	__u64 began_ns;
	__u64 last_ns;
	__u64 told_ns;	      /* when the last row was emitted */
	__u64 counts[COUNTS]; /* since then */
	struct scope_address local;
	__u16 local_port;
	__u8 direction; /* enum udp_direction */
	__u8 rows;	/* 1: there was one */
	__s32 error;	/* the last one */
};

/* A socket of a process. Those of the kernel, such as VXLAN's, are not kept. */
struct udp_socket {
	struct scope_owner owner;
	__u64 closed_ns;
	struct udp_peer first; /* of the first flow */
	__u32 flows;
	__u32 netns;
	__u8 existed; /* before the trace */
	__u8 pad[7];
};

/* By cookie. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST_SOCKETS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct udp_socket);
} sockets SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MOST_FLOWS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct udp_flow_key);
	__type(value, struct udp_flow);
} flows SEC(".maps");

static struct scope_owner nobody; /* of the kernel's sockets */

static __always_inline struct scope_owner *owner_of(struct udp_socket *socket)
{
	return socket ? &socket->owner : &nobody;
}

static __always_inline struct udp_summary_value *summary_of(const struct udp_flow_key *key, const struct udp_flow *flow,
							    struct udp_socket *socket)
{
	const struct scope_owner *owner = owner_of(socket);
	struct udp_summary_key slot = {.remote = key->peer.remote, .direction = flow->direction};

	if (owner->state == SCOPE_OWNER_KNOWN) {
		slot.process.start_ns = owner->whose.start_ns;
		slot.process.cgroup_id = owner->whose.cgroup_id;
		slot.process.pid = owner->whose.pid;
		slot.process.uid = owner->whose.uid;
		__builtin_memcpy(slot.process.comm, owner->whose.comm, SCOPE_COMM_SIZE);
	}
	slot.port = flow->direction == DIRECTION_INCOMING ? flow->local_port : key->peer.remote_port;
	return udp_summary_slot(&slot);
}

static __always_inline void add(__u64 *count, __u64 more)
{
	if (more)
		__sync_fetch_and_add(count, more);
}

static __always_inline void summarize_counts(struct udp_summary_value *value, const __u64 *counts)
{
	add(&value->sent_datagrams, counts[COUNT_SENT]);
	add(&value->sent_bytes, counts[COUNT_SENT_BYTES]);
	add(&value->received_datagrams, counts[COUNT_RECEIVED]);
	add(&value->received_bytes, counts[COUNT_RECEIVED_BYTES]);
	add(&value->dropped_datagrams, counts[COUNT_DROPPED]);
	add(&value->errors, counts[COUNT_ERRORS]);
}

/* Counts what a flow did. A summary is counted at once, since user space may read it at any time. */
static __always_inline void count(const struct udp_flow_key *key, struct udp_flow *flow, struct udp_socket *socket,
				  const __u64 *counts)
{
	struct udp_summary_value *value;

	if (scope_summarize) {
		value = summary_of(key, flow, socket);
		if (value)
			summarize_counts(value, counts);
		return;
	}
#pragma unroll
	for (int i = 0; i < COUNTS; i++)
		add(&flow->counts[i], counts[i]);
}

static __always_inline bool has_untold(const struct udp_flow *flow)
{
	return flow->counts[COUNT_SENT] || flow->counts[COUNT_RECEIVED] || flow->counts[COUNT_ERRORS] ||
	       flow->counts[COUNT_DROPPED];
}

static __always_inline __u64 take(__u64 *count)
{
	return __sync_lock_test_and_set(count, 0);
}

/* The flow's row: what it did since the last one. */
static __always_inline void tell(const struct udp_flow_key *key, struct udp_flow *flow, struct udp_socket *socket,
				 enum udp_ended ended)
{
	__u64 now_ns = bpf_ktime_get_boot_ns();
	struct udp_flow_event *event = scope_reserve_owned(owner_of(socket), stream_udp_flow, now_ns, sizeof(*event));

	if (!event)
		return;
	event->socket = key->socket;
	event->lifetime_ns = flow->last_ns - flow->began_ns;
	event->sent_datagrams = take(&flow->counts[COUNT_SENT]);
	event->sent_bytes = take(&flow->counts[COUNT_SENT_BYTES]);
	event->received_datagrams = take(&flow->counts[COUNT_RECEIVED]);
	event->received_bytes = take(&flow->counts[COUNT_RECEIVED_BYTES]);
	event->dropped_datagrams = take(&flow->counts[COUNT_DROPPED]);
	event->errors = take(&flow->counts[COUNT_ERRORS]);
	event->local = flow->local;
	event->remote = key->peer.remote;
	event->local_port = flow->local_port;
	event->remote_port = key->peer.remote_port;
	event->netns = socket ? socket->netns : 0;
	event->error = event->errors ? flow->error : 0;
	event->direction = flow->direction;
	event->ended = ended;
	event->is_first = !flow->rows;
	event->is_last = ended != ENDED_NOT_YET;
	event->tells_drops = bpf_core_field_exists(struct trace_event_raw_udp_fail_queue_rcv_skb, saddr);
	event->pad[0] = 0;
	flow->rows = 1;
	flow->told_ns = now_ns;
	scope_submit(event, stream_udp_flow, sizeof(*event));
}

/* The flow is over: its last row, or its end in the summary. */
static __always_inline void finish(const struct udp_flow_key *key, struct udp_flow *flow, struct udp_socket *socket,
				   enum udp_ended ended)
{
	struct udp_summary_value *value;

	if (!scope_summarize || has_untold(flow)) {
		tell(key, flow, socket, ended);
	} else {
		value = summary_of(key, flow, socket);
		if (value)
			add(&value->ended, 1);
	}
	bpf_map_delete_elem(&flows, key);
}

#endif
