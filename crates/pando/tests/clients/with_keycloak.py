"""Keycloak with Pando's sample as its users and groups.

with_keycloak.py PRODUCT AUTHORITY SCRATCH: starts the Keycloak of the folder PRODUCT, and makes a provider and a mapper
of what is on standard input, a setting and its value to a line, as docs/how-to/connect.md has them. A setting that is
not known here is an error.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

PROVIDER = {
    "Connection URL": "connectionUrl",
    "Enable StartTLS": "startTls",
    "Connection pooling": "connectionPooling",
    "Bind type": "authType",
    "Bind DN": "bindDn",
    "Bind credentials": "bindCredential",
    "Edit mode": "editMode",
    "Users DN": "usersDn",
    "Username LDAP attribute": "usernameLDAPAttribute",
    "RDN LDAP attribute": "rdnLDAPAttribute",
    "UUID LDAP attribute": "uuidLDAPAttribute",
    "User object classes": "userObjectClasses",
    "Search scope": "searchScope",
    "Pagination": "pagination",
}
MAPPER = {
    "LDAP Groups DN": "groups.dn",
    "Group Object Classes": "group.object.classes",
    "Membership LDAP Attribute": "membership.ldap.attribute",
    "Membership Attribute Type": "membership.attribute.type",
    "Preserve Group Inheritance": "preserve.group.inheritance",
    "User Groups Retrieve Strategy": "user.roles.retrieve.strategy",
}
VALUES = {"On": "true", "Off": "false", "Subtree": "2"}
# Maximum duration of Keycloak's first start, in seconds.
DEADLINE = 300


class Keycloak:
    def __init__(self, product, authority, scratch):
        home = os.path.join(scratch, "keycloak")
        shutil.copytree(product, home, symlinks=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.log = open(os.path.join(scratch, "keycloak.log"), "w+")
        first = {"KC_BOOTSTRAP_ADMIN_USERNAME": "admin", "KC_BOOTSTRAP_ADMIN_PASSWORD": "admin"}
        environment = os.environ | first
        command = [os.path.join(home, "bin/kc.sh"), "start-dev", "--http-host=127.0.0.1"]
        command += [f"--http-port={port}", "--db=dev-mem", "--cache=local", f"--truststore-paths={authority}"]
        self.process = subprocess.Popen(
            command, env=environment, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True
        )

    def call(self, method, path, body=None, form=None, realm="master"):
        headers = {"Authorization": "Bearer " + self.token("master", "admin", "admin")} if form is None else {}
        data = None
        if form is not None:
            data = urllib.parse.urlencode(form).encode()
        elif body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(self.url + path, data=data, headers=headers, method=method)
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            text = answer.read()
            return json.loads(text) if text else answer.headers.get("Location")

    def token(self, realm, user, password):
        form = {"grant_type": "password", "client_id": "admin-cli", "username": user, "password": password}
        path = f"/realms/{realm}/protocol/openid-connect/token"
        return self.call("POST", path, form=form)["access_token"]

    def wait(self):
        ends = time.monotonic() + DEADLINE
        while True:
            try:
                return self.token("master", "admin", "admin")
            except (urllib.error.URLError, ConnectionError) as error:
                if self.process.poll() is not None or time.monotonic() > ends:
                    raise SystemExit(f"Keycloak does not start: {error}\n{self.said()}")
                time.sleep(0.5)

    def said(self):
        self.log.seek(0)
        return self.log.read()[-5000:]

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def config(rows, names):
    return {names[setting]: [VALUES.get(value, value)] for setting, value in rows if setting in names}


def expect(what, found, wanted):
    if found != wanted:
        raise AssertionError(f"{what}: {found!r} instead of {wanted!r}")


def refused(call):
    try:
        call()
        return None
    except urllib.error.HTTPError as error:
        return error.code


def check(keycloak, rows):
    unknown = [setting for setting, _ in rows if setting not in PROVIDER and setting not in MAPPER]
    expect("settings that are not known", unknown, [])
    keycloak.wait()
    admin = "/admin/realms/sample"
    keycloak.call("POST", "/admin/realms", {"realm": "sample", "enabled": True})
    realm = keycloak.call("GET", admin)["id"]
    provider = {
        "name": "pando",
        "providerId": "ldap",
        "providerType": "org.keycloak.storage.UserStorageProvider",
        "parentId": realm,
        "config": {"vendor": ["other"], "enabled": ["true"], "importEnabled": ["true"], "priority": ["0"]}
        | {"batchSizeForSync": ["1000"], "useTruststoreSpi": ["always"], "cachePolicy": ["DEFAULT"]}
        | config(rows, PROVIDER),
    }
    provider_id = keycloak.call("POST", f"{admin}/components", provider).rsplit("/", 1)[1]
    mapper = {
        "name": "groups",
        "providerId": "group-ldap-mapper",
        "providerType": "org.keycloak.storage.ldap.mappers.LDAPStorageMapper",
        "parentId": provider_id,
        "config": {"group.name.ldap.attribute": ["cn"], "membership.user.ldap.attribute": ["uid"]}
        | {"mode": ["READ_ONLY"], "groups.path": ["/"]}
        | config(rows, MAPPER),
    }
    mapper_id = keycloak.call("POST", f"{admin}/components", mapper).rsplit("/", 1)[1]
    groups = f"{admin}/user-storage/{provider_id}/mappers/{mapper_id}/sync?direction=fedToKeycloak"
    expect("groups that failed", keycloak.call("POST", groups)["failed"], 0)
    names = {group["name"] for group in keycloak.call("GET", f"{admin}/groups?max=100")}
    for name in ("all-staff", "technology", "operations", "on-call", "Überraschungsfest"):
        expect(f"group {name}", name in names, True)
    users = keycloak.call("POST", f"{admin}/user-storage/{provider_id}/sync?action=triggerFullSync")
    expect("users", (users["added"] + users["updated"], users["failed"]), (1000, 0))
    (ahuber,) = keycloak.call("GET", f"{admin}/users?username=ahuber&exact=true")
    expect("the mail of ahuber", ahuber["email"], "ahuber@example.com")
    of_ahuber = {group["name"] for group in keycloak.call("GET", f"{admin}/users/{ahuber['id']}/groups")}
    expect("the groups of ahuber", of_ahuber, {"all-staff", "executive-office"})
    keycloak.token("sample", "ahuber", "password")
    expect("a wrong password", refused(lambda: keycloak.token("sample", "ahuber", "wrong")), 401)
    # As the page says, the groups of the sample are not a tree.
    mapper = keycloak.call("GET", f"{admin}/components/{mapper_id}")
    mapper["config"]["preserve.group.inheritance"] = ["true"]
    keycloak.call("PUT", f"{admin}/components/{mapper_id}", mapper)
    expect("groups as a tree are refused", refused(lambda: keycloak.call("POST", groups)) is not None, True)


def main():
    product, authority, scratch = sys.argv[1:]
    rows = [tuple(line.rstrip("\n").split("\t")) for line in sys.stdin]
    keycloak = Keycloak(product, authority, scratch)
    try:
        check(keycloak, rows)
    except urllib.error.HTTPError as error:
        raise SystemExit(f"{error.url}: {error}: {error.read()}\n{keycloak.said()}")
    except BaseException:
        print(keycloak.said(), file=sys.stderr)
        raise
    finally:
        keycloak.stop()
    print("everything as expected")


main()
