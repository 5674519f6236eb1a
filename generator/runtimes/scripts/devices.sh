# Checks before ranks start that their user can open the GPUs of this host. The device files belong to a group of the node.
# Ranks that cannot open them report no GPU or train on CPUs.
set -eu
pool=${pool:?}
failed=
opened=0

for device in /dev/kfd /dev/dri/renderD*; do
  [ -e "$device" ] || continue
  if (: <> "$device") 2> /dev/null; then
    opened=$((opened + 1))
    continue
  fi
  failed=yes
  owner=$(ls -lnd "$device" 2> /dev/null || true)
  group=$(echo "$owner" | sed -n 's/^[^ ]* *[^ ]* *[^ ]* *\([0-9][0-9]*\) .*/\1/p')
  echo "devices: the user of ranks ($(id -u), groups $(id -G)) cannot open $device of group ${group:-unknown} (${owner%% *}): add the group to deviceGroups of pool $pool, in platform.yaml" >&2
done

if [ -z "$failed" ] && [ "$opened" -eq 0 ]; then
  failed=yes
  echo "devices: /dev/kfd and /dev/dri/renderD* do not exist: check the resources of the pod and the device plugin of its node" >&2
fi
[ -z "$failed" ] || exit 1
echo "devices: $opened device files can be opened"
