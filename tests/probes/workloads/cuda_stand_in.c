/*
 * A stand-in for libcudart and libcuda on hosts without a GPU: functions of the same names succeed, and allocate and
 * copy in host memory; kernels do nothing. So tests have what else needs a GPU: pointers, nested calls, known leaks.
 * The driver's half is in its own library, as in CUDA.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
	unsigned int x, y, z;
} dim3;

#ifdef DRIVER

__attribute__((noinline)) int cuMemAlloc_v2(void **pointer, size_t bytes)
{
	*pointer = malloc(bytes);
	return *pointer ? 0 : 2;
}

__attribute__((noinline)) int cuMemFree_v2(void *pointer)
{
	free(pointer);
	return 0;
}

__attribute__((noinline)) int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
					     unsigned by, unsigned bz, unsigned shared, void *stream, void **arguments,
					     void **extra)
{
	return function ? 0 : 400;
}

__attribute__((noinline)) int cuModuleGetFunction(void **function, void *module, const char *name)
{
	*function = (void *)strdup(name);
	return 0;
}

__attribute__((noinline)) int cuMemCreate(uint64_t *handle, size_t size, const void *properties, uint64_t flags)
{
	*handle = size;
	return 0;
}

__attribute__((noinline)) int cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, uint64_t flags)
{
	return 0;
}

__attribute__((noinline)) int cuMemUnmap(uint64_t address, size_t size)
{
	return 0;
}

#else

extern int cuMemAlloc_v2(void **, size_t);
extern int cuMemFree_v2(void *);
extern int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
			  void **);

#define MOST_KERNELS 64
static struct {
	const void *function;
	void *handle;
} kernels[MOST_KERNELS];

int cudaMalloc(void **pointer, size_t bytes)
{
	return bytes > 1ul << 40 ? 2 : cuMemAlloc_v2(pointer, bytes);
}

int cudaFree(void *pointer)
{
	return pointer ? cuMemFree_v2(pointer) : 0;
}

int cudaMallocHost(void **pointer, size_t bytes)
{
	*pointer = malloc(bytes);
	return *pointer ? 0 : 2;
}

int cudaFreeHost(void *pointer)
{
	free(pointer);
	return 0;
}

int cudaMallocManaged(void **pointer, size_t bytes, unsigned flags)
{
	*pointer = malloc(bytes);
	return *pointer ? 0 : 2;
}

int cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
	memmove(to, from, bytes);
	return 0;
}

int cudaSetDevice(int device)
{
	return device < 4 ? 0 : 101;
}

int cudaDeviceSynchronize(void)
{
	struct timespec time = {0, 3000000};

	nanosleep(&time, NULL);
	return 0;
}

/* Returns a handle that is not a code address, as on a GPU. */
int __cudaGetKernel(void **handle, const void *function)
{
	int i;

	for (i = 0; i < MOST_KERNELS && kernels[i].function && kernels[i].function != function; i++)
		;
	if (!kernels[i].function) {
		kernels[i].function = function;
		kernels[i].handle = malloc(64);
	}
	*handle = kernels[i].handle;
	return 0;
}

int cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream)
{
	return cuLaunchKernel((void *)function, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared, stream,
			      arguments, NULL);
}

int __cudaLaunchKernel(void *handle, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream)
{
	return cudaLaunchKernel(handle, grid, block, arguments, shared, stream);
}

static dim3 pushed_grid, pushed_block;
static size_t pushed_shared;
static void *pushed_stream;

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
	pushed_grid = grid;
	pushed_block = block;
	pushed_shared = shared;
	pushed_stream = stream;
	return 0;
}

int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void **stream)
{
	*grid = pushed_grid;
	*block = pushed_block;
	*shared = pushed_shared;
	*stream = pushed_stream;
	return 0;
}

static void *module;

void **__cudaRegisterFatBinary(void *binary)
{
	return &module;
}

void __cudaRegisterFatBinaryEnd(void **handle)
{
}

void __cudaUnregisterFatBinary(void **handle)
{
}

char __cudaInitModule(void **handle)
{
	return 1;
}

void __cudaRegisterFunction(void **handle, const char *function, char *device_function, const char *name, int limit,
			    void *thread, void *block, dim3 *block_size, dim3 *grid_size, int *warp)
{
}

int cudaGetLastError(void)
{
	return 0;
}

#endif
