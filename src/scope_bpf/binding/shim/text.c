/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Makes text columns from the tails of rows, in Arrow's layout: one block of UTF-8, and the end of each string (an
 * int32 per row; the first string begins at 0). Kernel text may be any bytes: bytes that are not UTF-8 are written as
 * \xHH, like Python's "backslashreplace", so that nothing is lost and all readers accept the column.
 *
 * The functions are called twice: with data == NULL to get the size, then to fill. They return the bytes of text, or
 * -EINVAL if a field points outside its row's tail.
 */
#include <errno.h>
#include <string.h>

#include "shim.h"

struct span {
	const uint8_t *begin, *end;
};

/* The length of the well-formed UTF-8 sequence at `at` (Unicode 15, table 3-7), or 0. */
static size_t utf8_sequence(const uint8_t *at, const uint8_t *end)
{
	uint8_t first = at[0], low = 0x80, high = 0xbf;
	size_t length, i;

	if (first < 0x80)
		return first != 0;
	if (first < 0xc2 || first > 0xf4)
		return 0;
	length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
	if ((size_t)(end - at) < length)
		return 0;
	if (first == 0xe0)
		low = 0xa0;
	else if (first == 0xed)
		high = 0x9f;
	else if (first == 0xf0)
		low = 0x90;
	else if (first == 0xf4)
		high = 0x8f;
	if (at[1] < low || at[1] > high)
		return 0;
	for (i = 2; i < length; i++)
		if (at[i] < 0x80 || at[i] > 0xbf)
			return 0;
	return length;
}

/* Writes the text at data + size, unless data is NULL; returns the new size. */
static size_t write_utf8(uint8_t *data, size_t size, struct span text)
{
	static const char hex[] = "0123456789abcdef";

	while (text.begin < text.end) {
		size_t length = utf8_sequence(text.begin, text.end);

		if (length) {
			if (data)
				memcpy(data + size, text.begin, length);
			size += length;
			text.begin += length;
			continue;
		}
		if (data) {
			data[size] = '\\';
			data[size + 1] = 'x';
			data[size + 2] = hex[*text.begin >> 4];
			data[size + 3] = hex[*text.begin & 15];
		}
		size += 4;
		text.begin++;
	}
	return size;
}

/* The piece of the tail that a row's field refers to. */
static int field_span(const scope_rows *rows, size_t row, size_t field, struct span *span)
{
	uint64_t start = rows->tail_starts ? rows->tail_starts[row] : 0;
	uint64_t end = rows->tail_starts && row + 1 < rows->count ? rows->tail_starts[row + 1] : rows->tail_bytes;
	uint32_t offset, length;

	memcpy(&offset, rows->rows + row * rows->row_size + field, sizeof(offset));
	memcpy(&length, rows->rows + row * rows->row_size + field + sizeof(offset), sizeof(length));
	if ((uint64_t)offset + length > end - start)
		return -EINVAL;
	span->begin = rows->tails + start + offset;
	span->end = span->begin + length;
	return 0;
}

int64_t scope_texts(const scope_rows *rows, size_t field, int32_t *ends, uint8_t *data)
{
	size_t row, size = 0;
	struct span text;

	for (row = 0; row < rows->count; row++) {
		if (field_span(rows, row, field, &text))
			return -EINVAL;
		size = write_utf8(data, size, text);
		ends[row] = size;
	}
	return size;
}

/* "c/b/a/\0name" is /a/b/c/name; "\0name" is /name; without a name, the result is the directory. */
static size_t write_path(uint8_t *data, size_t size, struct span path)
{
	const uint8_t *nul = memchr(path.begin, 0, path.end - path.begin), *end, *slash;
	struct span part;

	if (!nul)
		return size;
	for (end = nul; end > path.begin; end = slash) {
		/* end is after the '/' that ends a component */
		for (slash = end - 1; slash > path.begin && slash[-1] != '/'; slash--)
			;
		if (data)
			data[size] = '/';
		part = (struct span){slash, end - 1};
		size = write_utf8(data, size + 1, part);
	}
	part = (struct span){nul + 1, path.end};
	while (part.begin < part.end && *part.begin == '/')
		part.begin++;
	if (part.begin < part.end || nul == path.begin) {
		if (data)
			data[size] = '/';
		size = write_utf8(data, size + 1, part);
	}
	return size;
}

int64_t scope_paths(const scope_rows *rows, size_t field, int32_t *ends, uint8_t *data)
{
	size_t row, size = 0;
	struct span path;

	for (row = 0; row < rows->count; row++) {
		if (field_span(rows, row, field, &path))
			return -EINVAL;
		size = write_path(data, size, path);
		ends[row] = size;
	}
	return size;
}

/* A list of texts per row: list_ends counts texts; ends and data (both or neither) describe all texts together. */
int64_t scope_text_lists(const scope_rows *rows, size_t field, int32_t *list_ends, int64_t *texts, int32_t *ends,
			 uint8_t *data)
{
	size_t row, size = 0;
	int64_t count = 0;
	struct span list;

	for (row = 0; row < rows->count; row++) {
		if (field_span(rows, row, field, &list))
			return -EINVAL;
		while (list.begin < list.end) {
			const uint8_t *nul = memchr(list.begin, 0, list.end - list.begin);
			struct span text = {list.begin, nul ? nul : list.end};

			size = write_utf8(data, size, text);
			if (ends)
				ends[count] = size;
			count++;
			list.begin = text.end + 1;
		}
		list_ends[row] = count;
	}
	*texts = count;
	return size;
}
