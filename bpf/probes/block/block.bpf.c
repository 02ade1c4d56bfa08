/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include "owner.bpf.h"

#include "block.h"

SCOPE_STREAM(block);
SCOPE_SUMMARY(block_summary)

#define MINOR_BITS 20
#define OPERATION_BITS 8
#define PF_KTHREAD 0x00200000 /* include/linux/sched.h */

/* A request that has not ended; the kernel uses its address again afterwards. */
struct block_request {
	struct scope_owner owner;
	__u64 made_ns;
	__u64 issued_ns; /* 0: not yet */
	__u32 bytes;	 /* when the device got it */
	__u8 by_kernel;	 /* a kernel thread made it */
	__u8 flushes;
	__u8 pad[2];
};

SCOPE_REQUESTS(struct block_request, 65536);

struct request___before_5_17 {
	struct gendisk *rq_disk;
} __attribute__((preserve_access_index));

/* f3fa33acca9f ("block: remove the ->rq_disk field in struct request", 5.17). */
static __always_inline struct gendisk *disk_of(struct request *request)
{
	struct request___before_5_17 *old = (void *)request;

	if (bpf_core_field_exists(old->rq_disk))
		return old->rq_disk;
	return request->q->disk;
}

static __always_inline struct block_request *find(struct request *request)
{
	__u64 key = (__u64)request;

	return bpf_map_lookup_elem(&requests, &key);
}

#define HAS_FLAG(flags, name) ((flags) >> bpf_core_enum_value(enum req_flag_bits, __REQ_##name) & 1)

/*
 * A request that begins, of the running process. Whether it flushes is read now: the block layer makes requests of its
 * own for what the device cannot do at once, and takes the flags away.
 */
static __always_inline struct block_request begin(struct request *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct block_request made = {.made_ns = bpf_ktime_get_boot_ns()};

	made.by_kernel = (task->flags & PF_KTHREAD) != 0;
	made.flushes = HAS_FLAG(request->cmd_flags, PREFLUSH) || HAS_FLAG(request->cmd_flags, FUA);
	if (task->pid)
		scope_own(&made.owner, task);
	return made;
}

/* Keeps a request until it ends. There may be no room, which is counted. */
static __always_inline void keep(struct request *request, const struct block_request *made)
{
	__u64 key = (__u64)request;

	if (bpf_map_update_elem(&requests, &key, made, BPF_ANY))
		scope_count_loss(scope_summarize ? stream_block_summary : stream_block, SCOPE_LOST_NO_STATE);
}

/*
 * Runs where a request is made, in the thread that caused it. Since 6.5. Misses flushes of the device's cache, which
 * the block layer makes itself.
 */
SEC("tp_btf/block_io_start")
int BPF_PROG(request_made, struct request *request)
{
	struct block_request made = begin(request);

	keep(request, &made);
	return 0;
}

/* Runs where a request enters a queue: for kernels without block_io_start. Without a scheduler, few requests do. */
SEC("tp_btf/block_rq_insert")
int BPF_PROG(request_inserted, struct request *request)
{
	struct block_request made;

	if (find(request))
		return 0;
	made = begin(request);
	keep(request, &made);
	return 0;
}

/* Runs when the device gets the request, now with all that was merged into it; again if it is handed back. */
SEC("tp_btf/block_rq_issue")
int BPF_PROG(request_issued, struct request *request)
{
	struct block_request *kept = find(request), made;

	if (kept) {
		kept->issued_ns = bpf_ktime_get_boot_ns();
		kept->bytes = request->__data_len;
		return 0;
	}
	made = begin(request);
	made.issued_ns = made.made_ns;
	made.bytes = request->__data_len;
	keep(request, &made);
	return 0;
}

/* Zeroes follow the name, as the disk is allocated zeroed: this costs less than to look for its end. */
static __always_inline void fill_disk(char *name, struct gendisk *disk)
{
	bpf_probe_read_kernel(name, BLOCK_DISK_NAME, &disk->disk_name);
}

/* The cgroup that the request is charged to; NULL: unknown. */
static __always_inline struct cgroup *charged_cgroup(struct request *request)
{
	struct bio *bio = request->bio;

	return bpf_core_field_exists(bio->bi_blkg) ? bio->bi_blkg->blkcg->css.cgroup : NULL;
}

/*
 * Does a kernel thread make the request for the watched cgroup, as it does with what processes of the cgroup have
 * written to memory before? Only version 2 charges write-back to cgroups; ids of version 1 are others.
 */
static __always_inline bool is_for_watched_cgroup(struct request *request, const struct block_request *kept)
{
	struct cgroup *cgroup = charged_cgroup(request);

	if (!cgroup || !kept->by_kernel || !scope_cgroup_alone_decides() || cgroup->root->hierarchy_id)
		return false;
	return cgroup_ancestor_id(cgroup, scope_filter.cgroup_level) == scope_filter.cgroup_id;
}

static __always_inline __u32 device_of(struct request *request, struct gendisk *disk)
{
	__u32 device = request->part->bd_dev;

	return device ? device : (__u32)disk->major << MINOR_BITS | disk->first_minor;
}

/* An empty write waits for a flush of the device's cache, which the block layer makes for it. */
static __always_inline enum block_operation operation_of(struct request *request, const struct block_request *kept)
{
	enum block_operation operation = request->cmd_flags & ((1 << OPERATION_BITS) - 1);

	return operation == OPERATION_WRITE && !kept->bytes ? OPERATION_FLUSH : operation;
}

/* Is this not the end yet? A write that must be beyond the device's cache may wait for a flush after its data. */
static __always_inline bool is_flushed_later(struct request *request)
{
	return (request->cmd_flags & ((1 << OPERATION_BITS) - 1)) != OPERATION_FLUSH && is_in_flush_sequence(request);
}

static __always_inline void emit(struct request *request, const struct block_request *kept, __u64 queue_ns,
				 __u64 device_ns, bool failed)
{
	struct gendisk *disk = disk_of(request);
	struct cgroup *cgroup = charged_cgroup(request);
	__u64 flags = request->cmd_flags;
	struct block_event *event =
		scope_reserve_owned(&kept->owner, stream_block, kept->made_ns + queue_ns + device_ns, sizeof(*event));

	if (!event)
		return;
	event->queue_ns = queue_ns;
	event->device_ns = device_ns;
	event->sector = kept->bytes ? request->__sector : 0;
	event->charged_cgroup_id = cgroup ? cgroup->kn->id : 0;
	event->bytes = kept->bytes;
	event->device = device_of(request, disk);
	event->operation = operation_of(request, kept);
	fill_disk(event->disk, disk);
	event->failed = failed;
	event->sync = HAS_FLAG(flags, SYNC);
	event->metadata = HAS_FLAG(flags, META);
	event->readahead = HAS_FLAG(flags, RAHEAD);
	event->flushes = kept->flushes;
	event->writeback = kept->by_kernel && event->operation == OPERATION_WRITE;
	event->issued = kept->issued_ns != 0;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_block, sizeof(*event));
}

static __always_inline void summarize(struct request *request, const struct block_request *kept, __u64 queue_ns,
				      __u64 device_ns, bool failed)
{
	const struct scope_identity *whose = &kept->owner.whose;
	struct block_summary_key key = {.operation = operation_of(request, kept)};
	struct block_summary_value *value;

	key.process.start_ns = whose->start_ns;
	key.process.cgroup_id = whose->cgroup_id;
	key.process.pid = whose->pid;
	key.process.uid = whose->uid;
	__builtin_memcpy(key.process.comm, whose->comm, SCOPE_COMM_SIZE);
	fill_disk(key.disk, disk_of(request));
	key.writeback = kept->by_kernel && key.operation == OPERATION_WRITE;
	value = block_summary_slot(&key);
	if (!value)
		return;
	__sync_fetch_and_add(&value->count, 1);
	__sync_fetch_and_add(&value->bytes, kept->bytes);
	__sync_fetch_and_add(&value->failed, failed);
	__sync_fetch_and_add(&value->queue_ns, queue_ns);
	__sync_fetch_and_add(&value->device_ns, device_ns);
	scope_histogram_add(&value->queue, queue_ns);
	scope_histogram_add(&value->device, device_ns);
}

/*
 * Runs when the device has done a part of the request, often all of it; mostly in an interrupt. Misses requests that
 * were made before the trace.
 */
SEC("tp_btf/block_rq_complete")
int BPF_PROG(request_done, struct request *request, int error, unsigned int bytes)
{
	struct block_request *kept = find(request);
	__u64 key = (__u64)request, now_ns = bpf_ktime_get_boot_ns(), issued_ns;

	if (!kept || bytes < request->__data_len || is_flushed_later(request))
		return 0;
	issued_ns = kept->issued_ns ? kept->issued_ns : now_ns;
	if (scope_owner_passes(&kept->owner) || is_for_watched_cgroup(request, kept)) {
		if (scope_summarize)
			summarize(request, kept, issued_ns - kept->made_ns, now_ns - issued_ns, error != 0);
		else
			emit(request, kept, issued_ns - kept->made_ns, now_ns - issued_ns, error != 0);
	}
	bpf_map_delete_elem(&requests, &key);
	return 0;
}
