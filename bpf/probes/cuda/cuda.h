/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_CUDA_H
#define SCOPE_CUDA_H

struct cuda_call_event {
	struct scope_header header;
	__u64 duration_ns;
	__u64 bytes;
	__u64 ptr;
	__u64 src;
	__u64 dst;
	__u64 stream;
	__s32 result;
	__s32 device;
	__u16 function_id; /* which of those that user space attached */
	__u8 nested;	   /* inside another call of this thread that is recorded */
	__u8 copy_kind;	   /* enum cudaMemcpyKind */
	__u8 has_bytes;
	__u8 has_ptr;
	__u8 has_src;
	__u8 has_dst;
	__u8 has_stream;
	__u8 has_device;
	__u8 pad[6];
};

struct cuda_launch_event {
	struct scope_header header;
	__u64 duration_ns;
	__u64 handle; /* what the program launched: the address of host code, or the driver's handle */
	__u64 inode;  /* of the file that the kernel's host code lies in; 0: not known */
	__u64 offset; /* of the code in it */
	__u64 arguments;
	__u64 stream;
	__u32 name; /* number of the name that the driver gave out the handle for; 0: none */
	__u32 grid_x;
	__u32 grid_y;
	__u32 grid_z;
	__u32 block_x;
	__u32 block_y;
	__u32 block_z;
	__u32 shared_bytes;
	__s32 result;
	__s32 device;
	__u16 function_id;
	__u8 nested;
	__u8 has_device;
	__u8 pad[4];
};

#endif
