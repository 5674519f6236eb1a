# Functions for the environment of a process, as /proc/PID/environ holds it. They turn it into a sorted list with one line
# for each variable: `NAME=value`, where \001 stands for a newline, and \002a and \002b stand for \001 and \002.
export LC_ALL=C
of_host=${of_host:?} of_device=${of_device:?} of_process=${of_process:?}
one=$(printf '\001') two=$(printf '\002')

# Turn an environ file into a list.
list() {
  sed "s/$two/${two}b/g; s/$one/${two}a/g" | tr '\000\n' '\n\001' | sed -n '/^[^=][^=]*=/p' | sort
}

# Turn a list into words for `eval`, one for each variable.
words() {
  sed "s/'/'\\\\''/g; s/^/'/; s/\$/'/" | tr '\n\001' ' \n' | sed "s/${two}a/$one/g; s/${two}b/$two/g"
}

# Select the variables that all hosts share, the variables of the host, and the variables that a host takes from the launcher
# if it has none of its own.
shared() { sed -E "/^($of_host|$of_device|$of_process)=/d"; }
own() { sed -n -E "/^($of_host|$of_device)=/p"; }
lent() { sed -n -E "/^($of_device)=/p"; }

# Select the names of variables, on one line.
names() { sed 's/=.*//' | sort -u | tr '\n' ' ' | sed 's/ $//'; }

digest() { sha256sum | cut -d ' ' -f 1; }
