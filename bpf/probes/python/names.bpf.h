/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The names of a function and its file: read from the process, compared with the options, hashed. */
#ifndef SCOPE_PYTHON_NAMES_BPF_H
#define SCOPE_PYTHON_NAMES_BPF_H

#define PYTHON_FUNCTION 256 /* bytes, including the NUL; a longer name is absent */
#define PYTHON_FILE 1024    /* likewise */
#define PYTHON_WORDS ((PYTHON_FUNCTION + PYTHON_FILE) / 8)
#define PYTHON_WANTED 4 /* functions and prefixes of files that options may name */

const volatile __u32 wanted_functions;
const volatile __u32 wanted_files;
const volatile char wanted_function[PYTHON_WANTED][PYTHON_FUNCTION];
const volatile char wanted_file[PYTHON_WANTED][PYTHON_FILE];
const volatile __u32 wanted_file_length[PYTHON_WANTED];

/* Two strings, one after the other, each ended by a NUL; then zeros up to a multiple of 8. */
struct python_names {
	__u32 function; /* bytes, including the NUL; 0: absent */
	__u32 file;	/* likewise */
	char text[PYTHON_FUNCTION + PYTHON_FILE + 8];
};

/* Reads a string of at most `size` bytes into `to`. Returns its bytes, including the NUL; 0: absent or longer. */
static __always_inline __u32 read_name(char *to, __u32 size, __u64 at)
{
	long length = at ? read_user_string(to, size, (void *)at) : 0;

	return length > 0 && length < size ? length : 0;
}

static __noinline int read_names(struct python_names *names, __u64 function, __u64 file)
{
	__u32 length, end;

	if (!names)
		return 0;
	length = read_name(names->text, PYTHON_FUNCTION, function);
	names->function = length;
	barrier_var(length);
	if (length > PYTHON_FUNCTION)
		return 0;
	end = read_name(names->text + length, PYTHON_FILE, file);
	names->file = end;
	end += length;
	barrier_var(end);
	if (end > PYTHON_FUNCTION + PYTHON_FILE)
		return 0;
	__builtin_memset(names->text + end, 0, 8);
	return 0;
}

/* Is the function, by its names, one that the options want? */
static __noinline bool is_wanted(struct python_names *names)
{
	bool found = !wanted_functions;
	__u32 start;

	if (!names)
		return false;
#pragma unroll
	for (__u32 i = 0; i < PYTHON_WANTED; i++)
		if (!found && i < wanted_functions && names->function)
			found = !bpf_strncmp(names->text, PYTHON_FUNCTION, (const char *)wanted_function[i]);
	if (!found || !wanted_files)
		return found;
	start = names->function;
	barrier_var(start);
	if (!names->file || start > PYTHON_FUNCTION)
		return false;
	found = false;
#pragma unroll
	for (__u32 i = 0; i < PYTHON_WANTED; i++) {
		__u32 length = wanted_file_length[i];

		if (!found && i < wanted_files && length && length < PYTHON_FILE)
			found = !bpf_strncmp(names->text + start, length, (const char *)wanted_file[i]);
	}
	return found;
}

/* A number for the names. */
static __noinline __u64 hash_names(struct python_names *names)
{
	__u64 hash = 0;

	if (!names)
		return 0;
	hash = names->function;
	for (__u32 i = 0; i < PYTHON_WORDS && i * 8 < names->function + names->file; i++) {
		hash = (hash ^ ((__u64 *)names->text)[i]) * 0x9e3779b97f4a7c15ULL;
		hash ^= hash >> 32;
	}
	return hash >> 1; /* 63 bits, since the database's integers are signed */
}

#endif
