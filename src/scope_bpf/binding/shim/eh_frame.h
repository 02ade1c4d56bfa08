/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads the records of .eh_frame, see eh_frame.c. */
#ifndef SCOPE_EH_FRAME_H
#define SCOPE_EH_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is read; `ok` becomes false at the end, and stays so. */
struct eh_input {
	const uint8_t *at;
	const uint8_t *end;
	bool ok;
};

uint64_t eh_number(struct eh_input *in, size_t bytes);
uint64_t eh_leb128(struct eh_input *in, bool is_signed);
struct eh_input eh_block(struct eh_input *in);

/* What functions have in common (a CIE). */
struct eh_common {
	const uint8_t *at; /* its place in the section */
	uint64_t code_unit;
	int64_t data_unit;
	uint8_t encoding; /* of code addresses */
	bool has_data;	  /* augmentation data */
	bool is_signal;	  /* the frame of a signal handler's caller */
	struct eh_input program;
};

/* A function (an FDE). */
struct eh_function {
	uint64_t start;
	uint64_t size;
	const struct eh_common *common; /* until the next function is read */
	struct eh_input program;
};

/* A section, and how far it was read. */
struct eh_frame {
	const uint8_t *begin;
	uint64_t address; /* of the section in the file's memory */
	struct eh_input rest;
	struct eh_common common; /* the last one that was read */
	bool common_ok;
	uint64_t work; /* bytes of CIEs that may still be read */
};

struct eh_frame eh_frame_open(const uint8_t *section, size_t size, uint64_t address);
int eh_frame_next(struct eh_frame *frame, struct eh_function *found);

#endif
