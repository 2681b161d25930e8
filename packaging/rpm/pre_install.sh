#!/bin/sh
getent group pando >/dev/null || groupadd --system pando
getent passwd pando >/dev/null ||
    useradd --system --gid pando --home-dir /var/lib/pando --no-create-home --shell /sbin/nologin \
        --comment "Pando LDAP directory" pando
