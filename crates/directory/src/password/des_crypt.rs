//! The strings of crypt(3) that are based on DES (FIPS 46-3). The older form (Unix, 1979) has two characters of salt
//! and eleven of hash. BSDi's form has `_`, four characters of rounds, four of salt and eleven of hash.
//!
//! DES encrypts a block of zeros, with the password as the key. The salt exchanges bits of the expansion. DES ignores
//! the highest bit of each octet of the password. The older form ignores all octets after the eighth.
//!
//! The tables number bits as in the standard, in which 1 is the most significant bit.

use subtle::ConstantTimeEq as _;

/// Number of characters of the older form.
pub(super) const LENGTH: usize = 13;
/// Number of characters of BSDi's form.
const EXTENDED_LENGTH: usize = 20;
/// Number of characters before the hash in BSDi's form.
const EXTENDED_SETTINGS: usize = 9;
/// Number of encryptions of the older form.
const ROUNDS: u32 = 25;
/// Number of octets of a password in one key.
const KEY_SIZE: usize = 8;

/// Digits of crypt(3), with six bits each.
pub(super) const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

const INITIAL: [u8; 64] = [
    58, 50, 42, 34, 26, 18, 10, 2, 60, 52, 44, 36, 28, 20, 12, 4, 62, 54, 46, 38, 30, 22, 14, 6, 64, 56, 48,
    40, 32, 24, 16, 8, 57, 49, 41, 33, 25, 17, 9, 1, 59, 51, 43, 35, 27, 19, 11, 3, 61, 53, 45, 37, 29, 21,
    13, 5, 63, 55, 47, 39, 31, 23, 15, 7,
];
const FINAL: [u8; 64] = [
    40, 8, 48, 16, 56, 24, 64, 32, 39, 7, 47, 15, 55, 23, 63, 31, 38, 6, 46, 14, 54, 22, 62, 30, 37, 5, 45,
    13, 53, 21, 61, 29, 36, 4, 44, 12, 52, 20, 60, 28, 35, 3, 43, 11, 51, 19, 59, 27, 34, 2, 42, 10, 50, 18,
    58, 26, 33, 1, 41, 9, 49, 17, 57, 25,
];
const KEY_CHOICE_1: [u8; 56] = [
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44,
    36, 63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20,
    12, 4,
];
const KEY_CHOICE_2: [u8; 48] = [
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2, 41, 52, 31, 37,
    47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];
const KEY_SHIFTS: [u32; 16] = [1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1];
const PERMUTATION: [u8; 32] = [
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10, 2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6,
    22, 11, 4, 25,
];
const SUBSTITUTIONS: [[u8; 64]; 8] = [
    [
        14, 4, 13, 1, 2, 15, 11, 8, 3, 10, 6, 12, 5, 9, 0, 7, 0, 15, 7, 4, 14, 2, 13, 1, 10, 6, 12, 11, 9, 5,
        3, 8, 4, 1, 14, 8, 13, 6, 2, 11, 15, 12, 9, 7, 3, 10, 5, 0, 15, 12, 8, 2, 4, 9, 1, 7, 5, 11, 3, 14,
        10, 0, 6, 13,
    ],
    [
        15, 1, 8, 14, 6, 11, 3, 4, 9, 7, 2, 13, 12, 0, 5, 10, 3, 13, 4, 7, 15, 2, 8, 14, 12, 0, 1, 10, 6, 9,
        11, 5, 0, 14, 7, 11, 10, 4, 13, 1, 5, 8, 12, 6, 9, 3, 2, 15, 13, 8, 10, 1, 3, 15, 4, 2, 11, 6, 7, 12,
        0, 5, 14, 9,
    ],
    [
        10, 0, 9, 14, 6, 3, 15, 5, 1, 13, 12, 7, 11, 4, 2, 8, 13, 7, 0, 9, 3, 4, 6, 10, 2, 8, 5, 14, 12, 11,
        15, 1, 13, 6, 4, 9, 8, 15, 3, 0, 11, 1, 2, 12, 5, 10, 14, 7, 1, 10, 13, 0, 6, 9, 8, 7, 4, 15, 14, 3,
        11, 5, 2, 12,
    ],
    [
        7, 13, 14, 3, 0, 6, 9, 10, 1, 2, 8, 5, 11, 12, 4, 15, 13, 8, 11, 5, 6, 15, 0, 3, 4, 7, 2, 12, 1, 10,
        14, 9, 10, 6, 9, 0, 12, 11, 7, 13, 15, 1, 3, 14, 5, 2, 8, 4, 3, 15, 0, 6, 10, 1, 13, 8, 9, 4, 5, 11,
        12, 7, 2, 14,
    ],
    [
        2, 12, 4, 1, 7, 10, 11, 6, 8, 5, 3, 15, 13, 0, 14, 9, 14, 11, 2, 12, 4, 7, 13, 1, 5, 0, 15, 10, 3, 9,
        8, 6, 4, 2, 1, 11, 10, 13, 7, 8, 15, 9, 12, 5, 6, 3, 0, 14, 11, 8, 12, 7, 1, 14, 2, 13, 6, 15, 0, 9,
        10, 4, 5, 3,
    ],
    [
        12, 1, 10, 15, 9, 2, 6, 8, 0, 13, 3, 4, 14, 7, 5, 11, 10, 15, 4, 2, 7, 12, 9, 5, 6, 1, 13, 14, 0, 11,
        3, 8, 9, 14, 15, 5, 2, 8, 12, 3, 7, 0, 4, 10, 1, 13, 11, 6, 4, 3, 2, 12, 9, 5, 15, 10, 11, 14, 1, 7,
        6, 0, 8, 13,
    ],
    [
        4, 11, 2, 14, 15, 0, 8, 13, 3, 12, 9, 7, 5, 10, 6, 1, 13, 0, 11, 7, 4, 9, 1, 10, 14, 3, 5, 12, 2, 15,
        8, 6, 1, 4, 11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5, 9, 2, 6, 11, 13, 8, 1, 4, 10, 7, 9, 5, 0, 15,
        14, 2, 3, 12,
    ],
    [
        13, 2, 8, 4, 6, 15, 11, 1, 10, 9, 3, 14, 5, 0, 12, 7, 1, 15, 13, 8, 10, 3, 7, 4, 12, 5, 6, 11, 0, 14,
        9, 2, 7, 11, 4, 1, 9, 12, 14, 2, 0, 6, 10, 13, 15, 3, 5, 8, 2, 1, 14, 7, 4, 10, 8, 13, 15, 12, 9, 0,
        3, 5, 6, 11,
    ],
];

/// For each group of six bits, the result of substitution and permutation.
static ROUND_TABLES: [[u32; 64]; 8] = round_tables();

/// Verifies a string of the older form.
pub(super) fn verify(encoded: &[u8], asserted: &[u8]) -> Option<bool> {
    let (salt, expected) = encoded.split_at_checked(2).filter(|_| encoded.len() == LENGTH)?;
    let salt = number(salt)?;
    number(expected.get(..4)?)?;
    let hash = encrypt(&Keys::new(key(asserted)), salt, ROUNDS, 0);
    Some(digits(hash).ct_eq(expected).into())
}

/// Verifies a string of BSDi's form. The caller has checked the number of rounds.
pub(super) fn verify_extended(encoded: &[u8], asserted: &[u8]) -> Option<bool> {
    let rounds = extended_rounds(encoded)?;
    let salt = number(encoded.get(5..EXTENDED_SETTINGS)?)?;
    let mut octets = asserted.chunks(KEY_SIZE);
    let mut password = key(octets.next().unwrap_or_default());
    for more in octets {
        password = encrypt(&Keys::new(password), 0, 1, password) ^ key(more);
    }
    let hash = encrypt(&Keys::new(password), salt, rounds, 0);
    Some(digits(hash).ct_eq(encoded.get(EXTENDED_SETTINGS..)?).into())
}

/// Returns the number of encryptions that a string of BSDi's form announces. Returns `None` for a malformed string.
pub(super) fn extended_rounds(encoded: &[u8]) -> Option<u32> {
    let is_whole = encoded.len() == EXTENDED_LENGTH && encoded.first() == Some(&b'_');
    encoded.get(1..5).filter(|_| is_whole).and_then(number).filter(|rounds| *rounds > 0)
}

/// Returns the number that these digits represent. The first digit is the least significant one.
fn number(encoded: &[u8]) -> Option<u32> {
    let digit = |byte: &u8| DIGITS.iter().zip(0..).find(|(digit, _)| *digit == byte).map(|(_, value)| value);
    encoded.iter().rev().try_fold(0_u32, |number, byte| Some(number << 6 | digit(byte)?))
}

/// Encodes a hash as eleven digits. The first digit is the most significant one. Two zero bits follow the hash.
#[expect(clippy::indexing_slicing, reason = "six bits are a valid index of 64 digits")]
fn digits(hash: u64) -> [u8; 11] {
    let mut encoded = [0; 11];
    let padded = u128::from(hash) << 2;
    for (place, digit) in encoded.iter_mut().enumerate() {
        *digit = DIGITS[(padded >> (60 - 6 * place)) as usize & 63];
    }
    encoded
}

/// Returns the key that the first eight octets of a password make: seven bits of each octet, and a parity bit that DES
/// ignores.
fn key(password: &[u8]) -> u64 {
    let octets = password.iter().copied().chain(std::iter::repeat(0)).take(KEY_SIZE);
    octets.fold(0, |key, octet| key << 8 | u64::from(octet << 1))
}

/// Round keys of one encryption: sixteen keys of 48 bits each.
struct Keys([u64; 16]);

impl Keys {
    fn new(key: u64) -> Keys {
        const HALF: u64 = (1 << 28) - 1;
        let chosen = permute(key, 64, &KEY_CHOICE_1);
        let (mut left, mut right) = (chosen >> 28, chosen & HALF);
        let rotate = |half: u64, shift: u32| (half << shift | half >> (28 - shift)) & HALF;
        Keys(KEY_SHIFTS.map(|shift| {
            (left, right) = (rotate(left, shift), rotate(right, shift));
            permute(left << 28 | right, 56, &KEY_CHOICE_2)
        }))
    }
}

/// Encrypts a block `rounds` times. `salt` has 24 bits.
#[expect(clippy::cast_possible_truncation, reason = "the lower half of a block is meant")]
fn encrypt(keys: &Keys, salt: u32, rounds: u32, block: u64) -> u64 {
    // The least significant bit of the salt exchanges the first bits of both halves of the expansion.
    let exchanged = u64::from(salt.reverse_bits() >> 8);
    let block = permute(block, 64, &INITIAL);
    let (mut left, mut right) = ((block >> 32) as u32, block as u32);
    for _ in 0..rounds {
        for key in &keys.0 {
            (left, right) = (right, left ^ mix(right, *key, exchanged));
        }
        // The standard omits the exchange of the halves in the last round, so undo it. No permutation is needed between
        // two encryptions, because the final and the next initial permutation cancel out.
        (left, right) = (right, left);
    }
    permute(u64::from(left) << 32 | u64::from(right), 64, &FINAL)
}

/// Applies one round of DES to half a block.
#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "only six bits count, and they are a valid index of 64 entries"
)]
fn mix(half: u32, key: u64, exchanged: u64) -> u32 {
    // Each group of four bits is extended by one adjacent bit on either side.
    let groups = (0..8)
        .fold(0_u64, |bits, group: u32| bits << 6 | u64::from(half.rotate_left((4 * group + 31) % 32) >> 26));
    let exchange = (groups >> 24 ^ groups) & exchanged;
    let bits = groups ^ exchange ^ exchange << 24 ^ key;
    let looked_up =
        ROUND_TABLES.iter().enumerate().map(|(group, table)| table[(bits >> (42 - 6 * group)) as usize & 63]);
    looked_up.fold(0, |all, one| all | one)
}

/// Returns the bits of `input` that a table lists, in the order of the table. `input` has `width` bits.
#[expect(clippy::indexing_slicing, reason = "the loop ends with the table")]
const fn permute(input: u64, width: u32, table: &[u8]) -> u64 {
    let (mut output, mut place) = (0, 0);
    while place < table.len() {
        output = output << 1 | (input >> (width - table[place] as u32) & 1);
        place += 1;
    }
    output
}

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated by the compiler; half a block has 32 bits"
)]
const fn round_tables() -> [[u32; 64]; 8] {
    let mut tables = [[0; 64]; 8];
    let mut group = 0;
    while group < 8 {
        let mut bits = 0;
        while bits < 64 {
            let row = (bits >> 4 & 2) | (bits & 1);
            let value = SUBSTITUTIONS[group][row * 16 + (bits >> 1 & 15)] as u64;
            tables[group][bits] = permute(value << (28 - 4 * group), 32, &PERMUTATION) as u32;
            bits += 1;
        }
        group += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples are from NIST SP 800-17 and the standard. Without salt, one encryption is equal to DES.
    #[test]
    fn encrypts_as_des_does() {
        for (key, clear, expected) in [
            (0x1334_5779_9BBC_DFF1, 0x0123_4567_89AB_CDEF, 0x85E8_1354_0F0A_B405_u64),
            (0x0101_0101_0101_0101, 0x8000_0000_0000_0000, 0x95F8_A5E5_DD31_D900),
            (0x8001_0101_0101_0101, 0, 0x95A8_D728_13DA_A94D),
            (0x1031_6E02_8C8F_3B4A, 0, 0x82DC_BAFB_DEAB_6602),
        ] {
            assert_eq!(encrypt(&Keys::new(key), 0, 1, clear), expected, "{key:x}");
        }
    }
}
