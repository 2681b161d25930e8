"""Every control and extended operation of nested groups, transactions and data rules, as ldap3 sends them: by its own
functions where it has them, otherwise by their OID.

Arguments: URL, administrator's DN, password. Wants the tree of the tests, deleted entries that are kept, and a
directory that lets entries be dynamic.
"""

import sys
import uuid

import ldap3
from ldap3.operation.search import compile_filter, parse_filter
from ldap3.protocol.controls import build_control
from ldap3.protocol.microsoft import show_deleted_control
from ldap3.protocol.rfc4527 import post_read_control, pre_read_control
from ldap3.utils.asn1 import encode

url, admin_dn, password = sys.argv[1:4]
SUFFIX = "dc=example,dc=com"
PEOPLE = f"ou=people,{SUFFIX}"
ANNA, BERT = f"uid=anna,{PEOPLE}", f"uid=bert,{PEOPLE}"
STAFF = f"cn=staff,ou=groups,{SUFFIX}"
IN_CHAIN = "1.2.840.113556.1.4.1941"

server = ldap3.Server(url, get_info=ldap3.ALL, connect_timeout=60)
connection = ldap3.Connection(server, admin_dn, password, auto_bind=True, receive_timeout=60)


def element(tag, *parts):
    """Returns a BER element of less than 64 KiB."""
    content = b"".join(parts)
    size = len(content)
    length = bytes([size]) if size < 128 else bytes([0x82, size >> 8, size & 255])
    return bytes([tag]) + length + content


def octets(text):
    return element(4, text.encode() if isinstance(text, str) else text)


def filter_octets(text):
    parsed = parse_filter(text, None, False, True, None, False)
    return encode(compile_filter(parsed.elements[0]))


def control(oid, value=None):
    assert [known for known in server.info.supported_controls if known[0] == oid], f"{oid} is not advertised"
    return build_control(oid, True, value, encode_control_value=False)


def assertion(text):
    return control("1.3.6.1.1.12", filter_octets(text))


def code(expected):
    result = connection.result
    assert result["description"] == expected, f"{expected}: {result}"
    return result


def found(text, controls=None, attributes="1.1", base=SUFFIX):
    connection.search(base, text, attributes=attributes, controls=controls)
    code("success")
    return connection.entries


def names(text, controls=None):
    return sorted(entry.entry_dn.split(",")[0] for entry in found(text, controls))


def replace(dn, attribute, value, controls=None):
    connection.modify(dn, {attribute: [(ldap3.MODIFY_REPLACE, [value])]}, controls=controls)


def extended(oid, value=None):
    assert [known for known in server.info.supported_extensions if known[0] == oid], f"{oid} is not advertised"
    connection.extended(oid, value)
    return connection.result.get("responseValue")


# Groups: chains, both virtual attributes, dynamic groups, ranges of values.
assert connection.extend.standard.who_am_i() == f"dn:{admin_dn}"
tall = f"cn=tall,ou=groups,{SUFFIX}"
connection.add(tall, ["groupOfURLs"], {"memberURL": f"ldap:///{PEOPLE}??sub?(uid=anna)"})
code("success")
outer = f"cn=outer,ou=groups,{SUFFIX}"
connection.add(outer, ["groupOfNames"], {"member": [STAFF, tall]})
code("success")
assert "uid=anna" in names(f"(memberOf:{IN_CHAIN}:={outer})")
assert names(f"(member:{IN_CHAIN}:={ANNA})") == ["cn=outer", "cn=staff", "cn=tall"]
assert names(f"(member={ANNA})") == ["cn=staff", "cn=tall"]
assert connection.compare(tall, "member", ANNA)
(anna,) = found("(uid=anna)", attributes=["memberOf", "isMemberOf"])
assert sorted(anna.memberOf.values) == [STAFF, tall], anna
assert outer in anna.isMemberOf.values, anna
(ranged,) = found("(cn=outer)", attributes=["member;range=0-0"])
assert ranged.entry_attributes_as_dict == {"member;range=0-0": [STAFF]}, ranged
late = f"cn=late,ou=groups,{SUFFIX}"
connection.add(late, ["groupOfNames"], {"member": [BERT]})
assert connection.extend.microsoft.add_members_to_groups(ANNA, late)
assert connection.extend.microsoft.remove_members_from_groups(ANNA, late)
assert names(f"(&(cn=late)(member={ANNA}))") == []

# Controls of searches.
assert names("(uid=anna)", [control("1.3.6.1.1.22")]) == ["uid=anna"]
for oid, present in [("2.16.840.1.113730.3.4.17", "uid"), ("2.16.840.1.113730.3.4.19", "memberOf")]:
    (anna,) = found("(uid=anna)", [control(oid)], ["uid", "memberOf"])
    assert [name for name, values in anna.entry_attributes_as_dict.items() if values] == [present], anna
connection.add(f"cn=sub,{SUFFIX}", ["subentry"], {"subtreeSpecification": "{}"})
code("success")
for oid, value in [("1.3.6.1.4.1.7628.5.101.1", None), ("1.3.6.1.4.1.4203.1.10.1", element(1, b"\xff"))]:
    assert names("(objectClass=*)", [control(oid, value)]) == ["cn=sub"], oid
matched = control("1.2.826.0.1.3344810.2.3", element(0x30, filter_octets(f"(member={BERT})")))
(group,) = found("(cn=staff)", [matched], ["member"])
assert group.member.values == [BERT], group
assert names("(uid=anna)", [control("1.2.840.113556.1.4.1340", element(0x30, element(2, b"\x01")))]) == ["uid=anna"]
assert names("(objectClass=person)", [control("1.3.6.1.4.1.4203.666.5.18")]) == []
counted = connection.result["controls"]["1.3.6.1.4.1.4203.666.5.18"]["value"]
assert counted.endswith(element(2, b"\x02") + element(2, b"\x00")), counted
assert names("(objectClass=person)", [control("1.3.6.1.4.1.30221.2.5.36", element(0x30))]) == []
assert "1.3.6.1.4.1.30221.2.5.37" in connection.result["controls"], connection.result
connection.delete(ANNA, controls=[build_control("1.2.3.4", True, None), control("1.3.6.1.4.1.4203.666.5.17")])
failed = code("unavailableCriticalExtension")["controls"]["1.3.6.1.4.1.4203.666.5.17"]["value"]
assert b"1.2.3.4" in failed, failed

# Controls of changes.
replace(ANNA, "title", "Three", [assertion("(title=none)")])
code("assertionFailed")
reads = [pre_read_control(["uid"], True), post_read_control(["title"], True)]
replace(ANNA, "title", "Three", [assertion("(uid=anna)"), *reads])
answers = [answer["value"]["result"] for answer in code("success")["controls"].values()]
assert [sorted(answer) for answer in answers] == [["uid"], ["title"]], answers
# The fast decoder of ldap3 does not know the result code noOperation.
careful = ldap3.Connection(server, admin_dn, password, auto_bind=True, receive_timeout=60, fast_decoder=False)
change = {"title": [(ldap3.MODIFY_REPLACE, ["None"])]}
careful.modify(ANNA, change, controls=[control("1.3.6.1.4.1.4203.1.10.2")])
assert careful.result["result"] == 16654, careful.result
careful.unbind()
assert names("(title=None)") == []
replace(ANNA, "title", "Lazy", [control("1.2.840.113556.1.4.619")])
code("success")
connection.modify(ANNA, {"title": [(ldap3.MODIFY_ADD, ["Lazy"])]}, controls=[control("1.2.840.113556.1.4.1413")])
code("success")
old = {"ou": "old", "createTimestamp": "20060101000000Z"}
connection.add(f"ou=old,{SUFFIX}", ["organizationalUnit"], old)
code("constraintViolation")
connection.add(f"ou=old,{SUFFIX}", ["organizationalUnit"], old, controls=[control("1.3.6.1.4.1.4203.666.5.12")])
code("success")
connection.add(f"ou=below,ou=old,{SUFFIX}", ["organizationalUnit"])
connection.delete(f"ou=old,{SUFFIX}", controls=[control("1.2.840.113556.1.4.805")])
code("success")

# Transactions: one that is committed, one that is aborted, one that fails.
TRANSACTION = "1.3.6.1.1.21.2"
for commits in [True, False]:
    identifier = extended("1.3.6.1.1.21.1")
    unit = f"ou=unit,{SUFFIX}" if commits else f"ou=other,{SUFFIX}"
    connection.add(unit, ["organizationalUnit"], controls=[control(TRANSACTION, identifier)])
    replace(unit, "description", "both", [control(TRANSACTION, identifier), assertion("(!(description=*))")])
    assert names("(|(ou=unit)(ou=other))") == (["ou=unit"] if not commits else [])
    end = octets(identifier) if commits else element(1, b"\x00") + octets(identifier)
    extended("1.3.6.1.1.21.3", element(0x30, end))
    code("success")
assert names("(description=both)") == ["ou=unit"]
identifier = extended("1.3.6.1.1.21.1")
connection.delete(f"ou=unit,{SUFFIX}", controls=[control(TRANSACTION, identifier)])
replace(f"ou=nowhere,{SUFFIX}", "description", "x", [control(TRANSACTION, identifier)])
extended("1.3.6.1.1.21.3", element(0x30, octets(identifier)))
code("noSuchObject")
assert names("(description=both)") == ["ou=unit"]

# Extended operations: connection id, passwords, dynamic entries, deleted entries.
assert extended("1.3.6.1.4.1.30221.1.6.2")
generated = connection.extend.standard.modify_password(ANNA)
for secret, expected in [(generated, "success"), ("other", "invalidCredentials")]:
    extended("1.3.6.1.4.1.4203.666.6.5", element(0x30, octets(ANNA), element(0x80, secret.encode())))
    code(expected)
meeting = f"cn=meeting,{SUFFIX}"
connection.add(meeting, ["device", "dynamicObject"])
code("success")
extended("1.3.6.1.4.1.1466.101.119.1", element(0x30, element(0x80, meeting.encode()), element(0x81, b"\x13\x88")))
code("success")
connection.delete(outer)
shown = [show_deleted_control(criticality=True)]
(entry,) = found("(cn=outer)", shown, ["entryUUID", "isDeleted"])
extended("1.3.6.1.4.1.99999.5.5", element(0x30, octets(uuid.UUID(entry.entryUUID.value.strip("{}")).bytes)))
code("success")
assert names(f"(member:{IN_CHAIN}:={ANNA})") == ["cn=outer", "cn=staff", "cn=tall"]
pages = connection.extend.standard.paged_search(SUFFIX, "(objectClass=*)", paged_size=2, generator=False)
assert len(pages) == len(names("(objectClass=*)")), pages
print("everything as expected")
