#!/bin/sh
# Builds an image with Open MPI or MPICH from packages of Debian, as an OCI layout. It needs root and mmdebstrap, but no
# container runtime. The image is for the architecture of this machine.
#   build.sh openmpi|mpich FOLDER
# `skopeo copy oci:FOLDER docker://HOST/PATH:TAG` pushes the image.
# Sources: image-spec v1.1.1 image-layout.md, manifest.md and config.md.
set -eu
case $1 in
  openmpi) packages=openmpi-bin,python3-mpi4py ;;
  mpich) packages=mpich,python3 ;;
  *) echo "usage: build.sh openmpi|mpich FOLDER" >&2; exit 2 ;;
esac
folder=$2
mkdir -p "$folder/blobs/sha256"

# Move a file to the blobs and print its descriptor: `blob TYPE FILE`.
blob() {
  digest=$(sha256sum < "$2" | cut -d ' ' -f 1)
  printf '{"mediaType":"application/vnd.oci.image.%s","digest":"sha256:%s","size":%s}' "$1" "$digest" "$(stat -c %s "$2")"
  mv "$2" "$folder/blobs/sha256/$digest"
}

# OpenSSH makes host keys while it is installed. They would be equal in all containers.
# shellcheck disable=SC2016  # mmdebstrap replaces $1
mmdebstrap --quiet --variant=essential --include="openssh-client,openssh-server,$packages" \
  --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
  --customize-hook='rm -f "$1"/etc/ssh/ssh_host_*' \
  trixie "$folder/layer.tar" "deb http://deb.debian.org/debian trixie main" \
  "deb http://deb.debian.org/debian-security trixie-security main"
diff=$(sha256sum < "$folder/layer.tar" | cut -d ' ' -f 1)
gzip -n "$folder/layer.tar"
layer=$(blob layer.v1.tar+gzip "$folder/layer.tar.gz")
cat > "$folder/config" <<END
{"architecture": "$(dpkg --print-architecture)", "os": "linux",
 "config": {"Env": ["PATH=/usr/local/bin:/usr/bin:/bin"], "User": "1000:0", "Cmd": ["/bin/bash"]},
 "rootfs": {"type": "layers", "diff_ids": ["sha256:$diff"]}}
END
config=$(blob config.v1+json "$folder/config")
cat > "$folder/manifest" <<END
{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": $config, "layers": [$layer]}
END
manifest=$(blob manifest.v1+json "$folder/manifest")
echo "{\"schemaVersion\": 2, \"manifests\": [$manifest]}" > "$folder/index.json"
echo '{"imageLayoutVersion": "1.0.0"}' > "$folder/oci-layout"
