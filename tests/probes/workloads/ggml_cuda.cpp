// A stand-in for the CUDA backend of ggml, with its names, and a program that uses it. Usage: ggml_cuda WAY
//
// operations: a graph with operations of newer and older backends. replays SECONDS: graphs that are first computed,
// then launched 5 times, and after so many seconds 6 times. again: computes once more after that. alone: launches
// without ggml.
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "ggml_tensor.h"

#define KEPT __attribute__((noipa)) // called as from another file
#define DONE asm volatile("")

struct ggml_backend_cuda_context {
	int device;
};
struct ggml_cuda_mm_fusion_args_host;
struct CUstream_st;
typedef const ggml_tensor *input;

extern "C" int ggml_backend_graph_compute_async(void (*backend)(), int *graph);
extern "C" int cudaGraphLaunch(void *graph, void *stream);

KEPT void ggml_cuda_set_device(int device)
{
	DONE;
}

KEPT void ggml_cuda_mul_mat_vec_q(ggml_backend_cuda_context &, input, input, input, ggml_tensor *,
				  const ggml_cuda_mm_fusion_args_host *)
{
	ggml_cuda_set_device(3);
	DONE;
}

KEPT void ggml_cuda_mul_mat_q(ggml_backend_cuda_context &, input, input, input, ggml_tensor *)
{
	DONE;
}

KEPT void ggml_cuda_op_mul_mat_q(ggml_backend_cuda_context &, input, input, ggml_tensor *, const char *, const float *,
				 const char *, float *, int64_t, int64_t, int64_t, int64_t, CUstream_st *)
{
	DONE;
}

KEPT void ggml_cuda_cpy(ggml_backend_cuda_context &, input, ggml_tensor *)
{
	DONE;
}

KEPT void ggml_cuda_flash_attn_ext(ggml_backend_cuda_context &, ggml_tensor *)
{
	DONE;
}

// Not of any known version: it has other arguments.
KEPT void ggml_cuda_mul_mat_f(ggml_backend_cuda_context &, ggml_tensor *)
{
	DONE;
}

#ifdef OLD
enum { MUL_MAT = 3, CPY, FLASH };
#else
enum { MUL_MAT = 4, CPY, FLASH };
#endif

static ggml_tensor tensor(uint32_t op, uint32_t type, int64_t rows, const char *name)
{
	ggml_tensor made = {};

	memset(made.name, 'x', sizeof(made.name)); // as snprintf leaves it
	strcpy(made.name, name);
	made.op = op;
	made.type = type;
	for (int i = 0; i < 4; i++)
		made.ne[i] = i ? i + 1 : rows;
	return made;
}

static ggml_backend_cuda_context context;

static void compute()
{
	ggml_tensor q = tensor(MUL_MAT, 0, 101, "Qcur-0"), k = tensor(MUL_MAT, 1, 211, ""),
		    c = tensor(CPY, 8, 307, "\xc3\xa9");
	ggml_tensor longest = tensor(FLASH, 4711, 401,
				     "0123456789012345678901234567890123456789012345678901234567890"
				     "12");

	ggml_cuda_set_device(1);
	for (int i = 0; i < 7; i++)
		ggml_cuda_mul_mat_vec_q(context, &c, &c, nullptr, &q, nullptr);
	for (int i = 0; i < 5; i++)
		ggml_cuda_mul_mat_q(context, &c, &c, nullptr, &k);
	for (int i = 0; i < 3; i++)
		ggml_cuda_op_mul_mat_q(context, &c, &c, &k, nullptr, nullptr, nullptr, nullptr, 0, 0, 0, 0, nullptr);
	for (int i = 0; i < 2; i++)
		ggml_cuda_cpy(context, &q, &c);
	ggml_cuda_flash_attn_ext(context, &longest);
	ggml_cuda_mul_mat_f(context, &q);
	ggml_cuda_cpy(context, &q, (ggml_tensor *)16); // cannot be read
}

static void launch()
{
	cudaGraphLaunch(nullptr, nullptr);
}

static void replay()
{
	ggml_cuda_set_device(1); // as ggml does
	launch();
}

int main(int, char **args)
{
	int graph[] = {8, 4, 3};

	if (!strcmp(args[1], "alone")) {
		for (int i = 0; i < 13; i++)
			launch();
		return 0;
	}
	ggml_backend_graph_compute_async(compute, graph);
	if (!strcmp(args[1], "operations"))
		return 0;
	for (int i = 0; i < 11; i++) {
		ggml_backend_graph_compute_async(replay, graph);
		if (i == 4)
			usleep(atof(args[2]) * 1e6);
	}
	if (!strcmp(args[1], "again"))
		ggml_backend_graph_compute_async(compute, graph);
}
