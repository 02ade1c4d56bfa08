/*
 * A program with a stand-in for the runtime and the driver linked in, for hosts without a GPU: the stand-in's
 * functions succeed, and work on host memory. The program executes its arguments as commands, in their order.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (1ul << 20)

typedef struct {
	size_t x, y;
	unsigned type;
	const void *host;
	uint64_t device;
	void *array;
	size_t pitch;
} End2D;

typedef struct {
	End2D from, to;
	size_t width, height;
} Copy2D;

typedef struct {
	size_t x, y, z, level;
	unsigned type;
	const void *host;
	uint64_t device;
	void *array, *reserved;
	size_t pitch, height;
} End3D;

typedef struct {
	End3D from, to;
	size_t width, height, depth;
} Copy3D;

enum { H2H, H2D, D2H, D2D, DEFAULT };
enum { HOST = 1, DEVICE, ARRAY, UNIFIED };

#define API __attribute__((noipa))

static void *next_address;

API int cudaMalloc(void **pointer, size_t bytes)
{
	*pointer = next_address ? next_address : aligned_alloc(2 * MIB, (bytes + 2 * MIB - 1) & ~(2 * MIB - 1));
	return 0;
}

API int cudaMallocManaged(void **pointer, size_t bytes, unsigned flags)
{
	*pointer = malloc(bytes);
	return flags == 7;
}

API int cudaMallocHost(void **pointer, size_t bytes)
{
	*pointer = malloc(bytes);
	return 0;
}

API int cudaHostRegister(void *memory, size_t bytes, unsigned flags)
{
	return bytes == flags;
}

API int cudaHostUnregister(void *memory)
{
	return !memory;
}

API int cudaMallocPitch(void **pointer, size_t *pitch, size_t width, size_t height)
{
	*pitch = (width + 511) & ~511ul;
	*pointer = malloc(*pitch * height);
	return 0;
}

API int cudaFree(void *pointer)
{
	return !pointer || next_address;
}

API int cudaSetDevice(int device)
{
	return device > 8;
}

API int cudaDeviceReset(void)
{
	return next_address ? 3 : 0;
}

API int cudaMemcpy(void *to, const void *from, size_t bytes, int kind)
{
	return bytes ? 0 : kind;
}

API int cudaDeviceSynchronize(void)
{
	if (next_address)
		pthread_exit(NULL);
	return 0;
}

API int cudaStreamSynchronize(void *stream)
{
	_exit(stream ? 0 : cudaDeviceSynchronize());
}

API int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
	*context = malloc(1);
	return flags + device;
}

API int cuCtxSetCurrent(void *context)
{
	return !context;
}

API int cuCtxDestroy_v2(void *context)
{
	return !context;
}

API int cuMemAlloc_v2(uint64_t *pointer, size_t bytes)
{
	*pointer = (uint64_t)malloc(bytes);
	return 0;
}

API int cuMemAllocAsync(uint64_t *pointer, size_t bytes, void *stream)
{
	*pointer = (uint64_t)malloc(bytes);
	return !bytes;
}

API int cuMemcpy2D_v2(const Copy2D *copy)
{
	return !copy->height;
}

API int cuMemcpy3DAsync_v2(const Copy3D *copy, void *stream)
{
	return !copy->height;
}

API int cuMemcpyHtoA_v2(void *array, size_t offset, const void *from, size_t bytes)
{
	return !array || offset + bytes == 0;
}

API int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
	*kernel = malloc(64);
	return !name;
}

API int cuKernelGetFunction(void **function, void *kernel)
{
	*function = malloc(64);
	return !kernel;
}

API int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
		       unsigned shared, void *stream, void **arguments, void **extra)
{
	return function ? 0 : 400;
}

static void kernels(void)
{
	void *kernel, *function, *other;

	cuLibraryGetKernel(&kernel, NULL, "kernel_of_a_library");
	cuKernelGetFunction(&function, kernel);
	cuKernelGetFunction(&other, function + 8); /* a function that the driver did not return */
	for (int i = 0; i < 7; i++)
		cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
	cuLaunchKernel(other, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void kept(void)
{
	void *pointer;

	cudaMalloc(&pointer, 211);
	next_address = "refuse";
	cudaFree(pointer);
	cudaFree("of nobody");
	next_address = NULL;
}

static void copies(void)
{
	static char host[64];
	char *device, *managed, *pinned, *strange = (char *)0x1234567000, *freed;

	cudaMalloc((void **)&device, 5 * MIB);
	cudaMallocManaged((void **)&managed, 4096, 0);
	cudaMallocHost((void **)&pinned, 4096);
	cudaMalloc((void **)&freed, 5 * MIB);
	cudaFree(freed);
	cudaMemcpy(device + 3 * MIB, host, 2, DEFAULT);
	cudaMemcpy(host, device + 5 * MIB - 1, 3, DEFAULT);
	cudaMemcpy(device + 1, device, 5, DEFAULT);
	cudaMemcpy(pinned, host, 7, DEFAULT);
	cudaMemcpy(device, strange, 11, DEFAULT);
	cudaMemcpy(managed, host, 13, DEFAULT);
	cudaMemcpy(device, host, 17, D2H); /* a given direction is recorded as given */
	cuMemcpy2D_v2(&(Copy2D){
		.from = {.type = HOST, .host = host, .device = 1},
		.to = {.type = DEVICE, .host = (void *)1, .device = (uint64_t)device},
		.width = 13,
		.height = 3,
	});
	cuMemcpy2D_v2(&(Copy2D){
		.from = {.type = UNIFIED, .device = (uint64_t)device},
		.to = {.type = ARRAY, .device = (uint64_t)strange},
		.width = 17,
		.height = 5,
	});
	cuMemcpy2D_v2(&(Copy2D){
		.from = {.type = UNIFIED, .device = (uint64_t)device},
		.to = {.type = UNIFIED, .device = (uint64_t)host},
		.width = 19,
		.height = 7,
	});
	cuMemcpy3DAsync_v2(
		&(Copy3D){
			.from = {.type = DEVICE, .device = (uint64_t)device},
			.to = {.type = HOST, .host = host},
			.width = 23,
			.height = 3,
			.depth = 5,
		},
		(void *)0x77);
	cuMemcpyHtoA_v2(strange, 8, host, 29);
}

static void allocate(int times)
{
	void *pointer;

	for (int i = 0; i < times; i++)
		cudaMalloc(&pointer, 307);
}

static void contexts(void)
{
	void *first, *second;
	uint64_t pointer;

	cuCtxCreate_v2(&first, 0, 0);
	cuMemAlloc_v2(&pointer, 101);
	cuMemAlloc_v2(&pointer, 103);
	cuCtxCreate_v2(&second, 0, 0);
	cuMemAlloc_v2(&pointer, 1009);
	cuCtxSetCurrent(first);
	cuMemAlloc_v2(&pointer, 107);
	cuMemAllocAsync(&pointer, 109, NULL); /* a pool's */
	cuCtxDestroy_v2(first);
}

static void *ends(void *unused)
{
	next_address = "exit"; /* the thread ends in the wait */
	cudaDeviceSynchronize();
	return NULL;
}

int main(int argc, char **argv)
{
	for (char **word = argv + 1; *word; word++) {
		if (!strcmp(*word, "copies"))
			copies();
		if (!strcmp(*word, "kept"))
			kept();
		if (!strcmp(*word, "kernels"))
			kernels();
		if (!strcmp(*word, "allocate"))
			allocate(5);
		if (!strcmp(*word, "device"))
			cudaSetDevice(3);
		if (!strcmp(*word, "reset"))
			cudaDeviceReset();
		if (!strcmp(*word, "refused")) {
			next_address = "";
			cudaDeviceReset();
			next_address = NULL;
		}
		if (!strcmp(*word, "contexts"))
			contexts();
		if (!strcmp(*word, "again")) {
			next_address = aligned_alloc(2 * MIB, 2 * MIB);
			allocate(3);
			next_address = NULL;
		}
		if (!strcmp(*word, "register")) {
			static char first[1009], second[2003];

			cudaHostRegister(first, sizeof(first), 0);
			cudaHostRegister(second, sizeof(second), 0);
			cudaHostUnregister(first);
		}
		if (!strcmp(*word, "pitch")) {
			void *pointer;
			size_t pitch;

			cudaMallocPitch(&pointer, &pitch, 100, 7);
			cudaFree(pointer);
		}
		if (!strcmp(*word, "exec"))
			execv("/proc/self/exe", word);
		if (!strcmp(*word, "end")) {
			pthread_t thread;

			pthread_create(&thread, NULL, ends, NULL);
			pthread_join(thread, NULL);
			next_address = NULL;
			cudaStreamSynchronize((void *)0x55);
		}
	}
}
