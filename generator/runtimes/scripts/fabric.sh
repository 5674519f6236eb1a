# Checks this host before ranks start: the devices of the fabric, their links, and the limit of locked memory. Without one
# of these, ranks would wait for each other or fall back to TCP silently.
set -eu
fabric=${fabric:?} devices=${devices:?} interfaces=${interfaces?} link=${link?} memory=${memory:?}
failed=
# Report a fault: $1 is wrong, $2 repairs it.
fail() {
  echo "fabric $fabric: $1. Ranks would hang, fail or use TCP silently, so the job fails now. $2." >&2
  failed=yes
}

# /sys may show all devices of the node; the devices in /dev belong to the pod.
there=0 active=0 inactive=
for verbs in /dev/infiniband/uverbs*; do
  [ -e "$verbs" ] || continue
  there=$((there + 1))
  name=${verbs##*/}
  read -r name 2> /dev/null < "/sys/class/infiniband_verbs/$name/ibdev" || true
  if grep -qs '^4: ACTIVE' /sys/class/infiniband/"$name"/ports/*/state; then
    active=$((active + 1))
  else
    inactive="$inactive $name"
  fi
done
if [ "$there" -lt "$devices" ]; then
  fail "the pod has $there of $devices devices in \`/dev/infiniband\`" \
    "Check the resources or claims that the pod requests, and the device plugin or driver of its node"
elif [ "$active" -lt "$devices" ]; then
  fail "$active of $devices devices have an active link; inactive:$inactive" \
    "Check cables and switches, and on InfiniBand the subnet manager and the partition"
fi

for interface in $interfaces; do
  if ! [ -e "/sys/class/net/$interface" ]; then
    fail "the pod has no interface \`$interface\`" \
      "Compare the annotation k8s.v1.cni.cncf.io/network-status of the pod with its NetworkAttachmentDefinitions"
  elif [ -n "$link" ]; then
    read -r state < "/sys/class/net/$interface/operstate"
    case $state in up | unknown) ;; *) fail "the interface \`$interface\` is \`$state\`" "Check cables and switches" ;; esac
  fi
done

if [ "$memory" -gt 0 ]; then
  limit=$(sed -n 's/^Max locked memory  *\([^ ]*\).*/\1/p' /proc/self/limits)
  if [ "$limit" != unlimited ] && [ "$limit" -lt "$memory" ]; then
    fail "ranks can lock $limit bytes of memory, and RDMA needs up to $memory" \
      "Set LimitMEMLOCK=infinity for containerd on the node, or memlock=-1:-1 in default_ulimits of CRI-O"
  fi
fi

[ -z "$failed" ] || exit 1
echo "fabric $fabric: $active of $devices devices have an active link; interfaces: ${interfaces:-none}"
