/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Requests, from the bytes that a process reads of a connection. */
#ifndef SCOPE_OLLAMA_REQUESTS_BPF_H
#define SCOPE_OLLAMA_REQUESTS_BPF_H

#define PREFIXES 16
#define PREFIX_WORDS 4 /* of 8 bytes */

/* Only paths that begin with one of these are recorded: the bytes, and 0xff for each. Set at load. */
const volatile __u32 prefix_count;
const volatile __u64 prefixes[PREFIXES][PREFIX_WORDS];
const volatile __u64 prefix_masks[PREFIXES][PREFIX_WORDS];

/* A method and the blank behind it, as a number. */
#define METHODS(X) X("GET ") X("POST ") X("HEAD ") X("PUT ") X("DELETE ") X("PATCH ") X("OPTIONS ")

enum request_word {
	WORD_METHOD,
	WORD_PATH,
	WORD_QUERY, /* not kept */
	WORD_VERSION,
};

static __always_inline __u64 text_word(const char *text, int length)
{
	__u64 word = 0;

#pragma unroll
	for (int i = 0; i < 8; i++)
		if (i < length)
			word |= (__u64)(__u8)text[i] << 8 * i;
	return word;
}

static __always_inline __u64 first_bytes(int count)
{
	return count >= 8 ? ~0ULL : (1ULL << 8 * count) - 1;
}

/* May these bytes, the first ones of a text in the order of memory, be the begin of a request? */
static __always_inline bool begins_request(__u64 bytes, __u32 count)
{
	__u64 known = count >= 8 ? ~0ULL : (1ULL << 8 * (count & 7)) - 1;

#define BEGINS(name)                                                                                                   \
	if (!((bytes ^ text_word(name, sizeof(name) - 1)) & first_bytes(sizeof(name) - 1) & known))                    \
		return true;
	METHODS(BEGINS)
#undef BEGINS
	return false;
}

static __always_inline bool is_head(const struct ollama_target *target)
{
	return *(const __u64 *)target->method == text_word("HEAD", 4);
}

static __always_inline bool is_wanted(const struct ollama_target *target)
{
	const __u64 *path = (const __u64 *)target->path;

	for (__u32 i = 0; i < PREFIXES && i < prefix_count; i++) {
		const volatile __u64 *prefix = prefixes[i], *mask = prefix_masks[i];

		if (!((path[0] ^ prefix[0]) & mask[0]) && !((path[1] ^ prefix[1]) & mask[1]) &&
		    !((path[2] ^ prefix[2]) & mask[2]) && !((path[3] ^ prefix[3]) & mask[3]))
			return true;
	}
	return false;
}

/* A request line was read: the request is the next one to be answered. */
static __always_inline void begin_request(struct ollama_connection *connection)
{
	__u64 number = connection->asked;
	struct ollama_asked *asked = room_for(connection, number);
	__u64 head = 1ULL << (number & 63);

	if (is_head(&connection->target))
		connection->heads |= head;
	else
		connection->heads &= ~head;
	if (is_wanted(&connection->target)) {
		if (number - connection->answered >= REQUESTS) {
			scope_count_loss(stream_ollama_request, SCOPE_LOST_TOO_DEEP);
		} else {
			fill_identity(&asked->whose, bpf_get_current_task_btf());
			asked->target = connection->target;
			asked->began_ns = connection->began_ns;
			asked->path_truncated = connection->path_truncated;
			asked->request = __sync_fetch_and_add(&latest_request, 1) + 1;
			asked->bytes = connection->asking.bytes;
			asked->told = 0;
			asked->order = number + 1;
		}
	}
	connection->asked = number + 1;
}

static __always_inline void begin_line(struct ollama_connection *connection)
{
	connection->began_ns = bpf_ktime_get_boot_ns();
	connection->word = WORD_METHOD;
	connection->method_length = 0;
	connection->path_length = 0;
	connection->path_truncated = 0;
	__builtin_memset(&connection->target, 0, sizeof(connection->target));
}

static __always_inline bool take_method(struct ollama_connection *connection, char byte)
{
	__u32 length = connection->method_length;

	if (byte == ' ') {
		__u64 method = *(__u64 *)connection->target.method;

		connection->word = WORD_PATH;
		barrier_var(length);
		if (length >= OLLAMA_METHOD)
			return false;
		return length && begins_request(method | 0x20ULL << 8 * length, length + 1);
	}
	if (length >= OLLAMA_METHOD - 1)
		return false;
	barrier_var(length);
	connection->target.method[length & (OLLAMA_METHOD - 1)] = byte;
	connection->method_length = length + 1;
	return true;
}

static __always_inline bool take_path(struct ollama_connection *connection, char byte)
{
	__u32 length = connection->path_length;

	if (byte == '?') {
		connection->word = WORD_QUERY;
	} else if (byte == ' ') {
		connection->word = WORD_VERSION;
		connection->asking.column = 0;
	} else if ((__u8)byte < ' ') {
		return false;
	} else if (length >= OLLAMA_PATH - 1) {
		connection->path_truncated = 1;
	} else {
		barrier_var(length);
		connection->target.path[length & (OLLAMA_PATH - 1)] = byte;
		connection->path_length = length + 1;
	}
	return true;
}

/* A byte of a request line. False: it is none. */
static __always_inline bool take_request_line(struct ollama_connection *connection, char byte)
{
	struct http_message *asking = &connection->asking;

	if (!asking->bytes) {
		if (byte == '\r' || byte == '\n') /* RFC 9112 2.2: an empty line before it is passed over */
			return true;
		begin_line(connection);
	}
	asking->bytes++;
	switch (connection->word) {
	case WORD_METHOD:
		return take_method(connection, byte);
	case WORD_PATH:
		return take_path(connection, byte);
	case WORD_QUERY:
		if (byte == ' ') {
			connection->word = WORD_VERSION;
			asking->column = 0;
		}
		return byte != '\n';
	}
	if (asking->column < sizeof(version_name) - 1) {
		if (byte != version_name[asking->column & (sizeof(version_name) - 1)])
			return false;
	} else if (byte == '\n') {
		asking->column = 0;
		asking->at = HTTP_FIELDS;
		begin_request(connection);
		return true;
	}
	asking->column++;
	return asking->column < 16;
}

/* The bytes of the latest request, as far as it was read. */
static __always_inline void keep_request_bytes(struct ollama_connection *connection)
{
	__u64 number = connection->asked - 1;
	struct ollama_asked *asked = room_for(connection, number);

	if (connection->asked && is_recorded(asked, number) && connection->asking.at != HTTP_FIRST_LINE)
		asked->bytes = connection->asking.bytes;
}

static __always_inline void end_request(struct ollama_connection *connection)
{
	keep_request_bytes(connection);
	next_message(&connection->asking);
}

static __always_inline void end_request_fields(struct ollama_connection *connection)
{
	struct http_message *asking = &connection->asking;

	if (asking->chunked) {
		asking->at = HTTP_CHUNK_SIZE;
		asking->left = 0;
	} else if (asking->length) {
		asking->at = HTTP_BODY;
		asking->left = asking->length;
	} else {
		end_request(connection);
	}
}

struct feeding {
	struct http_source *source;
	struct ollama_connection *connection;
};

static long take_asked(__u32 step, struct feeding *feeding)
{
	struct ollama_connection *connection = feeding->connection;
	struct http_source *source = feeding->source;
	struct http_message *asking = &connection->asking;
	enum http_ended ended;
	__u64 passed;
	int byte;

	if (asking->at == HTTP_IGNORED || !find_segment(source))
		return 1;
	if (!source->segment)
		return 0;
	if (in_body(asking)) {
		ended = take_body(asking, source, &passed);
	} else {
		byte = next_byte(source);
		if (byte < 0)
			return 1;
		if (asking->at == HTTP_FIRST_LINE) {
			if (!take_request_line(connection, byte))
				asking->at = HTTP_IGNORED;
			return 0;
		}
		asking->bytes++;
		ended = take_byte(asking, byte);
	}
	if (ended == HTTP_ENDED_FIELDS)
		end_request_fields(connection);
	else if (ended == HTTP_ENDED_MESSAGE)
		end_request(connection);
	return 0;
}

#endif
