//! The declared signatures, and what a C program does first.

mod transactions;

use super::accessors::*;
use super::backup::*;
use super::batch::*;
use super::batch_index::*;
use super::cache::*;
use super::callbacks::*;
use super::column_family::*;
use super::compaction_styles::*;
use super::db::*;
use super::env::*;
use super::iterator::*;
use super::job_info::*;
use super::listener::*;
use super::live_files::*;
use super::maintenance::*;
use super::memory::*;
use super::multi_get::*;
use super::optimistic::*;
use super::option_sets::*;
use super::options::*;
use super::perf::*;
use super::read_options::*;
use super::reads::*;
use super::snapshot::*;
use super::sst::*;
use super::storage_info::*;
use super::table_kinds::*;
use super::table_options::*;
use super::table_properties::*;
use super::trace::*;
use super::transaction::*;
use super::transaction_db::*;
use super::write_options::*;
use super::writes::*;

#[test]
fn functions_have_the_declared_signatures() {
    include!(concat!(env!("OUT_DIR"), "/signatures.rs"));
}
