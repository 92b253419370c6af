//! Short forms of the campaigns.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod crash;
mod db_stress;
mod faults;
mod following;
mod growth;
mod histories;
mod hostile;
mod kill9;
mod metamorphic;
mod model;
mod operations;
mod scans;
#[cfg(shuttle)]
mod sim;
mod threads;
