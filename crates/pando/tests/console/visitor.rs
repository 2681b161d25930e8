//! A visitor of the console, who knows no paths: the visitor follows links and completes forms by the texts on the
//! pages.

use test_support::Pando;
use test_support::http::{Answer, Browser, quoted};

/// A visitor, and the page that the visitor sees.
pub(crate) struct Visitor {
    browser: Browser,
    pub(crate) html: String,
}

/// A start tag. Its attributes have their unescaped values.
struct Tag<'h> {
    name: &'h str,
    attributes: Vec<(&'h str, String)>,
    /// The page after the tag.
    rest: &'h str,
}

impl Tag<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the text up to the element's end tag.
    fn text(&self) -> String {
        let end = self.rest.find(&format!("</{}", self.name)).unwrap_or(0);
        plain(&self.rest[..end])
    }

    /// Returns true if a user or a screen reader finds the element by this text.
    fn is_named(&self, text: &str) -> bool {
        self.get("aria-label") == Some(text) || self.text() == text
    }
}

/// Returns the text of HTML without tags, with single spaces.
fn plain(html: &str) -> String {
    let parts = html.split('<').enumerate().map(|(place, part)| match place {
        0 => part,
        _ => part.split_once('>').map_or("", |(_, text)| text),
    });
    unescaped(&parts.collect::<String>()).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn unescaped(text: &str) -> String {
    let pairs =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#x27;", "'"), ("&#x2f;", "/"), ("&amp;", "&")];
    pairs.iter().fold(text.to_owned(), |text, (escaped, plain)| text.replace(escaped, plain))
}

/// Returns the start tags of a page. The templates quote all values of attributes, and escape `<` and `>` in them.
fn tags(html: &str) -> Vec<Tag<'_>> {
    let starts = html.match_indices('<').filter_map(|(at, _)| html[at + 1..].split_once('>'));
    let starts = starts.filter(|(tag, _)| tag.starts_with(|first: char| first.is_ascii_alphabetic()));
    let tag = |(tag, rest)| {
        let (name, mut left) = str::split_once(tag, ' ').unwrap_or((tag, ""));
        let mut attributes = Vec::new();
        while let Some(end) = left.find(['=', ' ']).or((!left.is_empty()).then_some(left.len())) {
            let name = &left[..end];
            left = left[end..].trim_start();
            let value = left.strip_prefix("=\"").and_then(|rest| rest.split_once('"'));
            left = value.map_or(left, |(_, rest)| rest.trim_start());
            attributes.push((name, unescaped(value.map_or("", |(value, _)| value))));
        }
        Tag { name, attributes, rest }
    };
    starts.map(tag).collect()
}

/// A form on a page, with the values that a browser would send.
struct Form {
    action: String,
    is_post: bool,
    /// Name, label and value of each field that is sent.
    fields: Vec<(String, String, String)>,
}

impl Visitor {
    /// Signs in, and reads the first page.
    #[track_caller]
    pub(crate) fn signed_in(pando: &Pando, name: &str, password: &str) -> Visitor {
        let mut visitor = Visitor { browser: Browser::signed_in(pando, name, password), html: String::new() };
        visitor.open("/");
        visitor
    }

    /// Opens a page, and follows redirects.
    #[track_caller]
    fn open(&mut self, path: &str) {
        let answer = self.browser.get(path);
        self.take(answer, path);
    }

    #[track_caller]
    fn take(&mut self, answer: Answer, path: &str) {
        match answer.headers("location").first() {
            Some(to) => self.open(to),
            None => {
                assert!(answer.status < 500, "{path}: {} {}", answer.status, answer.text());
                self.html = answer.text();
            }
        }
    }

    /// Returns the page as text.
    pub(crate) fn text(&self) -> String {
        plain(self.html.split_once("<main").map_or("", |(_, main)| main))
    }

    #[track_caller]
    pub(crate) fn sees(&self, text: &str) {
        assert!(self.text().contains(text), "no {text:?} in {}", self.text());
    }

    /// Follows the first link with this text.
    #[track_caller]
    pub(crate) fn follow(&mut self, text: &str) {
        let html = std::mem::take(&mut self.html);
        let tags = tags(&html);
        let link = tags.iter().find(|tag| tag.name == "a" && tag.is_named(text));
        let to = link.unwrap_or_else(|| panic!("no link {text:?} in {html}")).get("href").unwrap().to_owned();
        self.open(&to);
    }

    /// Completes the first form that has a button with this text, and presses the button. The fields with these labels
    /// get these values. Other fields keep their values.
    #[track_caller]
    pub(crate) fn send(&mut self, button: &str, values: &[(&str, &str)]) {
        let html = std::mem::take(&mut self.html);
        let forms = html.match_indices("<form").map(|(at, _)| &html[at..]);
        let forms = forms.map(|rest| &rest[..rest.find("</form>").unwrap()]);
        let has_button =
            |form: &&str| tags(form).iter().any(|tag| tag.name == "button" && tag.is_named(button));
        let form =
            forms.into_iter().find(has_button).unwrap_or_else(|| panic!("no button {button:?} in {html}"));
        let mut form = Form::read(form, button);
        for (label, value) in values {
            let field = form.fields.iter_mut().find(|(_, known, _)| known == label);
            field.unwrap_or_else(|| panic!("no field {label:?} in {html}")).2 = (*value).to_owned();
        }
        let pairs = form.fields.iter().map(|(name, _, value)| (name.as_str(), value.as_str()));
        let pairs: Vec<_> = pairs.collect();
        if form.is_post {
            let answer = self.browser.post(&form.action, &pairs);
            self.take(answer, &form.action);
        } else {
            let query: Vec<_> =
                pairs.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
            self.open(&format!("{}?{}", form.action, query.join("&")));
        }
    }
}

impl Form {
    fn read(html: &str, button: &str) -> Form {
        let tags = tags(html);
        let label_of = |field: &Tag<'_>| {
            let is_its = |tag: &&Tag<'_>| tag.name == "label" && tag.get("for") == field.get("id");
            let label = field.get("id").and_then(|_| tags.iter().find(is_its)).map(Tag::text);
            // The label of a required field ends with the word "required".
            let label = label.map(|label| label.trim_end_matches(" required").to_owned());
            label.or(field.get("aria-label").map(str::to_owned)).unwrap_or_default()
        };
        let mut fields = Vec::new();
        for (place, tag) in tags.iter().enumerate() {
            let is_choice = matches!(tag.get("type"), Some("checkbox" | "radio"));
            let value = match tag.name {
                "input" if is_choice && tag.get("checked").is_none() => continue,
                "input" => tag.get("value").unwrap_or_default().to_owned(),
                "textarea" => {
                    let text = &tag.rest[..tag.rest.find("</textarea").unwrap()];
                    unescaped(text.strip_prefix('\n').unwrap_or(text))
                }
                "select" => {
                    let options = tags[place + 1..].iter().take_while(|tag| tag.name == "option");
                    let options: Vec<_> = options.collect();
                    let chosen = options.iter().find(|option| option.get("selected").is_some());
                    let chosen = chosen.or(options.first()).and_then(|option| option.get("value"));
                    chosen.unwrap_or_default().to_owned()
                }
                "button" if tag.is_named(button) => tag.get("value").unwrap_or_default().to_owned(),
                _ => continue,
            };
            let Some(name) = tag.get("name") else { continue };
            fields.push((name.to_owned(), label_of(tag), value));
        }
        let form = &tags[0];
        let action = form.get("action").unwrap().to_owned();
        Form { action, is_post: form.get("method") == Some("post"), fields }
    }
}
