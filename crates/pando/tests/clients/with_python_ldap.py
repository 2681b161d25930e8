"""What an application does with python-ldap, and python-ldap's own reading of the schema.

Arguments: URL, administrator's DN, password. Wants dc=example,dc=com and ou=people below it.
"""

import sys

import ldap
import ldap.filter
import ldap.modlist
import ldap.schema
from ldap.controls.libldap import MatchedValuesControl, SimplePagedResultsControl
from ldap.controls.readentry import PostReadControl, PreReadControl
from ldap.controls.sss import SSSRequestControl
from ldap.controls.vlv import VLVRequestControl, VLVResponseControl
from ldap.controls.simple import ManageDSAITControl

url, admin_dn, password = sys.argv[1:4]
PEOPLE = "ou=people,dc=example,dc=com"

connection = ldap.initialize(url)
connection.set_option(ldap.OPT_NETWORK_TIMEOUT, 60)
connection.set_option(ldap.OPT_TIMEOUT, 60)
connection.simple_bind_s(admin_dn, password)
assert connection.whoami_s() == f"dn:{admin_dn}", connection.whoami_s()

# The root DSE names the schema, which can be parsed completely and is consistent.
subschema_dn = connection.search_subschemasubentry_s("")
schema = ldap.schema.SubSchema(connection.read_subschemasubentry_s(subschema_dn))
assert schema.get_obj(ldap.schema.AttributeType, "memberOf") is not None
for oid in schema.listall(ldap.schema.ObjectClass):
    definition = schema.get_obj(ldap.schema.ObjectClass, oid)
    for name in definition.must + definition.may:
        assert schema.get_obj(ldap.schema.AttributeType, name) is not None, f"{definition.names} names {name}"
    for name in definition.sup:
        assert schema.get_obj(ldap.schema.ObjectClass, name) is not None, f"{definition.names} names {name}"
for oid in schema.listall(ldap.schema.AttributeType):
    definition = schema.get_obj(ldap.schema.AttributeType, oid)
    for rule in [definition.equality, definition.ordering, definition.substr]:
        assert rule is None or schema.get_obj(ldap.schema.MatchingRule, rule) is not None, f"{definition.names}: {rule}"
    syntax = schema.get_inheritedattr(ldap.schema.AttributeType, oid, "syntax")
    assert schema.get_obj(ldap.schema.LDAPSyntax, syntax) is not None, f"{definition.names}: {syntax}"

# Add an entry and read it: values are returned unchanged.
dn = f"uid=pyldap,{PEOPLE}"
entry = {
    "objectClass": [b"inetOrgPerson"],
    "uid": [b"pyldap"],
    "cn": ["Pÿthon Ldap".encode(), b"  two  spaces "],
    "sn": [b"Ldap"],
    "mail": [b"Py.Ldap@Example.COM", b"py@example.com"],
    "description": ["a \\ backslash, (brackets), * and \u2603".encode()],
}
connection.add_s(dn, ldap.modlist.addModlist(entry))
((found_dn, found),) = connection.search_s("dc=example,dc=com", ldap.SCOPE_SUBTREE, "(uid=pyldap)")
assert found_dn == dn
assert found == entry, (found, entry)

# A filter with all characters that must be escaped.
wanted = ldap.filter.filter_format("(description=%s)", ["a \\ backslash, (brackets), * and \u2603"])
assert len(connection.search_s(PEOPLE, ldap.SCOPE_ONELEVEL, wanted, ["1.1"])) == 1

# Modify by the difference of two entries, as applications do.
changed = dict(entry, title=[b"Snake"], mail=[b"py@example.com"])
connection.modify_s(dn, ldap.modlist.modifyModlist(entry, changed))
assert connection.compare_s(dn, "title", b"snake")
assert not connection.compare_s(dn, "title", b"bird")
for error, call in [
    (ldap.TYPE_OR_VALUE_EXISTS, lambda: connection.modify_s(dn, [(ldap.MOD_ADD, "title", [b"SNAKE"])])),
    (ldap.NO_SUCH_ATTRIBUTE, lambda: connection.modify_s(dn, [(ldap.MOD_DELETE, "pager", None)])),
    (ldap.OBJECT_CLASS_VIOLATION, lambda: connection.modify_s(dn, [(ldap.MOD_DELETE, "sn", None)])),
    (ldap.UNDEFINED_TYPE, lambda: connection.modify_s(dn, [(ldap.MOD_ADD, "noSuchAttribute", [b"x"])])),
    (ldap.ALREADY_EXISTS, lambda: connection.add_s(dn, ldap.modlist.addModlist(entry))),
    (ldap.NO_SUCH_OBJECT, lambda: connection.delete_s(f"uid=nobody,{PEOPLE}")),
    (ldap.NOT_ALLOWED_ON_NONLEAF, lambda: connection.delete_s(PEOPLE)),
    (ldap.INVALID_DN_SYNTAX, lambda: connection.delete_s("not a dn")),
]:
    try:
        call()
    except error:
        pass
    else:
        raise AssertionError(f"{error} was expected")

# Several searches at once, answers in any order.
searches = [connection.search(PEOPLE, ldap.SCOPE_ONELEVEL, "(uid=pyldap)", ["cn"]) for _ in range(20)]
for search in reversed(searches):
    _, entries = connection.result(search)
    assert len(entries) == 1

# In pages of two: every entry comes once, and the last page has their number.
everything = ("dc=example,dc=com", ldap.SCOPE_SUBTREE, "(objectClass=*)", ["1.1"])
names = [name for name, _ in connection.search_s(*everything)]
control, paged = SimplePagedResultsControl(criticality=True, size=2, cookie=""), []
while True:
    search = connection.search_ext(*everything, serverctrls=[control])
    _, entries, _, controls = connection.result3(search)
    paged += [name for name, _ in entries]
    (answer,) = [control for control in controls if control.controlType == SimplePagedResultsControl.controlType]
    if not answer.cookie:
        break
    control.cookie = answer.cookie
assert len(names) > 4 and sorted(paged) == sorted(names), paged
assert answer.size == len(names), answer.size

# Rename with a control, then delete.
connection.rename_s(dn, "uid=pyldap2", serverctrls=[ManageDSAITControl(criticality=True)])
dn = f"uid=pyldap2,{PEOPLE}"
((_, found),) = connection.search_s(dn, ldap.SCOPE_BASE, attrlist=["uid"])
assert found == {"uid": [b"pyldap2"]}, found

# Only the values that match a filter (RFC 3876).
passing = MatchedValuesControl(criticality=True, filterstr="((title=read)(cn=P*)(title=snake))")
search = connection.search_ext(dn, ldap.SCOPE_BASE, "(objectClass=*)", serverctrls=[passing])
((_, found),) = connection.result(search)[1]
assert found == {"cn": ["P\u00ffthon Ldap".encode()], "title": [b"Snake"]}, found

# Nested groups, as clients of Active Directory search for them, with a cycle.
def group(name, *members):
    values = [("objectClass", [b"groupOfNames"]), ("member", [member.encode() for member in members])]
    connection.add_s(f"cn={name},{PEOPLE}", values)
group("inner", dn)
group("middle", f"cn=inner,{PEOPLE}", f"cn=outer,{PEOPLE}")
group("outer", f"cn=middle,{PEOPLE}")
def found_by(filterstr):
    return sorted(name.split(",")[0] for name, _ in connection.search_s(PEOPLE, ldap.SCOPE_SUBTREE, filterstr, ["1.1"]))
IN_CHAIN = "1.2.840.113556.1.4.1941"
assert found_by(f"(&(objectClass=person)(memberOf:{IN_CHAIN}:=cn=outer,{PEOPLE}))") == ["uid=pyldap2"]
assert found_by(f"(member:{IN_CHAIN}:={dn})") == ["cn=inner", "cn=middle", "cn=outer"]
assert found_by(f"(uid:{IN_CHAIN}:={dn})") == []
((_, found),) = connection.search_s(f"cn=middle,{PEOPLE}", ldap.SCOPE_BASE, attrlist=["member;range=0-0"])
assert found == {"member;range=0-0": [f"cn=inner,{PEOPLE}".encode()]}, found
((_, found),) = connection.search_s(f"cn=middle,{PEOPLE}", ldap.SCOPE_BASE, attrlist=["member;range=1-*"])
assert found == {"member;range=1-*": [f"cn=outer,{PEOPLE}".encode()]}, found
for name in ["inner", "middle", "outer"]:
    connection.delete_s(f"cn={name},{PEOPLE}")

# A part of a sorted list (draft-ietf-ldapext-ldapv3-vlv): its end, and the part from a value on.
in_order = [name for name, _ in sorted(connection.search_s(PEOPLE, ldap.SCOPE_ONELEVEL, "(uid=*)", ["uid"]),
                                       key=lambda entry: entry[1]["uid"][0].lower())]
def part(**window):
    order = SSSRequestControl(criticality=True, ordering_rules=["uid"])
    controls = [order, VLVRequestControl(criticality=True, **window)]
    search = connection.search_ext(PEOPLE, ldap.SCOPE_ONELEVEL, "(uid=*)", ["1.1"], serverctrls=controls)
    _, entries, _, answers = connection.result3(search)
    (view,) = [answer for answer in answers if answer.controlType == VLVResponseControl.controlType]
    assert view.content_count == len(in_order), (view.content_count, in_order)
    return view.target_position, [name for name, _ in entries]
assert part(before_count=1, after_count=0, offset=7, content_count=7) == (len(in_order), in_order[-2:])
position, found = part(before_count=0, after_count=0, greater_than_or_equal="PYLDAP2")
assert found == [dn] and in_order[position - 1] == dn, (position, found)

# The entry before and after a change (RFC 4527), and a delete of a tree.
before, after = PreReadControl(criticality=True, attrList=["title"]), PostReadControl(criticality=True, attrList=["*"])
changed = connection.modify_ext(dn, [(ldap.MOD_REPLACE, "title", [b"read"])], serverctrls=[before, after])
_, _, _, controls = connection.result3(changed)
found = {control.controlType: control.entry for control in controls}
assert found[after.controlType]["title"] == [b"read"] and found[after.controlType]["uid"] == [b"pyldap2"], found
assert found[before.controlType]["title"] == [b"Snake"], found
connection.add_s(f"cn=below,{dn}", [("objectClass", [b"device"]), ("cn", [b"below"])])
try:
    connection.delete_s(dn)
    raise AssertionError("an entry with others below it is deleted")
except ldap.NOT_ALLOWED_ON_NONLEAF:
    pass
connection.delete_ext_s(dn, serverctrls=[ldap.controls.RequestControl("1.2.840.113556.1.4.805", True)])
assert connection.search_s(PEOPLE, ldap.SCOPE_SUBTREE, "(|(uid=pyldap2)(cn=below))") == []
connection.unbind_s()
print("python-ldap is content")
