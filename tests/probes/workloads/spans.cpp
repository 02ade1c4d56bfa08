// C++ functions, some of which exceptions pass. Usage: spans_cpp N
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

static volatile long sink;

namespace shop
{

class Pool
{
      public:
	__attribute__((noinline, noclone)) void *alloc(size_t size, size_t *actual);
	__attribute__((noinline, noclone)) void *alloc(size_t size);
};

void *Pool::alloc(size_t size, size_t *actual)
{
	sink = sink + size;
	*actual = 2 * size;
	return this;
}

void *Pool::alloc(size_t size)
{
	sink = sink + size;
	return nullptr;
}

namespace
{

__attribute__((noinline, noclone)) int fails(int number)
{
	sink = sink + 1;
	if (number % 2)
		throw std::runtime_error("odd");
	return number;
}

template <typename Number> __attribute__((noinline, noclone)) Number twice(Number number)
{
	sink = sink + 1;
	return number * 2;
}

} // namespace
} // namespace shop

extern "C" __attribute__((noinline)) int plain(int number)
{
	sink = sink + 1;
	return number + 1;
}

int main(int argc, char **argv)
{
	shop::Pool pool;
	int count = atoi(argv[1]), caught = 0;

	for (int i = 0; i < count; i++) {
		size_t actual;

		pool.alloc(100 + i, &actual);
		pool.alloc(i);
		plain(i);
		shop::twice(i);
		shop::twice(0.5 * i);
		try {
			shop::fails(i);
		} catch (const std::runtime_error &) {
			caught++;
		}
	}
	printf("%d\n", caught);
	return 0;
}
