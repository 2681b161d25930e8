"""What an application does with ldap3, with the local checks of names and values that it makes from the
server's schema.

Arguments: URL, administrator's DN, password. Wants dc=example,dc=com and ou=people below it.
"""

import sys

import ldap3
from ldap3.core.exceptions import LDAPAttributeError, LDAPInvalidValueError, LDAPObjectClassError

url, admin_dn, password = sys.argv[1:4]
PEOPLE = "ou=people,dc=example,dc=com"

server = ldap3.Server(url, get_info=ldap3.ALL, connect_timeout=60)
connection = ldap3.Connection(
    server, admin_dn, password, auto_bind=True, check_names=True, raise_exceptions=True, receive_timeout=60
)

# The root DSE and the schema, as ldap3 read them.
assert server.info.naming_contexts == ["dc=example,dc=com"], server.info.naming_contexts
assert "3" in [str(version) for version in server.info.supported_ldap_versions]
for name in ["cn", "uid", "mail", "member", "memberOf", "entryUUID", "createTimestamp", "uidNumber"]:
    assert name in server.schema.attribute_types, f"{name} is missing from the schema"
for name in ["inetOrgPerson", "groupOfNames", "posixAccount", "subschema"]:
    assert name in server.schema.object_classes, f"{name} is missing from the schema"
assert server.schema.attribute_types["uid"].equality == ["caseIgnoreMatch"]

# Add, with values of several syntaxes.
dn = f"uid=ldap3,{PEOPLE}"
connection.add(
    dn,
    ["inetOrgPerson", "posixAccount"],
    {
        "cn": ["Ldap Three", "Élodie Łukasz 木村"],
        "sn": "Three",
        "uidNumber": 4711,
        "gidNumber": 100,
        "homeDirectory": "/home/ldap3",
        "jpegPhoto": b"\xff\xd8\xff\xe0\x00\x10JFIF\x00",
        "userPassword": "three-secret",
    },
)
assert connection.result["result"] == 0, connection.result

# Search. Values have the types that follow from the schema.
connection.search("dc=example,dc=com", "(&(uid=ldap3)(uidNumber>=4711))", attributes=["*", "+"])
(entry,) = connection.entries
assert entry.entry_dn == dn
assert entry.uidNumber.value == 4711
assert entry.jpegPhoto.raw_values == [b"\xff\xd8\xff\xe0\x00\x10JFIF\x00"]
assert "Élodie Łukasz 木村" in entry.cn.values
assert entry.createTimestamp.value.tzinfo is not None
assert len(entry.entryUUID.value.strip("{}")) == 36

# The local checks reject names that the schema lacks, so ldap3 has read the whole schema.
for wrong, attributes in [
    (LDAPAttributeError, {"cn": "x", "sn": "x", "noSuchAttribute": "x"}),
    (LDAPInvalidValueError, {"cn": "x", "sn": "x", "uidNumber": "one"}),
]:
    try:
        connection.add(f"uid=wrong,{PEOPLE}", ["inetOrgPerson", "posixAccount"], attributes)
    except wrong:
        pass
    else:
        raise AssertionError(f"{attributes} was not refused locally")
try:
    connection.add(f"uid=wrong,{PEOPLE}", ["noSuchClass"], {"cn": "x"})
except LDAPObjectClassError:
    pass
else:
    raise AssertionError("an unknown object class was not refused locally")

# Modify, compare, rename, delete.
connection.modify(dn, {"title": [(ldap3.MODIFY_REPLACE, ["Engineer"])], "cn": [(ldap3.MODIFY_DELETE, ["Ldap Three"])]})
assert connection.compare(dn, "title", "engineer")
connection.modify(dn, {"gidNumber": [(ldap3.MODIFY_INCREMENT, ["5"])]})
connection.modify_dn(dn, "uid=ldap3b")
dn = f"uid=ldap3b,{PEOPLE}"

# The abstraction layer: definitions from the schema, a cursor that reads and one that writes.
definition = ldap3.ObjectDef(["inetOrgPerson", "posixAccount"], connection)
reader = ldap3.Reader(connection, definition, PEOPLE, "(uid=ldap3b)")
reader.search()
assert reader[0].title == "Engineer" and reader[0].gidNumber == 105, reader[0]
writer = ldap3.Writer.from_cursor(reader)
writer[0].title = "Architect"
assert writer.commit(), connection.result

# In pages of two: every entry once.
everything = ("dc=example,dc=com", "(objectClass=*)")
connection.search(*everything)
names = sorted(entry.entry_dn for entry in connection.entries)
paged = connection.extend.standard.paged_search(*everything, paged_size=2, paged_criticality=True, generator=False)
assert len(names) > 4 and sorted(entry["dn"] for entry in paged) == names, paged

# A person binds, and asks for the identity.
own = ldap3.Connection(server, dn, "three-secret", auto_bind=True, receive_timeout=60)
assert own.extend.standard.who_am_i() == f"dn:{dn}", own.extend.standard.who_am_i()
own.unbind()

connection.delete(dn)
assert connection.result["result"] == 0

# ldap3 checks settings of the directory against the schema, like other entries.
connection.search("cn=config", "(objectClass=pandoConfig)", ldap3.BASE, attributes=["*"])
(config,) = connection.entries
assert config.pandoSizeLimit.value == 1000 and config.pandoAnonymousRead.value is False, config
connection.modify("cn=config", {"pandoSizeLimit": [(ldap3.MODIFY_REPLACE, [500])]})
connection.add("cn=title,cn=indexes,cn=config", "pandoIndex", {"pandoIndexKind": ["equality", "substring"]})
connection.search("cn=indexes,cn=config", "(pandoIndexKind=substring)", attributes=["cn"])
assert [entry.cn.value for entry in connection.entries] == ["title"], connection.entries
connection.delete("cn=title,cn=indexes,cn=config")
assert connection.result["result"] == 0
connection.unbind()
print("ldap3 is content")
