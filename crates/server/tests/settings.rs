//! Settings files: exported settings equal the applied ones, and no text causes a panic.
//!
//! A failure prints its seed. `PANDO_SEED=n cargo test -p server --test settings` repeats that run alone.

#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod properties;

use std::path::PathBuf;

use directory::DirectorySettings;
use directory::index::{IndexKinds, possible_kinds};
use directory::settings::{GENERAL, SettingValue};
use fastrand::Rng;
use schema::Schema;
use server::Config;
use server::config::settings_text as text;
use server::settings;

/// Number of generated settings that are applied to one directory, one after another.
const ROUNDS: usize = 20;
/// Number of mutated texts.
const MUTATIONS: usize = 3_000;

fn seed() -> u64 {
    let seed = std::env::var("PANDO_SEED").map_or_else(|_| fastrand::u64(..), |text| text.parse().unwrap());
    println!("PANDO_SEED={seed}");
    seed
}

/// Attribute types that can be indexed, two of them only by some kinds.
const INDEXED: [&str; 8] =
    ["cn", "sn", "mail", "description", "uidNumber", "telephoneNumber", "memberUid", "jpegPhoto"];

/// Returns a valid number for a setting.
fn number_of(key: &str, rng: &mut Rng) -> u64 {
    match key {
        "limits.scan_share" => rng.u64(1..=100),
        "dynamic_ttl_min_seconds" => rng.u64(1..100),
        "dynamic_ttl_max_seconds" => rng.u64(100..31_557_600),
        _ => rng.u64(1..=u64::from(u32::MAX)),
    }
}

fn generated(rng: &mut Rng) -> DirectorySettings {
    let mut stated = DirectorySettings::default();
    let suffixes = ["dc=example,dc=com", "o=A \\+ B", "o=\"x, y\",c=DE", "o=Æsa", "c=DE"];
    stated.suffixes = suffixes.iter().filter(|_| rng.bool()).map(|dn| (*dn).to_owned()).collect();
    rng.shuffle(&mut stated.suffixes);
    if stated.suffixes.iter().any(|dn| dn == "c=DE") {
        stated.suffixes.retain(|dn| !dn.ends_with(",c=DE"));
    }
    let schema = Schema::shipped();
    stated.indexes.clear();
    for name in INDEXED {
        let kinds = IndexKinds::from_bits(rng.u8(0..32)).unwrap();
        let kinds = possible_kinds(schema.attribute_type(name).unwrap(), &schema, kinds);
        if rng.bool() && !kinds.is_none() {
            stated.indexes.insert(name.to_owned(), kinds);
        }
    }
    // A unique attribute needs an equality index and must not be secret.
    let has_index = stated.indexes.get("cn").is_some_and(|kinds| kinds.contains(IndexKinds::EQUALITY));
    for setting in &GENERAL {
        let value = match setting.value(&stated.general) {
            SettingValue::Switch(_) => SettingValue::Switch(rng.bool()),
            SettingValue::Number(_) => SettingValue::Number(number_of(setting.key, rng)),
            SettingValue::Word(_) => {
                let words = match setting.key {
                    "administrator" => ["", "cn=default,dc=example,dc=com", "cn=x\\, y"].map(str::to_owned),
                    // The DN of an entry below a suffix, or none. The suffixes have no entries, so the policy need not
                    // exist yet.
                    "password_policy" => {
                        ["", "cn=default,", "cn=x\\, y,"].map(|rdn| match stated.suffixes.first() {
                            Some(suffix) if !rdn.is_empty() => format!("{rdn}{suffix}"),
                            _ => String::new(),
                        })
                    }
                    _ => ["ssha", "clear", "argon2id"].map(str::to_owned),
                };
                SettingValue::Word(rng.choice(&words).unwrap().clone())
            }
            SettingValue::Words(_) => {
                let Some(words) = words_of(setting.key, has_index) else { continue };
                let words = words.into_iter().filter(|_| rng.bool());
                SettingValue::Words(words.map(str::to_owned).collect())
            }
        };
        setting.set(&mut stated.general, value).unwrap();
    }
    for name in ["local", "Other-1", "_x"] {
        if rng.bool() {
            stated.schema.insert(name.to_owned(), comments(rng));
        }
    }
    stated
}

/// Returns valid members of a list setting; `None` leaves the list empty.
fn words_of(key: &str, has_index: bool) -> Option<[&'static str; 4]> {
    Some(match key {
        "integrity_attributes" => ["manager", "member", "owner", "seeAlso"],
        "sasl_mechanisms" => ["EXTERNAL", "PLAIN", "SCRAM-SHA-256", "ANONYMOUS"],
        "access_rules" => [
            "a: allow read to anyone",
            "b: deny read of mail in \"o=Æsa\" to self, named by manager",
            "c d: allow write, add of * to group \"cn=x\\, y,c=DE\"",
            "e: allow browse below \"\" to users in \"c=DE\"",
        ],
        "access_expectations" => [
            "anonymous may browse 'c=DE'",
            "\"cn=x\\, y,c=DE\" may not read mail of 'o=Æsa'",
            "'c=DE' may write cn of 'c=DE'",
            "anonymous may not add 'o=Æsa'",
        ],
        "secret_attributes" => ["sambaNTPassword", "mail", "1.2.3.4", "not-yet"],
        "identity_attributes" => ["uid", "sn", "cn", "uidNumber"],
        "supported_capabilities" => ["1.2.840.113556.1.4.800", "1.2.3", "2.5.4.3", "1.3.6.1"],
        "user_templates" => ["a: cn=x", "b-c: mail={uid}@x", "d: sn='a, ''b'''", "e: l=x in 'o=Æsa'"],
        "next_numbers" | "value_limits" | "auto_members" | "dynamic_subtrees" => return None,
        "sort_orders" => ["a: cn", "b c: sn, cn in 'o=Æsa'", "d: sn", "e: cn matching '(sn=x)'"],
        "unique" | "bind_names" if !has_index => return None,
        "bind_names" => [
            "a: cn",
            "b c: cn in 'o=Æsa'",
            "d: cn domain example.com, EXAMPLE listener apps",
            "e: cn in \"c=DE\" matching \"(cn='x)\"",
        ],
        "unique" => [
            "a: cn",
            "b c: cn in 'o=Æsa'",
            "d: cn, commonName matching '(sn=\"*)'",
            "e: cn in \"c=DE\" matching \"(cn='x)\"",
        ],
        _ => ["cn=a,dc=example,dc=com", "uid=b,o=Æsa", "c=DE", "cn=x\\, y"],
    })
}

/// Returns a schema text of unusual characters that defines nothing.
fn comments(rng: &mut Rng) -> String {
    let letters = ['a', '\'', '"', '\\', '\t', '#', 'ü', '木', '\u{7f}', '=', ']'];
    let mut text = String::new();
    for _ in 0..rng.usize(0..4) {
        text.push('#');
        (0..rng.usize(0..12)).for_each(|_| text.push(*rng.choice(&letters).unwrap()));
        text.push_str(rng.choice(&["\n", "\r\n", "\n\n"]).unwrap());
    }
    text
}

fn sorted(mut settings: DirectorySettings) -> DirectorySettings {
    settings.suffixes.sort_unstable();
    settings
}

#[test]
fn exported_settings_apply_without_a_change() {
    let mut rng = Rng::with_seed(seed());
    let folder = std::env::temp_dir().join(format!("pando-settings-round-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let (file, config) = (folder.join("settings.toml"), Config::new(folder.join("data")));
    let apply = |text: &str| {
        std::fs::write(&file, text).unwrap();
        settings::apply(config.clone(), &settings::read(&PathBuf::from(&file)).unwrap(), |_| ())
            .unwrap_or_else(|error| panic!("{error}\n{text}"))
    };
    for round in 0..ROUNDS {
        let stated = generated(&mut rng);
        let expected =
            directory::settings::check(&stated).unwrap_or_else(|problems| panic!("{problems:?}")).settings;
        let written = text::write(&stated);
        let changes = apply(&written);
        assert_eq!(changes.is_new, round == 0);
        assert_eq!(sorted(settings::of_directory(&config).unwrap()), sorted(expected.clone()), "{written}");
        let exported = settings::export(&config).unwrap();
        for again in [&exported, &written] {
            let changes = apply(again);
            assert!(!changes.is_new && changes.lines.is_empty(), "{changes:?}\n{again}");
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn broken_texts_are_refused_with_lines_that_exist() {
    let mut rng = Rng::with_seed(seed());
    let folder = format!("{}/../../fuzz/corpus/settings_text", env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort_unstable();
    let texts: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
    for _ in 0..MUTATIONS {
        let mut text = rng.choice(&texts).unwrap().clone();
        for _ in 0..rng.usize(1..4) {
            let place = rng.usize(0..=text.len());
            match rng.u8(0..4) {
                0 if place < text.len() => drop(text.remove(place)),
                1 => text.truncate(place),
                2 => text.insert(place, *rng.choice(b"[]{}\"'=.,#\n\r \\-0a\xc3").unwrap()),
                _ => {
                    let other = rng.choice(&texts).unwrap();
                    let part = &other[rng.usize(0..=other.len())..];
                    text.splice(place..place, part.iter().copied());
                }
            }
        }
        properties::settings_text(&text);
    }
}
