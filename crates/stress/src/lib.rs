//! esker-stress: campaigns that look for what unit tests do not think of.
//!
//! In: parameters of a campaign, among them a seed. Out: what was done, or the first thing that was
//! wrong, told so that it can be had again. Each campaign is a function: short forms run as tests
//! of this crate, long forms are commands of the `esker-stress` binary, which `cargo xtask long`
//! runs. docs/testing.md says how to run a seed again.
//!
//! [`model`]: random operations against a database that is obviously right. [`threads`]: many writers and readers at
//! once, with invariants. [`scans`]: scans beside writers, each answer compared with a model that
//! knows sequence numbers.
//! [`metamorphic`]: the same operations under many sets of options. [`crash`]: crashes at random points in time on a simulated
//! disk. [`histories`]: long ones with crash after crash, each answer compared. [`kill9`]: a child
//! process killed on the real one. [`faults`]: every file operation failing in turn. [`db_stress`]:
//! all of it on a real directory, in processes that are killed, with expected values outside of the
//! database.
//! [`hostile`]: real processes under limits, on full disks, in directories that are moved, beside other openers.
//! [`growth`]: whether work grows with what was asked for alone.
//! What no answer shows (`audit`) most of them look at when a database has no work left.
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
