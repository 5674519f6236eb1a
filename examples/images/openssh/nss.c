// Linked into the static programs. glibc would load the modules that /etc/nsswitch.conf of the image names, such as `sss`.
// These modules belong to the libc of the image, and a static program crashes with another libc. So the programs read only
// files, and ask DNS for hosts, with the code that libc.a of glibc 2.34 and later contains.
#include <nss.h>

__attribute__((constructor)) static void set_sources(void) {
  static const char *const databases[] = {"passwd", "group", "initgroups", "shadow", "services", "protocols", "networks"};
  for (unsigned number = 0; number < sizeof databases / sizeof *databases; number++)
    __nss_configure_lookup(databases[number], "files");
  __nss_configure_lookup("hosts", "files dns");
}
