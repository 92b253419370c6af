//! Instances that read the files of a database whose transactions are in tables before their
//! commit.

use super::options;
use esker::txn::WritePolicy;
use esker::{Db, ErrorKind, TransactionDb, TransactionDbOptions};

/// Tables may have entries of transactions that are not committed; only the WALs say so.
#[test]
fn a_secondary_refuses_wals_of_early_transactions_and_never_shows_what_is_not_committed() {
    for policy in [WritePolicy::WritePrepared, WritePolicy::WriteUnprepared] {
        let options = options();
        let how = TransactionDbOptions::default().write_policy(policy).default_write_batch_flush_threshold(1);
        let primary = TransactionDb::open(&options, &how, "/db").unwrap();
        primary.put("a", "1").unwrap();
        primary.db().flush().unwrap();
        let secondary = Db::open_as_secondary(&options, "/db", "/mine").unwrap();
        let shown = |db: &Db| db.multi_get(&["a", "b"]).into_iter().map(|v| v.unwrap().map(|v| v.to_vec()));
        let shown = |db: &Db| shown(db).collect::<Vec<_>>();
        let old = [Some(b"1".to_vec()), None];
        assert_eq!(shown(&secondary), old);
        let transaction = primary.begin_transaction();
        transaction.set_name(b"one").unwrap();
        transaction.put("a", "2").unwrap();
        transaction.put("b", "2").unwrap();
        let refuses = |what: &str| {
            let error = secondary.try_catch_up_with_primary().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotSupported, "{policy:?}, {what}: {error}");
            assert_eq!(shown(&secondary), old, "{policy:?}, {what}");
            let opened = Db::open_as_secondary(&options, "/db", "/another");
            assert_eq!(opened.unwrap_err().kind(), ErrorKind::NotSupported, "{policy:?}, {what}");
        };
        if policy == WritePolicy::WriteUnprepared {
            refuses("spilled");
            primary.db().flush().unwrap();
            refuses("spilled, in a table");
        }
        transaction.prepare().unwrap();
        refuses("prepared");
        primary.db().flush().unwrap();
        refuses("prepared, in a table");
        transaction.commit().unwrap();
        // The flush syncs the commit, so the WALs of the sections go.
        primary.put("x", "1").unwrap();
        primary.db().flush().unwrap();
        primary.db().wait_for_background_work().unwrap();
        secondary.try_catch_up_with_primary().unwrap();
        assert_eq!(shown(&secondary), [Some(b"2".to_vec()), Some(b"2".to_vec())], "{policy:?}");
    }
}
