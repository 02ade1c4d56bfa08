#ifndef GGML_TENSOR_H
#define GGML_TENSOR_H

#include <stddef.h>
#include <stdint.h>

struct ggml_tensor {
	uint32_t type;
#ifdef OLD
	uint32_t backend;
#endif
	void *buffer;
#ifdef OTHER
	int32_t n_dims;
#endif
	int64_t ne[4];
	size_t nb[4];
	uint32_t op;
	int32_t op_params[16];
	int32_t flags;
#ifdef OLD
	struct ggml_tensor *grad;
#endif
	struct ggml_tensor *src[10];
	struct ggml_tensor *view_src;
	size_t view_offs;
	void *data;
	char name[64];
	void *extra;
	char padding[8];
};

#endif
