// A program or a library: allocates and launches a known number of times through its linked runtime.
// As a program, it executes its arguments as commands, in their order:
//   wait       waits for a byte on standard input
//   work       calls cudaMalloc(BYTES) and launches KERNEL, TIMES times each
//   open PATH  opens a library in a namespace of its own, so that a file may be opened twice
//   use        calls each library opened so far, in turn: its work(), or, of a runtime, TIMES times cudaMalloc(index)
//   exec PATH  executes another program with the rest of the arguments
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

__global__ void KERNEL(int *p) { *p = 1; }

extern "C" __attribute__((visibility("default"))) void work() {
  void *p;
  for (int i = 0; i < TIMES; i++) {
    cudaMalloc(&p, BYTES);
    KERNEL<<<TIMES, 2>>>((int *)p);
  }
}

static void *opened[16];
static int count;

static void open_library(const char *path) {
  opened[count] = dlmopen(LM_ID_NEWLM, path, RTLD_NOW);
  if (!opened[count++]) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
}

static void use_libraries() {
  for (int i = 0; i < count; i++) {
    void *p, *works = dlsym(opened[i], "work"), *allocates = dlsym(opened[i], "cudaMalloc");
    for (int j = 0; j < (works ? 1 : TIMES); j++)
      if (works)
        ((void (*)())works)();
      else
        ((int (*)(void **, size_t))allocates)(&p, i + 1);
  }
}

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "wait")) {
      char byte;
      if (read(0, &byte, 1) != 1)
        return 1;
    } else if (!strcmp(argv[i], "work"))
      work();
    else if (!strcmp(argv[i], "open"))
      open_library(argv[++i]);
    else if (!strcmp(argv[i], "use"))
      use_libraries();
    else if (!strcmp(argv[i], "exec")) {
      execv(argv[i + 1], argv + i + 1);
      return 1;
    }
  }
}
