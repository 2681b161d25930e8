"""Changes and removes the end of a membership with ldap3, as a program would."""

import sys

import ldap3

url, dn, password, group, member = sys.argv[1:]
connection = ldap3.Connection(ldap3.Server(url, get_info=ldap3.ALL), dn, password, auto_bind=True)


def modify(changes, expected="success"):
    connection.modify(group, changes)
    result = connection.result["description"]
    assert result == expected, (changes, connection.result)


def ends():
    assert connection.search(group, "(objectClass=*)", ldap3.BASE, attributes=["valueEnd"])
    return connection.entries[0]["valueEnd"].values


sooner = "member;x-until-20960101000000Z"
modify({sooner: [(ldap3.MODIFY_ADD, [member])]})
assert ends() == [f"20960101000000Z member {member}"], ends()
modify({sooner: [(ldap3.MODIFY_ADD, [member])]}, "attributeOrValueExists")
modify({"member;x-until-20100101000000Z": [(ldap3.MODIFY_ADD, [member])]}, "constraintViolation")
modify({sooner: [(ldap3.MODIFY_REPLACE, [member])]}, "unwillingToPerform")
modify({"member;x-until-20950101000000Z": [(ldap3.MODIFY_DELETE, [member])]}, "noSuchAttribute")
modify({"member;x-until-never": [(ldap3.MODIFY_ADD, [member])]})
assert ends() == [], ends()
print("ends are as given")
