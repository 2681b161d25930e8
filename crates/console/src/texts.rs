//! Texts of the interface and templates of pages, both embedded. `templates/texts.en.json` has every text.

use minijinja::value::Serde;
use minijinja::{Environment, UndefinedBehavior, Value};

/// The templates. Their names end with `.html`, so every value is escaped.
const TEMPLATES: [(&str, &str); 2] = [
    ("frame.html", include_str!("../templates/frame.html")),
    ("health.html", include_str!("../templates/health.html")),
];

/// The one stylesheet.
pub(crate) const STYLE: &str = include_str!("../templates/style.css");

/// Texts in one language, and the templates that show them.
pub(crate) struct Texts {
    texts: Value,
    templates: Environment<'static>,
}

impl Texts {
    pub(crate) fn english() -> Texts {
        let texts: serde_json::Value =
            serde_json::from_str(include_str!("../templates/texts.en.json")).unwrap_or_default();
        let mut templates = Environment::new();
        // A text that is missing is an error, which tests find.
        templates.set_undefined_behavior(UndefinedBehavior::Strict);
        for (name, source) in TEMPLATES {
            if let Err(error) = templates.add_template(name, source) {
                tracing::error!("the console's template {name} is unusable: {error}");
            }
        }
        Texts { texts: Value::from(Serde(texts)), templates }
    }

    /// Returns a text by its path, such as `sign_in.title`.
    pub(crate) fn text(&self, path: &str) -> String {
        let found = path.split('.').try_fold(self.texts.clone(), |texts, name| texts.get_attr(name));
        found
            .ok()
            .filter(|text| !text.is_undefined())
            .map_or_else(|| path.to_owned(), |text| text.to_string())
    }

    /// Returns the page that a template makes of `context`; the texts are its `t`.
    ///
    /// # Errors
    /// The template uses a value that the context lacks.
    pub(crate) fn render(&self, template: &str, context: Value) -> Result<String, minijinja::Error> {
        let texts = self.texts.clone();
        self.templates.get_template(template)?.render(minijinja::context! { t => texts, ..context })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_usable() {
        let texts = Texts::english();
        for (name, _) in TEMPLATES {
            texts.templates.get_template(name).unwrap();
        }
        assert_eq!(texts.text("name"), "Pando");
        assert_eq!(texts.text("no.such"), "no.such");
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
