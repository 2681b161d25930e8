//! Check of floors, which are layers of modules: a module may use only modules on floors below its own floor. Two
//! siblings must not use each other, at any depth.
//!
//! A file and its own children may use each other. All other uses must be in one direction, so the uses among the
//! children of a module form no cycle. A child is its file with everything below it. For a crate with existing cycles,
//! `circle_max` in `floors.toml` is the maximum number of modules in one cycle. The `floors` in `floors.toml` order the
//! children of a crate's root, the lowest first. The members of a cycle share a floor.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Deserialize;

use crate::modules::{ModulePath, Modules};

/// The part of `floors.toml` for one crate.
#[derive(Debug, Deserialize)]
struct Crate {
    /// Modules below the root, lowest floor first.
    floors: Vec<Floor>,
    /// Maximum number of modules in one cycle; 1 if cycles are forbidden.
    #[serde(default = "no_circle")]
    circle_max: usize,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Floor {
    Module(String),
    Circle(Vec<String>),
}

fn no_circle() -> usize {
    1
}

impl Floor {
    fn has(&self, module: &str) -> bool {
        match self {
            Floor::Module(name) => name == module,
            Floor::Circle(names) => names.iter().any(|name| name == module),
        }
    }
}

/// A use of one module by another.
struct Edge {
    from: ModulePath,
    to: ModulePath,
    /// Position of the use, for messages: `file:line uses a::b`.
    place: String,
}

/// Returns the uses that `floors.toml` forbids.
pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let file = root.join("crates/house/floors.toml");
    let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let crates: BTreeMap<String, Crate> = toml::from_str(&text).map_err(|error| error.to_string())?;
    let mut offences = without_floors(root, &crates)?;
    for (name, floors) in &crates {
        let modules = Modules::read(&root.join("crates").join(name).join("src"))?;
        let edges = edges(&modules, root);
        let mut circle_max = 1;
        offences.extend(check_order(name, &floors.floors, &modules, &edges));
        for (path, module) in &modules.0 {
            if module.children.len() > 1 {
                let (circles, largest) = check_circles(name, path, &edges, floors.circle_max);
                offences.extend(circles);
                circle_max = circle_max.max(largest);
            }
        }
        if circle_max < floors.circle_max {
            offences.push(format!("{name}: the largest circle has {circle_max} modules: lower circle_max"));
        }
    }
    Ok(offences)
}

/// Returns the crates that are missing in `floors.toml`.
fn without_floors(root: &Path, crates: &BTreeMap<String, Crate>) -> Result<Vec<String>, String> {
    let mut offences = Vec::new();
    let folder = root.join("crates");
    for entry in fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let entry = entry.map_err(|error| error.to_string())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().join("Cargo.toml").exists() && !crates.contains_key(&name) {
            offences.push(format!("{name}: the crate has no floors in floors.toml"));
        }
    }
    offences.sort();
    Ok(offences)
}

/// Returns every use between files of one crate.
pub(crate) fn list_uses(root: &Path, name: &str) -> Result<Vec<String>, String> {
    let modules = Modules::read(&root.join("crates").join(name).join("src"))?;
    Ok(edges(&modules, root)
        .into_iter()
        .map(|edge| format!("{} -> {}  {}", edge.from.join("::"), edge.to.join("::"), edge.place))
        .collect())
}

fn edges(modules: &Modules, root: &Path) -> Vec<Edge> {
    let mut edges = Vec::new();
    for (path, module) in &modules.0 {
        let file = module.file.strip_prefix(root).unwrap_or(&module.file).display();
        for used in &module.uses {
            if let Some(to) = modules.resolve(path, &used.name)
                && to != *path
            {
                let place = format!("{file}:{} uses {}", used.line, used.name.join("::"));
                edges.push(Edge { from: path.clone(), to, place });
            }
        }
    }
    edges
}

fn check_order(name: &str, floors: &[Floor], modules: &Modules, edges: &[Edge]) -> Vec<String> {
    let mut offences = Vec::new();
    let Some(top) = modules.0.get(&Vec::new()) else { return offences };
    let position = |module: &str| floors.iter().position(|floor| floor.has(module));
    for child in &top.children {
        if position(child).is_none() {
            offences.push(format!("{name}: the module {child} has no floor in floors.toml"));
        }
    }
    for edge in edges {
        let (Some(from), Some(to)) = (edge.from.first(), edge.to.first()) else { continue };
        if position(to) > position(from) {
            offences.push(format!("{name}: {from} uses {to}, which stands above it: {}", edge.place));
        }
    }
    offences
}

/// Returns the cycles among the children of `parent` with more than `circle_max` members, and the size of the largest.
fn check_circles(name: &str, parent: &[String], edges: &[Edge], circle_max: usize) -> (Vec<String>, usize) {
    let mut used: BTreeMap<&str, BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for edge in edges {
        let below = |path: &'_ ModulePath| path.len() > parent.len() && path.starts_with(parent);
        if !below(&edge.from) || !below(&edge.to) {
            continue;
        }
        let (from, to) = (edge.from[parent.len()].as_str(), edge.to[parent.len()].as_str());
        if from != to {
            used.entry(from).or_default().entry(to).or_default().push(&edge.place);
        }
    }
    let mut offences = Vec::new();
    let circles = circles(&used);
    let largest = circles.iter().map(BTreeSet::len).max().unwrap_or(1);
    for circle in circles.iter().filter(|circle| circle.len() > circle_max) {
        let place =
            if parent.is_empty() { name.to_owned() } else { format!("{name}::{}", parent.join("::")) };
        let members: Vec<&str> = circle.iter().copied().collect();
        offences.push(format!("{place}: these use each other in a circle: {}", members.join(", ")));
        for from in circle {
            for (to, places) in used.get(from).into_iter().flatten() {
                if circle.contains(to) {
                    offences.push(format!("    {from} -> {to}, {} times: {}", places.len(), places[0]));
                }
            }
        }
    }
    (offences, largest)
}

/// Returns the cycles: sets of modules in which each module reaches all others. A crate has tens of modules, so a
/// simple traversal is fast enough.
fn circles<'a>(used: &BTreeMap<&'a str, BTreeMap<&'a str, Vec<&str>>>) -> Vec<BTreeSet<&'a str>> {
    let reaches: BTreeMap<&str, BTreeSet<&str>> =
        used.keys().map(|from| (*from, reachable(used, from))).collect();
    let mut circles: Vec<BTreeSet<&str>> = Vec::new();
    for (from, seen) in &reaches {
        let circle: BTreeSet<&str> = seen
            .iter()
            .copied()
            .filter(|to| reaches.get(to).is_some_and(|back| back.contains(from)))
            .collect();
        if circle.len() > 1 && !circles.contains(&circle) {
            circles.push(circle);
        }
    }
    circles
}

fn reachable<'a>(used: &BTreeMap<&'a str, BTreeMap<&'a str, Vec<&str>>>, from: &'a str) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(module) = open.pop() {
        for next in used.get(module).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(*next) {
                open.push(next);
            }
        }
    }
    seen
}
