/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a server of models does: its requests over HTTP, read from the calls with which it reads and writes its sockets;
 * the files of models that it loads; and its log.
 */
#include "scope.bpf.h"

#include "path.bpf.h"
#include "place.bpf.h"

#include "ollama.h"

SCOPE_STREAM(ollama_request);
SCOPE_STREAM(ollama_chunk);
SCOPE_STREAM(ollama_model);
SCOPE_STREAM(ollama_log);

#include "http.bpf.h"

#include "connections.bpf.h"
#include "models.bpf.h"
#include "requests.bpf.h"
#include "responses.bpf.h"
#include "socket.bpf.h"

struct ollama_place {
	enum ollama_function function;
};

SCOPE_PLACES(struct ollama_place);

/* The kinds of calls, by the architecture's call numbers; set at load. */
enum ollama_call {
	CALL_NOT_OURS,
	CALL_READ,     /* (fd, buffer, size) */
	CALL_READV,    /* (fd, vector, count) */
	CALL_PREAD,    /* (fd, buffer, size, offset) */
	CALL_MMAP,     /* (address, size, protection, flags, fd, offset) */
	CALL_RECVFROM, /* (fd, buffer, size, flags) */
	CALL_RECVMSG,  /* (fd, msghdr, flags) */
	CALL_WRITE,    /* as for reading, and so on; `sendto` too */
	CALL_WRITEV,
	CALL_SENDMSG,
	CALL_SENDFILE, /* (fd, ...) */
	CALL_CLOSE,    /* (fd) */
	CALL_SHUTDOWN, /* (fd, how) */
};

SCOPE_SHARED(enum, ollama_call);

const volatile __u8 ollama_calls[SYSCALLS];

/* include/linux/socket.h: the bytes stay in the socket, or are no part of the stream. */
#define MSG_OOB 0x1
#define MSG_PEEK 0x2
#define MSG_TRUNC 0x20
#define MSG_ERRQUEUE 0x2000

#define SHUT_RD 0

/* include/uapi/asm-generic/errno.h: the connection is no more. */
#define EPIPE 32
#define ECONNRESET 104
#define ETIMEDOUT 110

#define OLLAMA_TEXT 1024 /* bytes of a piece of a log, including the NUL; a power of 2 */

struct ollama_thread {
	struct scope_thread thread;
	union {
		struct ollama_connections_key key; /* of the call's socket */
		struct file_use use;		   /* or what is done with its file */
	};
	__u64 where; /* the buffer, vector or message header */
	__u64 sock;
	__u32 call; /* CALL_NOT_OURS: not in a call that is watched */
	__u8 of_file;
	__u8 peeks;
	__u16 log_left_out; /* the latest piece of its log is below the least level */
	struct http_source source;
	struct { /* an event being composed */
		struct ollama_log_event event;
		char text[OLLAMA_TEXT];
	} made;
};

SCOPE_THREADS(struct ollama_thread);

#include "log.bpf.h"

static __always_inline bool is_write(__u32 call)
{
	return call >= CALL_WRITE && call < CALL_CLOSE;
}

/* Is the stream of bytes left alone by a call with these flags? */
static __always_inline bool leaves_bytes(__u32 call, struct pt_regs *regs)
{
	__u64 flags = call == CALL_RECVFROM ? syscall_arg(regs, 3) : call == CALL_RECVMSG ? syscall_arg(regs, 2) : 0;

	return flags & (MSG_OOB | MSG_PEEK | MSG_TRUNC | MSG_ERRQUEUE);
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
	source->unreadable = thread->call == CALL_SENDFILE;
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

static __always_inline void end_read(struct ollama_thread *thread, __s64 ret)
{
	struct ollama_connection *connection = bpf_map_lookup_elem(&ollama_connections, &thread->key);
	struct feeding feeding = {.source = &thread->source};

	if (connection && ret <= 0) {
		note_end(connection, true, ret);
		return;
	}
	if (ret <= 0 || thread->peeks || !open_source(thread, ret))
		return;
	if (!connection) {
		if (!looks_like_request(&thread->source))
			return;
		connection = make_connection(&thread->key);
		if (!connection) {
			scope_count_loss(stream_ollama_request, SCOPE_LOST_MAP_FULL);
			return;
		}
		if (!fill_peer(connection, (struct sock *)thread->sock)) {
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

static __always_inline void close_connection(struct ollama_connections_key *key, struct file *file, __u32 call,
					     __u64 how)
{
	struct ollama_connection *connection = bpf_map_lookup_elem(&ollama_connections, key);

	if (!connection)
		return;
	if (call == CALL_CLOSE ? file_has_copies(file) : how == SHUT_RD)
		return;
	if (!connection->peer_closed && !connection->broken)
		connection->closing = 1;
	if (call == CALL_SHUTDOWN)
		return;
	end_requests(connection, OLLAMA_ENDED_CLOSED);
	bpf_map_delete_elem(&ollama_connections, key);
}

static __always_inline __u32 call_by_number(unsigned long nr)
{
	return nr < SYSCALLS ? ollama_calls[nr & (SYSCALLS - 1)] : CALL_NOT_OURS;
}

static __always_inline bool uses_files(__u32 call)
{
	return call == CALL_READ || call == CALL_READV || call == CALL_PREAD || call == CALL_MMAP || call == CALL_CLOSE;
}

/* A call for a socket begins. Returns whether its end is of interest. */
static __always_inline bool enter_socket(struct task_struct *task, struct ollama_thread *thread, struct file *file,
					 struct pt_regs *regs, __u32 call)
{
	connection_key(&thread->key, task, file_inode(file));
	if (call >= CALL_CLOSE) {
		close_connection(&thread->key, file, call, syscall_arg(regs, 1));
		return false;
	}
	if (call == CALL_MMAP || call == CALL_PREAD ||
	    (is_write(call) && !bpf_map_lookup_elem(&ollama_connections, &thread->key)))
		return false;
	thread->sock = (__u64)sock_of(file);
	thread->peeks = leaves_bytes(call, regs);
	return true;
}

/* The same for a file. */
static __always_inline bool enter_file(struct task_struct *task, struct ollama_thread *thread, struct file *file,
				       struct pt_regs *regs, __u32 call)
{
	fill_use(&thread->use, task, file);
	if (call == CALL_CLOSE) {
		close_model(&thread->use);
		return false;
	}
	thread->use.offset = call == CALL_PREAD ? syscall_arg(regs, 3) : BPF_CORE_READ(file, f_pos);
	thread->use.begun_ns = bpf_ktime_get_boot_ns();
	return call != CALL_MMAP || is_known_model(&thread->use);
}

static __always_inline void end_file(struct task_struct *task, struct ollama_thread *thread, __s64 ret, __u64 size)
{
	if (thread->call == CALL_MMAP) {
		if ((__u64)ret < -4095ULL)
			use_model(task, &thread->use, true, size);
		return;
	}
	if (ret <= 0)
		return;
	if (!is_known_model(&thread->use)) {
		if (thread->use.offset || !open_source(thread, ret) || !is_model(&thread->source))
			return;
		keep_model(&thread->use);
	}
	use_model(task, &thread->use, false, ret);
}

/*
 * The raw tracepoints cost other calls one table lookup, and calls for other files and sockets, the look at the file.
 * They miss io_uring, recvmmsg, sendmmsg and splice, and 32-bit processes, which have other call numbers.
 */
SEC("tp_btf/sys_enter")
int BPF_PROG(ollama_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 call = call_by_number(nr);
	struct ollama_thread *thread;
	struct file *file;
	__u32 type;
	__s32 fd;

	if (call == CALL_NOT_OURS || is_compat(task))
		return 0;
	if (call == CALL_MMAP)
		fd = syscall_arg(regs, 4);
	else
		fd = syscall_arg(regs, 0);
	if (fd < 0)
		return 0; /* memory without a file */
	thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread) {
		if (scope_passes(task))
			scope_count_incomplete(stream_ollama_request);
		return 0;
	}
	thread->call = CALL_NOT_OURS;
	if (!scope_thread_passes(task, &thread->thread))
		return 0;
	file = running_file(task, fd);
	type = file ? file_type(file) : 0;
	if (type == S_IFSOCK) {
		if (!enter_socket(task, thread, file, regs, call))
			return 0;
	} else if (type != S_IFREG || !uses_files(call) || !enter_file(task, thread, file, regs, call)) {
		return 0;
	}
	thread->of_file = type == S_IFREG;
	thread->where = syscall_arg(regs, 1);
	thread->call = call;
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(ollama_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct ollama_thread *thread;

	if (call_by_number(syscall_number(regs)) == CALL_NOT_OURS)
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!thread || thread->call == CALL_NOT_OURS)
		return 0;
	if (thread->of_file)
		end_file(task, thread, ret, thread->where);
	else if (is_write(thread->call))
		end_written(task, thread, ret);
	else
		end_read(thread, ret);
	thread->call = CALL_NOT_OURS;
	return 0;
}

/* A process ends: so do its requests and loads. */
SEC("tp_btf/sched_process_exit")
int ollama_end(unsigned long long *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct ending ending = {.start_ns = task_start_ns(task), .pid = task->tgid, .ended = OLLAMA_ENDED_EXITED};
	struct unloading unloading = {.ended = OLLAMA_LOADED_EXITED};
	struct ollama_processes_key process = {.start_ns = ending.start_ns, .pid = ending.pid};

	if (!is_last_thread(ctx, task) || !bpf_map_lookup_elem(&ollama_processes, &process))
		return 0;
	unloading.start_ns = ending.start_ns;
	unloading.pid = ending.pid;
	bpf_map_delete_elem(&ollama_processes, &process);
	bpf_for_each_map_elem(&ollama_loads, end_load, &unloading, 0);
	bpf_for_each_map_elem(&ollama_connections, end_connection, &ending, 0);
	return 0;
}
