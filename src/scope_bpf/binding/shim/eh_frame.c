/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Reads the records of .eh_frame: one function after the other, with its instructions. Formats: DWARF 5, 6.4 (call
 * frame information); Linux Standard Base 5, Core, 10.6 (.eh_frame). The file may be damaged or hostile: every read is
 * checked, and the work is limited by the section's size.
 */
#include <errno.h>
#include <string.h>

#include "eh_frame.h"

/* Encodings of pointers. */
#define PE_ABSPTR 0x00
#define PE_UDATA4 0x03
#define PE_UDATA8 0x04
#define PE_SDATA4 0x0b
#define PE_SDATA8 0x0c
#define PE_PCREL 0x10

/*
 * Functions may refer to CIEs in any order, so a CIE may be read many times. Linkers make sections of which fewer bytes
 * are read so than the section has.
 */
#define MOST_WORK 16 /* bytes of CIEs for each byte of the section */

uint64_t eh_number(struct eh_input *in, size_t bytes)
{
	uint64_t value = 0;

	if (!in->ok || (size_t)(in->end - in->at) < bytes) {
		in->ok = false;
		return 0;
	}
	memcpy(&value, in->at, bytes); /* little-endian, like the files */
	in->at += bytes;
	return value;
}

uint64_t eh_leb128(struct eh_input *in, bool is_signed)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = eh_number(in, 1);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (in->ok && byte & 0x80);
	if (is_signed && shift < 64 && byte & 0x40)
		value |= ~0ULL << shift;
	return value;
}

static struct eh_input part(const uint8_t *at, const uint8_t *end)
{
	return (struct eh_input){.at = at, .end = end, .ok = at <= end};
}

/* Reads a size and so many bytes. */
struct eh_input eh_block(struct eh_input *in)
{
	uint64_t size = eh_leb128(in, false);
	struct eh_input found;

	if (!in->ok || size > (uint64_t)(in->end - in->at)) {
		in->ok = false;
		return part(in->at, in->at);
	}
	found = part(in->at, in->at + size);
	in->at += size;
	return found;
}

/* Reads a pointer. `address`: of the input's first byte, `begin`. */
static uint64_t pointer(struct eh_input *in, uint8_t encoding, const uint8_t *begin, uint64_t address)
{
	uint64_t here = address + (in->at - begin), value;

	switch (encoding & 0x0f) {
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		value = eh_number(in, 8);
		break;
	case PE_UDATA4:
		value = eh_number(in, 4);
		break;
	case PE_SDATA4:
		value = (int64_t)(int32_t)eh_number(in, 4);
		break;
	default:
		in->ok = false;
		return 0;
	}
	switch (encoding & 0x70) {
	case 0:
		return value;
	case PE_PCREL:
		return value + here;
	default:
		in->ok = false;
		return 0;
	}
}

/* Reads a CIE; `in` begins after its id. */
static bool read_common(struct eh_input in, struct eh_common *common, const uint8_t *begin, uint64_t address)
{
	const char *augmentation;
	size_t length;
	uint8_t version = eh_number(&in, 1);

	if (!in.ok || (version != 1 && version != 3))
		return false;
	augmentation = (const char *)in.at;
	length = strnlen(augmentation, in.end - in.at);
	if (length == (size_t)(in.end - in.at))
		return false;
	in.at += length + 1;
	common->code_unit = eh_leb128(&in, false);
	common->data_unit = eh_leb128(&in, true);
	if (version == 1)
		eh_number(&in, 1); /* the register with the return address */
	else
		eh_leb128(&in, false);
	common->encoding = PE_ABSPTR;
	common->has_data = *augmentation == 'z';
	common->is_signal = false;
	if (*augmentation && !common->has_data)
		return false;
	if (common->has_data) {
		uint64_t size = eh_leb128(&in, false);
		struct eh_input data;

		if (!in.ok || size > (uint64_t)(in.end - in.at))
			return false;
		data = part(in.at, in.at + size);
		in.at += size;
		for (augmentation++; *augmentation; augmentation++) {
			if (*augmentation == 'R')
				common->encoding = eh_number(&data, 1);
			else if (*augmentation == 'L')
				eh_number(&data, 1);
			else if (*augmentation == 'P')
				pointer(&data, eh_number(&data, 1) & 0x7f, begin, address);
			else if (*augmentation == 'S')
				common->is_signal = true;
		}
		if (!data.ok)
			return false;
	}
	common->program = in;
	return in.ok;
}

/* Begins to read a section of `size` bytes, at `address` in the file's memory. */
struct eh_frame eh_frame_open(const uint8_t *section, size_t size, uint64_t address)
{
	return (struct eh_frame){
		.begin = section,
		.address = address,
		.rest = part(section, section + size),
		.work = MOST_WORK * (uint64_t)size,
	};
}

/* Reads the length of a record, and returns the record after it. */
static struct eh_input record(struct eh_input *in)
{
	uint64_t length = eh_number(in, 4);

	if (length == 0xffffffff)
		length = eh_number(in, 8);
	if (!length || length > (uint64_t)(in->end - in->at))
		in->ok = false;
	if (!in->ok)
		return part(in->at, in->at);
	in->at += length;
	return part(in->at - length, in->at);
}

/* Makes `at` the CIE that functions have. */
static int use_common(struct eh_frame *frame, const uint8_t *at)
{
	struct eh_input rest = part(at, frame->rest.end), found;

	if (frame->common.at == at)
		return 0;
	found = record(&rest);
	if (frame->work < (uint64_t)(found.end - at))
		return -E2BIG;
	frame->work -= found.end - at;
	frame->common_ok =
		rest.ok && !eh_number(&found, 4) && read_common(found, &frame->common, frame->begin, frame->address);
	frame->common.at = at;
	return 0;
}

/*
 * Reads the next function. Returns 1; 0 at the end, which may be damage; or -E2BIG if the section makes too much work.
 * Functions that are damaged are left out.
 */
int eh_frame_next(struct eh_frame *frame, struct eh_function *found)
{
	while (frame->rest.ok && frame->rest.at < frame->rest.end) {
		struct eh_input entry = record(&frame->rest);
		const uint8_t *id_at = entry.at;
		uint32_t id = eh_number(&entry, 4);
		const struct eh_common *common = &frame->common;
		int error;

		if (!entry.ok || !id) /* a CIE is read when a function refers to it */
			continue;
		if (id > (uint64_t)(id_at - frame->begin))
			continue;
		error = use_common(frame, id_at - id);
		if (error)
			return error;
		if (!frame->common_ok)
			continue;
		found->start = pointer(&entry, common->encoding, frame->begin, frame->address);
		found->size = pointer(&entry, common->encoding & 0x0f, frame->begin, frame->address);
		if (common->has_data)
			eh_block(&entry);
		if (!entry.ok || !found->size || found->start + found->size < found->start)
			continue;
		found->common = common;
		found->program = entry;
		return 1;
	}
	return 0;
}
