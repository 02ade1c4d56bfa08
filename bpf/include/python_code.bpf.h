/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Code objects of Python: identified by their address and by what they point to. Name, file and line table are kept
 * when a code object is first seen, so that they outlive it.
 */
#ifndef SCOPE_PYTHON_CODE_BPF_H
#define SCOPE_PYTHON_CODE_BPF_H

#include "python_interpreter.bpf.h"

#define PYTHON_CODE_NAME 128  /* bytes of a function's name */
#define PYTHON_CODE_FILE 224  /* bytes of a path */
#define PYTHON_CODE_LINES 480 /* bytes of a piece of a line table */
#define PYTHON_CODE_PIECES 64

/* A text as the interpreter keeps it: one, two or four bytes a character. */
struct python_text {
	__u32 length; /* characters of the whole text */
	__u16 bytes;  /* that are kept */
	__u8 width;
	__u8 pad;
};

struct python_code {
	struct python_text name;
	struct python_text file;
	__u32 first_line;
	__u32 lines_bytes;
	__u8 name_bytes[PYTHON_CODE_NAME]; /* its begin */
	__u8 file_bytes[PYTHON_CODE_FILE]; /* its end */
};

/* Preallocated: a first stack has dozens of new code objects, and allocation on demand fails in such bursts. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct python_codes_key);
	__type(value, struct python_code);
} python_codes SEC(".maps");

struct python_lines_key {
	__u64 start_ns;
	__u64 number; /* of the code object */
	__s32 pid;
	__u32 piece;
};

struct python_lines {
	__u8 bytes[PYTHON_CODE_LINES];
};

/* Line tables, in pieces. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct python_lines_key);
	__type(value, struct python_lines);
} python_lines SEC(".maps");

/* Memory of a thread to compose map entries: another thread may run its program on the same CPU in between. */
struct python_made {
	struct python_code code;
	struct python_lines lines;
};

SCOPE_THREAD_STATE(python_making, struct python_made);

/* Describes a str, and returns the address of its characters; 0: it is none that can be read. */
static __always_inline __u64 open_text(const struct python_offsets *at, __u64 object, struct python_text *text)
{
	struct { /* PyASCIIObject after the object's header: since 3.3, Include/cpython/unicodeobject.h */
		__u64 length;
		__u64 hash;
		__u32 state; /* interned: 2 bits, kind: 3, compact: 1, ascii: 1 */
	} head;

	text->length = text->bytes = text->width = 0;
	if (bpf_probe_read_user(&head, sizeof(head), (void *)(object + 16)) || !(head.state >> 5 & 1))
		return 0;
	text->length = head.length;
	text->width = head.state >> 2 & 7;
	return object + (head.state >> 6 & 1 ? at->ascii : at->compact);
}

static __noinline int keep_code_name(const struct python_offsets *at, __u64 object, struct python_code *code)
{
	__u64 from, bytes;

	if (!at || !code)
		return -1;
	from = open_text(at, object, &code->name);
	bytes = (__u64)code->name.length * code->name.width;
	if (bytes > PYTHON_CODE_NAME)
		bytes = PYTHON_CODE_NAME;
	barrier_var(bytes);
	if (!from || !bytes || bytes > PYTHON_CODE_NAME || bpf_probe_read_user(code->name_bytes, bytes, (void *)from))
		return -1;
	code->name.bytes = bytes;
	return 0;
}

static __noinline int keep_code_file(const struct python_offsets *at, __u64 object, struct python_code *code)
{
	__u64 from, bytes, all;

	if (!at || !code)
		return -1;
	from = open_text(at, object, &code->file);
	bytes = all = (__u64)code->file.length * code->file.width;
	if (bytes > PYTHON_CODE_FILE)
		bytes = PYTHON_CODE_FILE;
	barrier_var(bytes);
	if (!from || !bytes || bytes > PYTHON_CODE_FILE ||
	    bpf_probe_read_user(code->file_bytes, bytes, (void *)(from + all - bytes)))
		return -1;
	code->file.bytes = bytes;
	return 0;
}

struct python_copy {
	struct python_position *place;
	struct python_lines *lines;
};

static long copy_lines(__u32 index, struct python_copy *copy)
{
	struct python_position *place = copy->place;
	struct python_lines_key key;
	__u32 done = index * PYTHON_CODE_LINES, bytes = place->lines_bytes - done;
	long error;

	if (done >= place->lines_bytes)
		return 1;
	if (bytes > PYTHON_CODE_LINES)
		bytes = PYTHON_CODE_LINES;
	barrier_var(bytes);
	if (bytes > PYTHON_CODE_LINES ||
	    bpf_probe_read_user(copy->lines->bytes, bytes, (void *)(place->lines_from + done))) {
		place->lines_failed = 1;
		return 1;
	}
	key.start_ns = place->code.start_ns;
	key.number = place->code.number;
	key.pid = place->code.pid;
	key.piece = index;
	error = bpf_map_update_elem(&python_lines, &key, copy->lines, BPF_NOEXIST);
	if (!error || error == -EEXIST)
		return 0;
	place->lines_failed = 1;
	return 1;
}

/*
 * Keeps a code object under its number, which is in `place`. Returns 0, or -1: then it is tried again when the code is
 * seen again.
 */
static __noinline int keep_code(const struct python_offsets *at, __u64 address, struct python_position *place)
{
	struct python_copy copy = {.place = place};
	struct python_codes_key key;
	struct python_made *made;
	struct python_code *code;
	__u64 lines;

	made = bpf_task_storage_get(&python_making, bpf_get_current_task_btf(), 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!made || !at || !place)
		return -1;
	code = &made->code;
	if (bpf_probe_read_user(&lines, sizeof(lines), (void *)(address + at->lines)))
		return -1;
	code->lines_bytes = word_at(lines + 16); /* ob_size of a PyBytesObject; its bytes begin at 32 */
	code->first_line = word_at(address + at->first_line);
	if (keep_code_name(at, word_at(address + at->name), code) ||
	    keep_code_file(at, word_at(address + at->file), code))
		return -1;
	copy.lines = &made->lines;
	place->lines_from = lines + 32;
	place->lines_bytes = code->lines_bytes;
	place->lines_failed = 0;
	bpf_loop(PYTHON_CODE_PIECES, copy_lines, &copy, 0);
	key = place->code; /* before 6.2, a key cannot be in memory that was handed on */
	if (place->lines_failed || bpf_map_update_elem(&python_codes, &key, code, BPF_ANY))
		return -1;
	return 0;
}

/*
 * The number of a code object: of its address, and of what it points to. Code that is made, called and freed again may
 * leave all addresses to the next one; the hash of the name, which is interned, tells them apart.
 */
static __always_inline __u64 code_number(const struct python_offsets *at, __u64 code)
{
	__u64 name = word_at(code + at->name);
	__u64 number = mix(mix(code, name), word_at(code + at->lines));

	number = mix(number, word_at(name + 24)); /* PyASCIIObject.hash, Include/cpython/unicodeobject.h */
	return mix(mix(number, (__u32)word_at(code + at->first_line)), word_at(code + at->file));
}

#endif
