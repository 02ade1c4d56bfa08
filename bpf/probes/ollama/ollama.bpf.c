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

#define OLLAMA_TEXT 1024 /* bytes of a piece of a log, including the NUL; a power of 2 */

struct ollama_thread {
	struct scope_thread thread;
	union {
		struct ollama_connections_key key; /* of the call's socket */
		struct file_use use;		   /* or what is done with its file */
	};
	__u64 where; /* the buffer, vector or message header */
	__s32 fd;
	__u32 call; /* CALL_NOT_OURS: not in a call that is watched */
	__u8 of_file;
	__u8 peeks;
	__u8 discards;
	__u8 log_left_out; /* the latest piece of its log is below the least level */
	struct http_source source;
	struct { /* an event being composed */
		struct ollama_log_event event;
		char text[OLLAMA_TEXT];
	} made;
};

SCOPE_THREADS(struct ollama_thread);

#include "log.bpf.h"
#include "traffic.bpf.h"

static __always_inline __u32 call_by_number(unsigned long nr)
{
	return nr < SYSCALLS ? ollama_calls[nr & (SYSCALLS - 1)] : CALL_NOT_OURS;
}

static __always_inline bool uses_files(__u32 call)
{
	return call == CALL_READ || call == CALL_READV || call == CALL_PREAD || call == CALL_MMAP || call == CALL_CLOSE;
}

static __always_inline bool reads_first_bytes(struct file *file, struct pt_regs *regs, __u32 call)
{
	if (call == CALL_PREAD)
		return !syscall_arg(regs, 3);
	return (call == CALL_READ || call == CALL_READV) && !BPF_CORE_READ(file, f_pos);
}

/* A call for a file begins. Returns whether its end is of interest. */
static __always_inline bool enter_file(struct task_struct *task, struct ollama_thread *thread, struct file *file,
				       struct pt_regs *regs, __u32 call)
{
	bool may_begin = reads_first_bytes(file, regs, call);

	if (!models_known && !may_begin)
		return false;
	fill_use(&thread->use, task, file);
	if (call == CALL_CLOSE) {
		close_model(&thread->use);
		return false;
	}
	thread->use.from_begin = may_begin;
	thread->use.begun_ns = bpf_ktime_get_boot_ns();
	return may_begin || is_known_model(&thread->use);
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
		if (!thread->use.from_begin || !open_source(thread, ret) || !is_model(&thread->source))
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
	thread->fd = fd;
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
		end_read(task, thread, ret);
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
