"""Controls and extended operations as python-ldap's and ldap3's own classes call them, and changes of the schema.

Arguments: URL, administrator's DN, password. Wants the tree of the tests, deleted entries that are kept, and a
directory that lets entries be dynamic.
"""

import sys

import ldap
import ldap.extop.dds
import ldap.modlist
import ldap.schema
import ldap3
from ldap.controls import AssertionControl, RelaxRulesControl
from ldap.controls.openldap import SearchNoOpControl
from ldap3.protocol.microsoft import show_deleted_control
from ldap3.protocol.rfc4527 import post_read_control

url, admin_dn, password = sys.argv[1:4]
SUFFIX = "dc=example,dc=com"
ANNA = f"uid=anna,ou=people,{SUFFIX}"

connection = ldap.initialize(url)
connection.set_option(ldap.OPT_TIMEOUT, 60)
connection.simple_bind_s(admin_dn, password)

# Search no-op: returns the number of results without the results.
counted = connection.search_ext(
    SUFFIX, ldap.SCOPE_SUBTREE, "(objectClass=person)", ["1.1"], serverctrls=[SearchNoOpControl(criticality=True)]
)
kind, entries, _, controls = connection.result3(counted)
(answer,) = [one for one in controls if one.controlType == SearchNoOpControl.controlType]
assert (entries, answer.resultCode, answer.numSearchResults) == ([], 0, 2), (entries, vars(answer))

# Assertion control and relax rules control.
title = [(ldap.MOD_REPLACE, "title", [b"Python"])]
try:
    connection.modify_ext_s(ANNA, title, serverctrls=[AssertionControl(True, "(title=none)")])
    raise AssertionError("the assertion is false")
except ldap.ASSERTION_FAILED:
    pass
connection.modify_ext_s(ANNA, title, serverctrls=[AssertionControl(True, "(uid=anna)")])
old = {"objectClass": [b"organizationalUnit"], "createTimestamp": [b"20060101000000Z"]}
connection.add_ext_s(f"ou=python,{SUFFIX}", ldap.modlist.addModlist(old), serverctrls=[RelaxRulesControl(True)])
((_, found),) = connection.search_s(f"ou=python,{SUFFIX}", ldap.SCOPE_BASE, "(objectClass=*)", ["createTimestamp"])
assert found == {"createTimestamp": [b"20060101000000Z"]}, found

# A dynamic entry is refreshed.
meeting = f"cn=python,{SUFFIX}"
connection.add_s(meeting, ldap.modlist.addModlist({"objectClass": [b"device", b"dynamicObject"]}))
refreshed = connection.extop_s(
    ldap.extop.dds.RefreshRequest(entryName=meeting, requestTtl=4000),
    extop_resp_class=ldap.extop.dds.RefreshResponse,
)
assert refreshed.responseTtl == 4000, refreshed

# The schema is changed through its subentry.
ATTRIBUTE = (
    "( 1.3.6.1.4.1.32473.1.78 NAME 'pythonColor' EQUALITY caseIgnoreMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.15 )"
)
CLASS = "( 1.3.6.1.4.1.32473.2.78 NAME 'pythonHolder' SUP top AUXILIARY MAY pythonColor )"
subschema = connection.search_subschemasubentry_s("")
texts = [("attributeTypes", [ATTRIBUTE.encode()]), ("objectClasses", [CLASS.encode()])]
connection.modify_s(subschema, [(ldap.MOD_ADD, *text) for text in texts])
schema = ldap.schema.SubSchema(connection.read_subschemasubentry_s(subschema))
assert schema.get_obj(ldap.schema.AttributeType, "pythonColor").oid == "1.3.6.1.4.1.32473.1.78"
connection.modify_s(ANNA, [(ldap.MOD_ADD, "objectClass", [b"pythonHolder"]), (ldap.MOD_ADD, "pythonColor", [b"x"])])
removal = [(ldap.MOD_DELETE, *text) for text in reversed(texts)]
try:
    connection.modify_s(subschema, removal)
    raise AssertionError("the class is used")
except ldap.CONSTRAINT_VIOLATION:
    pass
connection.modify_s(ANNA, [(ldap.MOD_DELETE, "objectClass", [b"pythonHolder"]), (ldap.MOD_DELETE, "pythonColor", None)])
connection.modify_s(subschema, removal)
schema = ldap.schema.SubSchema(connection.read_subschemasubentry_s(subschema))
assert schema.get_obj(ldap.schema.AttributeType, "pythonColor") is None
connection.unbind_s()

# ldap3: deleted entries by the filter and by a value that names an entry, and a read after a change.
server = ldap3.Server(url, get_info=ldap3.SCHEMA, connect_timeout=60)
other = ldap3.Connection(server, admin_dn, password, auto_bind=True, raise_exceptions=True, receive_timeout=60)
gone = f"cn=gone,{SUFFIX}"
other.add(gone, ["groupOfNames"], {"member": [ANNA]})
other.delete(gone)
for filter in [f"(&(isDeleted=TRUE)(member={ANNA}))", "(cn=gone)"]:
    other.search(SUFFIX, filter, attributes=["member"], controls=[show_deleted_control(criticality=True)])
    (entry,) = other.entries
    assert entry.member.value == ANNA and entry.entry_dn.endswith(gone), entry
other.modify(ANNA, {"title": [(ldap3.MODIFY_REPLACE, ["Three"])]}, controls=[post_read_control(["title"], True)])
read = [answer["value"]["result"] for answer in other.result["controls"].values()]
assert read[0]["title"] in (["Three"], [b"Three"]), read
print("everything as expected")
