/*
 * What calls.cu needs beside tests/probes/workloads/cuda_stand_in.c, with which it is linked into the stand-ins for
 * libcudart and libcuda: they succeed without a GPU, kernels do nothing.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
	unsigned int x, y, z;
} dim3;

#ifdef DRIVER

#define PIECE 65536

static char reserved[4 * PIECE] __attribute__((aligned(PIECE)));

int cuGetErrorName(int result, const char **name)
{
	*name = result ? "CUDA_ERROR_UNKNOWN" : "CUDA_SUCCESS";
	return 0;
}

int cuCtxSynchronize(void)
{
	return 0;
}

int cuModuleLoadData(void **module, const void *image)
{
	*module = malloc(1);
	return 0;
}

int cuModuleUnload(void *module)
{
	free(module);
	return 0;
}

int cuLibraryLoadData(void **library, const void *image, void *options, void *values, unsigned count,
		      void *library_options, void *library_values, unsigned library_count)
{
	*library = malloc(1);
	return 0;
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
	*kernel = strdup(name);
	return 0;
}

int cuLibraryUnload(void *library)
{
	free(library);
	return 0;
}

int cuLaunchKernelEx(const void *config, void *function, void **arguments, void **extra)
{
	return function ? 0 : 400;
}

int cuMemGetAllocationGranularity(size_t *piece, const void *properties, int option)
{
	*piece = PIECE;
	return 0;
}

int cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t wanted, uint64_t flags)
{
	*address = (uintptr_t)reserved;
	return 0;
}

int cuMemAddressFree(uint64_t address, size_t size)
{
	return 0;
}

int cuMemSetAccess(uint64_t address, size_t size, const void *access, size_t count)
{
	return 0;
}

int cuMemRelease(uint64_t handle)
{
	return 0;
}

#else

extern int cudaMalloc(void **pointer, size_t bytes);
extern int cudaFree(void *pointer);
extern int cudaMallocHost(void **pointer, size_t bytes);
extern int cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream);

struct launch_config {
	dim3 grid, block;
	size_t shared;
	void *stream;
};

const char *cudaGetErrorName(int result)
{
	return result == 2 ? "cudaErrorMemoryAllocation" : "cudaSuccess";
}

int cudaMemGetInfo(size_t *available, size_t *total)
{
	*available = *total = 1ul << 30;
	return 0;
}

int cudaHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
	*pointer = malloc(bytes);
	return 0;
}

int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
	*pitch = 512;
	*pointer = malloc(*pitch * height);
	return 0;
}

int cudaMallocAsync(void **pointer, size_t bytes, void *stream)
{
	*pointer = malloc(bytes);
	return 0;
}

int cudaDeviceGetDefaultMemPool(void **pool, int device)
{
	*pool = NULL;
	return 0;
}

int cudaMallocFromPoolAsync(void **pointer, size_t bytes, void *pool, void *stream)
{
	*pointer = malloc(bytes);
	return 0;
}

int cudaFreeAsync(void *pointer, void *stream)
{
	free(pointer);
	return 0;
}

int cudaMemset(void *pointer, int value, size_t bytes)
{
	memset(pointer, value, bytes);
	return 0;
}

int cudaMemsetAsync(void *pointer, int value, size_t bytes, void *stream)
{
	memset(pointer, value, bytes);
	return 0;
}

int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream)
{
	memmove(to, from, bytes);
	return 0;
}

int cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height, int kind)
{
	return 0;
}

int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
		      int kind, void *stream)
{
	return 0;
}

int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t bytes)
{
	memmove(to, from, bytes);
	return 0;
}

int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes, void *stream)
{
	memmove(to, from, bytes);
	return 0;
}

int cudaStreamCreate(void **stream)
{
	*stream = malloc(1);
	return 0;
}

int cudaStreamDestroy(void *stream)
{
	free(stream);
	return 0;
}

int cudaStreamSynchronize(void *stream)
{
	return 0;
}

int cudaStreamBeginCapture(void *stream, int mode)
{
	return 0;
}

int cudaStreamEndCapture(void *stream, void **graph)
{
	*graph = malloc(1);
	return 0;
}

int cudaGraphInstantiate(void **executable, void *graph, uint64_t flags)
{
	*executable = malloc(1);
	return 0;
}

int cudaGraphLaunch(void *executable, void *stream)
{
	return 0;
}

int cudaGraphExecDestroy(void *executable)
{
	free(executable);
	return 0;
}

int cudaGraphDestroy(void *graph)
{
	free(graph);
	return 0;
}

int cudaLaunchKernelExC(const struct launch_config *config, const void *function, void **arguments)
{
	return cudaLaunchKernel(function, config->grid, config->block, arguments, config->shared, config->stream);
}

int cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
				void *stream)
{
	return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}

#endif
