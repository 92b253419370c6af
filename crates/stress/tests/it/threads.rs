//! The threads campaign, for seconds.

use esker::txn::WritePolicy;
use esker_stress::threads::{ThreadParameters, run};

#[test]
fn writers_and_readers_agree_at_every_point_in_time() {
    let report = run(&ThreadParameters::default()).unwrap_or_else(|broken| panic!("{broken}"));
    assert!(report.batches > 100, "{report}");
    assert!(report.checks > 100, "{report}");
    assert!(report.maintenance > 5, "{report}");
}

#[test]
fn readers_see_transactions_whole_that_were_in_memtables_before_their_commit() {
    for policy in [WritePolicy::WritePrepared, WritePolicy::WriteUnprepared] {
        let report = run(&ThreadParameters { policy: Some(policy), ..ThreadParameters::default() });
        let report = report.unwrap_or_else(|broken| panic!("{policy:?}: {broken}"));
        assert!(report.batches > 100 && report.checks > 100, "{policy:?}: {report}");
    }
}
