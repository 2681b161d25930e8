//! List of the rules about a right, and of the requesters to whom they apply.

use serde_json::{Value, json};

/// Parses the lines of a list. It contains three groups of rules: those that allow the right at the entry, those that
/// deny the right at the entry, and those that apply only to entries below the entry.
pub(super) fn model(lines: &str) -> Value {
    let mut what = "";
    let mut rules: Vec<Value> = Vec::new();
    let mut notes = Vec::new();
    for line in lines.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields.as_slice() {
            ["list", text] => what = text,
            [kind @ ("allow" | "deny"), place, number, text @ ..] => rules.push(json!({
                "kind": kind,
                "place": place,
                "number": number,
                "text": text.join("\t"),
                "who": [],
            })),
            ["who", kind, dn, denied_by, text @ ..] => {
                let who = rules.last_mut().and_then(|rule| rule["who"].as_array_mut());
                let text = text.join("\t");
                who.into_iter().for_each(|who| {
                    who.push(json!({ "kind": kind, "dn": dn, "denied_by": denied_by, "text": text }));
                });
            }
            ["note", text] => notes.push(*text),
            _ => {}
        }
    }
    let part = |kinds: &[&str], place: &str| {
        let is_in = |rule: &&Value| rule["place"] == place && kinds.iter().any(|kind| rule["kind"] == *kind);
        rules.iter().filter(is_in).cloned().collect::<Vec<_>>()
    };
    json!({
        "what": what,
        "may": part(&["allow"], "here"),
        "may_not": part(&["deny"], "here"),
        "below": part(&["allow", "deny"], "below"),
        "notes": notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_grouped_and_have_the_requesters_that_they_name() {
        let lines = "list\tread mail of \"o=x\"\nallow\there\t1\tall: allow read to anyone, group \"cn=a\tb\"\n\
                     who\tanyone\t\t3\tanyone\nwho\tgroup\tcn=a\t\tgroup \"cn=a\"\n\
                     allow\tbelow\t2\tstaff: allow read\nwho\tself\t\t\tself\n\
                     deny\there\t3\tno: deny read to anyone\nnote\tsomething\nlater\tx\n";
        let list = model(lines);
        assert_eq!(list["what"], "read mail of \"o=x\"");
        let may = &list["may"][0];
        assert_eq!((may["number"].as_str(), may["who"].as_array().unwrap().len()), (Some("1"), 2));
        assert_eq!((&may["who"][0]["denied_by"], &may["who"][1]["dn"]), (&json!("3"), &json!("cn=a")));
        assert!(may["text"].as_str().unwrap().ends_with("\"cn=a\tb\""), "{may}");
        assert_eq!((&list["below"][0]["number"], &list["may_not"][0]["number"]), (&json!("2"), &json!("3")));
        assert_eq!(list["notes"], json!(["something"]));
        assert_eq!(model("x\n")["may"], json!([]));
    }
}
