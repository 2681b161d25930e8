//! The texts of the user interface, and the templates of the pages. Both are parts of the program. All texts are in
//! `templates/texts.en.json`.

use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, UndefinedBehavior, Value};

/// The templates. Their names end with `.html`, so the template engine escapes all values in them.
const TEMPLATES: &[(&str, &str)] = &[
    ("frame.html", include_str!("../templates/frame.html")),
    ("parts.html", include_str!("../templates/parts.html")),
    ("forgotten.html", include_str!("../templates/forgotten.html")),
    ("new_password.html", include_str!("../templates/new_password.html")),
    ("health.html", include_str!("../templates/health.html")),
    ("trouble.html", include_str!("../templates/trouble.html")),
    ("sign_in.html", include_str!("../templates/sign_in.html")),
    ("password.html", include_str!("../templates/password.html")),
    ("search.html", include_str!("../templates/search.html")),
    ("entry.html", include_str!("../templates/entry.html")),
    ("no_entry.html", include_str!("../templates/no_entry.html")),
    ("account.html", include_str!("../templates/account.html")),
    ("codes.html", include_str!("../templates/codes.html")),
    ("compare.html", include_str!("../templates/compare.html")),
    ("compare_tree.html", include_str!("../templates/compare_tree.html")),
    ("codes_remove.html", include_str!("../templates/codes_remove.html")),
    ("photo.html", include_str!("../templates/photo.html")),
    ("seen.html", include_str!("../templates/seen.html")),
    ("access.html", include_str!("../templates/access.html")),
    ("deleted.html", include_str!("../templates/deleted.html")),
    ("add.html", include_str!("../templates/add.html")),
    ("delete.html", include_str!("../templates/delete.html")),
    ("edit.html", include_str!("../templates/edit.html")),
    ("audit.html", include_str!("../templates/audit.html")),
    ("account_state.html", include_str!("../templates/account_state.html")),
    ("nodes.html", include_str!("../templates/nodes.html")),
    ("policies.html", include_str!("../templates/policies.html")),
    ("history.html", include_str!("../templates/history.html")),
    ("indexes.html", include_str!("../templates/indexes.html")),
    ("manage.html", include_str!("../templates/manage.html")),
    ("members.html", include_str!("../templates/members.html")),
    ("overview.html", include_str!("../templates/overview.html")),
    ("preview.html", include_str!("../templates/preview.html")),
    ("rename.html", include_str!("../templates/rename.html")),
    ("rehearse.html", include_str!("../templates/rehearse.html")),
    ("reset.html", include_str!("../templates/reset.html")),
    ("sessions.html", include_str!("../templates/sessions.html")),
    ("settings.html", include_str!("../templates/settings.html")),
    ("schema.html", include_str!("../templates/schema.html")),
    ("tree.html", include_str!("../templates/tree.html")),
];

/// The stylesheet of all pages.
pub(crate) const STYLE: &str = include_str!("../templates/style.css");

/// The icon that browsers show in a tab.
pub(crate) const ICON: &str = include_str!("../templates/icon.svg");

/// The OpenAPI description of all pages.
pub(crate) const OPENAPI: &str = include_str!("../templates/openapi.json");

/// The texts in one language, and the templates that contain them.
pub(crate) struct Texts {
    texts: Value,
    templates: Environment<'static>,
}

/// Returns all English texts.
pub(crate) fn texts_of() -> serde_json::Value {
    serde_json::from_str(include_str!("../templates/texts.en.json")).unwrap_or_default()
}

impl Texts {
    pub(crate) fn english() -> Texts {
        let texts = texts_of();
        let mut templates = Environment::new();
        // If a template uses a text that does not exist, rendering fails. Tests detect this.
        templates.set_undefined_behavior(UndefinedBehavior::Strict);
        templates.add_function("url", url_of);
        templates.add_filter("shell", shell_word);
        for (name, source) in TEMPLATES {
            if let Err(error) = templates.add_template(name, source) {
                tracing::error!("the console's template {name} is unusable: {error}");
            }
        }
        Texts { texts: Value::from(Serde(texts)), templates }
    }

    /// Returns the text with this path, for example `sign_in.title`. Returns the path itself if there is no such text.
    pub(crate) fn text(&self, path: &str) -> String {
        let found = path.split('.').try_fold(self.texts.clone(), |texts, name| texts.get_attr(name));
        found
            .ok()
            .filter(|text| !text.is_undefined())
            .map_or_else(|| path.to_owned(), |text| text.to_string())
    }

    /// Renders a template with the values in `context` and with the texts, which have the name `t`.
    ///
    /// # Errors
    /// The template uses a value that `context` does not contain.
    pub(crate) fn render(&self, template: &str, context: Value) -> Result<String, minijinja::Error> {
        let texts = self.texts.clone();
        self.templates.get_template(template)?.render(minijinja::context! { t => texts, ..context })
    }
}

/// Returns the URL of the page `path` with the query `query`.
pub(crate) fn url(path: &str, query: &[(&str, &str)]) -> String {
    if query.is_empty() {
        return path.to_owned();
    }
    let start = format!("{path}?");
    let length = start.len();
    let mut pairs = form_urlencoded::Serializer::for_suffix(start, length);
    pairs.extend_pairs(query);
    pairs.finish()
}

/// The same as [`url`] for templates, for example `url("/entry", dn=value)`.
fn url_of(path: String, query: Kwargs) -> Result<String, minijinja::Error> {
    let mut pairs = Vec::new();
    for name in query.args() {
        let value: Value = query.get(name)?;
        if !value.is_none() {
            pairs.push((name, value.to_string()));
        }
    }
    let pairs: Vec<_> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
    Ok(url(&path, &pairs))
}

/// Quotes a text as one word of a POSIX shell. Pages contain commands for the shell.
fn shell_word(text: String) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_words_are_quoted() {
        assert_eq!(shell_word("cn=O'Hara; id,$(x)".to_owned()), r"'cn=O'\''Hara; id,$(x)'");
    }

    #[test]
    fn every_template_compiles() {
        let texts = Texts::english();
        for (name, _) in TEMPLATES {
            texts.templates.get_template(name).unwrap();
        }
        assert_eq!(texts.text("name"), "Pando");
        assert_eq!(texts.text("no.such"), "no.such");
    }

    #[test]
    fn urls_encode_any_value() {
        assert_eq!(url("/entry", &[]), "/entry");
        assert_eq!(url("/entry", &[("dn", "cn=a&b=\"<+ü")]), "/entry?dn=cn%3Da%26b%3D%22%3C%2B%C3%BC");
        let mut texts = Texts::english();
        texts.templates.add_template("x.html", "{{ url('/e', dn=v, nothing=n) }}").unwrap();
        let page = texts.render("x.html", minijinja::context! { v => "a b", n => () }).unwrap();
        assert_eq!(page, "&#x2f;e?dn=a+b");
    }

    #[test]
    fn values_are_escaped() {
        let mut texts = Texts::english();
        texts.templates.add_template("x.html", "<a title=\"{{ v }}\">{{ v }}</a>").unwrap();
        let page = texts.render("x.html", minijinja::context! { v => "<b>\"'&" }).unwrap();
        assert!(
            !page.contains("<b>") && !page.contains("\"'") && page.contains("&lt;b&gt;&quot;&#x27;&amp;")
        );
    }
}
