// Copies the programs of this image to the folder that the command names, in an init container. The image has no shell.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *source = "/openssh";

static int fail(const char *path) {
  fprintf(stderr, "openssh: cannot copy `%s`: %s. The job has no sshd, so it fails now. Check the volume of the folder.\n", path,
          strerror(errno));
  return 1;
}

int main(int count, char **words) {
  if (count != 2) return fprintf(stderr, "usage: copy FOLDER\n"), 2;
  if (mkdir(words[1], 0755) && errno != EEXIST) return fail(words[1]);
  DIR *folder = opendir(source);
  if (!folder) return fail(source);
  for (struct dirent *entry; (entry = readdir(folder));) {
    char from[512], to[512], part[520], block[1 << 16];
    struct stat found;
    snprintf(from, sizeof from, "%s/%s", source, entry->d_name);
    snprintf(to, sizeof to, "%s/%s", words[1], entry->d_name);
    snprintf(part, sizeof part, "%s.part", to);
    if (stat(from, &found)) return fail(from);
    if (!S_ISREG(found.st_mode)) continue;
    int in = open(from, O_RDONLY), out = open(part, O_WRONLY | O_CREAT | O_TRUNC, 0755);
    if (in < 0 || out < 0) return fail(to);
    ssize_t size;
    while ((size = read(in, block, sizeof block)) > 0)
      if (write(out, block, size) != size) return fail(to);
    // The init container runs again after a restart of the node, so the old file is replaced in one step.
    if (size < 0 || fchmod(out, found.st_mode & 0755) || close(out) || close(in) || rename(part, to)) return fail(to);
  }
  return 0;
}
