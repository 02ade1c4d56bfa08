/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tells what a connection did since the last time: in a row, or in the summary. */
#ifndef SCOPE_NET_REPORT_BPF_H
#define SCOPE_NET_REPORT_BPF_H

#define NS_PER_US 1000
#define NS_PER_MS 1000000

static __always_inline __u64 smoothed_rtt_ns(struct tcp_sock *tcp)
{
	return (__u64)(tcp->srtt_us >> 3) * NS_PER_US;
}

static __always_inline __u64 least_rtt_ns(struct tcp_sock *tcp)
{
	__u32 us = BPF_CORE_READ(tcp, rtt_min.s[0].v);

	return us == ~0U ? 0 : (__u64)us * NS_PER_US;
}

/* How long it has been in a state so far; `now` is the state that it is in, which may change while it is read. */
static __always_inline __u64 time_in(__u32 state, const struct net_connection *connection, __u32 now, __u64 now_ns)
{
	__u64 changed_ns = connection->changed_ns;

	return connection->in_state_ns[state] + (state == now && now_ns > changed_ns ? now_ns - changed_ns : 0);
}

static __always_inline void emit_connection(struct sock *sk, struct tcp_sock *tcp, struct net_connection *connection,
					    const __u64 *more, __u32 state, bool is_last, __u64 now_ns)
{
	struct connection_event *event =
		scope_reserve_owned(&connection->owner, stream_connection, now_ns, sizeof(*event));

	if (!event)
		return;
	event->connection = bpf_get_socket_cookie(sk);
	event->lifetime_ns = now_ns - connection->began_ns;
	event->connect_ns = connection->connect_ns;
	event->established_ns = time_in(TCP_ESTABLISHED, connection, state, now_ns);
	event->fin_wait1_ns = time_in(TCP_FIN_WAIT1, connection, state, now_ns);
	event->fin_wait2_ns = time_in(TCP_FIN_WAIT2, connection, state, now_ns);
	event->closing_ns = time_in(TCP_CLOSING, connection, state, now_ns);
	event->close_wait_ns = time_in(TCP_CLOSE_WAIT, connection, state, now_ns);
	event->last_ack_ns = time_in(TCP_LAST_ACK, connection, state, now_ns);
	event->sent_bytes = more[COUNTER_SENT_BYTES];
	event->received_bytes = more[COUNTER_RECEIVED_BYTES];
	event->retransmitted_bytes = more[COUNTER_RETRANSMITTED_BYTES];
	event->srtt_ns = smoothed_rtt_ns(tcp);
	event->min_rtt_ns = least_rtt_ns(tcp);
	load_ends(&event->ends, sk, tcp);
	event->sent_segments = more[COUNTER_SENT_SEGMENTS];
	event->received_segments = more[COUNTER_RECEIVED_SEGMENTS];
	event->retransmits = more[COUNTER_RETRANSMITS];
	event->syn_retransmits = more[COUNTER_CAUSES + CAUSE_SYN];
	event->timeout_retransmits = more[COUNTER_CAUSES + CAUSE_TIMEOUT];
	event->fast_retransmits = more[COUNTER_CAUSES + CAUSE_FAST];
	event->probe_retransmits = more[COUNTER_CAUSES + CAUSE_PROBE];
	event->unseen_retransmits = more[COUNTER_CAUSES + CAUSE_UNSEEN];
	event->zero_windows = more[COUNTER_ZERO_WINDOWS];
	event->reorderings = more[COUNTER_REORDERINGS];
	event->out_of_order = more[COUNTER_OUT_OF_ORDER];
	event->error = is_last ? -sk->sk_err : 0;
	event->users = connection->users;
	event->direction = connection->direction;
	event->state = state;
	event->ended = is_last ? connection->ended : ENDED_NOT_YET;
	event->existed = connection->existed;
	event->is_first = !connection->rows;
	event->is_last = is_last;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_connection, sizeof(*event));
}

static __always_inline void fill_key(struct connection_summary_key *key, struct sock *sk, struct tcp_sock *tcp,
				     const struct net_connection *connection)
{
	const struct scope_identity *whose = &connection->owner.whose;
	struct net_ends ends;

	load_ends(&ends, sk, tcp);
	if (connection->owner.state == SCOPE_OWNER_KNOWN) {
		key->process.start_ns = whose->start_ns;
		key->process.cgroup_id = whose->cgroup_id;
		key->process.pid = whose->pid;
		key->process.uid = whose->uid;
		__builtin_memcpy(key->process.comm, whose->comm, SCOPE_COMM_SIZE);
	}
	key->remote = ends.remote;
	key->port = connection->direction == DIRECTION_INCOMING ? ends.local_port : ends.remote_port;
	key->direction = connection->direction;
}

static __always_inline void summarize_connection(struct sock *sk, struct tcp_sock *tcp,
						 const struct net_connection *connection, const __u64 *more,
						 bool is_last)
{
	__u64 rtt_ns = smoothed_rtt_ns(tcp);
	struct connection_summary_key key = {};
	struct connection_summary_value *value;

	fill_key(&key, sk, tcp, connection);
	value = connection_summary_slot(&key);
	if (!value)
		return;
	if (!connection->rows && !connection->existed)
		__sync_fetch_and_add(&value->begun, 1);
	if (!connection->rows && connection->connect_ns) {
		__sync_fetch_and_add(&value->connect_count, 1);
		__sync_fetch_and_add(&value->connect_ns, connection->connect_ns);
		scope_histogram_add(&value->connect, connection->connect_ns);
	}
	if (is_last)
		__sync_fetch_and_add(&value->ended, 1);
	if (is_last && connection->ended == ENDED_CONNECT_FAILED)
		__sync_fetch_and_add(&value->failed, 1);
	__sync_fetch_and_add(&value->sent_bytes, more[COUNTER_SENT_BYTES]);
	__sync_fetch_and_add(&value->received_bytes, more[COUNTER_RECEIVED_BYTES]);
	__sync_fetch_and_add(&value->retransmits, more[COUNTER_RETRANSMITS]);
	if (!rtt_ns)
		return;
	__sync_fetch_and_add(&value->rtt_count, 1);
	__sync_fetch_and_add(&value->rtt_ns, rtt_ns);
	scope_histogram_add(&value->rtt, rtt_ns);
}

/* `now_ns` is the time of the row: each look at the clock costs as much as a program. */
static __always_inline void report(struct sock *sk, struct net_connection *connection, __u32 state, bool is_last,
				   __u64 now_ns)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	__u64 now[COUNTERS], more[COUNTERS];

	if (!tcp || !scope_owner_passes(&connection->owner))
		return;
	if (is_last)
		count_retransmits(connection, tcp, CAUSE_UNSEEN, 0);
	read_counters(now, sk, tcp, connection);
	claim_all(connection, now, more);
	if (scope_summarize)
		summarize_connection(sk, tcp, connection, more, is_last);
	else
		emit_connection(sk, tcp, connection, more, state, is_last, now_ns);
	connection->rows = 1;
	connection->told_ns = now_ns;
}

#endif
