#!/bin/sh
# finish.sh VERSION: the last step of the Dockerfile, in the image itself. Installs the packages of the list that
# the first stage left, makes the user and his folders, writes the bill of materials, and removes what only
# building needs.
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
xargs -a /tmp/packages apt-get -q -y install --no-install-recommends ca-certificates
# Every program must find its libraries here.
for program in /usr/bin/lethe /usr/bin/lethed /usr/bin/lethe-verify /usr/bin/lethe-worker; do
  if ldd "$program" | grep 'not found'; then echo "finish: $program lacks libraries" >&2; exit 1; fi
done
groupadd --gid 65532 lethe
useradd --uid 65532 --gid 65532 --home-dir /var/lib/lethe --no-create-home --shell /usr/sbin/nologin lethe
# A new volume takes owner and mode of the folder that it is mounted on; /backups is that of deploy/compose.yaml.
for folder in /var/lib/lethe /var/lib/lethe-vault /backups; do
  mkdir -p "$folder"
  chown 65532:65532 "$folder"
  chmod 0700 "$folder"
done
mkdir -p /etc/lethe
sh /usr/share/lethe/image/sbom.sh "$1" >/usr/share/doc/lethe/sbom.spdx.json
rm -rf /usr/share/lethe/image /tmp/packages /var/lib/apt/lists/* /var/cache/apt/* /var/cache/debconf/* \
  /var/log/* /var/cache/ldconfig/aux-cache /var/lib/dpkg/*-old /etc/passwd- /etc/group- /etc/shadow- /etc/gshadow-
# Nobody here becomes somebody else.
find / -xdev -perm /6000 -type f -exec chmod a-s {} +
# Documents and translations of the packages; licences stay.
find /usr/share/doc -mindepth 2 -type f ! -name copyright ! -path '/usr/share/doc/lethe/*' -delete
find /usr/share/doc -mindepth 1 -type d -empty -delete
rm -rf /usr/share/man/* /usr/share/info/* /usr/share/locale/* /usr/share/lintian
