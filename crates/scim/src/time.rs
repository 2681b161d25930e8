//! Converts times between SCIM (RFC 7643 section 2.3.5, xsd:dateTime) and LDAP (RFC 4517 section 3.3.13,
//! GeneralizedTime).

/// Converts a time such as `2026-11-27T08:30:00Z` to `20261127083000Z`. A fraction and an offset are kept. Returns
/// `None` if the text is no time.
pub(crate) fn to_ldap(text: &str) -> Option<String> {
    let (date, time) = text.split_once('T')?;
    let digits = |text: &str, separator: char, count: usize| {
        let parts: Vec<&str> = text.split(separator).collect();
        let is_valid =
            parts.len() == count && parts.iter().all(|part| part.bytes().all(|octet| octet.is_ascii_digit()));
        is_valid.then(|| parts.concat())
    };
    let date = digits(date, '-', 3).filter(|date| date.len() == 8)?;
    let zone = time.find(['Z', '+', '-'])?;
    let (time, zone) = time.split_at(zone);
    let (time, fraction) =
        time.split_once('.').map_or((time, None), |(time, fraction)| (time, Some(fraction)));
    let time = digits(time, ':', 3).filter(|time| time.len() == 6)?;
    let fraction = match fraction {
        Some(fraction) if !fraction.is_empty() && fraction.len() <= 9 => {
            format!(".{}", digits(fraction, '.', 1)?)
        }
        Some(_) => return None,
        None => String::new(),
    };
    let zone = match zone {
        "Z" => zone.to_owned(),
        zone => {
            let (sign, offset) = zone.split_at(1);
            format!("{sign}{}", digits(offset, ':', 2).filter(|offset| offset.len() == 4)?)
        }
    };
    Some(format!("{date}{time}{fraction}{zone}"))
}

/// Converts a time such as `20261127083000Z` to `2026-11-27T08:30:00Z`. The server writes all times in this form.
pub(crate) fn from_ldap(text: &str) -> Option<String> {
    let (digits, rest) = text.split_at_checked(14)?;
    if !text.is_ascii() || !digits.bytes().all(|octet| octet.is_ascii_digit()) || !rest.ends_with('Z') {
        return None;
    }
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    let (year, month, day) = (part(0, 4), part(4, 6), part(6, 8));
    let (hour, minute, second) = (part(8, 10), part(10, 12), part(12, 14));
    Some(format!("{year}-{month}-{day}T{hour}:{minute}:{second}{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_converted_between_scim_and_ldap() {
        for (scim, ldap) in [
            ("2026-11-27T08:30:00Z", Some("20261127083000Z")),
            ("2026-11-27T08:30:00.123456Z", Some("20261127083000.123456Z")),
            ("2026-11-27T08:30:00+01:00", Some("20261127083000+0100")),
            ("2026-11-27T08:30:00", None),
            ("2026-11-27", None),
            ("26-11-27T08:30:00Z", None),
            ("2026-11-27T08:30:00.Z", None),
            ("2026-11-27T08:30:00+1", None),
            ("2026-1*-27T08:30:00Z", None),
        ] {
            assert_eq!(to_ldap(scim).as_deref(), ldap, "{scim}");
        }
        assert_eq!(from_ldap("20261127083000Z").as_deref(), Some("2026-11-27T08:30:00Z"));
        assert_eq!(from_ldap("20261127083000.5Z").as_deref(), Some("2026-11-27T08:30:00.5Z"));
        assert_eq!(from_ldap("2026112708Z"), None);
    }
}
