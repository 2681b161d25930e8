//! Bulk requests.

use serde_json::{Value, json};

use crate::{GROUP, Scim, USER};

fn bulk(operations: &Value, more: &Value) -> Value {
    let mut body =
        json!({ "schemas": ["urn:ietf:params:scim:api:messages:2.0:BulkRequest"], "Operations": operations });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}

fn add_user(name: &str) -> Value {
    let data = json!({ "schemas": [USER], "userName": name });
    json!({ "method": "POST", "path": "/Users", "bulkId": name, "data": data })
}

fn statuses(answer: &Value) -> Vec<&str> {
    answer["Operations"].as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap()).collect()
}

#[test]
fn operations_refer_to_each_other_by_bulk_id() {
    let scim = Scim::start("scim-bulk");
    let members = json!([{ "value": "bulkId:anna" }, { "value": "bulkId:bert" }]);
    let operations = json!([
        // This operation refers to later operations.
        { "method": "POST", "path": "/Groups", "bulkId": "team",
          "data": { "schemas": [GROUP], "displayName": "team", "members": members } },
        add_user("anna"),
        add_user("bert"),
        { "method": "PATCH", "path": "/Users/bulkId:anna", "data": {
            "schemas": [crate::PATCH], "Operations": [{ "op": "add", "path": "title", "value": "CEO" }] } },
        { "method": "DELETE", "path": "/Users/bulkId:bert" },
    ]);
    let answer = scim.ask("POST", "/Bulk", &bulk(&operations, &json!({}))).expect(200, None);
    assert_eq!(statuses(&answer), ["201", "201", "201", "200", "204"], "{answer}");
    let group = scim.found("/Groups", r#"displayName eq "team""#).remove(0);
    assert_eq!(group["members"].as_array().unwrap().len(), 1);
    assert_eq!(scim.found("/Users", r#"title eq "CEO""#).len(), 1);
}

#[test]
fn errors_are_counted_and_circular_references_refused() {
    let scim = Scim::start("scim-bulk-errors");
    let twice = json!([add_user("anna"), add_user("bert"), add_user("cora")]);
    scim.user("anna");
    scim.user("bert");
    let answer = scim.ask("POST", "/Bulk", &bulk(&twice, &json!({ "failOnErrors": 2 }))).expect(200, None);
    assert_eq!(statuses(&answer), ["409", "409"], "{answer}");
    assert_eq!(answer["Operations"][0]["response"]["scimType"], "uniqueness");
    let answer = scim.ask("POST", "/Bulk", &bulk(&twice, &json!({}))).expect(200, None);
    assert_eq!(statuses(&answer), ["409", "409", "201"], "{answer}");

    let group = |name: &str, member: &str| {
        let members = json!([{ "value": format!("bulkId:{member}") }]);
        let data = json!({ "schemas": [GROUP], "displayName": name, "members": members });
        json!({ "method": "POST", "path": "/Groups", "bulkId": name, "data": data })
    };
    let circle = json!([group("a", "b"), group("b", "a"), group("c", "none"), add_user("dora")]);
    let answer = scim.ask("POST", "/Bulk", &bulk(&circle, &json!({}))).expect(200, None);
    assert_eq!(statuses(&answer), ["409", "409", "400", "201"], "{answer}");

    for (operations, more, status) in [
        (json!(vec![add_user("x"); 1001]), json!({}), 413),
        (json!([add_user("x"), add_user("x")]), json!({}), 400),
        (json!([{ "method": "POST", "path": "/Users", "data": {} }]), json!({}), 400),
        (json!([]), json!({ "failOnErrors": -1 }), 400),
        (json!([]), json!({ "failOnErrors": 1.5 }), 400),
        (json!({}), json!({}), 400),
    ] {
        assert_eq!(scim.ask("POST", "/Bulk", &bulk(&operations, &more)).status, status, "{operations}");
    }
    let nested = json!([{ "method": "POST", "path": "/Bulk", "bulkId": "1", "data": {} }]);
    let answer = scim.ask("POST", "/Bulk", &bulk(&nested, &json!({}))).expect(200, None);
    assert_eq!(statuses(&answer), ["400"]);
}
