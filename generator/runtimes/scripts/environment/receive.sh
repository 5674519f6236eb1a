#!/bin/sh
# sshd runs this for every login (`ForceCommand` in sshd_config). It reads the environment that `connect` sends, checks that
# programs on this host get it unchanged, and starts an sshd on the same connection for the sessions.
. /run/mpi/environment.sh
fail() {
  echo "host \`$(uname -n)\`: $*" >&2
  rm -rf "$session"
  exit 1
}
session=$(mktemp -d /run/mpi/session.XXXXXX) && cd "$session" || exit 1
if [ "$SSH_ORIGINAL_COMMAND" != environment ]; then
  fail "this ssh did not send the environment of its job. Its command would run without the variables of the job, so the" \
    "host rejects it. Run ssh without -F and without a ProxyCommand of your own, so that it reads /etc/ssh/ssh_config."
fi
read -r sum
while read -r line && [ "$line" != . ]; do echo "$line"; done | base64 -d > sent
{
  shared < sent
  lent < sent
  list < /run/mpi/environment | own # the last value of a variable counts
} > given
words < given > assignments

# The shell of the sessions must pass on variables that it has no name for, such as exported functions of bash.
cat=$(command -v cat)
odd=$(sed '/^[A-Za-z_][A-Za-z0-9_]*=/d' given | names)
if [ -n "$odd" ] && ! env -i -- a.b=c /run/mpi/sh -c "exec $cat /proc/self/environ" | grep -q a.b=c; then
  fail "the shell of this image drops variables whose names are not identifiers: \`$odd\`. Ranks would run without them, so" \
    "this host starts none and the job fails. Rename the variables, or install bash in the image."
fi
eval "set -- $(cat assignments)"
env -i -- "$@" "$cat" /proc/self/environ | list | shared > arrived
if [ "$(digest < arrived)" != "$sum" ]; then
  different=$(shared < sent | sort - arrived | uniq -u | names)
  fail "the environment differs from the launcher's in \`${different:-the list of variables that belong to a host}\`. Ranks" \
    "would run with different settings, so this host starts none and the job fails. Find out what changes these variables" \
    "on this host. If the runtime was changed while the job was starting, submit the job again."
fi
# Print what `connect` reports on this host, such as the failure to start a further host.
cat <> /run/mpi/reports >&2 &
/usr/sbin/sshd -i -e -f /run/mpi/sshd_config -o LogLevel=ERROR -o "ForceCommand=/run/mpi/bin/session $session/assignments"
kill "$!"
cd / && rm -rf "$session"
