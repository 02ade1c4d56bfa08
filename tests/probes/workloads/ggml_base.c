// A stand-in for libggml-base: struct ggml_tensor and the functions about it as in ggml.h and ggml.c. With -DOLD as
// before December 2024, when tensors had gradients, and there were fewer operations; with -DOTHER as never.
#include <stdlib.h>

#include "ggml_tensor.h"

#define API __attribute__((visibility("default")))

#ifdef OLD
enum { GGML_OP_UNARY = 6 };
static const char *GGML_OP_NAME[] = {"NONE", "DUP", "ADD", "MUL_MAT", "CPY", "FLASH_ATTN_EXT", "UNARY"};
#else
enum { GGML_OP_UNARY = 7 };
static const char *GGML_OP_NAME[] = {"NONE", "DUP", "ADD", "ADD_ID", "MUL_MAT", "CPY", "FLASH_ATTN_EXT", "UNARY"};
#endif
const char *GGML_OP_SYMBOL[] = {"none", "x", "x+y"};

API const char *ggml_op_name(unsigned op)
{
	return GGML_OP_NAME[op];
}

API const char *ggml_get_name(const struct ggml_tensor *tensor)
{
	return tensor->name;
}

API int64_t ggml_nelements(const struct ggml_tensor *tensor)
{
	return tensor->ne[0] * tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
}

API int32_t ggml_get_unary_op(const struct ggml_tensor *tensor)
{
	if (tensor->op != GGML_OP_UNARY)
		abort();
	return tensor->op_params[0];
}

struct ggml_cgraph {
	int size, n_nodes, n_leafs;
};

/* The backend is the function that computes. */
API int ggml_backend_graph_compute_async(void (*backend)(void), struct ggml_cgraph *graph)
{
	backend();
	return graph->n_nodes < 0;
}
