//! esker-stress: campaigns that find bugs beyond the reach of unit tests.
//!
//! In: parameters of a campaign, among them a seed. Out: counts, or the first bug with the command
//! that repeats it. Each campaign is a function. Short forms run as tests of this crate; long forms
//! are commands of the `esker-stress` binary, which `cargo xtask long` runs. docs/testing.md says
//! how to run a seed again.
//!
//! | campaign | what it does |
//! |---|---|
//! | [`model`] | random operations on a database, each answer compared with sorted arrays |
//! | [`threads`] | many writers and readers at once, with invariants |
//! | [`scans`] | scans beside writers, compared with a model that knows sequence numbers |
//! | [`metamorphic`] | the same operations under many sets of options |
//! | [`crash`] | crashes of a simulated disk at random points in time |
//! | [`histories`] | long random histories with many crashes, each answer compared with a model |
//! | [`following`] | the change stream and a follower under crashes, compared with a model |
//! | [`kill9`] | kills of a writing child process, on the real disk |
//! | [`faults`] | for each file operation a run in which this operation fails |
//! | [`db_stress`] | random operations on a real directory, in processes that are killed |
//! | [`hostile`] | real processes under limits, on full disks, beside other processes, … |
//! | [`growth`] | the growth of an operation's work with the size of the database |
//!
//! The campaigns [`model`], [`metamorphic`], [`crash`], [`histories`] and [`db_stress`] also audit
//! files and properties (`audit`) when a database has no work left.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod audit;
pub mod crash;
pub mod db_stress;
pub mod faults;
pub mod following;
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
