/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * HTTP/1 (RFC 9112), as it comes: in any pieces, from any place of a program's memory. Only what tells where a message
 * ends is understood: the first line is the caller's, and of the fields, Content-Length and Transfer-Encoding. Bodies
 * are not read, only counted.
 */
#ifndef SCOPE_OLLAMA_HTTP_BPF_H
#define SCOPE_OLLAMA_HTTP_BPF_H

#define HTTP_WINDOW 256	       /* bytes of the program's memory that are read at once; a power of 2 */
#define HTTP_STEPS (128 << 10) /* most steps for a piece: one for each byte outside of bodies */

/* What the next byte belongs to. */
enum http_at {
	HTTP_FIRST_LINE,
	HTTP_FIELDS,
	HTTP_BODY,	  /* `left` bytes, then the next message */
	HTTP_CHUNK_SIZE,  /* in hexadecimal */
	HTTP_CHUNK,	  /* `left` bytes */
	HTTP_CHUNK_END,	  /* CR LF */
	HTTP_TRAILER,	  /* fields after the last chunk */
	HTTP_UNTIL_CLOSE, /* the body lasts as long as the connection */
	HTTP_IGNORED,	  /* not understood */
};

/* What a byte ended. */
enum http_ended {
	HTTP_ENDED_NOTHING,
	HTTP_ENDED_FIELDS,
	HTTP_ENDED_MESSAGE,
};

/* One direction of a connection: how far its message is. */
struct http_message {
	__u64 bytes;
	__u64 body_bytes; /* without sizes of chunks and the like */
	__u64 left;
	__u64 length; /* as Content-Length says */
	__u32 chunks; /* that are not empty */
	__u32 at;
	__u32 column; /* in the line */
	__u8 fields;  /* which fields the line may be */
	__u8 has_length;
	__u8 chunked;
	__u8 matched; /* letters of "chunked" */
};

#define FIELD_LENGTH 1
#define FIELD_ENCODING 2
#define LENGTH_NAME 15
#define ENCODING_NAME 18
#define CHUNKED_NAME 7

/* With powers of 2 as sizes, for masks. Not static: the compiler would move them to a section without BTF. */
const char length_name[16] = "content-length:";
const char encoding_name[32] = "transfer-encoding:";
const char chunked_name[8] = "chunked";
const char version_name[8] = "HTTP/1.";

/* The bytes of a call, in one or several places. */
struct http_source {
	__u64 total;   /* bytes left */
	__u64 data;    /* where the next one is ... */
	__u64 segment; /* ... and how many are there */
	__u64 vector;  /* of struct iovec: what comes then; 0: nothing */
	__u32 window_at;
	__u32 window_end;
	__u8 unreadable; /* they are not in the program's memory */
	__u8 failed;
	__u8 pad[6];
	__u8 window[HTTP_WINDOW];
};

static __always_inline void next_message(struct http_message *message)
{
	__builtin_memset(message, 0, sizeof(*message));
}

/* Goes on where there are bytes, or where a vector has a place of no size. False: there are no more. */
static __always_inline bool find_segment(struct http_source *source)
{
	struct iovec next = {};

	if (!source->total)
		return false;
	if (source->segment)
		return true;
	if (!source->vector || bpf_probe_read_user(&next, sizeof(next), (void *)source->vector)) {
		source->failed = 1;
		source->total = 0;
		return false;
	}
	source->vector += sizeof(next);
	source->data = (__u64)next.iov_base;
	source->segment = next.iov_len < source->total ? next.iov_len : source->total;
	source->window_at = source->window_end = 0;
	return true;
}

/* Passes over bytes of a body, at most `most`. Returns how many. */
static __always_inline __u64 pass_over(struct http_source *source, __u64 most)
{
	__u64 bytes = source->segment < most ? source->segment : most;

	source->data += bytes;
	source->segment -= bytes;
	source->total -= bytes;
	source->window_at = source->window_end = 0;
	return bytes;
}

/* The next byte; negative: it cannot be read. */
static __always_inline int next_byte(struct http_source *source)
{
	__u32 size = source->segment < HTTP_WINDOW ? source->segment : HTTP_WINDOW;

	if (source->window_at >= source->window_end) {
		barrier_var(size);
		if (size > HTTP_WINDOW)
			size = HTTP_WINDOW;
		if (source->unreadable || bpf_probe_read_user(source->window, size, (void *)source->data)) {
			source->failed = 1;
			source->total = 0;
			return -1;
		}
		source->window_at = 0;
		source->window_end = size;
	}
	source->data++;
	source->segment--;
	source->total--;
	return source->window[source->window_at++ & (HTTP_WINDOW - 1)];
}

static __always_inline void take_value(struct http_message *message, char letter)
{
	if (message->fields & FIELD_LENGTH && message->column >= LENGTH_NAME && letter >= '0' && letter <= '9') {
		message->length = message->length * 10 + letter - '0';
		message->has_length = 1;
	}
	if (message->fields & FIELD_ENCODING && message->column >= ENCODING_NAME) {
		if (letter != chunked_name[message->matched & (sizeof(chunked_name) - 1)])
			message->matched = letter == chunked_name[0];
		else if (++message->matched == CHUNKED_NAME)
			message->chunked = 1;
	}
}

/* A byte of a field. Returns whether it ends an empty line, and so the fields. */
static __always_inline bool take_field(struct http_message *message, char byte)
{
	char letter = byte >= 'A' && byte <= 'Z' ? byte | 0x20 : byte;
	__u32 column = message->column;

	if (byte == '\r')
		return false;
	if (byte == '\n') {
		message->column = 0;
		return !column;
	}
	if (!column) {
		message->fields = FIELD_LENGTH | FIELD_ENCODING;
		message->matched = 0;
	}
	if (column < LENGTH_NAME && letter != length_name[column & (sizeof(length_name) - 1)])
		message->fields &= ~FIELD_LENGTH;
	if (column < ENCODING_NAME && letter != encoding_name[column & (sizeof(encoding_name) - 1)])
		message->fields &= ~FIELD_ENCODING;
	if (message->fields)
		take_value(message, letter);
	message->column = column + 1 ? column + 1 : column;
	return false;
}

/* A byte of the line before a chunk: its size, and what may follow after a semicolon. */
static __always_inline void take_size(struct http_message *message, char byte)
{
	char letter = byte | 0x20;

	if (byte == '\n') {
		message->at = message->left ? HTTP_CHUNK : HTTP_TRAILER;
		message->chunks += message->left != 0;
		message->column = 0;
	} else if (message->column || byte == '\r') {
		return;
	} else if (byte >= '0' && byte <= '9') {
		message->left = message->left << 4 | (byte - '0');
	} else if (letter >= 'a' && letter <= 'f') {
		message->left = message->left << 4 | (letter - 'a' + 10);
	} else {
		message->column = 1;
	}
}

/* A byte outside of the first line and of bodies. */
static __always_inline enum http_ended take_byte(struct http_message *message, char byte)
{
	switch (message->at) {
	case HTTP_FIELDS:
		return take_field(message, byte) ? HTTP_ENDED_FIELDS : HTTP_ENDED_NOTHING;
	case HTTP_CHUNK_SIZE:
		take_size(message, byte);
		break;
	case HTTP_CHUNK_END:
		if (byte == '\n') {
			message->at = HTTP_CHUNK_SIZE;
			message->column = 0;
			message->left = 0;
		}
		break;
	case HTTP_TRAILER:
		return take_field(message, byte) ? HTTP_ENDED_MESSAGE : HTTP_ENDED_NOTHING;
	}
	return HTTP_ENDED_NOTHING;
}

static __always_inline bool in_body(const struct http_message *message)
{
	return message->at == HTTP_BODY || message->at == HTTP_CHUNK || message->at == HTTP_UNTIL_CLOSE;
}

/* Passes over bytes of the body, `*passed` of them. */
static __always_inline enum http_ended take_body(struct http_message *message, struct http_source *source,
						 __u64 *passed)
{
	bool lasts = message->at == HTTP_UNTIL_CLOSE;

	*passed = pass_over(source, lasts ? ~0ULL : message->left);
	message->bytes += *passed;
	message->body_bytes += *passed;
	if (lasts)
		return HTTP_ENDED_NOTHING;
	message->left -= *passed;
	if (message->left)
		return HTTP_ENDED_NOTHING;
	if (message->at == HTTP_BODY)
		return HTTP_ENDED_MESSAGE;
	message->at = HTTP_CHUNK_END;
	return HTTP_ENDED_NOTHING;
}

#endif
