//! Cookies of OpenLDAP. They have the form `rid=001,sid=001,csn=CSN;CSN`, with the CSN of the last change of each
//! server.
//!
//! After the refresh, slapd sends the changes that were made during the refresh. A message has only the CSN of its own
//! change, or none. That change may be older than the content that the refresh sent. Therefore the CSNs of the previous
//! and the new cookie are combined. A cookie of any other form replaces the previous cookie.

/// Parsed cookie of OpenLDAP.
struct Csns<'c> {
    /// The fields before the CSNs.
    head: Vec<&'c str>,
    csns: Vec<&'c str>,
}

impl<'c> Csns<'c> {
    /// Parses a cookie; `None` if it does not have OpenLDAP's form.
    fn parse(cookie: &'c [u8]) -> Option<Csns<'c>> {
        let text = std::str::from_utf8(cookie).ok()?;
        let mut parsed = Csns { head: Vec::new(), csns: Vec::new() };
        for field in text.split(',').filter(|field| !field.is_empty()) {
            match field.split_once('=')? {
                ("rid" | "sid", _) => parsed.head.push(field),
                ("csn", csns) => parsed.csns = csns.split(';').filter(|csn| !csn.is_empty()).collect(),
                _ => return None,
            }
        }
        parsed.csns.iter().all(|csn| sid(csn).is_some()).then_some(parsed)
    }
}

/// Returns the server id in a CSN, which has the form `TIME#COUNT#SID#MOD`.
pub(super) fn sid(csn: &str) -> Option<&str> {
    csn.split('#').nth(2)
}

/// Returns the cookie of the content after a message with the cookie `new`. `before` is the cookie before the message.
/// Returns `None` if the cookie has not changed.
pub(super) fn combined(before: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let Some(added) = Csns::parse(new) else { return Some(new.to_vec()) };
    if added.csns.is_empty() {
        return None;
    }
    let known = Csns::parse(before).map_or_else(Vec::new, |known| known.csns);
    let mut csns: Vec<&str> = Vec::new();
    for csn in known.into_iter().chain(added.csns) {
        match csns.iter_mut().find(|other| sid(other) == sid(csn)) {
            // CSNs of one server compare as texts.
            Some(other) => *other = (*other).max(csn),
            None => csns.push(csn),
        }
    }
    csns.sort_unstable_by_key(|csn| sid(csn));
    let list = format!("csn={}", csns.join(";"));
    Some(added.head.into_iter().chain([list.as_str()]).collect::<Vec<_>>().join(",").into_bytes())
}

/// Returns true if the content with the cookie `known` includes the change of a message with the cookie `new`.
pub(super) fn contains(known: &[u8], new: &[u8]) -> bool {
    let (Some(known), Some(new)) = (Csns::parse(known), Csns::parse(new)) else { return false };
    let is_known = |csn: &&str| known.csns.iter().any(|known| sid(known) == sid(csn) && *known >= *csn);
    !new.csns.is_empty() && new.csns.iter().all(is_known)
}

/// Returns true if a cookie is of Pando's form: `csn=CSN,data=SEAL`.
pub(super) fn is_pando(cookie: &[u8]) -> bool {
    std::str::from_utf8(cookie).is_ok_and(|text| text.starts_with("csn=") && text.contains(",data="))
}

/// Returns true if `known` is a cookie of OpenLDAP whose content does not include the change with the CSN `csn`.
pub(super) fn lacks(known: &[u8], csn: &str) -> bool {
    Csns::parse(known).is_some_and(|known| !known.csns.iter().any(|of| sid(of) == sid(csn) && *of >= csn))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "20261127090000.000001Z#000000#001#000000";
    const SECOND: &str = "20261127090001.000001Z#000000#001#000000";
    const OTHER: &str = "20261127080000.000001Z#000000#002#000000";

    #[track_caller]
    fn check(before: &str, new: &str, expected: Option<&str>) {
        let result = combined(before.as_bytes(), new.as_bytes());
        assert_eq!(result.as_deref(), expected.map(str::as_bytes));
    }

    #[test]
    fn csns_of_several_servers_are_combined() {
        let both = format!("rid=001,csn={SECOND};{OTHER}");
        let at = |csn: &str| format!("rid=001,csn={csn}");
        check(&format!("rid=001,csn={FIRST};{OTHER}"), &at(SECOND), Some(&both));
        check(&both, &at(FIRST), Some(&both));
        check(&at(SECOND), &at(OTHER), Some(&both));
        check("", &format!("csn={FIRST}"), Some(&format!("csn={FIRST}")));
        check(&both, "rid=001", None);
        check(&both, "", None);
    }

    #[test]
    fn cookies_other_than_csn_lists_replace_earlier_ones() {
        let pando = format!("csn={SECOND},data=0011");
        assert!(is_pando(pando.as_bytes()) && !is_pando(format!("csn={SECOND}").as_bytes()));
        check(&pando, &format!("csn={FIRST},data=0011"), Some(&format!("csn={FIRST},data=0011")));
        check("ldap389#cn=x#5", "ldap389#cn=x#6", Some("ldap389#cn=x#6"));
        assert!(!contains(pando.as_bytes(), pando.as_bytes()));
    }

    #[test]
    fn changes_that_a_cookie_covers_are_recognized() {
        let both = format!("csn={SECOND};{OTHER}");
        let is_in = |csn: &str| contains(both.as_bytes(), format!("rid=1,csn={csn}").as_bytes());
        assert!(is_in(FIRST) && is_in(SECOND) && is_in(OTHER));
        assert!(!is_in("20261127090001.000002Z#000000#001#000000"));
        assert!(!is_in("20261127080000.000001Z#000000#003#000000"));
        assert!(!contains(both.as_bytes(), b"rid=1"));
    }
}
