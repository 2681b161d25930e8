//! Files that the browser downloads: their headers, and the rows of CSV files.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

/// A file that the browser downloads.
pub(crate) struct Download {
    pub(crate) media_type: &'static str,
    pub(crate) name: &'static str,
    pub(crate) content: Vec<u8>,
}

impl IntoResponse for Download {
    fn into_response(self) -> Response {
        let disposition = format!("attachment; filename=\"{}\"", self.name);
        let disposition =
            HeaderValue::from_str(&disposition).unwrap_or(HeaderValue::from_static("attachment"));
        let media_type = HeaderValue::from_static(self.media_type);
        ([(header::CONTENT_TYPE, media_type), (header::CONTENT_DISPOSITION, disposition)], self.content)
            .into_response()
    }
}

/// Appends a row of a CSV file (RFC 4180).
pub(crate) fn put_row<'c>(out: &mut Vec<u8>, cells: impl Iterator<Item = &'c str>) {
    for (place, cell) in cells.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        out.push(b'"');
        // Spreadsheets interpret a cell that begins with one of these characters as a formula. A formula could read or
        // send data.
        if cell.starts_with(['=', '+', '-', '@', '\t', '\r', '\n', '|']) {
            out.push(b'\'');
        }
        out.extend_from_slice(cell.replace('"', "\"\"").as_bytes());
        out.push(b'"');
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_cannot_contain_formulas_or_end_a_row() {
        let mut out = Vec::new();
        put_row(
            &mut out,
            ["a", "=HYPERLINK(\"x\")", "+1", "-1", "@SUM(1)", "\t=1", "b,\"c\"\r\nd"].into_iter(),
        );
        let text = String::from_utf8(out).unwrap();
        let expected = [
            "\"a\"",
            "\"'=HYPERLINK(\"\"x\"\")\"",
            "\"'+1\"",
            "\"'-1\"",
            "\"'@SUM(1)\"",
            "\"'\t=1\"",
            "\"b,\"\"c\"\"\r\nd\"\r\n",
        ];
        assert_eq!(text, expected.join(","));
    }
}
