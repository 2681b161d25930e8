//! A queue in which owners take turns, so that an owner with a thousand items delays only itself.

use std::collections::VecDeque;

/// Waiting items by owner. The items of one owner leave in the order of their arrival.
#[derive(Debug)]
pub(super) struct Turns<O, T> {
    /// Owners with waiting items. The first owner has the next turn.
    owners: VecDeque<(O, VecDeque<T>)>,
}

impl<O, T> Default for Turns<O, T> {
    fn default() -> Turns<O, T> {
        Turns { owners: VecDeque::new() }
    }
}

impl<O: PartialEq, T> Turns<O, T> {
    /// Adds an item after the other items of its owner. The cost is proportional to the number of owners.
    pub(super) fn push(&mut self, owner: O, item: T) {
        match self.owners.iter_mut().find(|(other, _)| *other == owner) {
            Some((_, items)) => items.push_back(item),
            None => self.owners.push_back((owner, VecDeque::from([item]))),
        }
    }

    /// Removes the first item of the owner whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        let (owner, mut items) = self.owners.pop_front()?;
        let item = items.pop_front();
        if !items.is_empty() {
            self.owners.push_back((owner, items));
        }
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owners_take_turns_however_many_items_they_have() {
        let mut turns = Turns::default();
        (0..100).for_each(|item| turns.push('a', item));
        turns.push('b', 200);
        turns.push('c', 300);
        turns.push('b', 201);
        let first: Vec<_> = (0..7).filter_map(|_| turns.pop()).collect();
        assert_eq!(first, [0, 200, 300, 1, 201, 2, 3]);
    }

    /// As in the scan pool, an item returns to the queue until all its slices are done.
    #[test]
    fn a_client_with_one_scan_gets_as_many_slices_as_one_with_a_hundred() {
        let mut turns = Turns::default();
        (0..100).for_each(|_| turns.push("greedy", ("greedy", 50)));
        turns.push("modest", ("modest", 50));
        let (mut greedy, mut modest) = (0, 0);
        while modest < 50 {
            let (owner, left) = turns.pop().unwrap();
            *(if owner == "modest" { &mut modest } else { &mut greedy }) += 1;
            if left > 1 {
                turns.push(owner, (owner, left - 1));
            }
        }
        assert_eq!(greedy, 50);
    }
}
