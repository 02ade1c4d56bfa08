/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls of getaddrinfo(), and which queries they make: those that the same thread sends meanwhile. */
#ifndef SCOPE_DNS_LOOKUP_BPF_H
#define SCOPE_DNS_LOOKUP_BPF_H

#define LOOKUP_DEPTH 2 /* a module of the C library may look up its own server; a power of two */
#define LOOKUP_ARGUMENTS 4
#define SOCKADDR_BYTES 24 /* struct sockaddr_in6 up to its address's end */

struct lookup_frame {
	struct scope_call call;
	__u64 result; /* address of the pointer to the list of answers */
};

/* struct addrinfo in netdb.h of glibc and musl, on 64 bits. */
struct lookup_answer {
	__s32 flags;
	__s32 family;
	__s32 type;
	__s32 protocol;
	__u32 length;
	__u32 pad;
	__u64 address;
};

struct lookup_key {
	__u32 tid;
	__u32 depth;
};

/* A running call, where programs for packets find it: they cannot read the thread's state on all kernels. */
struct lookup {
	__u64 number; /* the time, which no other call of the thread began at */
	__u32 queries;
	__u32 family;
	__u32 length; /* of the name */
	char name[NAME_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct lookup_key);
	__type(value, struct lookup);
} lookups SEC(".maps");

/* What is composed is kept by thread, not by CPU: a thread may lose its CPU while a uprobe's program runs. */
struct dns_thread {
	struct scope_thread thread;
	struct scope_calls calls;
	struct lookup_frame frames[LOOKUP_DEPTH];
	struct lookup lookup; /* that begins */
	struct {	      /* the row of one that returns */
		struct dns_lookup_event event;
		char name[NAME_BYTES];
	} made;
};

SCOPE_THREADS(struct dns_thread);
SCOPE_CALLS(struct dns_thread, struct lookup_frame);

/* The innermost running call of a thread, or NULL. */
static __always_inline struct lookup *running_lookup(struct task_struct *task)
{
	struct lookup_key key = {.tid = task->pid};
	struct lookup *lookup = NULL;

	for (__u32 depth = LOOKUP_DEPTH; depth && !lookup; depth--) {
		key.depth = depth;
		lookup = bpf_map_lookup_elem(&lookups, &key);
	}
	return lookup;
}

/* getaddrinfo(name, service, hints, result) */
SEC("uprobe")
int SCOPE_UNPREEMPTED(dns_lookup_enter, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	__u64 args[CALL_ARGUMENTS] = {};
	struct dns_thread *thread;
	struct lookup_frame *frame;
	struct lookup_answer hints = {};
	struct lookup_key key = {};
	struct user_frame entry;
	struct lookup *lookup;
	long length;

	thread = calling_thread(task, number, stream_dns_lookup);
	if (!thread)
		return 0;
	frame = enter_call(ctx, thread, number, stream_dns_lookup);
	if (!frame)
		return 0;
	read_entry(ctx, &entry, args, LOOKUP_ARGUMENTS);
	lookup = &thread->lookup;
	length = args[0] ? read_user_string(lookup->name, sizeof(lookup->name), (void *)args[0]) : 1;
	lookup->length = length > 0 ? length - 1 : 0;
	if (length <= 0)
		scope_count_incomplete(stream_dns_lookup);
	if (args[2])
		bpf_probe_read_user(&hints, sizeof(hints), (void *)args[2]);
	lookup->family = hints.family;
	lookup->queries = 0;
	lookup->number = bpf_ktime_get_boot_ns();
	frame->result = args[3];
	key.tid = task->pid;
	key.depth = thread->calls.depth;
	if (bpf_map_update_elem(&lookups, &key, lookup, BPF_ANY)) {
		scope_lose_hit(number, stream_dns_lookup, SCOPE_LOST_NO_STATE);
		end_call(thread);
		return 0;
	}
	frame->call.entered_ns = bpf_ktime_get_boot_ns();
	return 0;
}

/* The first address of the list; its family stays 0 if it cannot be read. */
static __always_inline void read_first(__u64 result, struct scope_address *address)
{
	struct lookup_answer first = {};
	__u8 bytes[SOCKADDR_BYTES] = {};
	__u64 list = 0;

	if (bpf_probe_read_user(&list, sizeof(list), (void *)result) ||
	    bpf_probe_read_user(&first, sizeof(first), (void *)list))
		return;
	if (first.family == AF_INET && !bpf_probe_read_user(bytes, 8, (void *)first.address)) {
		address->family = AF_INET;
		__builtin_memcpy(address->bytes, bytes + 4, 4);
	}
	if (first.family == AF_INET6 && !bpf_probe_read_user(bytes, sizeof(bytes), (void *)first.address)) {
		address->family = AF_INET6;
		__builtin_memcpy(address->bytes, bytes + 8, 16);
	}
}

SEC("uretprobe")
int SCOPE_UNPREEMPTED(dns_lookup_return, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct dns_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u64 now_ns = bpf_ktime_get_boot_ns();
	struct dns_lookup_event *event;
	struct lookup_frame *frame;
	struct lookup_key key = {};
	struct lookup *lookup;
	__u32 length;

	if (!thread)
		return 0;
	key.tid = task->pid;
	frame = leave_call(ctx, thread, bpf_get_attach_cookie(ctx));
	key.depth = thread->calls.depth + 1;
	lookup = frame ? bpf_map_lookup_elem(&lookups, &key) : NULL;
	if (!lookup)
		return 0;
	event = &thread->made.event;
	length = lookup->length;
	event->duration_ns = now_ns - frame->call.entered_ns;
	event->lookup = lookup->number;
	event->family = lookup->family;
	event->queries = lookup->queries;
	event->result = (__s32)PT_REGS_RC(ctx);
	event->failed = event->result != RESULT_OK;
	event->name.offset = 0;
	event->name.length = length;
	__builtin_memset(&event->answer, 0, sizeof(event->answer));
	if (!event->failed)
		read_first(frame->result, &event->answer);
	__builtin_memcpy(thread->made.name, lookup->name, NAME_BYTES);
	bpf_map_delete_elem(&lookups, &key);
	barrier_var(length);
	if (length < NAME_BYTES)
		scope_output(&event->header, task, stream_dns_lookup, frame->call.entered_ns, sizeof(*event) + length);
	return 0;
}

/* A thread that ends during a call, by a signal, or a program that another one replaces. */
static __always_inline void leave_lookups(struct task_struct *task)
{
	struct dns_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	struct lookup_key key = {.tid = task->pid};

	if (!thread || !thread->calls.depth)
		return;
	leave_all_calls(thread);
	for (__u32 depth = 1; depth <= LOOKUP_DEPTH; depth++) {
		key.depth = depth;
		bpf_map_delete_elem(&lookups, &key);
	}
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(dns_lookup_abandon, struct task_struct *task)
{
	leave_lookups(task);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(dns_lookup_replace, struct task_struct *task)
{
	leave_lookups(task);
	return 0;
}

#endif
