//! Damaged WALs: Esker recovers the same from each as RocksDB 11.9, in each recovery mode.

use esker::{Db, ErrorKind, Options, ReadOptions, WalRecoveryMode};
use esker_peer::fixture::{Fixture, RecoveryOutcome};
use esker_peer::{Contents, fixture};

const MODES: [WalRecoveryMode; 4] = [
    WalRecoveryMode::TolerateCorruptedTailRecords,
    WalRecoveryMode::AbsoluteConsistency,
    WalRecoveryMode::PointInTimeRecovery,
    WalRecoveryMode::SkipAnyCorruptedRecords,
];

fn recover(fixture: &Fixture, mode: WalRecoveryMode) -> RecoveryOutcome {
    let dir = fixture.copy();
    let mut options = Options::default();
    options.db.wal_recovery_mode = mode;
    let opened = Db::open(&options, dir.path()).and_then(|db| {
        let contents = Contents::of(&db, &db.default_column_family(), &ReadOptions::default())?;
        Ok((contents, db.latest_sequence_number().0))
    });
    match opened {
        Ok((contents, sequence)) => {
            let last = contents.0.last().map(|(key, _)| String::from_utf8_lossy(key).into_owned());
            let last = last.unwrap_or_default();
            RecoveryOutcome::Opened { keys: contents.0.len(), last, sequence }
        }
        Err(error) => {
            assert!(error.to_string().contains(".log"), "{}, {mode:?}: names no file: {error}", fixture.name);
            let kind = match error.kind() {
                ErrorKind::InvalidArgument => "Invalid argument".to_owned(),
                kind => format!("{kind:?}"),
            };
            RecoveryOutcome::Failed(format!("{kind}: {error}"))
        }
    }
}

/// The same keys, or an error of the same kind; the words of errors are Esker's own. Where RocksDB
/// fails, Esker may return `NotSupported` for the feature.
fn agree(is: &RecoveryOutcome, expected: &RecoveryOutcome) -> bool {
    let kind = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
    match (is, expected) {
        (RecoveryOutcome::Failed(is), RecoveryOutcome::Failed(expected)) => {
            kind(is) == kind(expected) || kind(is) == "NotSupported"
        }
        _ => is == expected,
    }
}

#[test]
fn damaged_wals_are_recovered_as_rocksdb_11_does() {
    let fixtures = fixture::all(&["walrec_"]);
    assert!(fixtures.len() >= 46, "only {} damaged WALs", fixtures.len());
    let mut wrong = Vec::new();
    for fixture in &fixtures {
        let expected = fixture.recoveries().into_iter().filter(|e| e.version == "11.9");
        let mut modes = 0;
        for expected in expected {
            let is = recover(fixture, MODES[usize::from(expected.mode)]);
            if !agree(&is, &expected.outcome) {
                let mode = expected.mode;
                wrong.push(format!(
                    "{} mode {mode}: {is:?}\n    RocksDB: {:?}",
                    fixture.name, expected.outcome
                ));
            }
            modes += 1;
        }
        assert_eq!(modes, 4, "{}", fixture.name);
    }
    println!("{} damaged WALs in 4 modes, {} differ", fixtures.len(), wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
