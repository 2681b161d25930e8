"""python-ldap's consumer of content synchronization (RFC 4533), by polls.

Arguments: URL, administrator's DN, password. Wants dc=example,dc=com and ou=people below it.
"""

import sys

import ldap
from ldap.ldapobject import SimpleLDAPObject
from ldap.syncrepl import SyncreplConsumer

url, admin_dn, password = sys.argv[1:4]
PEOPLE = "ou=people,dc=example,dc=com"


class Consumer(SimpleLDAPObject, SyncreplConsumer):
    """A copy of the people, by entryUUID."""

    def __init__(self):
        SimpleLDAPObject.__init__(self, url)
        self.simple_bind_s(admin_dn, password)
        self.copy, self.cookie, self.present, self.sent = {}, None, set(), 0

    def syncrepl_set_cookie(self, cookie):
        self.cookie = cookie

    def syncrepl_get_cookie(self):
        return self.cookie

    def syncrepl_entry(self, dn, attributes, uuid):
        self.copy[uuid] = (dn, attributes)
        self.present.add(uuid)
        self.sent += 1

    def syncrepl_present(self, uuids, refreshDeletes=False):
        if uuids is None:
            # Entries that were not named are deleted at the end, unless the refresh named the deleted ones.
            if not refreshDeletes:
                self.copy = {uuid: entry for uuid, entry in self.copy.items() if uuid in self.present}
            self.present = set()
        elif refreshDeletes:
            self.syncrepl_delete(uuids)
        else:
            self.present.update(uuids)

    def syncrepl_delete(self, uuids):
        for uuid in uuids:
            self.copy.pop(uuid, None)

    def poll(self):
        self.sent, self.present = 0, set()
        search = self.syncrepl_search(PEOPLE, ldap.SCOPE_SUBTREE, mode="refreshOnly", cookie=self.cookie,
                                      filterstr="(objectClass=*)", attrlist=["*"])
        while self.syncrepl_poll(search, timeout=60, all=1):
            pass
        names = sorted(dn for dn, _ in self.copy.values())
        found = dict(self.search_s(PEOPLE, ldap.SCOPE_SUBTREE))
        assert names == sorted(found), (names, sorted(found))
        for dn, attributes in self.copy.values():
            assert attributes == found[dn], (dn, attributes, found[dn])
        return self.sent


consumer = Consumer()
count = consumer.poll()
assert count == len(consumer.copy) > 1, count
assert consumer.poll() == 0 and consumer.cookie
changer = ldap.initialize(url)
changer.simple_bind_s(admin_dn, password)
person = [("objectClass", [b"inetOrgPerson"]), ("cn", [b"Sync"]), ("sn", [b"Sync"])]
changer.add_s(f"uid=sync1,{PEOPLE}", person)
changer.add_s(f"uid=sync2,{PEOPLE}", person)
assert consumer.poll() == 2
changer.modify_s(f"uid=sync1,{PEOPLE}", [(ldap.MOD_REPLACE, "title", [b"read"])])
changer.delete_s(f"uid=sync2,{PEOPLE}")
assert consumer.poll() == 1
changer.rename_s(f"uid=sync1,{PEOPLE}", "uid=sync3")
assert consumer.poll() == 1
changer.delete_s(f"uid=sync3,{PEOPLE}")
assert consumer.poll() == 0 and len(consumer.copy) == count

# refreshAndPersist: first the content, then each change separately.
consumer.present, consumer.sent = set(), 0
search = consumer.syncrepl_search(PEOPLE, ldap.SCOPE_SUBTREE, mode="refreshAndPersist", cookie=consumer.cookie,
                                  filterstr="(objectClass=*)", attrlist=["*"])


def hear(is_there):
    while not is_there():
        assert consumer.syncrepl_poll(search, timeout=60, all=0)


changer.add_s(f"uid=sync4,{PEOPLE}", person)
named = lambda name: [entry for dn, entry in consumer.copy.values() if dn == f"uid={name},{PEOPLE}"]
hear(lambda: named("sync4"))
assert consumer.sent == 1 and len(consumer.copy) == count + 1, (consumer.sent, consumer.copy)
changer.modify_s(f"uid=sync4,{PEOPLE}", [(ldap.MOD_REPLACE, "title", [b"green"])])
hear(lambda: named("sync4")[0].get("title") == [b"green"])
changer.rename_s(f"uid=sync4,{PEOPLE}", "uid=sync5")
hear(lambda: named("sync5") and not named("sync4"))
# A change removes an entry from the content, and another adds it again.
changer.rename_s(f"uid=sync5,{PEOPLE}", "uid=sync5", "dc=example,dc=com")
hear(lambda: not named("sync5"))
changer.rename_s("uid=sync5,dc=example,dc=com", "uid=sync5", PEOPLE)
hear(lambda: named("sync5"))
changer.delete_s(f"uid=sync5,{PEOPLE}")
hear(lambda: len(consumer.copy) == count)
# Entries outside the base are not sent. The connection answers other requests meanwhile.
changer.add_s("ou=elsewhere,dc=example,dc=com", [("objectClass", [b"organizationalUnit"])])
assert consumer.whoami_s() == f"dn:{admin_dn}"
consumer.cancel_s(search)
print("the copies are equal")
