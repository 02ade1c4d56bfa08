/* The part of libbpf (>= 1.1, bpf/libbpf.h and bpf/bpf.h) that scope_bpf uses. Read by cffi. */
struct bpf_object;
struct bpf_program;
struct bpf_map;
struct bpf_link;
struct bpf_map_batch_opts;

int bpf_object__load(struct bpf_object *object);
void bpf_object__close(struct bpf_object *object);
struct bpf_program *bpf_object__find_program_by_name(const struct bpf_object *object, const char *name);
struct bpf_map *bpf_object__find_map_by_name(const struct bpf_object *object, const char *name);
struct bpf_program *bpf_object__next_program(const struct bpf_object *object, struct bpf_program *previous);

const char *bpf_program__name(const struct bpf_program *program);
const char *bpf_program__section_name(const struct bpf_program *program);
int bpf_program__set_autoload(struct bpf_program *program, bool autoload);
int bpf_program__fd(const struct bpf_program *program);
struct bpf_link *bpf_program__attach(const struct bpf_program *program);
struct bpf_link *bpf_program__attach_cgroup(const struct bpf_program *program, int cgroup_fd);
int bpf_link__destroy(struct bpf_link *link);
int bpf_link__fd(const struct bpf_link *link);
int bpf_iter_create(int link_fd);

int bpf_map__fd(const struct bpf_map *map);
int bpf_map__set_max_entries(struct bpf_map *map, uint32_t entries);
uint32_t bpf_map__key_size(const struct bpf_map *map);
uint32_t bpf_map__value_size(const struct bpf_map *map);
uint32_t bpf_map__max_entries(const struct bpf_map *map);
void *bpf_map__initial_value(struct bpf_map *map, size_t *size);

int bpf_map_lookup_elem(int fd, const void *key, void *value);
int bpf_map_update_elem(int fd, const void *key, const void *value, uint64_t flags);
int bpf_map_update_batch(int fd, const void *keys, const void *values, uint32_t *count,
			 const struct bpf_map_batch_opts *opts);
int bpf_map_delete_elem(int fd, const void *key);
int bpf_map_get_next_key(int fd, const void *key, void *next_key);
int libbpf_num_possible_cpus(void);
int libbpf_probe_bpf_helper(int program_type, int helper, const void *options);
int bpf_obj_pin(int fd, const char *pathname);
int bpf_obj_get(const char *pathname);
int close(int fd);

#define BPF_ANY ...
