// Measures what calls cost, in nanoseconds, and writes that into the file that is its first argument.
#include <chrono>
#include <cstdio>

__global__ void nothing() {}

template <typename Work> static double ns_each(int times, Work work) {
  auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; i++)
    work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / times;
}

int main(int, char **argv) {
  void *p = nullptr;
  FILE *account = fopen(argv[1], "w");

  if (!account)
    return 1;
  nothing<<<1, 1>>>();
  cudaDeviceSynchronize();
  // At most as many at once as the queue of a GPU holds, lest the host waits for the device.
  double launch_ns = ns_each(101, [] {
    for (int i = 0; i < 211; i++)
      nothing<<<1, 1>>>();
    cudaDeviceSynchronize();
  }) / 211;
  double allocate_ns = ns_each(2003, [&] {
    cudaMalloc(&p, 4096);
    cudaFree(p);
  });
  fprintf(account, "{\"what\": \"a launch\", \"ns\": %f}\n", launch_ns);
  fprintf(account, "{\"what\": \"cudaMalloc and cudaFree\", \"ns\": %f}\n", allocate_ns);
  return fclose(account);
}
