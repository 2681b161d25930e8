//! The entries of a document, their order and their locations. They are computed without generating any entry.
//!
//! Branches and templates become nodes of a small graph. Counts are fixed, so the number of entries of one node below
//! an entry of another node is fixed too. A few divisions therefore find the n-th entry of the document, or the n-th
//! entry of one template. Thus threads can work on any part of the document, and groups can name members without
//! storing them.

use std::collections::{BTreeMap, HashMap};

use super::error::{TemplateError, TemplateFault, TemplateLine};
use super::parse::{Block, BlockKind, Line};
use super::tag::{Attribute, Part, Target};

/// Checked and resolved form of a template.
pub(super) struct Plan {
    pub(super) nodes: Vec<Node>,
    /// The nodes that are branches, in the order of the document.
    branches: Vec<usize>,
    /// For each node, the number of entries of every node in the subtree of one entry of the node. The last column
    /// counts the entries of all nodes.
    totals: Vec<Vec<u64>>,
}

/// A branch, or a template that is used.
#[derive(Default)]
pub(super) struct Node {
    pub(super) name: String,
    place: TemplateLine,
    /// DN of a branch; `None` for a template.
    pub(super) fixed_dn: Option<String>,
    /// Indexes of the lines with the values of the naming attributes.
    pub(super) naming: Vec<usize>,
    pub(super) lines: Vec<Line>,
    /// The order in which lines are evaluated. The RDN depends only on the first `naming_len` of these lines.
    pub(super) order: Vec<usize>,
    pub(super) naming_len: usize,
    children: Vec<Child>,
}

struct Child {
    node: usize,
    count: u64,
    /// Number of entries of `node` that are below the same superior and precede the entries of this child.
    before: u64,
}

/// An entry: its node and its numbers, which all count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) node: usize,
    /// Number in the document.
    pub(super) index: u64,
    /// Number among the entries of the node.
    pub(super) ordinal: u64,
    /// Number among the entries of the node below the same parent.
    pub(super) in_parent: u64,
}

/// Location of an entry. The value is reused from one lookup to the next.
#[derive(Default)]
pub(super) struct Location {
    /// Path from the branch to the entry itself.
    pub(super) path: Vec<Step>,
    /// Number of entries of each node that precede the entry in the document. The last column counts entries of all
    /// nodes.
    pub(super) before: Vec<u64>,
    /// Number of entries of the same node, without subordinates, that directly follow the entry.
    siblings_left: u64,
}

impl Location {
    /// Moves to the next entry without a lookup, if that entry is a sibling of the same node. Afterwards `before` is
    /// out of date.
    pub(super) fn step(&mut self) -> bool {
        let Some(last) = self.path.last_mut().filter(|_| self.siblings_left > 0) else { return false };
        last.index += 1;
        last.ordinal += 1;
        last.in_parent += 1;
        self.siblings_left -= 1;
        true
    }
}

impl Plan {
    /// Compiles the blocks.
    pub(super) fn new(blocks: Vec<Block>, whole: &TemplateLine) -> Result<Plan, TemplateError> {
        let mut compiler = Compiler { templates: BTreeMap::new(), nodes: HashMap::new(), plan: Vec::new() };
        let mut branches = Vec::new();
        for block in blocks {
            match &block.kind {
                BlockKind::Branch(_) => branches.push(block),
                BlockKind::Template(name) => {
                    let key = name.to_ascii_lowercase();
                    if compiler.templates.contains_key(&key) {
                        return Err(block.place.fault(TemplateFault::Duplicate(name.clone())));
                    }
                    compiler.templates.insert(key, block);
                }
            }
        }
        if branches.is_empty() {
            return Err(whole.fault(TemplateFault::NoBranch));
        }
        let branches = branches.iter().map(|block| compiler.branch(block)).collect::<Result<Vec<_>, _>>()?;
        compiler.check_unused()?;
        let Compiler { nodes: names, plan: nodes, .. } = compiler;
        let mut plan = Plan { totals: totals(&nodes, whole)?, nodes, branches };
        plan.resolve_targets(&names)?;
        Ok(plan)
    }

    /// Returns the number of entries of a node in the whole document.
    pub(super) fn count(&self, node: usize) -> u64 {
        self.branches.iter().map(|branch| self.totals[*branch][node]).sum()
    }

    /// Returns the number of entries of the document.
    pub(super) fn entry_count(&self) -> u64 {
        self.count(self.all())
    }

    /// Returns the column that counts entries of all nodes.
    pub(super) fn all(&self) -> usize {
        self.nodes.len()
    }

    /// Finds the entry with the number `rank` among the entries that `column` counts. The column is the index of a
    /// node, or [`Self::all`]. The entry must exist.
    pub(super) fn locate(&self, column: usize, mut rank: u64, location: &mut Location) {
        let Location { path, before, siblings_left } = location;
        path.clear();
        before.clear();
        before.resize(self.nodes.len() + 1, 0);
        *siblings_left = 0;
        let skip = |before: &mut [u64], node: usize, count: u64| {
            for (before, total) in before.iter_mut().zip(&self.totals[node]) {
                *before += total * count;
            }
        };
        let mut here = None;
        for &branch in &self.branches {
            let size = self.totals[branch][column];
            if rank < size {
                here = Some((branch, 0));
                break;
            }
            rank -= size;
            skip(before, branch, 1);
        }
        let all = self.all();
        while let Some((node, in_parent)) = here.take() {
            path.push(Step { node, index: before[all], ordinal: before[node], in_parent });
            let counts_itself = u64::from(column == all || column == node);
            if rank < counts_itself {
                return;
            }
            rank -= counts_itself;
            before[all] += 1;
            before[node] += 1;
            for child in &self.nodes[node].children {
                let size = self.totals[child.node][column];
                if rank < size * child.count {
                    let number = rank / size;
                    rank %= size;
                    skip(before, child.node, number);
                    let is_leaf = self.nodes[child.node].children.is_empty();
                    *siblings_left = if is_leaf { child.count - number - 1 } else { 0 };
                    here = Some((child.node, child.before + number));
                    break;
                }
                rank -= size * child.count;
                skip(before, child.node, child.count);
            }
        }
    }

    /// Returns the members of one of the groups of a node, as a range of the ordinals of the entries of the node
    /// `target`. Each of these entries is a member of exactly one group.
    pub(super) fn members(&self, group: Step, target: usize) -> std::ops::Range<u64> {
        let (members, groups) = (u128::from(self.count(target)), u128::from(self.count(group.node)).max(1));
        let start = |ordinal: u64| (u128::from(ordinal) * members / groups) as u64;
        start(group.ordinal)..start(group.ordinal + 1)
    }

    fn resolve_targets(&mut self, names: &HashMap<String, usize>) -> Result<(), TemplateError> {
        for at in 0..self.nodes.len() {
            let mut lines = std::mem::take(&mut self.nodes[at].lines);
            for line in &mut lines {
                let is_alone = line.parts.len() == 1;
                let place = &line.place;
                for part in &mut line.parts {
                    let (Part::DnOf(target) | Part::Members(target)) = part else { continue };
                    let unknown = || place.fault(TemplateFault::UnknownTemplate(target.template.clone()));
                    let node = *names.get(&target.template.to_ascii_lowercase()).ok_or_else(unknown)?;
                    *target = Target { template: target.template.clone(), node };
                    if let Part::Members(_) = part {
                        let (members, groups) = (self.count(node), self.count(at));
                        if !is_alone {
                            return Err(place.fault(TemplateFault::Misplaced));
                        }
                        if members < groups {
                            let template = self.nodes[node].name.clone();
                            return Err(place.fault(TemplateFault::TooFewMembers {
                                template,
                                members,
                                groups,
                            }));
                        }
                    }
                }
            }
            self.nodes[at].lines = lines;
        }
        Ok(())
    }
}

/// Compiler of blocks into nodes. A template that is used below several superiors becomes a single node.
struct Compiler {
    templates: BTreeMap<String, Block>,
    /// Nodes of templates, by name in lower case. A template that is being compiled has no node yet.
    nodes: HashMap<String, usize>,
    plan: Vec<Node>,
}

impl Compiler {
    fn branch(&mut self, block: &Block) -> Result<usize, TemplateError> {
        let BlockKind::Branch(dn) = &block.kind else { unreachable!("only branches are given") };
        let lines = branch_lines(dn, block)?;
        let children = self.children(block, &mut Vec::new())?;
        let node = Node {
            name: dn.clone(),
            place: block.place.clone(),
            fixed_dn: Some(dn.clone()),
            lines,
            children,
            ..Node::default()
        };
        self.add(node)
    }

    fn template(
        &mut self,
        name: &str,
        place: &TemplateLine,
        above: &mut Vec<String>,
    ) -> Result<usize, TemplateError> {
        let key = name.to_ascii_lowercase();
        if above.contains(&key) {
            return Err(place.fault(TemplateFault::Recursive(name.to_owned())));
        }
        if let Some(node) = self.nodes.get(&key) {
            return Ok(*node);
        }
        above.push(key.clone());
        let block = self.extended(name, place, &mut Vec::new())?;
        let children = self.children(&block, above)?;
        above.pop();
        let mut naming = Vec::new();
        for attribute in &block.naming {
            let line = block.lines.iter().position(|line| line.description().eq_ignore_ascii_case(attribute));
            let line =
                line.ok_or_else(|| block.place.fault(TemplateFault::UnknownAttribute(attribute.clone())))?;
            naming.push(line);
        }
        if naming.is_empty() {
            return Err(block.place.fault(TemplateFault::NoRdn(name.to_owned())));
        }
        let node = Node {
            name: name.to_owned(),
            place: block.place.clone(),
            naming,
            lines: block.lines,
            children,
            ..Node::default()
        };
        let node = self.add(node)?;
        self.nodes.insert(key, node);
        Ok(node)
    }

    fn add(&mut self, mut node: Node) -> Result<usize, TemplateError> {
        resolve_attributes(&mut node)?;
        order_lines(&mut node)?;
        self.plan.push(node);
        Ok(self.plan.len() - 1)
    }

    fn children(&mut self, block: &Block, above: &mut Vec<String>) -> Result<Vec<Child>, TemplateError> {
        let mut children: Vec<Child> = Vec::new();
        for subordinate in &block.subordinates {
            let node = self.template(&subordinate.template, &subordinate.place, above)?;
            let before = children.iter().filter(|child| child.node == node).map(|child| child.count).sum();
            children.push(Child { node, count: subordinate.count, before });
        }
        Ok(children)
    }

    /// Returns a block with all its lines. The lines of templates that it extends come before its own lines.
    fn extended(
        &self,
        name: &str,
        place: &TemplateLine,
        seen: &mut Vec<String>,
    ) -> Result<Block, TemplateError> {
        let key = name.to_ascii_lowercase();
        if seen.contains(&key) {
            return Err(place.fault(TemplateFault::Recursive(name.to_owned())));
        }
        let unknown = || place.fault(TemplateFault::UnknownTemplate(name.to_owned()));
        let own = self.templates.get(&key).ok_or_else(unknown)?;
        seen.push(key);
        let mut whole = Block::new(BlockKind::Template(name.to_owned()), own.place.clone());
        for (base, place) in &own.extends {
            let base = self.extended(base, place, seen)?;
            whole.naming = base.naming;
            whole.lines.extend(base.lines);
            whole.subordinates.extend(base.subordinates);
        }
        seen.pop();
        if !own.naming.is_empty() {
            whole.naming.clone_from(&own.naming);
        }
        whole.lines.extend(own.lines.iter().cloned());
        whole.subordinates.extend(own.subordinates.iter().cloned());
        Ok(whole)
    }

    /// Checks the templates that each template extends, so that unknown names and recursion are also reported in
    /// templates that are not used.
    fn check_unused(&self) -> Result<(), TemplateError> {
        for block in self.templates.values() {
            for (base, place) in &block.extends {
                self.extended(base, place, &mut Vec::new())?;
            }
        }
        Ok(())
    }
}

/// Returns the lines of a branch. Adds the naming attributes and an object class if they are missing.
fn branch_lines(dn: &str, block: &Block) -> Result<Vec<Line>, TemplateError> {
    let bad = || block.place.fault(TemplateFault::BranchName(dn.to_owned()));
    let parsed = ldap::Dn::parse(dn).map_err(|_| bad())?;
    let rdn = parsed.rdn().ok_or_else(bad)?;
    let has = |name: &str| block.lines.iter().any(|line| line.description().eq_ignore_ascii_case(name));
    let line = |name: &str, value: &[u8]| {
        Line::new(name.to_owned(), false, vec![Part::Text(value.to_vec())], block.place.clone())
    };
    let mut lines = Vec::new();
    if !has("objectClass") {
        let first = rdn.avas.first().map_or("", |ava| ava.attribute).to_ascii_lowercase();
        let class = match first.as_str() {
            "dc" | "domaincomponent" => "domain",
            "o" | "organizationname" => "organization",
            "ou" | "organizationalunitname" => "organizationalUnit",
            "c" | "countryname" => "country",
            "l" | "localityname" | "st" | "stateorprovincename" => "locality",
            _ => "extensibleObject",
        };
        lines.extend([line("objectClass", b"top"), line("objectClass", class.as_bytes())]);
    }
    lines
        .extend(rdn.avas.iter().filter(|ava| !has(ava.attribute)).map(|ava| line(ava.attribute, &ava.value)));
    lines.extend(block.lines.iter().cloned());
    Ok(lines)
}

/// Finds the lines to which the names of attributes refer. The lines above the reference take precedence over the lines
/// below it.
fn resolve_attributes(node: &mut Node) -> Result<(), TemplateError> {
    let names: Vec<String> = node.lines.iter().map(|line| line.description().to_ascii_lowercase()).collect();
    for (at, line) in node.lines.iter_mut().enumerate() {
        for part in &mut line.parts {
            let (Part::Copy { attribute, .. } | Part::Condition { attribute, .. }) = part else { continue };
            let Attribute { name, lines } = attribute;
            let wanted = name.to_ascii_lowercase();
            let among = |range: std::ops::Range<usize>| {
                range.filter(|index| names[*index] == wanted).collect::<Vec<_>>()
            };
            *lines = among(0..at);
            if lines.is_empty() {
                *lines = among(at + 1..names.len());
            }
            if lines.is_empty() {
                return Err(line.place.fault(TemplateFault::UnknownAttribute(name.clone())));
            }
        }
    }
    Ok(())
}

/// Computes the order in which lines are evaluated. The lines on which the RDN depends come first.
fn order_lines(node: &mut Node) -> Result<(), TemplateError> {
    let mut visits = vec![Visit::Not; node.lines.len()];
    let mut order = Vec::new();
    for &line in &node.naming {
        visit(node, line, &mut visits, &mut order)?;
    }
    let naming_len = order.len();
    for &line in &order {
        let Line { parts, place, is_base64, .. } = &node.lines[line];
        let name = || node.lines[line].description().to_owned();
        for part in parts {
            match part {
                Part::Members(_) | Part::DnOf(_) => return Err(place.fault(TemplateFault::Misplaced)),
                Part::Presence(_) | Part::Condition { .. } if node.naming.contains(&line) => {
                    return Err(place.fault(TemplateFault::OptionalRdn(name())));
                }
                _ => {}
            }
        }
        if node.naming.contains(&line) && (*is_base64 || parts.is_empty()) {
            return Err(place.fault(TemplateFault::OptionalRdn(name())));
        }
    }
    for line in 0..node.lines.len() {
        visit(node, line, &mut visits, &mut order)?;
    }
    node.order = order;
    node.naming_len = naming_len;
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Visit {
    Not,
    Begun,
    Done,
}

fn visit(node: &Node, at: usize, visits: &mut [Visit], order: &mut Vec<usize>) -> Result<(), TemplateError> {
    let line = &node.lines[at];
    match visits[at] {
        Visit::Done => return Ok(()),
        Visit::Begun => {
            return Err(line.place.fault(TemplateFault::Cycle(line.description().to_owned())));
        }
        Visit::Not => visits[at] = Visit::Begun,
    }
    for part in &line.parts {
        let needed: &[usize] = match part {
            Part::Copy { attribute, .. } | Part::Condition { attribute, .. } => {
                if attribute.lines.iter().any(|line| node.lines[*line].members().is_some()) {
                    return Err(line.place.fault(TemplateFault::Misplaced));
                }
                &attribute.lines
            }
            Part::Dn { .. } | Part::Rdn => &node.naming,
            _ => &[],
        };
        for &needed in needed {
            visit(node, needed, visits, order)?;
        }
    }
    visits[at] = Visit::Done;
    order.push(at);
    Ok(())
}

/// Counts the entries in the subtree of each node. The result has a list for each node: the number of entries that each
/// node produces in this subtree, and then the total. Subordinates precede their superiors in `nodes`, so the counts of
/// all children are already known.
fn totals(nodes: &[Node], whole: &TemplateLine) -> Result<Vec<Vec<u64>>, TemplateError> {
    let mut totals: Vec<Vec<u64>> = Vec::new();
    // The number of entries in the whole document must not overflow either.
    let mut document = 0u64;
    for (at, node) in nodes.iter().enumerate() {
        let too_many = || node.place.fault(TemplateFault::TooMany);
        let mut own = vec![0u64; nodes.len() + 1];
        own[at] = 1;
        own[nodes.len()] = 1;
        for child in &node.children {
            for (own, below) in own.iter_mut().zip(&totals[child.node]) {
                let below = below.checked_mul(child.count).ok_or_else(too_many)?;
                *own = own.checked_add(below).ok_or_else(too_many)?;
            }
        }
        if node.fixed_dn.is_some() {
            document = document
                .checked_add(own[nodes.len()])
                .filter(|count| *count < i64::MAX as u64)
                .ok_or_else(|| whole.fault(TemplateFault::TooMany))?;
        }
        totals.push(own);
    }
    Ok(totals)
}
