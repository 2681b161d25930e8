//! The page reader beside LMDB, and over pages that LMDB would not write.

mod damage;
mod leaf;
mod leaf_walk;
mod lookup;
