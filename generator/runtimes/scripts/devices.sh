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
  echo "devices: user $(id -u) with the groups $(id -G) cannot open \`$device\` of group ${group:-unknown} (${owner%% *}). Ranks" \
    "would find no GPU or train on CPUs, so the job fails. Add group ${group:-of this file} to \`deviceGroups\` of pool" \
    "\`$pool\` in platform.yaml." >&2
done

if [ -z "$failed" ] && [ "$opened" -eq 0 ]; then
  failed=yes
  echo "devices: this pod has neither \`/dev/kfd\` nor \`/dev/dri/renderD*\`. Ranks would find no GPU or train on CPUs, so the job" \
    "fails. Check that the pod requests GPUs, and that the device plugin of its node works." >&2
fi
[ -z "$failed" ] || exit 1
echo "devices: user $(id -u) can open all $opened files of GPUs"
