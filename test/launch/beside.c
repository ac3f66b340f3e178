/* Where a rank's threads may run: a line for the program's own, and one for each of the library's that is
 * there. */
#define _DEFAULT_SOURCE  // usleep
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void show(const char* thread) {
  char path[300];
  snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
  FILE* const file = fopen(path, "r");
  char line[256];
  while (file && fgets(line, sizeof line, file))
    if (strncmp(line, "Cpus_allowed_list:\t", 19) == 0)
      printf("%s: %s", atoi(thread) == getpid() ? "the program's" : "the library's", line + 19);
  if (file) fclose(file);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  usleep(100000); /* so that they have begun */
  DIR* const tasks = opendir("/proc/self/task");
  for (const struct dirent* entry; (entry = readdir(tasks));)
    if (entry->d_name[0] != '.') show(entry->d_name);
  closedir(tasks);
  MPI_Finalize();
  return 0;
}
