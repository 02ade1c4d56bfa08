/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The processes that run a Python interpreter, and where it keeps what, which differs between versions. User space
 * tells (scope_bpf.code.python); children have what their parents have.
 */
#ifndef SCOPE_PYTHON_INTERPRETER_BPF_H
#define SCOPE_PYTHON_INTERPRETER_BPF_H

/* How a frame tells its instruction. */
enum python_instruction {
	PYTHON_POINTER, /* address of the instruction */
	PYTHON_BYTES,	/* offset in bytes */
	PYTHON_UNITS,	/* offset in instructions of two bytes */
};

SCOPE_SHARED(enum, python_instruction);

/* Where members are in the interpreter's structs. */
struct python_offsets {
	__u16 interpreters;	/* _PyRuntimeState: first interpreter */
	__u16 next_interpreter; /* PyInterpreterState */
	__u16 threads;		/* PyInterpreterState: first thread */
	__u16 next_thread;	/* PyThreadState, like the next three */
	__u16 thread_id;
	__u16 frame;	   /* the innermost frame, or a struct that points to it */
	__u16 frame_in_it; /* offset in that struct */
	__u16 previous;	   /* frame, like the next four */
	__u16 code;
	__u16 instruction;
	__u16 owner;
	__u16 is_entry;
	__u16 cframe;	       /* PyThreadState: struct on the stack of the C function that runs the innermost frame */
	__u16 cframe_previous; /* the same of the one around it */
	__u16 file;	       /* PyCodeObject, like the next four */
	__u16 name;
	__u16 first_line;
	__u16 lines;
	__u16 bytecode;
	__u16 ascii;	      /* size of PyASCIIObject */
	__u16 compact;	      /* size of PyCompactUnicodeObject */
	__u8 frame_is_behind; /* `frame` is a pointer to a struct */
	__u8 has_owner;
	__u8 no_owner_from; /* owners from this number on: no Python frame, but an entry from C */
	__u8 has_is_entry;
	__u8 has_cframe;
	__u8 instruction_is; /* enum python_instruction */
};

/* A process with an interpreter. */
struct python_process {
	__u64 runtime;	 /* address of _PyRuntime */
	__u64 code_type; /* address of PyCode_Type */
	struct python_offsets at;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __s32); /* host pid */
	__type(value, struct python_process);
} python_processes SEC(".maps");

SCOPE_SHARED(struct, python_process);

/* A global function, since each of its callers would need stack for the value. */
__noinline __u64 word_at(__u64 address)
{
	__u64 value = 0;

	bpf_probe_read_user(&value, sizeof(value), (void *)address);
	return value;
}

/* A child has its parent's interpreter at the same addresses. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(python_fork, struct task_struct *parent, struct task_struct *child)
{
	__s32 from = parent->tgid, to = child->tgid;
	struct python_process *process = from == to ? NULL : bpf_map_lookup_elem(&python_processes, &from);

	if (process)
		bpf_map_update_elem(&python_processes, &to, process, BPF_ANY);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(python_exec, struct task_struct *task)
{
	__s32 pid = task->tgid;

	bpf_map_delete_elem(&python_processes, &pid);
	return 0;
}

SEC("tp_btf/sched_process_free")
int BPF_PROG(python_forget, struct task_struct *task)
{
	__s32 pid = task->tgid;

	if (task->pid == pid)
		bpf_map_delete_elem(&python_processes, &pid);
	return 0;
}

#endif
