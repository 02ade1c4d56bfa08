// A stand-in for launches of CUDA graphs: with -DDRIVER libcuda, otherwise libcudart, which calls it.
int cuGraphLaunch(void *graph, void *stream);

#ifdef DRIVER
int cuGraphLaunch(void *graph, void *stream)
{
	return 0;
}
#else
int cudaGraphLaunch(void *graph, void *stream)
{
	int result = cuGraphLaunch(graph, stream);

	__asm__ volatile(""); // no jump instead of the call
	return result;
}
#endif
