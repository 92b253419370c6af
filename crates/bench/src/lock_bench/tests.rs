use super::*;

#[test]
fn a_small_run_measures_every_cell() {
    let options = LockBenchOptions {
        threads: vec![1, 3],
        keys: 1000,
        rounds: 2,
        time: Duration::from_millis(2),
        ..LockBenchOptions::default()
    };
    let mut out = Vec::new();
    let rows = run(&options, &mut out).expect("a write to memory cannot fail");
    assert_eq!(rows.len(), 2 * LockWorkload::ALL.len());
    for row in &rows {
        assert_eq!(row.point.is_none(), row.workload.has_ranges());
        assert!(row.range > 0.0, "{row:?}");
    }
    assert_eq!(String::from_utf8_lossy(&out).lines().count(), 3 + rows.len());
}

#[test]
fn workloads_have_names() {
    for workload in LockWorkload::ALL {
        assert_eq!(LockWorkload::by_name(workload.name()), Some(workload));
    }
}

#[test]
fn transactions_commit_with_both_kinds_of_families() {
    let options = LockBenchOptions {
        threads: vec![1, 3],
        keys: 1000,
        rounds: 2,
        time: Duration::from_millis(2),
        ..LockBenchOptions::default()
    };
    let mut out = Vec::new();
    let rows = run_commits(&options, &mut out).expect("a write to memory cannot fail");
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.point > 0.0 && row.range > 0.0), "{rows:?}");
    assert_eq!(String::from_utf8_lossy(&out).lines().count(), 4);
}

#[test]
fn sysbenchs_transactions_run_with_both_kinds_of_families() {
    let options = LockBenchOptions {
        threads: vec![1, 3],
        keys: 300,
        rounds: 2,
        time: Duration::from_millis(2),
        ..LockBenchOptions::default()
    };
    for kind in Oltp::ALL {
        let mut out = Vec::new();
        let rows = run_oltp(&options, kind, &mut out).expect("a write to memory cannot fail");
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.point > 0.0 && row.range > 0.0), "{rows:?}");
        assert_eq!(String::from_utf8_lossy(&out).lines().count(), 4);
    }
}
