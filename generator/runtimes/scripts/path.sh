# The launcher pod sets PATH, so that /run/mpi/bin precedes the image, and a pod cannot refer to the PATH of its image. So each
# program in a folder that only the PATH of the image has gets a program of the same name, which sets the PATH of the image.
printf '%s\n' "$PATH" > path
mkdir -p image
(
  IFS=: usual=:${path:?}:
  for folder in $PATH; do
    case $usual in *:"$folder":*) continue ;; esac
    for program in "$folder"/*; do
      [ ! -x "$program" ] || [ -d "$program" ] || printf '%s\n' '#!/bin/sh' 'read -r PATH < /run/mpi/path' \
        "PATH=/run/mpi/bin:\$PATH exec \"\${0##*/}\" \"\$@\"" > "image/${program##*/}"
    done
  done
  chmod -R 755 image
)
