// The libibverbs of fabric/verbs' tests with the devices of verbs.txt in the same
// folder: a line for each, with its name and its fault as that library spells it,
// "mlx5_0 open 13".
#define ibv_get_device_list fake_list
#define ibv_open_device fake_open
#define _ibv_query_gid_table fake_gids
#include "../../../fabric/verbs/testdata/fake.c"
#undef ibv_get_device_list
#undef ibv_open_device
#undef _ibv_query_gid_table

// line reads the next device; 0: no more devices.
static int line(FILE **f, char name[64], char words[256]) {
    Dl_info self;
    char path[4096];

    if (*f == NULL) {
        if (!dladdr((void *)line, &self))
            abort();
        snprintf(path, sizeof path, "%.*s/verbs.txt", (int)(strrchr(self.dli_fname, '/') - self.dli_fname),
                 self.dli_fname);
        if ((*f = fopen(path, "r")) == NULL)
            return 0;
    }
    if (fscanf(*f, "%63s%255[^\n]", name, words) == 2)
        return 1;
    fclose(*f);
    return 0;
}

struct lv_device **ibv_get_device_list(int *count) {
    struct lv_device **list = calloc(256, sizeof *list), d = {0};
    char words[256];
    FILE *f = NULL;

    for (*count = 0; *count < 255 && line(&f, d.name, words);) {
        list[*count] = malloc(sizeof d);
        *list[(*count)++] = d;
    }
    return list;
}

// A process has one device open at a time, so the fault of the last one opened
// applies to all.
struct lv_context *ibv_open_device(struct lv_device *d) {
    char name[64], words[256];
    FILE *f = NULL;

    while (line(&f, name, words))
        if (strcmp(name, d->name) == 0)
            snprintf(text, sizeof text, "%s ", words);
    return fake_open(d);
}

// There are four entries; on many machines a rail uses the last.
ssize_t _ibv_query_gid_table(struct lv_context *context, struct lv_gid_entry *entries, size_t max, uint32_t flags,
                             size_t size) {
    ssize_t n = max < 4 ? -EOPNOTSUPP : fake_gids(context, entries, max, flags, size);
    int i;

    for (i = 0; n == 2 && i < 2; i++) {
        entries[2 + i] = entries[1];
        entries[2 + i].index = 2 + (uint32_t)i;
    }
    return n == 2 ? 4 : n;
}
