// Calls CUDA as programs do and writes what it did into the file that is its first argument. With a second argument it
// first allocates, launches each kernel and waits for the end of its input, so that it can be met as a process that
// runs already.
#include <cstdlib>

#include "account.cuh"

static const size_t MIB = 1 << 20;
static const size_t MORE_THAN_THERE_IS = (size_t)1 << 50;

// In a form that every driver since CUDA 11.8 compiles.
static const char *const PTX = ".version 7.8\n.target sm_75\n.address_size 64\n"
                               ".visible .entry by_module() { ret; }\n"
                               ".visible .entry by_library() { ret; }\n";

__global__ void scale(float *x, float k) { x[threadIdx.x] *= k; }
template <typename T> __global__ void add(T *x, const T *y, int n) {
  if (n)
    x[0] += y[0];
}
namespace {
__global__ void hidden(int *p) { *p = 1; }
}

static void launched(const char *kernel, const void *host_function, dim3 grid, dim3 block, size_t shared = 0,
                     cudaStream_t stream = nullptr) {
  launch("cudaLaunchKernel", cudaGetLastError(), kernel, grid, block, shared, stream,
         field("host_function", (size_t)host_function));
}

__attribute__((noinline)) static void leak(int times, size_t size) {
  for (int i = 0; i < times; i++) {
    void *p = nullptr;
    cudaError_t result = cudaMalloc(&p, size);
    allocated("cudaMalloc", result, device, p, size);
  }
}

__attribute__((noinline)) static void balanced(size_t size) {
  void *kept[53] = {};
  for (auto &p : kept) {
    cudaError_t result = cudaMalloc(&p, size);
    allocated("cudaMalloc", result, device, p, size);
  }
  for (auto p : kept)
    freed("cudaFree", cudaFree(p), device, p, size);
}

static void other_memory(cudaStream_t stream) {
  void *pitched = nullptr, *host[2] = {}, *both = nullptr, *async[2] = {};
  cudaMemPool_t pool = nullptr;
  size_t pitch = 101; // what a row gets is more than that, where there is memory
  cudaError_t result = cudaMallocPitch(&pitched, &pitch, 101, 7);

  allocated("cudaMallocPitch", result, device, pitched, pitch * 7);
  allocated("cudaMallocHost", cudaMallocHost(&host[0], 8209), pinned, host[0], 8209);
  allocated("cudaHostAlloc", cudaHostAlloc(&host[1], 16411, cudaHostAllocDefault), pinned, host[1], 16411);
  allocated("cudaMallocManaged", cudaMallocManaged(&both, 32771), managed, both, 32771);
  allocated("cudaMallocAsync", cudaMallocAsync(&async[0], 65537, stream), device, async[0], 65537, stream_is(stream));
  cudaDeviceGetDefaultMemPool(&pool, 0);
  allocated("cudaMallocFromPoolAsync", cudaMallocFromPoolAsync(&async[1], 131101, pool, stream), device, async[1],
            131101, stream_is(stream));
  freed("cudaFreeAsync", cudaFreeAsync(async[0], stream), device, async[0], 65537, stream_is(stream));
  freed("cudaFreeAsync", cudaFreeAsync(async[1], stream), device, async[1], 131101, stream_is(stream));
  freed("cudaFree", cudaFree(both), managed, both, 32771);
  freed("cudaFreeHost", cudaFreeHost(host[0]), pinned, host[0], 8209);
  freed("cudaFree", cudaFree(pitched), device, pitched, pitch * 7);
  freed("cudaFree", cudaFree(nullptr), device, nullptr, 0);
}

// What blocks takes no stream and works in the default one. Where a copy leaves it to the addresses between what it
// copies, these say it, unless the memory could not be allocated.
static void copies(char *x, cudaStream_t stream) {
  static char host[2048];
  char *y = x + 4096;
  bool is_known = device.live_count;
  std::string by_default = stream_is(nullptr), by_stream = stream_is(stream);

  call("cudaMemset", cudaMemset(x, 1, 8192), bytes(8192) + pointer(x) + by_default);
  call("cudaMemsetAsync", cudaMemsetAsync(x, 0, 4099, stream), bytes(4099) + pointer(x) + by_stream);
  call("cudaMemcpy", cudaMemcpy(x, host, 127, cudaMemcpyHostToDevice), copied(127, x, host, "H2D") + by_default);
  call("cudaMemcpy", cudaMemcpy(host, x, 113, cudaMemcpyDeviceToHost), copied(113, host, x, "D2H") + by_default);
  call("cudaMemcpy", cudaMemcpy(host + 1024, host, 103, cudaMemcpyHostToHost),
       copied(103, host + 1024, host, "H2H") + by_default);
  call("cudaMemcpy", cudaMemcpy(y, host, 101, cudaMemcpyDefault),
       copied(101, y, host, is_known ? "H2D" : "default") + by_default);
  call("cudaMemcpyAsync", cudaMemcpyAsync(y, x, 109, cudaMemcpyDeviceToDevice, stream),
       copied(109, y, x, "D2D") + by_stream);
  call("cudaMemcpy2D", cudaMemcpy2D(host, 16, x, 32, 13, 3, cudaMemcpyDeviceToHost),
       copied(13 * 3, host, x, "D2H") + by_default);
  call("cudaMemcpy2DAsync", cudaMemcpy2DAsync(y, 16, x, 32, 11, 5, cudaMemcpyDefault, stream),
       copied(11 * 5, y, x, is_known ? "D2D" : "default") + by_stream);
  call("cudaMemcpyPeer", cudaMemcpyPeer(y, 0, x, 0, 97), copied(97, y, x, "D2D") + by_default);
  call("cudaMemcpyPeerAsync", cudaMemcpyPeerAsync(y, 0, x, 0, 89, stream), copied(89, y, x, "D2D") + by_stream);
}

static void launches(float *x, cudaStream_t stream) {
  float k = 2.f;
  void *arguments[] = {&x, &k};
  cudaLaunchConfig_t config = {dim3(19, 2, 3), dim3(4, 5, 6), 256, stream, nullptr, 0};

  for (int i = 0; i < 7; i++) {
    scale<<<dim3(3, 5, 7), dim3(32, 2, 1), 128>>>(x, k);
    launched("scale(float*, float)", (void *)scale, dim3(3, 5, 7), dim3(32, 2, 1), 128);
    add<float><<<11, 64, 0, stream>>>(x, x, 3);
    launched("void add<float>(float*, float const*, int)", (void *)add<float>, 11, 64, 0, stream);
    add<double><<<dim3(13, 17), 96, 1024>>>((double *)x, (double *)x, 3);
    launched("void add<double>(double*, double const*, int)", (void *)add<double>, dim3(13, 17), 96, 1024);
  }
  hidden<<<1, 1>>>((int *)x);
  launched("(anonymous namespace)::hidden(int*)", (void *)hidden, 1, 1);
  launch("cudaLaunchKernelExC", cudaLaunchKernelEx(&config, scale, x, 3.f), "scale(float*, float)", config.gridDim,
         config.blockDim, 256, stream);
  launch("cudaLaunchCooperativeKernel", cudaLaunchCooperativeKernel((void *)scale, 2, 32, arguments, 64, stream),
         "scale(float*, float)", 2, 32, 64, stream);
}

// A launch that is captured is a call as any other; what the graph launches later, the program does not call.
static void graph(float *x, cudaStream_t stream) {
  cudaGraph_t made = nullptr;
  cudaGraphExec_t executable = nullptr;

  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  scale<<<5, 32, 0, stream>>>(x, 1.f);
  launched("scale(float*, float)", (void *)scale, 5, 32, 0, stream);
  cudaStreamEndCapture(stream, &made);
  call("cudaGraphInstantiate", cudaGraphInstantiate(&executable, made, 0));
  for (int i = 0; i < 3; i++)
    call("cudaGraphLaunch", cudaGraphLaunch(executable, stream), stream_is(stream));
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(made);
}

static void driver_kernels() {
  CUmodule module = nullptr;
  CUlibrary library = nullptr;
  CUfunction function = nullptr;
  CUkernel kernel = nullptr;
  CUlaunchConfig config = {3, 5, 2, 8, 2, 1, 96};

  cuModuleLoadData(&module, PTX);
  cuModuleGetFunction(&function, module, "by_module");
  for (int i = 0; i < 5; i++)
    launch("cuLaunchKernel", cuLaunchKernel(function, 2, 3, 5, 7, 11, 13, 17, nullptr, nullptr, nullptr), "by_module",
           dim3(2, 3, 5), dim3(7, 11, 13), 17, nullptr);
  cuLibraryLoadData(&library, PTX, nullptr, nullptr, 0, nullptr, nullptr, 0);
  cuLibraryGetKernel(&kernel, library, "by_library");
  for (int i = 0; i < 3; i++)
    launch("cuLaunchKernelEx", cuLaunchKernelEx(&config, (CUfunction)kernel, nullptr, nullptr), "by_library",
           dim3(3, 5, 2), dim3(8, 2, 1), 96, nullptr);
  call("cuCtxSynchronize", cuCtxSynchronize());
  cuLibraryUnload(library);
  cuModuleUnload(module);
}

// Two pieces mapped beside each other and unmapped at once, as PyTorch's segments that grow are.
static void virtual_memory() {
  CUmemAllocationProp properties = {};
  CUmemAccessDesc access = {};
  CUmemGenericAllocationHandle handles[2] = {};
  CUdeviceptr address = 0;
  size_t piece = 0;

  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  cuMemGetAllocationGranularity(&piece, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  cuMemAddressReserve(&address, 2 * piece, 0, 0, 0);
  for (int i = 0; i < 2; i++) {
    call("cuMemCreate", cuMemCreate(&handles[i], piece, &properties, 0), bytes(piece));
    allocated("cuMemMap", cuMemMap(address + i * piece, piece, 0, handles[i], 0), device, (void *)(address + i * piece),
              piece);
  }
  cuMemSetAccess(address, 2 * piece, &access, 1);
  CUresult unmapped = cuMemUnmap(address, 2 * piece);
  call("cuMemUnmap", unmapped, bytes(2 * piece) + pointer((void *)address));
  for (int i = 0; i < 2 && !unmapped; i++)
    device.give(piece);
  for (auto handle : handles)
    call("cuMemRelease", cuMemRelease(handle));
  cuMemAddressFree(address, 2 * piece);
}

int main(int argc, char **argv) {
  void *early = nullptr, *x = nullptr, *none = nullptr;
  cudaStream_t stream = nullptr;
  size_t before = 0, after = 0, total;

  account = fopen(argv[1], "w");
  if (!account)
    return 1;
  setvbuf(account, nullptr, _IOLBF, BUFSIZ); // lines are whole even of a program that dies
  if (argc > 2) { // the program asks for a kernel's handle but once
    cudaMalloc(&early, 4096);
    scale<<<1, 32>>>((float *)early, 0.f);
    add<float><<<1, 1>>>((float *)early, (float *)early, 0);
    add<double><<<1, 1>>>((double *)early, (double *)early, 0);
    hidden<<<1, 1>>>((int *)early);
    puts("runs");
    fflush(stdout);
    getchar();
  }
  call("cudaSetDevice", cudaSetDevice(0));
  leak(11, 307);
  write_row("cuda_live", field("by", "leak(int, unsigned long)") + field("live_bytes", device.live_bytes) +
                             field("live_count", device.live_count));
  balanced(1009);
  cudaMemGetInfo(&before, &total);
  allocated("cudaMalloc", cudaMalloc(&x, 64 * MIB), device, x, 64 * MIB);
  cudaMemGetInfo(&after, &total);
  write_row("memory_info", field("allocated", 64 * MIB) + field("fewer_free", before > after ? before - after : 0));
  call("cudaStreamCreate", cudaStreamCreate(&stream));
  other_memory(stream);
  copies((char *)x + 4 * MIB, stream);
  launches((float *)x, stream);
  call("cudaStreamSynchronize", cudaStreamSynchronize(stream), stream_is(stream));
  graph((float *)x, stream);
  driver_kernels();
  virtual_memory();
  allocated("cudaMalloc", cudaMalloc(&none, MORE_THAN_THERE_IS), device, none, MORE_THAN_THERE_IS);
  cudaGetLastError();
  if (early) {
    freed("cudaFree", cudaFree(early), device, early, 0);
    device.unknown_frees++;
  }
  call("cudaDeviceSynchronize", cudaDeviceSynchronize());
  call("cudaStreamDestroy", cudaStreamDestroy(stream), stream_is(stream));
  device.write();
  pinned.write();
  managed.write();
  return fclose(account);
}
