// Calls each function once or a known number of times and prints what it passed and got:
// function, result, bytes, and for launches the geometry.
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

__global__ void scale(float *x, float k) { x[threadIdx.x] *= k; }
template <typename T> __global__ void add(T *x, const T *y, int n) { if (n) x[0] += y[0]; }
namespace {
__global__ void hidden(int *p) { *p = 1; }
}

#define CALL(name, bytes, ...) printf("call %s %d %zu\n", #name, (int)name(__VA_ARGS__), (size_t)(bytes))

static void launched(const char *kernel, dim3 grid, dim3 block, size_t shared) {
  printf("launch %d %u %u %u %u %u %u %zu %s\n", (int)cudaGetLastError(), grid.x, grid.y, grid.z, block.x, block.y,
         block.z, shared, kernel);
}

int main(int argc, char **argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 1, threads = argc > 2 ? atoi(argv[2]) : 0;
  float *x = nullptr, host[32] = {};
  size_t pitch;
  cudaStream_t stream = nullptr;

  setvbuf(stdout, nullptr, _IOFBF, 1 << 20);
  CALL(cudaSetDevice, 0, 0);
  CALL(cudaMalloc, 4099, (void **)&x, 4099);
  CALL(cudaMallocHost, 8209, (void **)&x, 8209);
  CALL(cudaHostAlloc, 16411, (void **)&x, 16411, cudaHostAllocDefault);
  CALL(cudaMallocManaged, 32771, (void **)&x, 32771);
  CALL(cudaMallocAsync, 65537, (void **)&x, 65537, stream);
  CALL(cudaMallocPitch, 101 * 7, (void **)&x, &pitch, 101, 7);
  CALL(cudaMemcpy, 127, host, host, 127, cudaMemcpyHostToDevice);
  CALL(cudaMemcpy, 113, host, host, 113, cudaMemcpyDeviceToHost);
  CALL(cudaMemcpyAsync, 109, host, host, 109, cudaMemcpyDeviceToDevice, stream);
  CALL(cudaMemcpy2D, 13 * 3, host, 16, host, 16, 13, 3, cudaMemcpyHostToHost);
  CALL(cudaMemcpy2DAsync, 11 * 5, host, 16, host, 16, 11, 5, cudaMemcpyDefault, stream);
  CALL(cudaMemcpyPeer, 97, host, 0, host, 0, 97);
  CALL(cudaMemcpyPeerAsync, 89, host, 0, host, 0, 89, stream);
  CALL(cudaMemset, 83, host, 1, 83);
  CALL(cudaMemsetAsync, 79, host, 1, 79, stream);
  CALL(cudaStreamCreate, 0, &stream);
  for (int round = 0; round < rounds; round++) {
    scale<<<dim3(3, 5, 7), dim3(32, 2, 1), 128, 0>>>(x, 2.f);
    launched("scale(float*, float)", dim3(3, 5, 7), dim3(32, 2, 1), 128);
    add<float><<<11, 64>>>(x, x, 3);
    launched("void add<float>(float*, float const*, int)", 11, 64, 0);
    add<double><<<dim3(13, 17), 96, 1024>>>((double *)x, (double *)x, 3);
    launched("void add<double>(double*, double const*, int)", dim3(13, 17), 96, 1024);
    hidden<<<1, 1>>>((int *)x);
    launched("(anonymous namespace)::hidden(int*)", 1, 1, 0);
  }
  cudaLaunchConfig_t config = {dim3(19, 2, 3), dim3(4, 5, 6), 256, nullptr, nullptr, 0};
  cudaLaunchKernelEx(&config, scale, x, 3.f);
  launched("scale(float*, float)", config.gridDim, config.blockDim, 256);
  std::vector<std::thread> workers;
  for (int i = 0; i < threads; i++)
    workers.emplace_back([&, i] {
      for (int round = 0; round < 101; round++)
        scale<<<i + 1, 2>>>(x, 1.f);
    });
  for (auto &worker : workers)
    worker.join();
  CALL(cudaDeviceSynchronize, 0);
  CALL(cudaStreamSynchronize, 0, stream);
  CALL(cudaFree, 0, nullptr);
  CALL(cudaFreeHost, 0, nullptr);
  CALL(cudaFreeAsync, 0, x, stream);
  CALL(cudaStreamDestroy, 0, stream);
  fflush(stdout);
  if (argc > 3) // wait, so that a late tracer finds it running
    getchar();
}
