//! Configuration files in LDIF (389 DS's `dse.ldif`, OpenDJ's `config.ldif`), edited as text, so that all lines that
//! are not edited stay as the vendor wrote them.

use super::PeerError;
use std::path::Path;

/// Entries of a file, each as a list of lines.
pub(super) struct Blocks {
    blocks: Vec<Vec<String>>,
}

impl Blocks {
    /// Parses a file, drops its comments, and joins folded lines.
    pub(super) fn parse(text: &str) -> Blocks {
        let mut blocks = vec![Vec::<String>::new()];
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let last = blocks.len() - 1;
            match (line.strip_prefix(' '), blocks[last].last_mut()) {
                (Some(rest), Some(before)) => before.push_str(rest),
                _ if line.is_empty() => blocks.push(Vec::new()),
                _ => blocks[last].push(line.to_owned()),
            }
        }
        blocks.retain(|block| !block.is_empty());
        Blocks { blocks }
    }

    /// Returns the file's text.
    pub(super) fn text(&self) -> String {
        self.blocks.iter().map(|block| block.join("\n") + "\n\n").collect()
    }

    /// Sets attributes of the entry with this DN. Each attribute then has only the given value.
    ///
    /// # Errors
    /// The file has no such entry. The error contains the file's name `file`.
    pub(super) fn set(&mut self, file: &Path, dn: &str, values: &[(&str, &str)]) -> Result<(), PeerError> {
        let found = self.blocks.iter_mut().find(|block| dn_of(block).eq_ignore_ascii_case(dn));
        let block = found.ok_or_else(|| PeerError::Form { file: file.to_owned(), missing: dn.to_owned() })?;
        for (attribute, value) in values {
            block.retain(|line| !name_of(line).eq_ignore_ascii_case(attribute));
            block.push(format!("{attribute}: {value}"));
        }
        Ok(())
    }

    /// Removes the entries for which `is_unwanted` returns true. Its arguments are the DN and the lines of an entry.
    pub(super) fn remove(&mut self, is_unwanted: impl Fn(&str, &[String]) -> bool) {
        self.blocks.retain(|block| !is_unwanted(dn_of(block), block));
    }

    /// Adds an entry at the end.
    pub(super) fn add<'v>(&mut self, dn: &str, values: impl IntoIterator<Item = (&'v str, &'v str)>) {
        let values = values.into_iter().map(|(attribute, value)| format!("{attribute}: {value}"));
        self.blocks.push(std::iter::once(format!("dn: {dn}")).chain(values).collect());
    }
}

fn name_of(line: &str) -> &str {
    line.split(':').next().unwrap_or_default().trim()
}

fn dn_of(block: &[String]) -> &str {
    block.first().and_then(|line| line.strip_prefix("dn:")).unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# made by hand\ndn: cn=config\ncn: config\nport: 389\nPort: 390\nlong: a\n b\n\n\n\
        dn: cn=x,cn=config\ncn: x\n";

    #[test]
    fn other_blocks_stay_unchanged() {
        let mut blocks = Blocks::parse(TEXT);
        assert_eq!(
            blocks.text(),
            "dn: cn=config\ncn: config\nport: 389\nPort: 390\nlong: ab\n\ndn: cn=x,cn=config\ncn: x\n\n"
        );
        let file = Path::new("f");
        blocks.set(file, "CN=config", &[("port", "1"), ("new", "2")]).unwrap();
        blocks.remove(|dn, lines| dn.starts_with("cn=x") && lines[1] == "cn: x");
        blocks.add("cn=y", [("cn", "y")]);
        assert_eq!(
            blocks.text(),
            "dn: cn=config\ncn: config\nlong: ab\nport: 1\nnew: 2\n\ndn: cn=y\ncn: y\n\n"
        );
        let error = blocks.set(file, "cn=z", &[]).unwrap_err();
        assert!(error.to_string().contains("cn=z"), "{error}");
    }
}
