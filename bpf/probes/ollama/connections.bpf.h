/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The connections of watched processes that carry requests. Of each, only reads change `asking` and the requests, and
 * only writes change `answering`: so a thread may read the next request while another still ends the response before.
 * Responses come in the order of the requests, which may be several on the way (pipelining).
 */
#ifndef SCOPE_OLLAMA_CONNECTIONS_BPF_H
#define SCOPE_OLLAMA_CONNECTIONS_BPF_H

#define CONNECTIONS 8192
#define REQUESTS 8		 /* of a connection at a time; a power of 2 */
#define FORGET_NS 10000000000ULL /* a connection without a request is forgotten after this */
#define ALL_PROCESSES 4096

struct ollama_connections_key {
	__u64 start_ns; /* of the process */
	__u64 inode;	/* of the socket */
	__s32 pid;
	__u32 pad;
};

SCOPE_SHARED(struct, ollama_connections_key);

struct ollama_target {
	char method[OLLAMA_METHOD];
	char path[OLLAMA_PATH];
};

struct ollama_asked {
	struct scope_identity whose;
	struct ollama_target target;
	__u64 order;   /* in its connection, from 1; 0: nothing */
	__u64 request; /* since recording began, from 1 */
	__u64 began_ns;
	__u64 bytes;
	__u32 told; /* its row was emitted */
	__u8 path_truncated;
	__u8 pad[3];
};

/* The response that is on the way. */
struct ollama_answer {
	__u64 first_ns;	     /* first byte; 0: none yet */
	__u64 last_ns;	     /* latest byte */
	__u64 first_body_ns; /* first write with bytes of the body; 0: none yet */
	__u64 last_body_ns;
	__u64 longest_gap_ns;
	__u64 passed; /* bytes of the body in the current write */
	__u32 writes;
	__u16 status; /* 0: not known yet */
	__u8 digits;  /* of it */
	__u8 pad;
};

struct ollama_connection {
	struct http_message asking;
	struct ollama_target target; /* of the request line that is read */
	__u64 began_ns;
	__u32 word; /* of the request line */
	__u32 path_length;
	__u32 method_length;
	__u32 path_truncated;
	__u64 asked; /* requests whose first line was read */
	__u64 heads; /* a bit for each of the last 64: it asks for no body */
	struct ollama_asked requests[REQUESTS];
	struct http_message answering;
	struct ollama_answer answer;
	__u64 answered; /* responses that have ended */
	__u64 inode;
	__u64 seen_ns;
	struct scope_address peer;
	__u16 port;
	__u16 peer_port;
	__u8 closing;	  /* the server has closed it, for writing at least */
	__u8 peer_closed; /* the client has, before the server */
	__u8 broken;	  /* likewise */
	__u8 pad[5];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CONNECTIONS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ollama_connections_key);
	__type(value, struct ollama_connection);
} ollama_connections SEC(".maps");

/* Processes with such a connection, or that load a model, so that the end of others costs nothing. */
struct ollama_processes_key {
	__u64 start_ns;
	__s32 pid;
	__u32 pad;
};

SCOPE_SHARED(struct, ollama_processes_key);

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, ALL_PROCESSES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct ollama_processes_key);
	__type(value, __u32);
} ollama_processes SEC(".maps");

static const struct ollama_connection no_connection;

__u64 latest_request SEC(".data.requests");

static __always_inline void connection_key(struct ollama_connections_key *key, struct task_struct *task, __u64 inode)
{
	key->start_ns = task_start_ns(task);
	key->inode = inode;
	key->pid = task->tgid;
	key->pad = 0;
}

/* False: there is no room, so that the end of the process would not be noticed. */
static __always_inline bool mark_process(__u64 start_ns, __s32 pid)
{
	struct ollama_processes_key process = {.start_ns = start_ns, .pid = pid};
	__u32 one = 1;

	bpf_map_update_elem(&ollama_processes, &process, &one, BPF_ANY);
	return bpf_map_lookup_elem(&ollama_processes, &process);
}

/* NULL: no room. */
static __always_inline struct ollama_connection *make_connection(const struct ollama_connections_key *key)
{
	struct ollama_connection *connection;

	if (!mark_process(key->start_ns, key->pid))
		return NULL;
	bpf_map_update_elem(&ollama_connections, key, &no_connection, BPF_NOEXIST);
	connection = bpf_map_lookup_elem(&ollama_connections, key);
	if (connection)
		connection->inode = key->inode;
	return connection;
}

/* The room for the request with this number in the connection, from 0 ... */
static __always_inline struct ollama_asked *room_for(struct ollama_connection *connection, __u64 number)
{
	return &connection->requests[number & (REQUESTS - 1)];
}

/* ... which another one has if it is not recorded. */
static __always_inline bool is_recorded(const struct ollama_asked *asked, __u64 number)
{
	return asked->order == number + 1;
}

static __always_inline void fill_answer(struct ollama_request_event *event, const struct ollama_connection *connection,
					const struct ollama_asked *asked, bool answered)
{
	const struct ollama_answer *answer = &connection->answer;

	event->has_response = answered && answer->first_ns;
	event->has_status = event->has_response && answer->status;
	event->has_body = event->has_response && answer->writes;
	event->has_gaps = event->has_response && answer->writes > 1;
	event->has_chunks = event->has_status && connection->answering.chunked;
	event->first_byte_ns = answer->first_ns - asked->began_ns;
	event->first_body_ns = answer->first_body_ns - asked->began_ns;
	event->streaming_ns = answer->last_body_ns - answer->first_body_ns;
	event->longest_gap_ns = answer->longest_gap_ns;
	event->response_bytes = answered ? connection->answering.bytes : 0;
	event->body_bytes = answered ? connection->answering.body_bytes : 0;
	event->writes = answered ? answer->writes : 0;
	event->chunks = connection->answering.chunks;
	event->status = answer->status;
}

/* Emits the row of a request, once. `number`: in its connection, from 0. */
static __noinline int emit_request(struct ollama_connection *connection, __u64 number, enum ollama_ended ended)
{
	struct ollama_asked *asked = room_for(connection, number);
	struct ollama_request_event *event;

	if (!is_recorded(asked, number) || __sync_val_compare_and_swap(&asked->told, 0, 1))
		return 0;
	event = scope_reserve_for(&asked->whose, stream_ollama_request, asked->began_ns, sizeof(*event));
	if (!event)
		return 0;
	fill_answer(event, connection, asked, number == connection->answered);
	event->duration_ns =
		(event->has_response ? connection->answer.last_ns : bpf_ktime_get_boot_ns()) - asked->began_ns;
	event->request_bytes = asked->bytes;
	event->connection = connection->inode;
	event->request = asked->request;
	event->peer = connection->peer;
	event->peer_port = connection->peer_port;
	event->port = connection->port;
	event->has_peer = connection->peer_port != 0;
	event->path_truncated = asked->path_truncated;
	event->ended = ended;
	__builtin_memcpy(event->method, asked->target.method, sizeof(event->method));
	__builtin_memcpy(event->path, asked->target.path, sizeof(event->path));
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_ollama_request, sizeof(*event));
	return 0;
}

/* The response has ended; the next one is that of the next request. */
static __always_inline void end_response(struct ollama_connection *connection, enum ollama_ended ended)
{
	__u64 last_ns = connection->answer.last_ns;

	emit_request(connection, connection->answered, ended);
	next_message(&connection->answering);
	__builtin_memset(&connection->answer, 0, sizeof(connection->answer));
	connection->answer.last_ns = last_ns; /* the same write may go on with the next response */
	connection->answered++;
}

/* Why the response that is on the way ends with its connection. */
static __always_inline enum ollama_ended why_closed(const struct ollama_connection *connection, bool answered)
{
	if (answered && connection->answering.at == HTTP_UNTIL_CLOSE && !connection->broken)
		return OLLAMA_ENDED_COMPLETE;
	return connection->broken || connection->peer_closed ? OLLAMA_ENDED_PEER_CLOSED : OLLAMA_ENDED_CLOSED;
}

/* Ends all requests of a connection; with OLLAMA_ENDED_CLOSED, they tell why themselves. */
static __noinline int end_requests(struct ollama_connection *connection, enum ollama_ended ended)
{
	__u64 number = connection->answered;

	for (int i = 0; i < REQUESTS; i++, number++)
		if (number < connection->asked)
			emit_request(connection, number,
				     ended == OLLAMA_ENDED_CLOSED ? why_closed(connection, !i) : ended);
	return 0;
}

/* Which connections end. */
struct ending {
	__u64 start_ns;	     /* only those of this process; 0: all */
	__u64 idle_since_ns; /* only those without a request since then; 0: all */
	__s32 pid;
	enum ollama_ended ended;
};

static long end_connection(void *map, const struct ollama_connections_key *key, struct ollama_connection *connection,
			   struct ending *ending)
{
	if (ending->start_ns && (key->start_ns != ending->start_ns || key->pid != ending->pid))
		return 0;
	if (ending->idle_since_ns &&
	    (connection->asked != connection->answered || connection->seen_ns > ending->idle_since_ns))
		return 0;
	if (!ending->idle_since_ns)
		end_requests(connection, ending->ended);
	if (ending->idle_since_ns || ending->start_ns)
		bpf_map_delete_elem(map, key);
	return 0;
}

/*
 * User space runs this program once a second, with 0: forgets connections that carry nothing; and when the trace ends,
 * with 1: emits the requests that go on.
 */
SEC("raw_tp")
int ollama_settle(struct bpf_raw_tracepoint_args *ctx)
{
	struct ending ending = {.ended = OLLAMA_ENDED_NOT};

	if (!ctx->args[0])
		ending.idle_since_ns = bpf_ktime_get_boot_ns() - FORGET_NS;
	bpf_for_each_map_elem(&ollama_connections, end_connection, &ending, 0);
	return 0;
}

#endif
