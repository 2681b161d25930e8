//! Compares every shipped definition with the text that specifies it.
//!
//! `testdata/rfc_definitions.tsv` has the definitions of RFCs and drafts, one per line. `tools/rfc_schema.py` extracts
//! them from the texts, and checks that the table is current. The lists here contain the intended differences, and the
//! definitions without a text, each with its reason. A listed reason that no longer applies fails the test too.

mod meant;

use std::collections::{BTreeMap, BTreeSet};

use schema::{AttributeType, AttributeUsage, ClassKind, MatchingRule, ObjectClassDef, Schema};

use meant::{DIFFERENCES, NOT_SHIPPED, WITHOUT_TEXT};

const TABLE: &str = include_str!("../../testdata/rfc_definitions.tsv");

/// A line of the file of definitions.
struct Row<'t> {
    kind: &'t str,
    source: &'t str,
    oid: &'t str,
    names: Vec<&'t str>,
    fields: BTreeMap<&'t str, &'t str>,
}

fn rows() -> Vec<Row<'static>> {
    let mut lines = TABLE.lines();
    let columns: Vec<&str> = lines.next().unwrap_or_default().split('\t').collect();
    let row = |line: &'static str| {
        let fields: BTreeMap<_, _> = columns.iter().copied().zip(line.split('\t')).collect();
        assert_eq!(fields.len(), columns.len(), "{line}");
        let names = fields["names"].split_whitespace().collect();
        Row { kind: fields["kind"], source: fields["source"], oid: fields["oid"], names, fields }
    };
    lines.map(row).collect()
}

/// Differences between the texts and the shipped definitions, each as a sentence.
struct Comparison {
    schema: std::sync::Arc<Schema>,
    found: Vec<String>,
}

impl Comparison {
    fn same(&mut self, row: &Row<'_>, what: &str, text: impl ToString, shipped: impl ToString) {
        let (text, shipped) = (text.to_string(), shipped.to_string());
        if text != shipped {
            let name = row.names.first().copied().unwrap_or(row.oid);
            self.found.push(format!("{} {name} {what}: {text:?} is {shipped:?}", row.source));
        }
    }

    /// Checks that every name in the text is one of the shipped names, in the same case.
    fn names(&mut self, row: &Row<'_>, shipped: &[String]) {
        let lacking: Vec<_> =
            row.names.iter().filter(|name| !shipped.iter().any(|known| known == *name)).collect();
        let lacking = lacking.into_iter().copied().collect::<Vec<_>>().join(" ");
        self.same(row, "names", lacking, "");
    }

    fn attribute_type(&mut self, row: &Row<'_>, shipped: &AttributeType) {
        let schema = self.schema.clone();
        let sup = schema.attribute_type(row.fields["sup"]);
        self.names(row, &shipped.names);
        let name = |known: Option<&AttributeType>| known.map_or("", AttributeType::name).to_owned();
        self.same(row, "sup", name(sup), name(shipped.sup.map(|id| schema.type_by_id(id))));
        let rule = |name: &str| {
            let found = MatchingRule::find(name);
            assert!(found.is_some() || name.is_empty(), "{name} in {}", row.oid);
            found
        };
        let shown = |rule: Option<MatchingRule>| rule.map_or("", MatchingRule::name);
        let inherited: [Option<MatchingRule>; 3] =
            sup.map_or([None; 3], |sup| [sup.equality, sup.ordering, sup.substring]);
        let own = [shipped.equality, shipped.ordering, shipped.substring];
        for ((term, inherited), own) in ["equality", "ordering", "substr"].into_iter().zip(inherited).zip(own)
        {
            self.same(row, term, shown(rule(row.fields[term]).or(inherited)), shown(own));
        }
        let syntax = |known: &AttributeType| {
            let oid = &schema.syntax_by_id(known.syntax).oid;
            known.length_bound.map_or(oid.clone(), |bound| format!("{oid}{{{bound}}}"))
        };
        let said = match row.fields["syntax"] {
            "" => sup.map(syntax).unwrap_or_default(),
            said => said.to_owned(),
        };
        self.same(row, "syntax", said, syntax(shipped));
        let mut flags = Vec::new();
        flags.extend(shipped.obsolete.then_some("OBSOLETE"));
        flags.extend(shipped.single_value.then_some("SINGLE-VALUE"));
        flags.extend(shipped.collective.then_some("COLLECTIVE"));
        flags.extend(shipped.no_user_modification.then_some("NO-USER-MODIFICATION"));
        self.same(row, "flags", row.fields["flags"], flags.join(" "));
        let usage = match shipped.usage {
            AttributeUsage::UserApplications => "",
            AttributeUsage::DirectoryOperation => "directoryOperation",
            AttributeUsage::DistributedOperation => "distributedOperation",
            AttributeUsage::DsaOperation => "dSAOperation",
        };
        self.same(row, "usage", row.fields["usage"].replace("userApplications", ""), usage);
    }

    fn object_class(&mut self, row: &Row<'_>, shipped: &ObjectClassDef) {
        let schema = self.schema.clone();
        self.names(row, &shipped.names);
        let sup =
            |name: &str| schema.object_class(name).map_or(name.to_owned(), |class| class.name().to_owned());
        let said: Vec<_> = row.fields["sup"].split_whitespace().map(sup).collect();
        let own: Vec<_> =
            shipped.superclasses.iter().map(|&id| schema.class_by_id(id).name().to_owned()).collect();
        self.same(row, "sup", said.join(" "), own.join(" "));
        let kind = match shipped.kind {
            ClassKind::Abstract => "ABSTRACT",
            ClassKind::Structural => "STRUCTURAL",
            ClassKind::Auxiliary => "AUXILIARY",
        };
        self.same(row, "kind", row.fields["flags"], kind);
        for (term, own) in [("must", &shipped.must), ("may", &shipped.may)] {
            let known = |name: &str| {
                schema.attribute_type(name).map_or(name.to_owned(), |known| known.name().to_owned())
            };
            let said: BTreeSet<String> = row.fields[term].split_whitespace().map(known).collect();
            let own: BTreeSet<String> =
                own.iter().map(|&id| schema.type_by_id(id).name().to_owned()).collect();
            let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
                one.difference(other).cloned().collect::<Vec<_>>().join(" ")
            };
            self.same(row, term, only(&said, &own), only(&own, &said));
        }
    }
}

#[test]
fn shipped_definitions_match_their_texts() {
    let schema = Schema::shipped();
    let mut comparison = Comparison { schema: schema.clone(), found: Vec::new() };
    let (mut specified, mut not_shipped) = (BTreeSet::new(), BTreeSet::new());
    for row in rows() {
        let mut is_shipped = true;
        match row.kind {
            "type" => match schema.attribute_type(row.oid) {
                Some(shipped) => comparison.attribute_type(&row, shipped),
                None => is_shipped = false,
            },
            "class" => match schema.object_class(row.oid) {
                Some(shipped) => comparison.object_class(&row, shipped),
                None => is_shipped = false,
            },
            "rule" => match MatchingRule::find(row.oid) {
                Some(shipped) => {
                    comparison.names(&row, &[shipped.name().to_owned()]);
                    comparison.same(&row, "syntax", row.fields["syntax"], shipped.assertion_syntax());
                }
                None => is_shipped = false,
            },
            "syntax" => is_shipped = schema.syntaxes().iter().any(|known| known.oid == row.oid),
            other => panic!("{other}"),
        }
        if is_shipped {
            specified.insert(row.oid);
        } else {
            not_shipped.insert(row.names.first().copied().unwrap_or(row.oid));
        }
    }
    assert!(specified.len() > 330, "{} definitions are specified", specified.len());

    let meant: BTreeSet<&str> = DIFFERENCES.iter().map(|(difference, _)| *difference).collect();
    let found: BTreeSet<&str> = comparison.found.iter().map(String::as_str).collect();
    let mut problems = Vec::new();
    problems.extend(found.difference(&meant).map(|line| format!("{line}, which is not intended")));
    problems.extend(meant.difference(&found).map(|line| format!("{line} is no difference")));

    let listed: BTreeSet<&str> = NOT_SHIPPED.iter().flat_map(|(names, _)| names.split_whitespace()).collect();
    problems.extend(not_shipped.difference(&listed).map(|name| format!("{name} is not shipped")));
    problems.extend(listed.difference(&not_shipped).map(|name| format!("{name} is shipped or in no text")));

    let types = schema.attribute_types().iter().map(|known| (known.oid.as_str(), known.name().to_owned()));
    let classes = schema.object_classes().iter().map(|known| (known.oid.as_str(), known.name().to_owned()));
    let rules = MatchingRule::all().map(|rule| (rule.oid(), rule.name().to_owned()));
    let without_text: BTreeSet<String> = types
        .chain(classes)
        .chain(rules)
        .filter(|(oid, _)| !specified.contains(oid) && !oid.starts_with("1.3.6.1.4.1.99999."))
        .map(|(_, name)| name)
        .collect();
    let listed: BTreeSet<String> =
        WITHOUT_TEXT.iter().flat_map(|(names, _)| names.split_whitespace().map(str::to_owned)).collect();
    problems.extend(without_text.difference(&listed).map(|name| format!("{name} is in no text")));
    problems
        .extend(listed.difference(&without_text).map(|name| format!("{name} has a text or is not shipped")));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
