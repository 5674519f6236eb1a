# Checks that the image has the programs that the pods of the job run. It uses only builtins of the shell.
set -eu
path=$PATH folders='' missing=''

# Add the missing programs to `missing`: `need SOFTWARE PROGRAM...`. `|` separates alternatives.
need() {
  software=$1 absent='' IFS='|:'
  shift
  for program; do
    has "$program" || absent="$absent${absent:+, }$names"
  done
  unset IFS
  [ -z "$absent" ] || missing="$missing${missing:+, }$absent ($software)"
}

# Return true if one of the alternatives is on `path` or in one of `folders`. Set `names` for the message.
has() {
  names=''
  for name in $1; do
    names="$names${names:+ or }\`$name\`"
    for folder in $path $folders; do
      program=$folder/$name
      case $name in /*) program=$name ;; esac
      if [ -f "$program" ] && [ -x "$program" ]; then return 0; fi
    done
  done
  return 1
}

# Fail if programs are missing, with one message for all of them. The argument is the name of the MPI.
# `always`, `openssh` and `mpi` are sentences of the message.
report() {
  [ -n "$missing" ] || return 0
  fix=${always:?}
  case $missing in *OpenSSH*) fix="$fix ${openssh:?}" ;; esac
  case $missing in *"($1)"*) fix="$fix ${mpi:?}" ;; esac
  echo "prepare: the image lacks $missing. $fix" >&2
  exit 1
}
