#!/bin/sh
# sssd.sh SSSD_CONF: SSSD for nss, pam and sudo, in the mount and process namespace that the caller has made for it.
# What it writes goes to memory, and the machine's files stay as they are. It says "up" once its services answer; the
# end of the namespace's first process ends everything in it.
set -eu
conf=$1

# Copies of the machine's folders that SSSD and its clients use, on a separate file system.
mount -t tmpfs -o mode=755 tmpfs /run
for folder in /var/lib/sss /etc/pam.d; do
    copy=/run/own$folder
    mkdir -p "$(dirname "$copy")"
    cp -a "$folder" "$copy"
    mount --bind "$copy" "$folder"
done
find /var/lib/sss -type f -delete
mount -t tmpfs -o mode=755 tmpfs /etc/sssd
mount -t tmpfs -o mode=755 tmpfs /var/log/sssd
install -m 600 "$conf" /etc/sssd/sssd.conf

# Look up names only in files and SSSD, and sudo rules only in SSSD.
sed -e 's/^\(passwd\|group\|shadow\):.*/\1: files sss/' -e '/^sudoers:/d' /etc/nsswitch.conf >/run/own/nsswitch.conf
echo 'sudoers: sss' >>/run/own/nsswitch.conf
mount --bind /run/own/nsswitch.conf /etc/nsswitch.conf
for kind in auth account password session; do
    echo "$kind required pam_sss.so"
done >/etc/pam.d/pando
# root calls sudo too, and is unknown to SSSD.
printf '%s\n' 'auth required pam_sss.so' 'account required pam_permit.so' 'session required pam_permit.so' \
    >/etc/pam.d/sudo

sssd --interactive --logger=files &
sssd=$!
pipes=/var/lib/sss/pipes
until [ -S $pipes/nss ] && [ -S $pipes/pam ] && [ -S $pipes/sudo ]; do
    kill -0 $sssd || exit 1
    sleep 0.05
done
echo up
wait $sssd
