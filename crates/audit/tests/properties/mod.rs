//! Properties of the readers of a trail that hold for any input. The fuzz target and the replay of its corpus check
//! them.

use audit::{Event, Events, Field, Values, verify};

/// Checks the properties for any octets, read as events and as a segment.
pub(crate) fn audit(bytes: &[u8]) {
    for event in Events::of(bytes) {
        let Ok(event) = event else { break };
        read_all_fields(event);
    }
    if let Some(event) = Event::parse(bytes) {
        read_all_fields(event);
    }
    let folder = std::env::temp_dir().join(format!("pando-audit-property-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder for the segment");
    std::fs::write(folder.join("audit-0000000000000001"), bytes).expect("the segment is written");
    let report = verify(&folder, None, &[]).expect("the folder can be read");
    // No input contains a valid signature by accident. A report without damage therefore needs an anchor or torn bytes.
    assert!(report.anchors > 0 || !report.damage.is_empty() || !report.torn.is_empty());
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
}

fn read_all_fields(event: Event<'_>) {
    for &field in Field::ALL {
        let _ = (event.number(field), event.text(field), event.texts(field).count());
    }
    for values in event.all(Field::Values).filter_map(Values::parse) {
        assert!(values.iter().map(<[u8]>::len).sum::<usize>() <= audit::limits::EVENT_BYTES_MAX);
    }
    assert!(event.number(Field::Kind).is_some());
}
