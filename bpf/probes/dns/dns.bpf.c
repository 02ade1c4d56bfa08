/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include <bpf/bpf_endian.h>

#include "calls.bpf.h"
#include "owner.bpf.h"

#include "dns.h"

#include "packet.bpf.h"

SCOPE_STREAM(dns);
SCOPE_STREAM(dns_lookup);

#include "lookup.bpf.h"

const volatile __u64 timeout_ns;

struct dns_key {
	__u64 socket; /* its cookie */
	__u16 id;
	__u8 pad[6];
};

/* A query without an answer yet. */
struct dns_query {
	struct scope_owner owner;
	__u64 sent_ns;
	struct scope_address server;
	__u32 attempts;
	__u32 question_bytes;
	__u16 server_port;
	__u16 type;
	__u8 protocol;
	__u8 pad[7];
	char name[NAME_BYTES]; /* from the second byte on */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct dns_key);
	__type(value, struct dns_query);
} queries SEC(".maps");

/* What a program looked up by name, when that led to a query. */
struct dns_asked {
	__u64 number; /* of the lookup */
	__u32 length;
	char name[NAME_BYTES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct dns_key);
	__type(value, struct dns_asked);
} asked SEC(".maps");

/* A query or a row while it is made. Interrupts may make another one meanwhile: they have their own. */
struct dns_scratch {
	struct dns_query query;
	struct dns_event event;
	char name[NAME_BYTES];
	char looked_up[NAME_BYTES];
	struct dns_asked asked;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3);
	__type(key, __u32);
	__type(value, struct dns_scratch);
} scratches SEC(".maps");

enum dns_scratch_number { OF_SENT, OF_RECEIVED, OF_SETTLED };

/* The row of a query, with the answer in the event, which the caller has filled. */
static __always_inline void emit(struct dns_scratch *scratch, const struct dns_key *key, struct dns_query *query)
{
	struct dns_asked *before = bpf_map_lookup_elem(&asked, key);
	struct dns_event *event = &scratch->event;
	bool known = query->owner.state == SCOPE_OWNER_KNOWN;
	__u64 length = query->question_bytes - 6; /* without the first length, the last one, type and class */
	__u32 looked_up = before ? before->length : 0;

	if (!scope_owner_passes(&query->owner))
		return;
	if (query->question_bytes < 6)
		length = 0; /* the root */
	event->duration_ns = bpf_ktime_get_boot_ns() - query->sent_ns;
	event->server = query->server;
	event->server_port = query->server_port;
	event->qtype = query->type;
	event->protocol = query->protocol;
	event->attempts = query->attempts;
	event->failed = event->code != CODE_NOERROR;
	event->name.offset = 0;
	event->name.length = length;
	__builtin_memcpy(scratch->name, query->name + 1, NAME_BYTES - 1);
	event->lookup = before ? before->number : 0;
	event->looked_up.offset = before ? NAME_BYTES : 0;
	event->looked_up.length = looked_up;
	if (before) {
		__builtin_memcpy(scratch->looked_up, before->name, NAME_BYTES);
		length = NAME_BYTES + looked_up;
	}
	barrier_var(length);
	if (length >= 2 * NAME_BYTES)
		return;
	barrier_var(length); /* 6.1's verifier knows bounds of what is spilled after the check, in 64 bits */
	if (!known)
		scope_count_incomplete(stream_dns);
	scope_output_for(&event->header, known ? &query->owner.whose : NULL, stream_dns, query->sent_ns,
			 sizeof(*event) + length);
}

static __always_inline void forget(const struct dns_key *key)
{
	bpf_map_delete_elem(&queries, key);
	bpf_map_delete_elem(&asked, key);
}

/*
 * Runs for each packet that a socket sends, mostly in the thread that sends it: whose query it is. Misses encrypted DNS
 * (ports 443 and 853).
 */
SEC("cgroup_skb/egress")
int SCOPE_UNPREEMPTED(dns_sent, struct __sk_buff *, skb)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct dns_packet packet = {};
	struct dns_key key = {};
	struct dns_scratch *scratch;
	struct dns_query *query;
	struct lookup *lookup;
	__u32 number = OF_SENT;

	if (!read_packet(skb, true, &packet) || packet.header.flags & bpf_htons(FLAG_RESPONSE) ||
	    !packet.header.questions)
		return 1;
	if (task->pid ? !scope_passes(task) : !scope_nobody_passes())
		return 1;
	key.socket = bpf_get_socket_cookie(skb);
	key.id = packet.header.id;
	query = bpf_map_lookup_elem(&queries, &key);
	if (query) { /* sent again */
		__sync_fetch_and_add(&query->attempts, 1);
		return 1;
	}
	scratch = bpf_map_lookup_elem(&scratches, &number);
	if (!scratch)
		return 1;
	query = &scratch->query;
	__builtin_memset(query, 0, sizeof(*query));
	query->question_bytes = read_question(skb, packet.message + sizeof(packet.header), query->name, &query->type);
	if (!query->question_bytes)
		return 1;
	if (task->pid)
		scope_own(&query->owner, task);
	query->sent_ns = bpf_ktime_get_boot_ns();
	query->server = packet.server;
	query->server_port = packet.server_port;
	query->protocol = packet.protocol;
	query->attempts = 1;
	if (bpf_map_update_elem(&queries, &key, query, BPF_ANY)) {
		scope_count_loss(stream_dns, SCOPE_LOST_NO_STATE);
		return 1;
	}
	lookup = running_lookup(task);
	if (!lookup)
		return 1;
	__sync_fetch_and_add(&lookup->queries, 1);
	scratch->asked.number = lookup->number;
	scratch->asked.length = lookup->length;
	__builtin_memcpy(scratch->asked.name, lookup->name, NAME_BYTES);
	if (bpf_map_update_elem(&asked, &key, &scratch->asked, BPF_ANY))
		scope_count_incomplete(stream_dns);
	return 1;
}

/* Runs for each packet that a socket gets, in an interrupt. */
SEC("cgroup_skb/ingress")
int SCOPE_UNPREEMPTED(dns_received, struct __sk_buff *, skb)
{
	struct dns_packet packet = {};
	struct dns_key key = {};
	struct dns_scratch *scratch;
	struct dns_query *query;
	__u32 number = OF_RECEIVED, offset;
	__u16 flags;

	if (!read_packet(skb, false, &packet) || !(packet.header.flags & bpf_htons(FLAG_RESPONSE)))
		return 1;
	key.socket = bpf_get_socket_cookie(skb);
	key.id = packet.header.id;
	query = bpf_map_lookup_elem(&queries, &key);
	scratch = bpf_map_lookup_elem(&scratches, &number);
	if (!query || !scratch)
		return 1;
	flags = bpf_ntohs(packet.header.flags);
	scratch->event.code = flags & CODE_BITS;
	scratch->event.truncated = (flags & FLAG_TRUNCATED) != 0;
	scratch->event.answers = bpf_ntohs(packet.header.answers);
	__builtin_memset(&scratch->event.answer, 0, sizeof(scratch->event.answer));
	offset = packet.message + sizeof(packet.header) + (packet.header.questions ? query->question_bytes : 0);
	read_answer(skb, offset, scratch->event.answers, &scratch->event.answer);
	emit(scratch, &key, query);
	forget(&key);
	return 1;
}

struct dns_settling {
	bool all;
};

static long settle(void *map, const struct dns_key *key, struct dns_query *query, struct dns_settling *settling)
{
	bool is_late = bpf_ktime_get_boot_ns() - query->sent_ns >= timeout_ns;
	struct dns_scratch *scratch;
	__u32 number = OF_SETTLED;

	scratch = bpf_map_lookup_elem(&scratches, &number);
	if (!scratch || (!is_late && !settling->all))
		return 0;
	scratch->event.code = is_late ? CODE_TIMEOUT : CODE_UNANSWERED;
	scratch->event.truncated = 0;
	scratch->event.answers = 0;
	__builtin_memset(&scratch->event.answer, 0, sizeof(scratch->event.answer));
	emit(scratch, key, query);
	forget(key);
	return 0;
}

/* User space runs this program every second: queries that no answer came to. Its argument is 1 at the end. */
SEC("raw_tp")
int dns_settle(struct bpf_raw_tracepoint_args *ctx)
{
	struct dns_settling settling = {.all = ctx->args[0]};

	bpf_for_each_map_elem(&queries, settle, &settling, 0);
	return 0;
}
