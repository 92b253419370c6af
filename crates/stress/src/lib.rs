//! esker-stress: campaigns that find mistakes which unit tests do not think of.
//!
//! In: parameters of a campaign, among them a seed. Out: counts, or the first mistake, with the way
//! to see it again. Each campaign is a function. Short forms run as tests of this crate; long forms
//! are commands of the `esker-stress` binary, which `cargo xtask long` runs. docs/testing.md says
//! how to run a seed again.
//!
//! | campaign | what it does |
//! |---|---|
//! | [`model`] | random operations on a database, each answer compared with sorted arrays |
//! | [`threads`] | many writers and readers at once, with invariants |
//! | [`scans`] | scans beside writers; the model of each answer knows sequence numbers |
//! | [`metamorphic`] | the same operations under many sets of options |
//! | [`crash`] | crashes at random points in time on a simulated disk |
//! | [`histories`] | long histories with crash after crash, each answer compared |
//! | [`kill9`] | a child process killed on the real disk |
//! | [`faults`] | every file operation fails in turn |
//! | [`db_stress`] | all of it on a real directory, in processes that are killed |
//! | [`hostile`] | real processes under limits, on full disks, beside other openers, … |
//! | [`growth`] | work grows with the amount asked for, and with nothing else |
//!
//! Most campaigns also audit files and properties (`audit`) when a database has no work left.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod audit;
pub mod crash;
pub mod db_stress;
pub mod faults;
pub mod growth;
pub mod histories;
pub mod hostile;
pub mod kill9;
pub mod metamorphic;
pub mod model;
pub mod probes;
pub mod scans;
mod second_reader;
#[cfg(shuttle)]
pub mod sim;
pub mod stamped;
pub mod threads;
