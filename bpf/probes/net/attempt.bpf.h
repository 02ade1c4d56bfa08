/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connects that fail before a SYN is sent: for lack of a route or of a free port, or since something forbids them. No
 * packet and mostly no state tells of them, only the result of the call.
 */
#ifndef SCOPE_NET_ATTEMPT_BPF_H
#define SCOPE_NET_ATTEMPT_BPF_H

#define AF_UNSPEC 0
#define S_IFMT 0170000
#define S_IFSOCK 0140000
#define SIX_BYTES 24 /* of a struct sockaddr_in6 that the kernel demands: SIN6_LEN_RFC2133 in net/ipv6/ */

enum net_attempt_state {
	ATTEMPT_NONE,
	ATTEMPT_BEGUN,
	ATTEMPT_SENDS,	/* the socket is in SYN_SENT: from here on, its states tell what happens */
	ATTEMPT_UNSENT, /* it was, but no SYN left */
};

/* What a thread that is in connect() does there. */
struct net_attempt {
	__u64 began_ns;
	struct sock *sk;
	__u64 connection;	       /* the socket's cookie; 0: it has none */
	const struct sockaddr *remote; /* in user memory */
	__u32 remote_bytes;
	__s32 fd;
	enum net_attempt_state state;
	struct net_ends ends;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct net_attempt);
} attempts SEC(".maps");

/* The attempt of the running thread, if it is this socket's. */
static __always_inline struct net_attempt *attempt_of(struct sock *sk, enum net_attempt_state state)
{
	struct net_attempt *attempt = bpf_task_storage_get(&attempts, bpf_get_current_task_btf(), 0, 0);

	return attempt && attempt->sk == sk && attempt->state == state ? attempt : NULL;
}

static __always_inline void note_syn_sent(struct sock *sk)
{
	struct net_attempt *attempt = attempt_of(sk, ATTEMPT_BEGUN);

	if (attempt)
		attempt->state = ATTEMPT_SENDS;
}

/*
 * Does the running connect() take SYN_SENT back, since it failed to send? Then its result tells the error. An interrupt
 * that ends a connection notes an error in the socket.
 */
static __always_inline bool is_unsent(struct sock *sk)
{
	struct net_attempt *attempt = sk->sk_err ? NULL : attempt_of(sk, ATTEMPT_SENDS);

	if (!attempt)
		return false;
	attempt->state = ATTEMPT_UNSENT;
	attempt->connection = bpf_get_socket_cookie(sk);
	fill_ends(&attempt->ends, sk);
	return true;
}

/* The TCP socket of a descriptor, if connect() begins a connection. It does not if one is under way or has failed. */
static __always_inline struct sock *socket_to_connect(struct task_struct *task, __s32 fd)
{
	struct file *file = file_of_fd(task, fd);
	struct socket *socket;
	struct sock *sk;

	if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return NULL;
	socket = BPF_CORE_READ(file, private_data);
	sk = BPF_CORE_READ(socket, sk);
	if (!sk || BPF_CORE_READ(socket, state) != SS_UNCONNECTED ||
	    BPF_CORE_READ(sk, __sk_common.skc_state) != TCP_CLOSE)
		return NULL;
	return is_tcp_of(BPF_CORE_READ(sk, sk_protocol), BPF_CORE_READ(sk, __sk_common.skc_family)) ? sk : NULL;
}

/*
 * Failed connects are only visible in the calls themselves. These tracepoints run only for connects, unlike sys_enter.
 * They miss those of io_uring and of 32-bit processes, and those that sendto() makes with MSG_FASTOPEN.
 */
SEC("tracepoint/syscalls/sys_enter_connect")
int net_connect_enter(struct trace_event_raw_sys_enter *call)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct sock *sk = socket_to_connect(task, call->args[0]);
	struct net_attempt *attempt;

	if (!sk || !scope_passes(task))
		return 0;
	attempt = bpf_task_storage_get(&attempts, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!attempt) {
		count_lost();
		return 0;
	}
	attempt->began_ns = bpf_ktime_get_boot_ns();
	attempt->sk = sk;
	attempt->fd = call->args[0];
	attempt->remote = (void *)call->args[1];
	attempt->remote_bytes = call->args[2];
	attempt->state = ATTEMPT_BEGUN;
	return 0;
}

/* False: the memory cannot be read, so the row lacks its peer. */
static __always_inline bool read_user(void *to, __u32 bytes, const void *from)
{
	if (!bpf_probe_read_user(to, bytes, from))
		return true;
	scope_count_incomplete(scope_summarize ? stream_connection_summary : stream_connection);
	return false;
}

/* Reads the socket that could not be connected. Another thread may have closed it meanwhile: the row lacks it then. */
static __always_inline void read_socket(struct net_attempt *attempt, struct task_struct *task)
{
	struct sock *sk = socket_to_connect(task, attempt->fd);

	if (sk == attempt->sk) {
		attempt->connection = BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
		fill_ends(&attempt->ends, sk);
		return;
	}
	attempt->connection = 0;
	__builtin_memset(&attempt->ends, 0, sizeof(attempt->ends));
	scope_count_incomplete(scope_summarize ? stream_connection_summary : stream_connection);
}

/* Reads where to the call was to connect, as far as it said so. False: it was to disconnect. */
static __always_inline bool read_remote(struct net_attempt *attempt)
{
	struct net_ends *ends = &attempt->ends;
	struct sockaddr_in6 six = {};
	struct sockaddr_in four = {};
	__u16 family = 0;

	__builtin_memset(&ends->remote, 0, sizeof(ends->remote));
	if (attempt->remote_bytes < sizeof(family) || !read_user(&family, sizeof(family), attempt->remote))
		return true;
	if (family == AF_INET && attempt->remote_bytes >= sizeof(four) &&
	    read_user(&four, sizeof(four), attempt->remote)) {
		fill_address(&ends->remote, AF_INET, four.sin_addr.s_addr, NULL);
		ends->remote_port = bpf_ntohs(four.sin_port);
	} else if (family == AF_INET6 && attempt->remote_bytes >= SIX_BYTES &&
		   read_user(&six, SIX_BYTES, attempt->remote)) {
		fill_address(&ends->remote, AF_INET6, 0, six.sin6_addr.in6_u.u6_addr32);
		ends->remote_port = bpf_ntohs(six.sin6_port);
	}
	return family != AF_UNSPEC;
}

static __always_inline void emit_attempt(const struct net_attempt *attempt, struct task_struct *task, __s32 error)
{
	__u64 now_ns = bpf_ktime_get_boot_ns();
	struct connection_event *event = scope_reserve(task, stream_connection, now_ns, sizeof(*event));

	if (!event)
		return;
	__builtin_memset((void *)event + sizeof(event->header), 0, sizeof(*event) - sizeof(event->header));
	event->connection = attempt->connection;
	event->lifetime_ns = now_ns - attempt->began_ns;
	event->ends = attempt->ends;
	event->error = error;
	event->users = 1;
	event->direction = DIRECTION_OUTGOING;
	event->state = STATE_CLOSE;
	event->ended = ENDED_CONNECT_FAILED;
	event->is_first = event->is_last = 1;
	scope_submit(event, stream_connection, sizeof(*event));
}

static __always_inline void summarize_attempt(const struct net_attempt *attempt, struct task_struct *task)
{
	struct connection_summary_key key = {
		.remote = attempt->ends.remote,
		.port = attempt->ends.remote_port,
		.direction = DIRECTION_OUTGOING,
	};
	struct connection_summary_value *value;

	key.process.start_ns = task_start_ns(task);
	key.process.cgroup_id = task_cgroup_id(task);
	key.process.pid = task->tgid;
	key.process.uid = task->cred->uid.val;
	copy_comm(key.process.comm, task);
	value = connection_summary_slot(&key);
	if (!value)
		return;
	__sync_fetch_and_add(&value->begun, 1);
	__sync_fetch_and_add(&value->ended, 1);
	__sync_fetch_and_add(&value->failed, 1);
}

SEC("tracepoint/syscalls/sys_exit_connect")
int net_connect_exit(struct trace_event_raw_sys_exit *call)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct net_attempt *attempt = bpf_task_storage_get(&attempts, task, 0, 0);
	enum net_attempt_state state;

	if (!attempt)
		return 0;
	state = attempt->state;
	attempt->state = ATTEMPT_NONE;
	if (call->ret >= 0 || state == ATTEMPT_NONE || state == ATTEMPT_SENDS)
		return 0;
	if (state == ATTEMPT_BEGUN) {
		read_socket(attempt, task);
		if (!read_remote(attempt))
			return 0;
	}
	if (scope_summarize)
		summarize_attempt(attempt, task);
	else
		emit_attempt(attempt, task, call->ret);
	return 0;
}

#endif
