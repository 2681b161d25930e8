//! Forms with a file, in the format `multipart/form-data` (RFC 7578). The whole body is in memory.

/// Maximum number of parts of a form.
const PARTS_MAX: usize = 64;

/// A part of a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part<'b> {
    pub(crate) name: String,
    /// Whether the part contains a file.
    pub(crate) is_file: bool,
    pub(crate) content: &'b [u8],
}

/// Returns the boundary in a content type. Returns `None` if the content type is not `multipart/form-data`.
pub(crate) fn boundary(content_type: &str) -> Option<String> {
    let (kind, parameters) = content_type.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let mut pairs = parameters.split(';').filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.eq_ignore_ascii_case("boundary"))?;
    let value = value.trim_matches('"');
    // RFC 2046 section 5.1.1 permits a boundary of 1 to 70 characters.
    (1..=70).contains(&value.len()).then(|| value.to_owned())
}

/// Returns the parts of a body. Returns `None` if the body is malformed or has too many parts.
pub(crate) fn parts<'b>(body: &'b [u8], boundary: &str) -> Option<Vec<Part<'b>>> {
    let first = format!("--{boundary}");
    let delimiter = format!("\r\n--{boundary}");
    let mut rest = body.strip_prefix(first.as_bytes())?;
    let mut parts = Vec::new();
    loop {
        if rest.starts_with(b"--") {
            return Some(parts);
        }
        rest = rest.strip_prefix(b"\r\n")?;
        let head_end = find(rest, b"\r\n\r\n")?;
        let (head, after) = (rest.get(..head_end)?, rest.get(head_end + 4..)?);
        let end = find(after, delimiter.as_bytes())?;
        let (name, is_file) = disposition(std::str::from_utf8(head).ok()?)?;
        parts.push(Part { name, is_file, content: after.get(..end)? });
        rest = after.get(end + delimiter.len()..)?;
        if parts.len() > PARTS_MAX {
            return None;
        }
    }
}

/// Returns the name of a part, and whether it has a file name. `head` contains the headers of the part.
fn disposition(head: &str) -> Option<(String, bool)> {
    let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let (_, value) = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-disposition"))?;
    let parameter = |wanted: &str| {
        let start = value.find(&format!("; {wanted}=\""))? + wanted.len() + 4;
        let text = value.get(start..)?;
        text.get(..text.find('"')?)
    };
    Some((parameter("name")?.to_owned(), parameter("filename").is_some()))
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &[u8] = b"--b\r\nContent-Disposition: form-data; name=\"token\"\r\n\r\nt\r\n--b\r\n\
        content-disposition: form-data; name=\"photo\"; filename=\"a.jpg\"\r\nContent-Type: image/jpeg\r\n\r\n\
        \xff\xd8\r\n--c\r\n\r\n--b--\r\n";

    #[test]
    fn parts_have_names_and_any_octets() {
        let found = parts(BODY, "b").unwrap();
        assert_eq!(found[0], Part { name: "token".to_owned(), is_file: false, content: b"t" });
        assert_eq!(
            found[1],
            Part { name: "photo".to_owned(), is_file: true, content: b"\xff\xd8\r\n--c\r\n" }
        );
        for end in 0..BODY.len() - 4 {
            assert_eq!(parts(&BODY[..end], "b"), None, "cut at {end}");
        }
        assert_eq!(parts(BODY, "c"), None);
        let many = b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n".repeat(100);
        assert_eq!(parts(&[&many[..], b"--b--"].concat(), "b"), None);
    }

    #[test]
    fn boundaries_are_read_from_content_types() {
        assert_eq!(boundary("multipart/form-data; boundary=abc").as_deref(), Some("abc"));
        assert_eq!(boundary("Multipart/Form-Data; charset=x; boundary=\"a b\"").as_deref(), Some("a b"));
        let long = format!("multipart/form-data; boundary={}", "x".repeat(71));
        for none in
            ["multipart/mixed; boundary=a", "multipart/form-data", "multipart/form-data; boundary=", &long]
        {
            assert_eq!(boundary(none), None, "{none}");
        }
    }
}
