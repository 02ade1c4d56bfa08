/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_OLLAMA_H
#define SCOPE_OLLAMA_H

#define OLLAMA_METHOD 8 /* bytes, including the NUL */
#define OLLAMA_PATH 128 /* likewise */

/* How a request ended. */
enum ollama_ended {
	OLLAMA_ENDED_COMPLETE,	  /* the whole response was written */
	OLLAMA_ENDED_PEER_CLOSED, /* the client had closed the connection, or it broke */
	OLLAMA_ENDED_CLOSED,	  /* the server closed the connection first */
	OLLAMA_ENDED_EXITED,	  /* the server's process ended */
	OLLAMA_ENDED_UPGRADED,	  /* the connection goes on with another protocol */
	OLLAMA_ENDED_NOT,	  /* it goes on */
};

/* A request over HTTP, as the server's process reads it from its socket, and the response as it writes it. */
struct ollama_request_event {
	struct scope_header header; /* ktime_ns: when its first byte was read */
	__u64 duration_ns;
	__u64 first_byte_ns;
	__u64 first_body_ns;
	__u64 streaming_ns; /* from the first write with bytes of the body to the last */
	__u64 longest_gap_ns;
	__u64 request_bytes;
	__u64 response_bytes;
	__u64 body_bytes;
	__u64 connection;
	__u64 request;
	struct scope_address peer;
	__u16 peer_port;
	__u16 port;
	__u32 writes; /* with bytes of the body */
	__u32 chunks;
	__u16 status;
	__u8 has_response;
	__u8 has_status;
	__u8 has_body;
	__u8 has_chunks;
	__u8 has_gaps;
	__u8 has_peer;
	__u8 path_truncated;
	enum ollama_ended ended;
	char method[OLLAMA_METHOD];
	char path[OLLAMA_PATH];
	__u8 pad[3];
};

/* A write of the server with bytes of a response's body. */
struct ollama_chunk_event {
	struct scope_header header; /* ktime_ns: when the write ended */
	__u64 duration_ns;	    /* since the write before, or the begin of the request */
	__u64 bytes;
	__u64 connection;
	__u64 request;
	__u32 number; /* in its response, from 0 */
	__u8 pad[4];
};

/* Why a row about a load was written. */
enum ollama_loaded {
	OLLAMA_LOADED_IDLE,   /* nothing has happened for a while */
	OLLAMA_LOADED_EXITED, /* the process ended */
	OLLAMA_LOADED_NOT,    /* it may go on */
};

/* A process loads a model file. Its tail: the path. */
struct ollama_model_event {
	struct scope_header header; /* ktime_ns: when it was first read or mapped */
	struct scope_path path;
	__u64 duration_ns; /* until it was last read, mapped or closed */
	__u64 file_bytes;
	__u64 mapped_bytes;
	__u64 map_ns;
	__u64 read_bytes;
	__u64 read_ns;
	__u64 maps;
	__u64 reads;
	__u64 inode;
	__u32 device;
	enum ollama_loaded ended;
	__u8 has_path;
	__u8 path_truncated;
	__u8 pad[6];
};

/* The functions that get a program's log, in order of what is known of their levels. */
enum ollama_function {
	OLLAMA_LLAMALOG,		    /* Ollama's own, from December 2024 to May 2026 */
	OLLAMA_COMMON_LOG_DEFAULT_CALLBACK, /* of llama.cpp's programs, such as llama-server */
	OLLAMA_LLAMA_LOG_CALLBACK_DEFAULT,  /* of programs that set none: these are older than the order of levels */
	OLLAMA_GGML_LOG_CALLBACK_DEFAULT,
};

/* enum ggml_log_level in ggml.h, since November 2024. */
enum ollama_level {
	OLLAMA_LEVEL_NONE,
	OLLAMA_LEVEL_DEBUG,
	OLLAMA_LEVEL_INFO,
	OLLAMA_LEVEL_WARN,
	OLLAMA_LEVEL_ERROR,
	OLLAMA_LEVEL_CONT,
};

/* A piece of a program's log. Its tail: the text. */
struct ollama_log_event {
	struct scope_header header; /* ktime_ns: at entry */
	struct scope_text text;
	__s32 level_number;
	enum ollama_level level;
	enum ollama_function source;
	__u8 has_level;
	__u8 has_text;
	__u8 text_truncated;
	__u8 ends_line;
};

#endif
