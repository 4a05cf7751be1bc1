/* The state file behind the fake library, and its injected faults.
 *
 * $FAKENVML_STATE names the file, which is read again when it changes; $FAKENVML_CALLS, if set, gets one line
 * per call. For one thread at a time.
 */
#include <sys/stat.h>
#include <unistd.h>

#include "fake_nvml.h"

enum { MAX_PAIRS = 8192 };

static struct { char *key, *value; int used; } pairs[MAX_PAIRS];
static int pair_count;
int initialised;
static char *text;
static struct stat seen;

static void refresh(void) {
    const char *path = getenv("FAKENVML_STATE");
    struct stat now;
    if (!path || stat(path, &now)) return;
    if (text && now.st_mtim.tv_sec == seen.st_mtim.tv_sec && now.st_mtim.tv_nsec == seen.st_mtim.tv_nsec &&
        now.st_size == seen.st_size && now.st_ino == seen.st_ino) return;
    FILE *file = fopen(path, "r");
    /* Of the file that is open: another may have its name by now. */
    if (!file || fstat(fileno(file), &now)) return;
    free(text);
    text = calloc(1, (size_t)now.st_size + 1);
    if (fread(text, 1, (size_t)now.st_size, file) != (size_t)now.st_size) abort();
    fclose(file);
    seen = now;
    pair_count = 0;
    for (char *rest = NULL, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *equals = strchr(line, '=');
        if (!equals || pair_count == MAX_PAIRS) abort();
        *equals = 0;
        pairs[pair_count].key = line;
        pairs[pair_count].used = 0;
        pairs[pair_count++].value = equals + 1;
    }
}

static int find(const char *prefix, const char *key) {
    size_t length = strlen(prefix);
    for (int i = 0; i < pair_count; i++)
        if (!strncmp(pairs[i].key, prefix, length) && !strcmp(pairs[i].key + length, key)) return i;
    return -1;
}

const char *get(const char *prefix, const char *key) {
    int i = find(prefix, key);
    return i < 0 ? NULL : pairs[i].value;
}

u64 number(const char *prefix, const char *key) {
    const char *value = get(prefix, key);
    return value ? strtoull(value, NULL, 0) : 0;
}

int copy(const char *value, char *into, size_t room) {
    if (!value) return NOT_SUPPORTED;
    if (strlen(value) >= room) return INSUFFICIENT_SIZE;
    strcpy(into, value);
    return SUCCESS;
}

/* `<prefix>err.<function>=<code>`, or `<code>*<times>`; `err.*` stands for every function. */
int fault(const char *prefix, const char *function) {
    char key[128];
    for (int all = 0; all < 2; all++) {
        snprintf(key, sizeof key, "err.%s", all ? "*" : function);
        int i = find(prefix, key);
        if (i < 0) continue;
        const char *times = strchr(pairs[i].value, '*');
        if (!times || pairs[i].used++ < atoi(times + 1)) return atoi(pairs[i].value);
    }
    return SUCCESS;
}

/* ---- what every call does first ---- */

int enter(const char *function, const char *about) {
    const char *path = getenv("FAKENVML_CALLS");
    FILE *calls = path ? fopen(path, "a") : NULL;
    if (calls) {
        fprintf(calls, "%s %s\n", function, about);
        fclose(calls);
    }
    refresh();
    usleep((unsigned)(number("", "delay_us") + number("delay_us.", function)));
    int code = fault("", function);
    return code ? code : initialised || !strcmp(function, "nvmlInitWithFlags") ? SUCCESS : UNINITIALIZED;
}

static int gpu_index(const char *uuid) {
    char prefix[32];
    for (int i = 0; i < (int)number("", "gpus"); i++) {
        snprintf(prefix, sizeof prefix, "gpu.%d.", i);
        const char *value = get(prefix, "uuid");
        if (value && !strcmp(value, uuid)) return i;
    }
    return -1;
}

int mig_index(const char *gpu, const char *field, const char *wanted) {
    char key[128];
    for (int i = 0; i < (int)number(gpu, "mig.max"); i++) {
        snprintf(key, sizeof key, "mig.%d.%s", i, field);
        const char *value = get(gpu, key);
        if (value && !strcmp(value, wanted)) return i;
    }
    return -1;
}

int enter_device(const char *function, const Device *device, char prefix[64]) {
    int code = enter(function, *device->mig ? device->mig : device->gpu);
    if (code) return code;
    int gpu = gpu_index(device->gpu);
    if (gpu < 0) return GPU_IS_LOST;
    snprintf(prefix, 64, "gpu.%d.", gpu);
    if ((code = fault(prefix, function)) || !*device->mig) return code;
    int mig = number(prefix, "mig") == 1 ? mig_index(prefix, "uuid", device->mig) : -1;
    if (mig < 0) return INVALID_ARGUMENT;
    snprintf(prefix, 64, "gpu.%d.mig.%d.", gpu, mig);
    return fault(prefix, function);
}

Device *handle_of(const char *gpu, const char *mig) {
    static Device handles[MAX_HANDLES];
    for (int i = 0; i < MAX_HANDLES; i++) {
        if (!*handles[i].gpu) {
            strcpy(handles[i].gpu, gpu);
            strcpy(handles[i].mig, mig);
        }
        if (!strcmp(handles[i].gpu, gpu) && !strcmp(handles[i].mig, mig)) return &handles[i];
    }
    abort();
}
