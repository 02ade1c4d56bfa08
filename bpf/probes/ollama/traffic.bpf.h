/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The calls of a process for its sockets, from which requests and responses are read. */
#ifndef SCOPE_OLLAMA_TRAFFIC_BPF_H
#define SCOPE_OLLAMA_TRAFFIC_BPF_H

/* include/linux/socket.h: the bytes stay in the socket, are no part of the stream, or are thrown away. */
#define MSG_OOB 0x1
#define MSG_PEEK 0x2
#define MSG_TRUNC 0x20
#define MSG_ERRQUEUE 0x2000

#define SHUT_RD 0
#define TCP_CLOSE 7 /* include/net/tcp_states.h */

/* include/uapi/asm-generic/errno.h: the connection is no more. */
#define EPIPE 32
#define ECONNRESET 104
#define ETIMEDOUT 110

static __always_inline bool is_write(__u32 call)
{
	return call >= CALL_WRITE && call < CALL_CLOSE;
}

/* The flags of a call that reads. */
static __always_inline __u32 flags_of(__u32 call, struct pt_regs *regs)
{
	if (call == CALL_RECVFROM)
		return syscall_arg(regs, 3);
	return call == CALL_RECVMSG ? syscall_arg(regs, 2) : 0;
}

/* Does it ask for no bytes? Then that it gets none tells nothing. */
static __always_inline bool asks_nothing(__u32 call, struct pt_regs *regs)
{
	return (call == CALL_READ || call == CALL_RECVFROM) && !syscall_arg(regs, 2);
}

/* Where the bytes of a call are. False: not known. */
static __always_inline bool open_source(struct ollama_thread *thread, __u64 bytes)
{
	struct http_source *source = &thread->source;
	struct user_msghdr header = {};

	source->total = bytes;
	source->data = thread->where;
	source->segment = 0;
	source->vector = 0;
	source->window_at = source->window_end = 0;
	source->unreadable = thread->call == CALL_SENDFILE || thread->discards;
	source->failed = 0;
	switch (thread->call) {
	case CALL_RECVMSG:
	case CALL_SENDMSG:
		if (bpf_probe_read_user(&header, sizeof(header), (void *)thread->where))
			return false;
		source->vector = (__u64)header.msg_iov;
		break;
	case CALL_READV:
	case CALL_WRITEV:
		source->vector = thread->where;
		break;
	default:
		source->segment = bytes;
	}
	return true;
}

/* Do the bytes that were read look like the begin of a request? */
static __always_inline bool looks_like_request(struct http_source *source)
{
	__u64 bytes = 0;
	__u32 count;

	for (int i = 0; i < 4 && !source->segment; i++) /* a vector may begin with places of no size */
		if (!find_segment(source))
			return false;
	count = source->segment < sizeof(bytes) ? source->segment : sizeof(bytes);
	barrier_var(count);
	if (!count || count > sizeof(bytes) || bpf_probe_read_user(&bytes, count, (void *)source->data))
		return false;
	return begins_request(bytes, count);
}

/* Notes what the result of a call tells of the connection's other end, unless this one closed it first. */
static __always_inline void note_end(struct ollama_connection *connection, bool reads, __s64 ret)
{
	if (connection->closing)
		return;
	if (reads && !ret)
		connection->peer_closed = 1;
	if (ret == -EPIPE || ret == -ECONNRESET || ret == -ETIMEDOUT)
		connection->broken = 1;
}

/* Counts what could not be followed until the end. */
static __always_inline void end_feeding(struct http_message *message, struct http_source *source)
{
	if (message->at != HTTP_IGNORED && (source->failed || source->total)) {
		message->at = HTTP_IGNORED;
		scope_count_incomplete(stream_ollama_request);
	}
}

static __always_inline void end_read(struct task_struct *task, struct ollama_thread *thread, __s64 ret)
{
	struct ollama_connection *connection = bpf_map_lookup_elem(&ollama_connections, &thread->key);
	struct feeding feeding = {.source = &thread->source};
	struct file *file;

	if (connection && ret <= 0) {
		note_end(connection, true, ret);
		return;
	}
	if (ret <= 0 || thread->peeks || !open_source(thread, ret))
		return;
	if (!connection) {
		if (!looks_like_request(&thread->source))
			return;
		file = running_file(task, thread->fd);
		if (!file || file_inode(file) != thread->key.inode)
			return; /* it was closed meanwhile */
		connection = make_connection(&thread->key);
		if (!connection) {
			scope_count_loss(stream_ollama_request, SCOPE_LOST_MAP_FULL);
			return;
		}
		if (!fill_peer(connection, sock_of(file))) {
			bpf_map_delete_elem(&ollama_connections, &thread->key);
			return;
		}
	}
	feeding.connection = connection;
	connection->seen_ns = bpf_ktime_get_boot_ns();
	bpf_loop(HTTP_STEPS, take_asked, &feeding, 0);
	keep_request_bytes(connection);
	end_feeding(&connection->asking, &thread->source);
	if (connection->asking.at == HTTP_IGNORED && !connection->asked)
		bpf_map_delete_elem(&ollama_connections, &thread->key); /* another protocol */
}

static __always_inline void end_written(struct task_struct *task, struct ollama_thread *thread, __s64 ret)
{
	struct ollama_connection *connection = bpf_map_lookup_elem(&ollama_connections, &thread->key);
	struct feeding feeding = {.source = &thread->source, .connection = connection};

	if (!connection)
		return;
	if (ret <= 0) {
		note_end(connection, false, ret);
		return;
	}
	if (!open_source(thread, ret))
		thread->source.failed = 1;
	connection->seen_ns = bpf_ktime_get_boot_ns();
	connection->answer.last_ns = connection->seen_ns;
	bpf_loop(HTTP_STEPS, take_answered, &feeding, 0);
	end_write(task, connection);
	end_feeding(&connection->answering, &thread->source);
}

/* Has the other end answered with a reset, since it had closed the connection? */
static __always_inline bool is_reset(struct file *file)
{
	struct sock *sk = sock_of(file);

	return sk && BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_CLOSE;
}

static __always_inline void close_connection(struct ollama_connections_key *key, struct file *file, __u32 call,
					     __u64 how)
{
	struct ollama_connection *connection = bpf_map_lookup_elem(&ollama_connections, key);

	if (!connection)
		return;
	if (call == CALL_CLOSE ? file_has_copies(file) : how == SHUT_RD)
		return;
	if (!connection->closing && is_reset(file))
		connection->broken = 1;
	if (!connection->peer_closed && !connection->broken)
		connection->closing = 1;
	if (call == CALL_SHUTDOWN)
		return;
	end_requests(connection, OLLAMA_ENDED_CLOSED);
	bpf_map_delete_elem(&ollama_connections, key);
}

/* A call for a socket begins. Returns whether its end is of interest. */
static __always_inline bool enter_socket(struct task_struct *task, struct ollama_thread *thread, struct file *file,
					 struct pt_regs *regs, __u32 call)
{
	__u32 flags;

	connection_key(&thread->key, task, file_inode(file));
	if (call >= CALL_CLOSE) {
		close_connection(&thread->key, file, call, syscall_arg(regs, 1));
		return false;
	}
	if (call == CALL_MMAP || call == CALL_PREAD || asks_nothing(call, regs) ||
	    (is_write(call) && !bpf_map_lookup_elem(&ollama_connections, &thread->key)))
		return false;
	flags = flags_of(call, regs);
	thread->peeks = (flags & (MSG_OOB | MSG_PEEK | MSG_ERRQUEUE)) != 0;
	thread->discards = (flags & MSG_TRUNC) != 0;
	return true;
}

#endif
