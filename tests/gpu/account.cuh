// How a program tells what it did: a JSON object a line, with the columns that a recording has of it.
#pragma once
#include <cstdint>
#include <cstdio>
#include <string>

#include <cuda.h>
#include <cuda_runtime.h>

static FILE *account;

static std::string field(const char *name, const char *value) {
  return std::string(", \"") + name + "\": \"" + value + '"';
}
static std::string field(const char *name, size_t value) {
  return std::string(", \"") + name + "\": " + std::to_string(value);
}
static std::string bytes(size_t value) { return field("bytes", value); }
static std::string pointer(const void *value) { return field("ptr", (size_t)value); }
static std::string stream_is(const void *value) { return field("stream", (size_t)value); }
static std::string copied(size_t size, const void *to, const void *from, const char *kind) {
  return bytes(size) + field("dst", (size_t)to) + field("src", (size_t)from) + field("kind", kind);
}

static const char *name_of(cudaError_t result) { return cudaGetErrorName(result); }
static const char *name_of(CUresult result) {
  const char *name = "";
  cuGetErrorName(result, &name);
  return name;
}

static void write_row(const char *row, const std::string &fields) {
  fprintf(account, "{\"row\": \"%s\"%s}\n", row, fields.c_str());
}

template <typename Result> static void call(const char *function, Result result, const std::string &fields = "") {
  write_row("cuda_call", field("function", function) + field("result", (size_t)result) +
                             field("result_name", name_of(result)) + fields);
}

template <typename Result>
static void launch(const char *function, Result result, const char *kernel, dim3 grid, dim3 block, size_t shared,
                   const void *stream, const std::string &fields = "") {
  write_row("cuda_launch", field("function", function) + field("result", (size_t)result) +
                               field("result_name", name_of(result)) + field("kernel", kernel) +
                               field("grid_x", grid.x) + field("grid_y", grid.y) + field("grid_z", grid.z) +
                               field("block_x", block.x) + field("block_y", block.y) + field("block_z", block.z) +
                               field("shared_bytes", shared) + stream_is(stream) + fields);
}

// Memory of a kind: what the program holds of it.
struct Held {
  const char *memory;
  size_t live_bytes, live_count, peak_bytes, allocations, frees, unknown_frees;

  void take(size_t size) {
    live_bytes += size;
    live_count++;
    allocations++;
    if (live_bytes > peak_bytes)
      peak_bytes = live_bytes;
  }
  void give(size_t size) {
    live_bytes -= size;
    live_count--;
    frees++;
  }
  void write() const {
    if (allocations)
      write_row("cuda_memory", field("memory", memory) + field("live_bytes", live_bytes) +
                                   field("live_count", live_count) + field("peak_bytes", peak_bytes) +
                                   field("allocations", allocations) + field("frees", frees) +
                                   field("unknown_frees", unknown_frees));
  }
};
static Held device = {"device"}, pinned = {"pinned"}, managed = {"managed"};

// The address is read when the call has returned, whatever the order of the arguments' evaluation.
template <typename Result>
static void allocated(const char *function, Result result, Held &held, void *const &made, size_t size,
                      const std::string &fields = "") {
  if (!(int)result)
    held.take(size);
  call(function, result, bytes(size) + ((int)result ? "" : pointer(made)) + fields);
}

// Nothing is freed where the address is null; a size of 0 stands for what was allocated before the program was watched.
template <typename Result>
static void freed(const char *function, Result result, Held &held, const void *address, size_t size,
                  const std::string &fields = "") {
  if (address && size && !(int)result)
    held.give(size);
  call(function, result, (address && size ? bytes(size) : "") + pointer(address) + fields);
}
