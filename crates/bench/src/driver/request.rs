//! Requests as templates: encoded once with marks for the key, then written repeatedly with the marks replaced.
//!
//! In BER, the length precedes the content. So a message is written from its end to its beginning: when a header is
//! written, the length of its content is already known. Octets without a placeholder are copied as one block.

use ber::{Reader, Tag};
use ldap::{Control, Controls, ControlsBuf, Message, MessageId, PagedResults, Request, oids};

use super::pattern::{Key, Pattern, Placeholders};
use crate::Seeded;

/// Tag of a message's controls (RFC 4511 section 4.1.1).
pub(crate) const CONTROLS: Tag = Tag::context_constructed(0);

/// A request without its message id.
#[derive(Clone, Debug)]
pub(crate) struct RequestTemplate {
    /// Steps from the end of the message to its beginning.
    steps: Box<[Step]>,
}

#[derive(Clone, Debug)]
enum Step {
    /// Constant octets.
    Literal(Box<[u8]>),
    /// A primitive element whose content is a pattern.
    Value(Tag, Pattern),
    /// The end of a constructed element. Because messages are written backwards, the end precedes the content.
    End,
    /// The beginning of the innermost constructed element whose end was written: the element's header with this tag.
    Begin(Tag),
}

impl RequestTemplate {
    /// Creates a template from a request with marks.
    pub(crate) fn new(request: Request<'_>, placeholders: &Placeholders<'_>) -> RequestTemplate {
        let mut message = Vec::new();
        Message { id: MessageId(1), request, controls: Controls::NONE }.encode(&mut message);
        let mut steps = Vec::new();
        // Skip the message id: the encoded message is a SEQUENCE of the message id and the operation.
        if let Ok(envelope) = Reader::new(&message).element(Tag::SEQUENCE) {
            let mut envelope = Reader::new(envelope);
            if envelope.integer().is_ok() {
                compile(envelope.remaining(), placeholders, &mut steps);
            }
        }
        RequestTemplate { steps: steps.into() }
    }

    /// Prepends the message for a key to `out`. `controls` contains the encoded controls, or is empty. Controls are the
    /// last component of a message.
    pub(crate) fn write(
        &self,
        id: i32,
        key: &impl Key,
        controls: &[u8],
        random: &mut Seeded,
        out: &mut Backward,
    ) {
        let message_end = out.position();
        if !controls.is_empty() {
            out.put(controls);
        }
        let operation_end = out.position();
        for step in &self.steps {
            match step {
                Step::Literal(octets) => out.put(octets),
                Step::Value(tag, pattern) => {
                    let mut text = std::mem::take(&mut out.text);
                    text.clear();
                    pattern.fill(key, random, &mut text);
                    out.put(&text);
                    out.put_header(*tag, text.len());
                    out.text = text;
                }
                Step::End => out.ends.push(out.position()),
                Step::Begin(tag) => {
                    let end = out.ends.pop().unwrap_or(operation_end);
                    out.put_header(*tag, out.position() - end);
                }
            }
        }
        out.put_id(id);
        out.put_header(Tag::SEQUENCE, out.position() - message_end);
    }
}

/// Encodes the controls of a request for a page (RFC 2696).
pub(crate) fn page_controls(size: u32, cookie: &[u8]) -> Vec<u8> {
    let value = PagedResults { size, cookie }.encode();
    let control = Control { oid: oids::PAGED_RESULTS, critical: true, value: Some(&value) };
    let controls = ControlsBuf::from_iter([control]);
    let mut out = Vec::new();
    ber::put_element(&mut out, CONTROLS, controls.as_controls().as_bytes());
    out
}

/// Appends the steps that write a series of elements, the last element first.
fn compile(octets: &[u8], placeholders: &Placeholders<'_>, steps: &mut Vec<Step>) {
    let mut elements = Vec::new();
    let mut reader = Reader::new(octets);
    while let Ok((tag, content)) = Reader::any(&mut reader.clone()) {
        let Ok((_, whole)) = reader.any_whole() else { break };
        elements.push((tag, content, whole));
    }
    let mut literal: Vec<u8> = Vec::new();
    for (tag, content, whole) in elements.into_iter().rev() {
        if !placeholders.are_in(content) {
            literal.splice(..0, whole.iter().copied());
            continue;
        }
        if !literal.is_empty() {
            steps.push(Step::Literal(std::mem::take(&mut literal).into()));
        }
        if tag.is_constructed() {
            steps.push(Step::End);
            compile(content, placeholders, steps);
            steps.push(Step::Begin(tag));
        } else {
            steps.push(Step::Value(tag, placeholders.split(content)));
        }
    }
    if !literal.is_empty() {
        steps.push(Step::Literal(literal.into()));
    }
}

/// A buffer that grows at its beginning.
#[derive(Debug, Default)]
pub(crate) struct Backward {
    octets: Vec<u8>,
    /// Position of the first written octet.
    start: usize,
    /// Ends of the elements whose headers are not written yet, as distances from the end of the message.
    ends: Vec<usize>,
    /// Buffer for a value of a pattern.
    text: Vec<u8>,
}

impl Backward {
    /// Returns the number of octets written.
    fn position(&self) -> usize {
        self.octets.len() - self.start
    }

    pub(crate) fn clear(&mut self) {
        self.start = self.octets.len();
    }

    pub(crate) fn written(&self) -> &[u8] {
        &self.octets[self.start..]
    }

    fn put(&mut self, octets: &[u8]) {
        if self.start < octets.len() {
            let more = (self.octets.len() + octets.len()).max(256);
            self.octets.splice(..0, std::iter::repeat_n(0, more));
            self.start += more;
        }
        let end = self.start;
        self.start -= octets.len();
        self.octets[self.start..end].copy_from_slice(octets);
    }

    fn put_header(&mut self, tag: Tag, content_len: usize) {
        if content_len < 0x80 {
            return self.put(&[tag.0, content_len as u8]);
        }
        let len = (content_len as u64).to_be_bytes();
        let zeros = len.iter().take_while(|octet| **octet == 0).count();
        self.put(&len[zeros..]);
        self.put(&[tag.0, 0x80 | (len.len() - zeros) as u8]);
    }

    fn put_id(&mut self, id: i32) {
        let octets = id.to_be_bytes();
        let len = ber::integer_len(i64::from(id));
        self.put(&octets[octets.len() - len..]);
        self.put_header(Tag::INTEGER, len);
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::ColumnNames;
    use super::super::pattern::tests::Fixed;
    use super::*;
    use ldap::{
        AddRequest, AttributesBuf, ChangeOperation, ChangesBuf, DecodeLimits, DeleteRequest, FilterBuf,
        ModifyRequest, Scope, SearchRequest, SelectionBuf,
    };

    fn check(marked: Request<'_>, placeholders: &Placeholders<'_>, key: &Fixed, expected: Request<'_>) {
        let template = RequestTemplate::new(marked, placeholders);
        let mut out = Backward::default();
        for id in [1, 127, 128, 40_000, i32::MAX] {
            out.clear();
            template.write(id, key, &[], &mut Seeded::new(1), &mut out);
            let mut encoded = Vec::new();
            let message = Message { id: MessageId(id), request: expected, controls: Controls::NONE };
            message.encode(&mut encoded);
            assert_eq!(out.written(), encoded, "{expected:?}");
            assert_eq!(Message::decode(out.written(), &DecodeLimits::AUTHENTICATED), Ok(message));
            out.clear();
            template.write(id, key, &page_controls(100, b"cookie"), &mut Seeded::new(1), &mut out);
            let paged = Message::decode(out.written(), &DecodeLimits::AUTHENTICATED).unwrap();
            assert_eq!((paged.id, paged.request), (message.id, expected));
            let control = paged.controls.find(oids::PAGED_RESULTS).unwrap();
            let page = PagedResults { size: 100, cookie: b"cookie" };
            assert_eq!(control.value.and_then(PagedResults::decode), Some(page));
        }
    }

    #[test]
    fn a_request_template_writes_the_octets_of_the_encoder() {
        let mut columns = ColumnNames::default();
        let mut placeholders = Placeholders::new(&mut columns);
        let long = "x".repeat(300);
        let long: &'static str = long.leak();
        let key = Fixed(17, long);
        let search =
            |base, filter: &FilterBuf, selection: &SelectionBuf, out: &mut dyn FnMut(Request<'_>)| {
                out(Request::Search(SearchRequest::new(
                    base,
                    Scope::WholeSubtree,
                    filter.as_filter(),
                    selection.as_selection(),
                )));
            };
        let selection: SelectionBuf = ["1.1"].into_iter().collect();
        let marked_filter =
            FilterBuf::parse(&placeholders.mark("(&(uid=user.{n})(|(cn={cn}*)(!(sn={n}))))").unwrap())
                .unwrap();
        let filter = FilterBuf::parse(&format!("(&(uid=user.17)(|(cn={long}*)(!(sn=17))))")).unwrap();
        search("dc=com", &marked_filter, &selection, &mut |marked| {
            search("dc=com", &filter, &selection, &mut |expected| {
                check(marked, &placeholders, &key, expected)
            });
        });

        let entry = placeholders.mark("uid={n},dc=com").unwrap();
        check(
            Request::Delete(DeleteRequest { entry: &entry }),
            &placeholders,
            &key,
            Request::Delete(DeleteRequest { entry: "uid=17,dc=com" }),
        );
        let (mut marked, mut expected) = (AttributesBuf::new(), AttributesBuf::new());
        marked.push("objectClass", ["top", "person"]);
        marked.push("cn", [placeholders.mark("{cn} {n}").unwrap(), "b".to_owned()]);
        expected.push("objectClass", ["top", "person"]);
        expected.push("cn", [format!("{long} 17"), "b".to_owned()]);
        check(
            Request::Add(AddRequest { entry: &entry, attributes: marked.as_attributes() }),
            &placeholders,
            &key,
            Request::Add(AddRequest { entry: "uid=17,dc=com", attributes: expected.as_attributes() }),
        );
        let (mut marked, mut expected) = (ChangesBuf::new(), ChangesBuf::new());
        marked.push(ChangeOperation::Add, "member", [&entry]);
        expected.push(ChangeOperation::Add, "member", ["uid=17,dc=com"]);
        check(
            Request::Modify(ModifyRequest { object: "cn=g", changes: marked.as_changes() }),
            &placeholders,
            &key,
            Request::Modify(ModifyRequest { object: "cn=g", changes: expected.as_changes() }),
        );
    }
}
