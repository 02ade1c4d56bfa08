/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files that a program has registered with io_uring, which its entries name by number in place of a descriptor. */
#ifndef SCOPE_REGISTERED_FILE_BPF_H
#define SCOPE_REGISTERED_FILE_BPF_H

#define FFS_BITS 7UL /* flags in an address's lowest bits, io_uring/filetable.h; at most 3 */

struct io_rsrc_node___since_6_13 {
	unsigned long file_ptr;
} __attribute__((preserve_access_index));

struct io_rsrc_data___since_6_13 {
	unsigned int nr;
	struct io_rsrc_node___since_6_13 **nodes;
} __attribute__((preserve_access_index));

struct io_file_table___since_6_13 {
	struct io_rsrc_data___since_6_13 data;
} __attribute__((preserve_access_index));

struct io_ring_ctx___since_6_13 {
	struct io_file_table___since_6_13 file_table;
} __attribute__((preserve_access_index));

/* 3597f2786b68 ("io_uring/rsrc: unify file and buffer resource tables", 6.13). */
static __always_inline unsigned long registered_address(struct io_ring_ctx *ring, __u32 number)
{
	struct io_ring_ctx___since_6_13 *newer = (void *)ring;
	struct io_rsrc_node___since_6_13 **nodes, *node = NULL;
	struct io_fixed_file *files, file = {};

	if (bpf_core_field_exists(newer->file_table.data)) {
		nodes = BPF_CORE_READ(newer, file_table.data.nodes);
		if (number < BPF_CORE_READ(newer, file_table.data.nr))
			bpf_probe_read_kernel(&node, sizeof(node), nodes + number);
		return node ? BPF_CORE_READ(node, file_ptr) : 0;
	}
	files = BPF_CORE_READ(ring, file_table.files);
	if (number < BPF_CORE_READ(ring, nr_user_files))
		bpf_probe_read_kernel(&file, sizeof(file), files + number);
	return file.file_ptr;
}

/* The file that a request of io_uring names by this number. NULL: there is none. */
static __always_inline struct file *registered_file(struct io_kiocb *request, __u32 number)
{
	return (void *)(registered_address(BPF_CORE_READ(request, ctx), number) & ~FFS_BITS);
}

#endif
