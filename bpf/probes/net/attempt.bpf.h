/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Connects that fail before a SYN is sent: for lack of a route or of a free port, or since something forbids them. No
 * packet and mostly no state tells of them, only the result of the call.
 */
#ifndef SCOPE_NET_ATTEMPT_BPF_H
#define SCOPE_NET_ATTEMPT_BPF_H

#include "accepted.bpf.h"
#include "registered_file.bpf.h"

#define IOSQE_FIXED_FILE 1 /* include/uapi/linux/io_uring.h */
#define AF_UNSPEC 0
#define SIX_BYTES 24 /* of a struct sockaddr_in6 that the kernel demands: SIN6_LEN_RFC2133 in net/ipv6/ */

enum net_attempt_state {
	ATTEMPT_NONE,
	ATTEMPT_BEGUN,
	ATTEMPT_SENDS,	/* the socket is in SYN_SENT: from here on, its states tell what happens */
	ATTEMPT_UNSENT, /* it was, but no SYN left */
};

/* What becomes of a connect that a thread is in, or that it has submitted to io_uring. */
struct net_attempt {
	struct scope_identity whose;
	__u64 began_ns;
	__u64 request; /* address of io_uring's request; 0: a call */
	struct sock *sk;
	__u64 connection;	       /* the socket's cookie; 0: it has none */
	const struct sockaddr *remote; /* in user memory */
	__u32 remote_bytes;
	__s32 fd;
	enum net_attempt_state state;
	struct net_ends ends;
	struct net_ends asked; /* of io_uring: where to, as it was submitted */
};

SCOPE_THREAD_STATE(attempts, struct net_attempt);

/* Those of io_uring, by address of the socket: another thread may work on the request. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct net_attempt);
} ring_attempts SEC(".maps");

/* The attempt of the running thread or of io_uring, if it is this socket's. */
static __always_inline struct net_attempt *attempt_of(struct sock *sk, enum net_attempt_state state)
{
	struct net_attempt *attempt = bpf_task_storage_get(&attempts, bpf_get_current_task_btf(), 0, 0);
	__u64 key = (__u64)sk;

	if (attempt && attempt->sk == sk && attempt->state == state)
		return attempt;
	attempt = bpf_map_lookup_elem(&ring_attempts, &key);
	return attempt && attempt->state == state ? attempt : NULL;
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

/* The TCP socket of a file, if connect() begins a connection. It does not if one is under way or has failed. */
static __always_inline struct sock *socket_to_connect(struct file *file)
{
	struct sock *sk = tcp_of_file(file);
	struct socket *socket;

	if (!sk)
		return NULL;
	socket = BPF_CORE_READ(file, private_data);
	return BPF_CORE_READ(socket, state) == SS_UNCONNECTED && BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_CLOSE
		       ? sk
		       : NULL;
}

/* False: the memory cannot be read, so the row lacks its peer. */
static __always_inline bool read_user(void *to, __u32 bytes, const void *from)
{
	if (!bpf_probe_read_user(to, bytes, from))
		return true;
	scope_count_incomplete(scope_summarize ? stream_connection_summary : stream_connection);
	return false;
}

/* Reads the socket that could not be connected. NULL: another thread has closed it meanwhile, and the row lacks it. */
static __always_inline void read_socket(struct net_attempt *attempt, struct sock *sk)
{
	if (sk) {
		attempt->connection = BPF_CORE_READ(sk, __sk_common.skc_cookie.counter);
		fill_ends(&attempt->ends, sk);
		return;
	}
	attempt->connection = 0;
	__builtin_memset(&attempt->ends, 0, sizeof(attempt->ends));
	scope_count_incomplete(scope_summarize ? stream_connection_summary : stream_connection);
}

/* Reads where to the call was to connect, as far as it said so. False: it was to disconnect. */
static __always_inline bool read_remote(struct net_attempt *attempt, struct net_ends *ends)
{
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

static __always_inline void emit_attempt(const struct net_attempt *attempt, __s32 error)
{
	__u64 now_ns = bpf_ktime_get_boot_ns();
	struct connection_event *event = scope_reserve_for(&attempt->whose, stream_connection, now_ns, sizeof(*event));

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

static __always_inline void summarize_attempt(const struct net_attempt *attempt)
{
	struct connection_summary_key key = {
		.remote = attempt->ends.remote,
		.port = attempt->ends.remote_port,
		.direction = DIRECTION_OUTGOING,
	};
	struct connection_summary_value *value;

	key.process.start_ns = attempt->whose.start_ns;
	key.process.cgroup_id = attempt->whose.cgroup_id;
	key.process.pid = attempt->whose.pid;
	key.process.uid = attempt->whose.uid;
	__builtin_memcpy(key.process.comm, attempt->whose.comm, SCOPE_COMM_SIZE);
	value = connection_summary_slot(&key);
	if (!value)
		return;
	__sync_fetch_and_add(&value->begun, 1);
	__sync_fetch_and_add(&value->ended, 1);
	__sync_fetch_and_add(&value->failed, 1);
}

static __always_inline void tell_attempt(const struct net_attempt *attempt, __s32 error)
{
	if (scope_summarize)
		summarize_attempt(attempt);
	else
		emit_attempt(attempt, error);
}

static __always_inline void begin_attempt(struct task_struct *task, const struct net_call *call)
{
	struct sock *sk = socket_to_connect(file_of_fd(task, call->fd));
	struct net_attempt *attempt;

	if (!sk || !scope_passes(task))
		return;
	attempt = bpf_task_storage_get(&attempts, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!attempt) {
		count_lost();
		return;
	}
	fill_identity(&attempt->whose, task);
	attempt->began_ns = bpf_ktime_get_boot_ns();
	attempt->sk = sk;
	attempt->fd = call->fd;
	attempt->remote = (void *)call->remote;
	attempt->remote_bytes = call->remote_bytes;
	attempt->state = ATTEMPT_BEGUN;
}

/*
 * Failed connects are only visible in the calls themselves: connect(), and sendto(), sendmsg() and sendmmsg() with
 * MSG_FASTOPEN. The raw tracepoints see 32-bit ones, too, and cost other calls a comparison.
 */
SEC("tp_btf/sys_enter")
int BPF_PROG(net_connect_enter, struct pt_regs *regs, long nr)
{
	struct net_call call = {};
	struct task_struct *task;

	if (!may_connect_somehow(nr))
		return 0;
	task = bpf_get_current_task_btf();
	if (read_call(&call, regs, nr, is_compat(task)))
		begin_attempt(task, &call);
	return 0;
}

static __always_inline void end_attempt(struct task_struct *task, long ret)
{
	struct net_attempt *attempt = bpf_task_storage_get(&attempts, task, 0, 0);
	enum net_attempt_state state;
	struct sock *sk;

	if (!attempt)
		return;
	state = attempt->state;
	attempt->state = ATTEMPT_NONE;
	if (ret >= 0 || state == ATTEMPT_NONE || state == ATTEMPT_SENDS)
		return;
	if (state == ATTEMPT_BEGUN) {
		sk = socket_to_connect(file_of_fd(task, attempt->fd));
		read_socket(attempt, sk == attempt->sk ? sk : NULL);
		if (!read_remote(attempt, &attempt->ends))
			return;
	}
	tell_attempt(attempt, ret);
}

/* The end of a call that connects or accepts. */
SEC("tp_btf/sys_exit")
int BPF_PROG(net_call_exit, struct pt_regs *regs, long ret)
{
	long nr = syscall_number(regs);
	struct task_struct *task;
	bool compat;

	if (!may_connect_somehow(nr) && !may_accept_somehow(nr))
		return 0;
	task = bpf_get_current_task_btf();
	compat = is_compat(task);
	if (may_connect(nr, compat))
		end_attempt(task, ret);
	if (ret >= 0 && accepts(regs, nr, compat))
		note_accepted(task, ret);
	return 0;
}

static const struct net_attempt no_attempt;

static __always_inline void submit_connect(struct io_kiocb *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct io_connect *connect = (void *)request;
	struct net_attempt *attempt;
	struct sock *sk;
	__s32 fd;
	__u64 key;

	if (BPF_CORE_READ(request, opcode) != IORING_OP_CONNECT)
		return;
	fd = BPF_CORE_READ(request, cqe.fd);
	if (BPF_CORE_READ(request, flags) & IOSQE_FIXED_FILE)
		sk = socket_to_connect(registered_file(request, fd));
	else
		sk = socket_to_connect(file_of_fd(task, fd));
	if (!sk || !scope_passes(task))
		return;
	key = (__u64)sk;
	bpf_map_update_elem(&ring_attempts, &key, &no_attempt, BPF_ANY);
	attempt = bpf_map_lookup_elem(&ring_attempts, &key);
	if (!attempt) {
		count_lost();
		return;
	}
	fill_identity(&attempt->whose, task);
	attempt->began_ns = bpf_ktime_get_boot_ns();
	attempt->request = (__u64)request;
	attempt->sk = sk;
	attempt->remote = BPF_CORE_READ(connect, addr);
	attempt->remote_bytes = BPF_CORE_READ(connect, addr_len);
	if (!read_remote(attempt, &attempt->asked))
		bpf_map_delete_elem(&ring_attempts, &key);
	else
		attempt->state = ATTEMPT_BEGUN;
}

/* Connects of io_uring. */
SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(net_connect_submit, struct io_kiocb *request)
{
	submit_connect(request);
	return 0;
}

/* Its name before 6.5. */
SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(net_connect_submit_sqe, struct io_kiocb *request)
{
	submit_connect(request);
	return 0;
}

/* The result is read from the request: the tracepoint's other arguments differ between kernels. */
SEC("tp_btf/io_uring_complete")
int BPF_PROG(net_connect_complete, void *ring, struct io_kiocb *request)
{
	struct net_attempt *attempt;
	struct sock *sk;
	__s32 ret;
	__u64 key;

	if (!request || BPF_CORE_READ(request, opcode) != IORING_OP_CONNECT)
		return 0;
	sk = tcp_of_file(BPF_CORE_READ(request, file));
	if (!sk)
		return 0;
	key = (__u64)sk;
	attempt = bpf_map_lookup_elem(&ring_attempts, &key);
	if (!attempt || attempt->request != (__u64)request)
		return 0;
	ret = BPF_CORE_READ(request, cqe.res);
	if (ret < 0 && attempt->state != ATTEMPT_SENDS) {
		if (attempt->state == ATTEMPT_BEGUN) {
			read_socket(attempt, sk);
			attempt->ends.remote = attempt->asked.remote;
			attempt->ends.remote_port = attempt->asked.remote_port;
		}
		tell_attempt(attempt, ret);
	}
	bpf_map_delete_elem(&ring_attempts, &key);
	return 0;
}

#endif
