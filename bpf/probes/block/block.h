/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_BLOCK_H
#define SCOPE_BLOCK_H

/* include/linux/blk_types.h */
enum block_operation {
	OPERATION_READ = 0,
	OPERATION_WRITE = 1,
	OPERATION_FLUSH = 2,
	OPERATION_DISCARD = 3,
	OPERATION_SECURE_ERASE = 5,
	OPERATION_ZONE_APPEND = 7,
	OPERATION_WRITE_ZEROES = 9,
	OPERATION_DRIVER_IN = 34,
	OPERATION_DRIVER_OUT = 35,
};

#define BLOCK_DISK_NAME 32

/* A finished request. The header has the time of its end, and the thread that made it. */
struct block_event {
	struct scope_header header;
	__u64 queue_ns;	 /* until the device got it */
	__u64 device_ns; /* from then on */
	__u64 sector;
	__u64 charged_cgroup_id; /* 0: unknown */
	__u32 bytes;
	__u32 device; /* dev_t of the partition or, without one, of the disk */
	enum block_operation operation;
	char disk[BLOCK_DISK_NAME];
	__u8 failed;
	__u8 sync;
	__u8 metadata;
	__u8 readahead;
	__u8 flushes; /* the device's cache is flushed before it, or it bypasses the cache */
	__u8 writeback;
	__u8 issued; /* 0: the device never got it, as it was empty */
	__u8 pad[5];
};

struct block_summary_key {
	struct scope_process process;
	char disk[BLOCK_DISK_NAME];
	enum block_operation operation;
	__u8 writeback;
	__u8 pad[3];
};

struct block_summary_value {
	__u64 count;
	__u64 bytes;
	__u64 failed;
	__u64 queue_ns;
	__u64 device_ns;
	struct scope_histogram queue;
	struct scope_histogram device;
};

#endif
