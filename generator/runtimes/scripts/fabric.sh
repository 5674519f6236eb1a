# Checks this host before ranks start: the devices of the fabric, their links, and the limit of locked memory. Without one
# of these, ranks would wait for each other or fall back to TCP silently.
set -eu
fabric=${fabric:?} devices=${devices:?} interfaces=${interfaces?} link=${link?} memory=${memory:?}
failed=
missing() {
  echo "fabric $fabric: $1" >&2
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
  missing "$there of $devices devices in /dev/infiniband: look at what the pod asks for, and at the device plugin or driver of its node"
elif [ "$active" -lt "$devices" ]; then
  missing "$active of $devices devices have an active link, and not$inactive: look at cable and switch, and with InfiniBand at the subnet manager and the partition"
fi

for interface in $interfaces; do
  if ! [ -e "/sys/class/net/$interface" ]; then
    missing "there is no $interface: look at the pod's annotation k8s.v1.cni.cncf.io/network-status, and at the NetworkAttachmentDefinition"
  elif [ -n "$link" ]; then
    read -r state < "/sys/class/net/$interface/operstate"
    case $state in up | unknown) ;; *) missing "$interface is $state: look at cable and switch" ;; esac
  fi
done

if [ "$memory" -gt 0 ]; then
  limit=$(sed -n 's/^Max locked memory  *\([^ ]*\).*/\1/p' /proc/self/limits)
  if [ "$limit" != unlimited ] && [ "$limit" -lt "$memory" ]; then
    missing "ranks may lock $limit bytes of $memory: raise the limit of locked memory of the node's containerd (LimitMEMLOCK=infinity) or CRI-O (default_ulimits)"
  fi
fi

[ -z "$failed" ] || exit 1
echo "fabric $fabric: $active of $devices devices with an active link, interfaces: ${interfaces:-none}"
