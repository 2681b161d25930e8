//! Tests of values from other tools, and of malicious values.

use super::*;

/// Each value is a hash of "secret" by the tool in the comment above the value. A tool that uses a salt produces
/// another value every time.
const SECRET: &[&str] = &[
    // slappasswd -h '{SSHA}' -s secret, and so on for other schemes (OpenLDAP 2.5)
    "{SSHA}SiFwmLuStANxZXs3YztqjoVuyg9M42h0",
    "{SMD5}u529tZMzBZGNv65PsUX4f8L8zqk=",
    "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
    "{MD5}Xr4ilOzQ4PCOq3aQ0qbuaQ==",
    "secret",
    // slappasswd -o module-load=pw-sha2 -h '{SSHA256}' -s secret
    "{SSHA256}tx7ocsGrX9MFCbyuiTiDTeTs3UYjGWowiAZymMs+v1Z0Z/aM0ZIGcg==",
    "{SSHA384}pb+ePfc36P7pb4wFEE8IO0hRvIuwP2M5YZXjTesxvRxD1fbAoKLIaqqaKNtV8XFWczPR0QPM/pI=",
    "{SSHA512}TPvjzsrOTmfJEI5Mlh7BtwW/yznAmVU0nreqG4HiFDLdGBtSXlDx+aiZpAEd+Kt47uWBGUbokZnqdzaW3rX7uL/xS4ZfN9QV",
    "{SHA256}K7gNU3sdo+OL0wNhqoVWhr3g6s1xYv72ol/pe/Unols=",
    "{SHA384}WKd1ukESvjAFrkQHznV9iP2nHUBJe7gCbsrFTU4//HIyzo3jq1rLMK45dg/ufFPt",
    "{SHA512}vSsar3708Jvp9Szi2NWZZ02Bqp1qRCFpbcTZPdBhnWgs5WtNZKnvCXdhztmeD2cmW192CF5bDufKRpayrW/isg==",
    // slappasswd -o module-load=pw-pbkdf2 -h '{PBKDF2}' -s secret
    "{PBKDF2}10000$oxy79PRnqRIyeYfRfD.81w$ahj7b8Upfk7U/exxF80uYOilbKA",
    "{PBKDF2-SHA1}10000$eDNrBeqi7g9XoRuXxPiz3g$wT/TH2nVWUdR4hm0LJ8miWLefVY",
    "{PBKDF2-SHA256}10000$h/jVU6Ly2z3vPkRmA02vOw$u8/qstLbLSSQyknTrCLK3DK3D17F62WjwYFgrKLPU9w",
    "{PBKDF2-SHA512}10000$JCuYezKKgY6B9PSAxg/1TQ$uzydtsxRZxQiQMOsQbWQfaPHlhjNmgo6obsqHPJaqq.MIKZZ0nNo/sDZiVPd.s4oM2.NbUxDeGFhajrO564vSA",
    // 389 DS's text form, standard base64 with padding. python3: salt = bytes(range(24)); "{PBKDF2-SHA256}1000$" +
    // b64encode(salt) + "$" + b64encode(hashlib.pbkdf2_hmac("sha256", b"secret", salt, 1000, 32))
    "{PBKDF2-SHA256}1000$AAECAwQFBgcICQoLDA0ODxAREhMUFRYX$x2ce9C8Piw9fv2t65Cc0g4XtSFMcnOsKncJQTOTPCGw=",
    "{PBKDF2-SHA512}1000$AAECAwQFBgcICQoLDA0ODxAREhMUFRYX$oMHAMk/CmAlyx6ch0SqS6b3WdFXPBNEW1aViiNQ+FgHZXrYHVlGD+iQloGSkHT1Emaf5zETJbd1DRbZZN3C30Q==",
    "{PBKDF2-SHA1}1000$AAECAwQFBgcICQoLDA0ODxAREhMUFRYX$WygX0XsVwmP+FJZpE+MeUZyPyTU=",
    // 389 DS's binary form. python3: salt = bytes(range(64)); b64encode((2048).to_bytes(4, "big") + salt
    // + hashlib.pbkdf2_hmac("sha256", b"secret", salt, 2048, 256))
    "{PBKDF2_SHA256}AAAIAAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4fICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pj+B9XeOejtyt4BTjI46i3LtcyOiILFyqJgSilUxXiMS6q73bHB/+ZX8IITSt36w6FEBAtkpXO02/zpH0rHl4YSdeZ5hjbd9nDYq0Avw9pABNQVUEj7GBo+Dt2J6hvxICY6SNDtgyGQljMTA64Cc4E6rd/w3uDixLyqzBEc+Ba4lSmEBR6oQsFCJ2fpEquMVx7EG7YG7PZesWyzC+/itvph53qwWtea21d4DWq+gi+HjlMNggdZ5ycW4VWdnfqvWWsKPbrvrvlPNIIWUdoQUFTVIdMJhjnTZ5AeiM9iXBM3G4qbPigqPZyw922t+6ygi+ignwkbT2jWrtAx+Q87w/wL8",
    // slappasswd -o module-load=argon2 -h '{ARGON2}' -s secret
    "{ARGON2}$argon2i$v=19$m=4096,t=3,p=1$SawjwKrZimoJ0Y+roFrVuQ$pJ41zjsSQXE30EBvcJVhxisUCeDygc1nUhT4gXNHbaE",
    // printf secret | argon2 somesalt12345678 -id -t 2 -k 4096 -p 1 -e (then -d, -i with two lanes, -i -v 10)
    "{ARGON2}$argon2id$v=19$m=4096,t=2,p=1$c29tZXNhbHQxMjM0NTY3OA$l7YDdi0L2eCBN4NTcxglxdgofugzqLHZoiUDEW03r+4",
    "{ARGON2}$argon2d$v=19$m=512,t=1,p=1$c29tZXNhbHQxMjM0NTY3OA$YZAHw5bN8Q7QiWVY4wnOsRJB8/6+FNeP",
    "{ARGON2}$argon2i$v=19$m=1024,t=3,p=2$c29tZXNhbHQxMjM0NTY3OA$9L+LV5u6UucxL+LSigXdmwnVJcg4Qaf9yhxE3FMc034",
    "{ARGON2}$argon2i$v=16$m=256,t=2,p=1$c29tZXNhbHQxMjM0NTY3OA$i0U9nuOOiWml9CUs/uMe41rx60e7mzlAGoGOQlMpmuI",
    // The value without its version, as early versions of libargon2 wrote it.
    "{ARGON2}$argon2i$m=256,t=2,p=1$c29tZXNhbHQxMjM0NTY3OA$i0U9nuOOiWml9CUs/uMe41rx60e7mzlAGoGOQlMpmuI",
    // openssl passwd -6 secret; openssl passwd -5 secret; mkpasswd -m sha512crypt -R 10000 -S saltstring secret
    "{CRYPT}$6$mtVgmKBkLLP0hSRm$NC2eBuQwKnhSj42xoXAi/y4F2bcfcruikqY8eM1l5iRByxUv0.tsIIVY98VBe4Oj8MlFuD67mW9y4o5uYCwRq1",
    "{CRYPT}$5$oh/HPVBzbOnXUPUE$mRrfsx7RdJjPb6SY/GODT7G/psV.evq9uxWpPRxhBeA",
    "{CRYPT}$6$rounds=10000$saltstring$8BTo06G/5FoSytD1T0cp9b6u1/eLMbXRWR32saoSVCPI8HactmA7e1cC6THh4kpvGWDoPyAxOz2Ig8bq3eay//",
    // mkpasswd -m bcrypt secret; mkpasswd -m bcrypt-a secret; the first value again, as PHP and htpasswd -B spell it
    "{CRYPT}$2b$05$lhWXMFSx8yHjgcOWe5Hbueq4FHzQ7JDXIPxtEQkHD9ehPSUiEOjQW",
    "{CRYPT}$2a$05$l6HTIw8tqkMz/GPgljvEQuT3ZF8FtGXW7yKnnyAJUVTBQv4/0bIlu",
    "{CRYPT}$2y$05$lhWXMFSx8yHjgcOWe5Hbueq4FHzQ7JDXIPxtEQkHD9ehPSUiEOjQW",
    // mkpasswd -m yescrypt secret, and with -R 1 and -R 3
    "{CRYPT}$y$j9T$eutPncJA9KmBq7z9OVqSd0$EhVYVBTbiSySDK6UYfz5.W2jqf3kjaOG6.LOm34KwV0",
    "{CRYPT}$y$j75$b.u45HAmT5SESg6fmIbsN.$ZpNE8CLvG.dyHsx2/edKAzRgeW23JA0CzaOC4JEimx/",
    "{CRYPT}$y$j7T$bz.ltahawLI/QfnDMWQgN1$lLZP9lwifkR6CEsHbWDJxk83L9.fkjaVmTE1CHSskc8",
    // perl -e 'print crypt("secret", "ab")', and with "./" and "zZ"; then a value from an older version of this test
    "{CRYPT}abNANd1rDfiNc",
    "{CRYPT}./17m29LFAflg",
    "{CRYPT}zZ5x4y8hS4SZE",
    "{CRYPT}DrmsDYd40lPZ6",
    // pwdhash -s CRYPT secret; pwdhash -s CRYPT-MD5 secret (389 DS 2.3)
    "{crypt}JwR84T0Vk9MKo",
    "{crypt}$1$yE$Y0MNpUbimvwJLKl9c8T.a0",
    // perl -e 'print crypt("secret", "$1$saltsalt$")', and without a salt
    "{CRYPT}$1$saltsalt$9xy1btjgzLYfb7hivXtC//",
    "{CRYPT}$1$$ysVNzQc4CTMkp5daOdZ.3/",
    // passlib: bsdi_crypt.hash("secret"), bsdi_crypt.using(rounds=725).hash("secret"), apr_md5_crypt.hash("secret")
    "{CRYPT}_7C/.SVhOaVlSpCwBYco",
    "{CRYPT}_J9..JkD1KxV.dcoI4s6",
    "{CRYPT}$apr1$ArNPrqH/$/BTcKUe1txuNHJVOup8.C/",
    // slappasswd -o module-load=pw-apr1 -h '{APR1}' -s secret, and '{BSDMD5}'
    "{APR1}Ix66H6GmSm9gP+NUjDlZkGx3LjZYNlBw",
    "{BSDMD5}vL+hfuUo9KZiH48jUWP7RFBHMGdZR2xW",
    // OpenDJ's forms. python3: b64encode(hashlib.pbkdf2_hmac("sha1", b"secret", salt, 1000, 20) + salt) for a salt of
    // 8 (older versions) and 16 bytes
    "{PBKDF2}1000:MxyLECjv+NZvrg4BqPhPPWDs2K4AAQIDBAUGBw==",
    "{PBKDF2}1000:sFSyXPFcXgkxACFLfL2dSbbhY6kAAQIDBAUGBwgJCgsMDQ4P",
    "{PBKDF2-HMAC-SHA256}1000:Tvsru20utY6o3q7VRBeuL9h/1QqKhWhwk2PaYNRWBgYAAQIDBAUGBwgJCgsMDQ4P",
    "{PBKDF2-HMAC-SHA512}1000:8ltlLe5cI6KNrWOmMFkTi2iE7fEXJKJJR9lhjd/xSn68+xOqzv2h20C4IDv/enqlx8f6AaRHE+6XnvHKXKhAjAABAgMEBQYHCAkKCwwNDg8=",
    "{BCRYPT}$2b$05$lhWXMFSx8yHjgcOWe5Hbueq4FHzQ7JDXIPxtEQkHD9ehPSUiEOjQW",
    // passlib: atlassian_pbkdf2_sha1.hash("secret")
    "{PKCS5S2}yLnX+r/XOidEKIWwltI65+wp7FWf71t0NFvEDInCcT5RsXjeSvb+on3qH/7DJi9X",
    "{CLEARTEXT}secret",
    "{clear}secret",
];

#[test]
fn values_of_other_servers_match_only_their_password() {
    for stored in SECRET {
        assert!(verify(stored.as_bytes(), b"secret"), "{stored}");
        for wrong in ["Secret", "secre", "secret ", "secrets", "\0secret", ""] {
            assert!(!verify(stored.as_bytes(), wrong.as_bytes()), "{stored} against {wrong:?}");
        }
    }
}

#[test]
fn scheme_names_are_case_insensitive() {
    for stored in SECRET.iter().filter(|stored| stored.starts_with('{')) {
        let (name, rest) = stored.split_at(stored.find('}').unwrap());
        let recased: String = name
            .chars()
            .enumerate()
            .map(
                |(index, letter)| {
                    if index % 2 == 0 { letter.to_ascii_lowercase() } else { letter.to_ascii_uppercase() }
                },
            )
            .collect();
        assert!(verify(format!("{recased}{rest}").as_bytes(), b"secret"), "{recased}");
    }
}

#[test]
fn passwords_are_octets_not_text() {
    // slappasswd -h '{SSHA}' -s 'pässwörd'; mkpasswd -m yescrypt 'pässwörd'
    for stored in [
        "{SSHA}t4VKJMAtAMxEy8PQWISvcWITAw+MP+6z",
        "{CRYPT}$y$j9T$A8eYXRjJTPfwNj4wT7/WI.$tbNJ6OrbUEpuj1kinqVrJYGdSndSyISOqnOqfWGVDv2",
    ] {
        assert!(verify(stored.as_bytes(), "pässwörd".as_bytes()), "{stored}");
        assert!(!verify(stored.as_bytes(), b"p\xe4ssw\xf6rd"), "{stored}");
    }
    assert!(verify(b"\xff\x00\xfe", b"\xff\x00\xfe"));
}

#[test]
fn a_value_with_an_unknown_scheme_is_not_clear_text() {
    for stored in [&b"{X}secret"[..], b"{X}", b"{SASL}secret", b"{ }secret", b"{{}secret", b"{\xff}secret"] {
        assert!(matches!(parse(stored), Stored::Unknown(_)), "{stored:?}");
        assert!(!verify(stored, stored));
        assert!(!verify(stored, b"secret"));
        assert!(is_hashed(stored) && !is_slow(stored));
    }
    for stored in [&b"{}secret"[..], b"{secret", b"secret}", b"}{x", b"{"] {
        assert_eq!(parse(stored), Stored::Clear(stored));
        assert!(verify(stored, stored) && !is_hashed(stored));
    }
}

#[test]
fn only_the_deliberately_slow_schemes_are_slow() {
    for stored in SECRET {
        let slow = ["{PBKDF2", "{PKCS", "{ARGON2}", "{CRYPT}", "{crypt}", "{BCRYPT}", "{APR1}", "{BSDMD5}"];
        let slow = slow.iter().any(|prefix| stored.starts_with(prefix));
        assert_eq!(is_slow(stored.as_bytes()), slow, "{stored}");
        let clear = ["secret", "{CLEARTEXT}secret", "{clear}secret"].contains(stored);
        assert_eq!(is_hashed(stored.as_bytes()), !clear, "{stored}");
    }
}

/// perl -e 'print crypt("a longer password than eight", "_J9..rasm")', and so on. DES ignores the highest bit of each
/// octet.
#[test]
fn crypt_has_the_limits_of_its_forms() {
    let long = b"a longer password than eight";
    for stored in ["{CRYPT}_J9..rasm4uqaIbzIhNY", "{CRYPT}$1$12345678$jMjs7o1..Sq0AtH79fdyM."] {
        assert!(verify(stored.as_bytes(), long) && !verify(stored.as_bytes(), &long[..8]), "{stored}");
    }
    for stored in
        ["{CRYPT}abzp3RXJm5gNA", "{CRYPT}$1$saltsalt$VReRfkQ8Hs1aayf/oxMkG/", "{CRYPT}_J9..rasmTIP7P2rlEnk"]
    {
        assert!(verify(stored.as_bytes(), "pässwörd".as_bytes()), "{stored}");
    }
    // crypt("12345678", "ab")
    for same in ["12345678", "123456789"] {
        assert!(verify(b"{CRYPT}ab1iBa.N.U2C6", same.as_bytes()));
    }
}

#[test]
fn names_the_forms_that_no_password_matches() {
    for stored in SECRET {
        assert_eq!(unverifiable_form(stored.as_bytes()), None, "{stored}");
    }
    for (stored, form) in [
        ("{aes}AAAA", "{AES}"),
        ("{crypt}$7$CU..../....abc$def", "{CRYPT} $7$"),
        ("{GOST_YESCRYPT}$gy$j9T$abc$def", "{GOST_YESCRYPT}"),
        ("{CRYPT}secret", "{CRYPT} (damaged)"),
        ("{CRYPT}$2b$05$short", "{CRYPT} (damaged)"),
        ("{SSHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "{SSHA} (damaged)"),
        (
            "{PBKDF2}99999999:MxyLECjv+NZvrg4BqPhPPWDs2K4AAQIDBAUGBw==",
            "{PBKDF2} (beyond the limit of its cost)",
        ),
        ("{CRYPT}$6$rounds=99999999$salt$hash", "{CRYPT} (beyond the limit of its cost)"),
        ("{PBKDF2-SHA256}1000$AAAA$AAAA", "{PBKDF2-SHA256} (damaged)"),
        ("{ARGON2}nonsense", "{ARGON2} (damaged)"),
    ] {
        assert_eq!(unverifiable_form(stored.as_bytes()).as_deref(), Some(form), "{stored}");
    }
    // Another service verifies these values, so they are not reported.
    assert_eq!(unverifiable_form(b"{SASL}anna@EXAMPLE.COM"), None);
}

/// Neither a prefix of a valid value nor a valid value with one character changed or added matches a password or causes
/// a panic.
#[test]
fn damaged_values_never_match() {
    let cheap = |stored: &&&str| {
        !["m=4096", "$y$j9T", "10000$", "{PKCS", "_7C/."].iter().any(|costly| stored.contains(costly))
    };
    for stored in SECRET.iter().filter(cheap).filter(|stored| is_hashed(stored.as_bytes())) {
        let body = stored.find('}').unwrap() + 1;
        // Padding of base64 contains no data, so the value is still valid without padding.
        let end = stored.trim_end_matches('=').len();
        for cut in body..end {
            assert!(!verify(&stored.as_bytes()[..cut], b"secret"), "{}", &stored[..cut]);
        }
        for appended in ["$", "$x", "!", "A", "\0", "\u{e9}"] {
            assert!(!verify(format!("{stored}{appended}").as_bytes(), b"secret"), "{stored}{appended}");
        }
        for position in (body..end).step_by(7) {
            let mut bytes = stored.as_bytes().to_vec();
            bytes[position] = 0xff;
            assert!(!verify(&bytes, b"secret"), "{stored} at {position}");
        }
    }
}

#[test]
fn malformed_values_never_match() {
    let long = format!("{{SSHA}}{}", "A".repeat(limits::STORED_SIZE_MAX + 1));
    for stored in [
        "{SSHA}",
        "{SSHA}=",
        "{SSHA}!!!!",
        // A salted scheme whose value has no salt, and an unsalted scheme whose value has a salt.
        "{SSHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
        "{SHA}SiFwmLuStANxZXs3YztqjoVuyg9M42h0",
        "{MD5}5en6G6MezRroT3XKqkdPOmY/BfQ=",
        long.as_str(),
        "{PBKDF2}",
        "{PBKDF2}$$",
        "{PBKDF2}1$$",
        "{PBKDF2}1$AAAA$",
        "{PBKDF2}1$AAAA$AAAA",
        // No salt, no iterations, signs, numbers too large.
        "{PBKDF2-SHA256}1000$$x2ce9C8Piw9fv2t65Cc0g4XtSFMcnOsKncJQTOTPCGw=",
        "{PBKDF2-SHA256}0$AAECAwQFBgcICQoLDA0ODxAREhMUFRYX$x2ce9C8Piw9fv2t65Cc0g4XtSFMcnOsKncJQTOTPCGw=",
        "{PBKDF2-SHA256}+1000$AAECAwQFBgcICQoLDA0ODxAREhMUFRYX$x2ce9C8Piw9fv2t65Cc0g4XtSFMcnOsKncJQTOTPCGw=",
        "{PBKDF2-SHA256}-1$AAAA$x2ce9C8Piw9fv2t65Cc0g4XtSFMcnOsKncJQTOTPCGw=",
        "{PBKDF2-SHA256}99999999999999999999$AAAA$x2ce9C8Piw9fv2t65Cc0g4XtSFMcnOsKncJQTOTPCGw=",
        "{PBKDF2_SHA256}",
        "{PBKDF2_SHA256}AAAIAA==",
        "{ARGON2}",
        "{ARGON2}$",
        "{ARGON2}$argon2id",
        "{ARGON2}$argon2id$v=19$m=4096,t=3,p=1",
        "{ARGON2}$argon2id$v=19$m=4096,t=3,p=1$$",
        "{ARGON2}$argon2id$v=19$m=4096,t=3,p=1$AAAA$AAAA",
        "{ARGON2}$argon2id$v=18$m=256,t=2,p=1$c29tZXNhbHQxMjM0NTY3OA$i0U9nuOOiWml9CUs/uMe41rx60e7mzlAGoGOQlMpmuI",
        "{ARGON2}$argon2x$v=19$m=256,t=2,p=1$c29tZXNhbHQxMjM0NTY3OA$i0U9nuOOiWml9CUs/uMe41rx60e7mzlAGoGOQlMpmuI",
        "{ARGON2}$argon2i$v=19$m=0,t=0,p=0$c29tZXNhbHQxMjM0NTY3OA$i0U9nuOOiWml9CUs/uMe41rx60e7mzlAGoGOQlMpmuI",
        "{CRYPT}",
        "{CRYPT}$",
        "{CRYPT}$$",
        "{CRYPT}$6$",
        "{CRYPT}$6$salt",
        "{CRYPT}$6$salt$",
        "{CRYPT}$6$$",
        "{CRYPT}$6$salt$AAAA",
        "{CRYPT}$5$rounds=$salt$AAAA",
        "{CRYPT}$5$rounds=x$salt$AAAA",
        "{CRYPT}$2b$",
        "{CRYPT}$2b$05$",
        "{CRYPT}$2b$05$short",
        "{CRYPT}$2b$xx$lhWXMFSx8yHjgcOWe5Hbueq4FHzQ7JDXIPxtEQkHD9ehPSUiEOjQW",
        "{CRYPT}$2x$05$lhWXMFSx8yHjgcOWe5Hbueq4FHzQ7JDXIPxtEQkHD9ehPSUiEOjQW",
        "{CRYPT}$y$",
        "{CRYPT}$y$$$",
        "{CRYPT}$y$j9T$$",
        "{CRYPT}$y$z$salt$hash",
        "{CRYPT}$y$j9T$salt$",
        // Malformed strings with MD5; strings with DES that have a bad digit or are too short; strings of BSDi's form
        // that are too short or have no rounds.
        "{CRYPT}$1$saltsalts$9xy1btjgzLYfb7hivXtC//",
        "{CRYPT}$1$saltsalt$9xy1btjgzLYfb7hivXtC/",
        "{CRYPT}$1$saltsalt",
        "{CRYPT}a!NANd1rDfiNc",
        "{CRYPT}abNANd1rDfiN",
        "{CRYPT}secret",
        "{CRYPT}_",
        "{CRYPT}_....rasmz0.F/jqjWck",
        "{CRYPT}_J9..rasmz0.F/jqjWc",
        // Forms of OpenDJ: no salt, no iterations, a sign.
        "{PBKDF2}1000:MxyLECjv+NZvrg4BqPhPPWDs2K4=",
        "{PBKDF2}0:MxyLECjv+NZvrg4BqPhPPWDs2K4AAQIDBAUGBw==",
        "{PBKDF2}:MxyLECjv+NZvrg4BqPhPPWDs2K4AAQIDBAUGBw==",
        "{PBKDF2}+1000:MxyLECjv+NZvrg4BqPhPPWDs2K4AAQIDBAUGBw==",
        "{PKCS5S2}AAAA",
        "{APR1}AAAA",
    ] {
        assert!(!verify(stored.as_bytes(), b"secret"), "{stored}");
        assert!(is_hashed(stored.as_bytes()), "{stored}");
    }
}

/// Values that announce hours of work or all memory are refused immediately. Otherwise this test would not end.
#[test]
fn refuses_values_that_require_too_much_before_any_work() {
    let pbkdf2 = "$AAECAwQFBgcICQoLDA0ODxAREhMUFRYX$x2ce9C8Piw9fv2t65Cc0g4XtSFMcnOsKncJQTOTPCGw=";
    let argon2 = "$c29tZXNhbHQxMjM0NTY3OA$i0U9nuOOiWml9CUs/uMe41rx60e7mzlAGoGOQlMpmuI";
    let sha =
        "$saltstring$8BTo06G/5FoSytD1T0cp9b6u1/eLMbXRWR32saoSVCPI8HactmA7e1cC6THh4kpvGWDoPyAxOz2Ig8bq3eay//";
    let bcrypt = "$lhWXMFSx8yHjgcOWe5Hbueq4FHzQ7JDXIPxtEQkHD9ehPSUiEOjQW";
    let yescrypt = "$eutPncJA9KmBq7z9OVqSd0$EhVYVBTbiSySDK6UYfz5.W2jqf3kjaOG6.LOm34KwV0";
    let many_blocks = "A".repeat(3000);
    let mut binary = vec![0; 4 + 64 + 256];
    binary[..4].fill(0xff);
    for stored in [
        format!("{{PBKDF2-SHA256}}10000001{pbkdf2}"),
        format!("{{PBKDF2}}4294967295{pbkdf2}"),
        format!("{{PBKDF2-SHA1}}10000000$AAAA${many_blocks}"),
        format!("{{PBKDF2_SHA256}}{}", LENIENT_BASE64.encode(&binary)),
        format!("{{ARGON2}}$argon2id$v=19$m=4194304,t=1,p=1{argon2}"),
        format!("{{ARGON2}}$argon2id$v=19$m=4294967295,t=4294967295,p=1{argon2}"),
        format!("{{ARGON2}}$argon2d$v=19$m=262144,t=9,p=1{argon2}"),
        format!("{{ARGON2}}$argon2i$v=19$m=8,t=4294967295,p=1{argon2}"),
        format!("{{CRYPT}}$6$rounds=999999999{sha}"),
        format!("{{CRYPT}}$5$rounds=4294967296{sha}"),
        // 16,777,215 encryptions.
        "{CRYPT}_zzzzrasmz0.F/jqjWck".to_owned(),
        "{PBKDF2-HMAC-SHA256}10000001:Tvsru20utY6o3q7VRBeuL9h/1QqKhWhwk2PaYNRWBgYAAQIDBAUGBwgJCgsMDQ4P"
            .to_owned(),
        format!("{{CRYPT}}$2b$31{bcrypt}"),
        format!("{{CRYPT}}$2b$16{bcrypt}"),
        // N = 2^17 with r = 32 takes 512 MiB. The next value has N = 2^48 and r = 48. The last two values have more
        // parameters.
        format!("{{CRYPT}}$y$jET{yescrypt}"),
        format!("{{CRYPT}}$y$jjj{yescrypt}"),
        format!("{{CRYPT}}$y$j9T.zzzzz{yescrypt}"),
        format!("{{CRYPT}}$y$jzzzzzzzzzz{yescrypt}"),
    ] {
        assert!(!verify(stored.as_bytes(), b"secret"), "{stored}");
    }
    let sha512_crypt = SECRET.iter().find(|stored| stored.starts_with("{CRYPT}$6$")).unwrap();
    assert!(!verify(sha512_crypt.as_bytes(), &vec![b'x'; 4 << 20]));
}

/// For every small N and r within the limit, the library returns a result or an error, but does not panic.
#[test]
fn small_yescrypt_parameters_do_not_panic() {
    for n in "./01234".chars() {
        for r in "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghij".chars().step_by(5) {
            let stored = format!(
                "{{CRYPT}}$y$j{n}{r}$eutPncJA9KmBq7z9OVqSd0$EhVYVBTbiSySDK6UYfz5.W2jqf3kjaOG6.LOm34KwV0"
            );
            assert!(!verify(stored.as_bytes(), b"secret"), "{stored}");
        }
    }
}

const SALT: &[u8; 16] = b"0123456789abcdef";

#[test]
fn verifies_every_form_that_it_writes() {
    for (scheme, prefix) in [
        (StorageScheme::Argon2id, "{ARGON2}$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$"),
        (StorageScheme::Ssha, "{SSHA}"),
        (StorageScheme::Ssha256, "{SSHA256}"),
        (StorageScheme::Ssha512, "{SSHA512}"),
        (StorageScheme::Pbkdf2Sha256, "{PBKDF2-SHA256}600000$MDEyMzQ1Njc4OWFiY2RlZg$"),
        (StorageScheme::Clear, "secret"),
    ] {
        let stored = hash(scheme, b"secret", SALT);
        let text = String::from_utf8(stored.clone()).unwrap();
        assert!(text.starts_with(prefix), "{text}");
        assert!(verify(&stored, b"secret"), "{text}");
        assert_eq!(is_hashed(&stored), scheme != StorageScheme::Clear, "{text}");
    }
    assert_ne!(hash(StorageScheme::Ssha, b"secret", SALT), hash(StorageScheme::Ssha, b"secret", &[0; 16]));
}

/// Checked with the tools: `printf secret | argon2 0123456789abcdef -id -t 2 -k 19456 -p 1 -e`, and python3:
/// `b64encode(hashlib.sha1(b"secret" + salt).digest() + salt)`.
#[test]
fn writes_the_forms_of_other_tools() {
    let argon2 = "{ARGON2}$argon2id$v=19$m=19456,t=2,p=1$\
                  MDEyMzQ1Njc4OWFiY2RlZg$8qPpaWig0H31wvibKAgpght2Ry2M8rtRQYtZ93ooMus";
    assert_eq!(hash(StorageScheme::Argon2id, b"secret", SALT), argon2.as_bytes());
    let ssha = "{SSHA}FTtLy4UHGF6CE6rK0obse+lIYuYwMTIzNDU2Nzg5YWJjZGVm";
    assert_eq!(hash(StorageScheme::Ssha, b"secret", SALT), ssha.as_bytes());
}

#[test]
fn clear_text_that_looks_like_a_scheme_stays_usable() {
    for (value, password) in [
        (&b"{CLEARTEXT}secret"[..], &b"secret"[..]),
        (b"{CLEARTEXT}{SSHA}secret", b"{SSHA}secret"),
        (b"{x}secret", b"{x}secret"),
        (b"{}secret", b"{}secret"),
    ] {
        for scheme in [StorageScheme::Clear, StorageScheme::Ssha] {
            let stored = hash(scheme, value, SALT);
            assert!(verify(&stored, password), "{}", String::from_utf8_lossy(&stored));
        }
    }
}

#[test]
fn storage_scheme_names_parse_in_any_case() {
    assert_eq!(StorageScheme::default(), StorageScheme::Argon2id);
    for (scheme, name) in StorageScheme::NAMES {
        assert_eq!(scheme.to_string(), name);
        assert_eq!(name.to_uppercase().parse(), Ok(scheme));
    }
    let error = "rot13".parse::<StorageScheme>().unwrap_err().to_string();
    assert!(error.contains("rot13") && error.contains("argon2id"), "{error}");
}

#[test]
fn auth_passwords_are_verified_by_their_scheme() {
    use base64::Engine as _;
    use sha1::Digest as _;
    let encode = |bytes: &[u8]| base64::engine::general_purpose::STANDARD.encode(bytes);
    let salt = encode(b"salt");
    let sha1 = format!("SHA1${salt}${}", encode(&sha1::Sha1::digest(b"secretsalt")));
    let md5 = format!("md5${salt}${}", encode(&md5::Md5::digest(b"secretsalt")));
    for (value, asserted, expected) in [
        (sha1.as_str(), "secret", true),
        (&sha1, "Secret", false),
        (&md5, "secret", true),
        (&md5, "", false),
        ("X-OTHER$c2FsdA==$c2FsdA==", "secret", false),
        ("SHA1$!$!", "secret", false),
        ("SHA1", "SHA1", false),
    ] {
        let found = super::verify_auth_password(value.as_bytes(), asserted.as_bytes());
        assert_eq!(found, expected, "{value} {asserted:?}");
    }
}
