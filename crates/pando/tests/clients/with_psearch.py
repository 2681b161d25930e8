"""Persistent search as applications use it, with python-ldap and with ldap3.

Arguments: URL, administrator's DN, password. Wants dc=example,dc=com and ou=people below it.
"""

import sys

import ldap
import ldap3
from ldap.controls.psearch import EntryChangeNotificationControl, PersistentSearchControl

url, admin_dn, password = sys.argv[1:4]
PEOPLE = "ou=people,dc=example,dc=com"
PERSON = [("objectClass", [b"inetOrgPerson"]), ("cn", [b"Heard"]), ("sn", [b"Heard"])]
ADD, DELETE, MODIFY, RENAME = 1, 2, 4, 8

changer = ldap.initialize(url)
changer.simple_bind_s(admin_dn, password)
listener = ldap.initialize(url)
listener.simple_bind_s(admin_dn, password)
asked = PersistentSearchControl(criticality=True, changeTypes=None, changesOnly=True, returnECs=True)
search = listener.search_ext(PEOPLE, ldap.SCOPE_SUBTREE, "(objectClass=person)", serverctrls=[asked])
# Once a later request is answered, the persistent search has begun.
assert listener.whoami_s() == f"dn:{admin_dn}"


def hear(count):
    """Returns the next changes: change type, DN, previous DN, and common name."""
    heard = []
    while len(heard) < count:
        kind, entries, _, _, _, _ = listener.result4(search, all=0, timeout=60, add_ctrls=1)
        assert kind == ldap.RES_SEARCH_ENTRY, kind
        for dn, attributes, controls in entries:
            (change,) = [c for c in controls if c.controlType == EntryChangeNotificationControl.controlType]
            heard.append((change.changeType, dn, change.previousDN, attributes["cn"]))
    return heard


one, two = f"uid=heard1,{PEOPLE}", f"uid=heard2,{PEOPLE}"
changer.add_s(one, PERSON)
assert hear(1) == [(ADD, one, None, [b"Heard"])]
changer.modify_s(one, [(ldap.MOD_REPLACE, "cn", [b"Other"])])
assert hear(1) == [(MODIFY, one, None, [b"Other"])]
changer.rename_s(one, "uid=heard2")
assert hear(1) == [(RENAME, two, one, [b"Other"])]
changer.delete_s(two)
assert hear(1) == [(DELETE, two, None, [b"Other"])]
# The connection answers other requests meanwhile, and the search can be ended.
assert listener.whoami_s() == f"dn:{admin_dn}"
listener.abandon(search)
assert listener.whoami_s() == f"dn:{admin_dn}"

# By default, ldap3 dereferences aliases, and its persistent searches return changes only.
connection = ldap3.Connection(ldap3.Server(url), admin_dn, password, client_strategy=ldap3.ASYNC_STREAM,
                              auto_bind=True, receive_timeout=60)
heard = connection.extend.standard.persistent_search(
    PEOPLE, "(objectClass=person)", ldap3.SUBTREE, attributes=["cn"], changes_only=True, notifications=True,
    streaming=False)
assert connection.extend.standard.who_am_i() == f"dn:{admin_dn}"


def next_change():
    """Returns the change type, the DN, and the previous DN."""
    entry = heard.next(block=True, timeout=60)
    assert entry, "nothing was heard for a minute"
    previous = entry["previousDN"]
    return entry["changeType"], entry["dn"], previous and str(previous)


changer.add_s(one, PERSON)
assert next_change() == ("add", one, None)
changer.rename_s(one, "uid=heard2")
assert next_change() == ("modify dn", two, one)
changer.delete_s(two)
assert next_change() == ("delete", two, None)
heard.stop()
print("all was heard")
