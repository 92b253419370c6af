//! Every public call that changes a database is an operation of a campaign. Otherwise it is listed
//! here with a reason.
//!
//! In: the sources of the engine and of the campaigns. Out: names that are in no list, in two, or
//! that no longer exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Types whose methods are checked, and `fn` for free functions of the files in [`FREE`].
const TYPES: [&str; 8] = [
    "Db",
    "TransactionDb",
    "Transaction",
    "OptimisticTransactionDb",
    "OptimisticTransaction",
    "DbWithTtl",
    "BackupEngine",
    "fn",
];
const FREE: [&str; 3] = ["repair/mod.rs", "compat/downgrade.rs", "db/destroy.rs"];

/// Calls that a campaign's sources make: the campaign, the type, and the methods.
const CALLED: [(&str, &str, &str); 9] = [
    (
        "model",
        "Db",
        "put_opt delete_opt single_delete_opt merge_opt delete_range_opt write_opt flush_opt sync_wal flush_wal \
         compact_range_opt compact_files promote_l0 abort_all_compactions resume_all_compactions \
         delete_files_in_ranges ingest_external_file_opt \
         ingest_external_files prepare_file_ingestion commit_file_ingestion_handles \
         put_with_ts delete_with_ts single_delete_with_ts merge_with_ts delete_range_with_ts \
         increase_full_history_ts_low export_column_family \
         create_column_family_with_import create_column_family create_column_families drop_column_family \
         drop_column_families set_options set_db_options resume \
         create_checkpoint pause_background_work continue_background_work wait_for_background_work close open_with \
         open_cf_as_secondary open_cf_as_follower try_catch_up_with_primary",
    ),
    (
        "model",
        "TransactionDb",
        "open_cf begin_transaction_opt create_column_family create_column_families drop_column_family \
         drop_column_families write_opt",
    ),
    (
        "model",
        "Transaction",
        "put_cf delete_cf merge_cf single_delete_cf delete_range_cf put_untracked delete_untracked merge_untracked \
         set_save_point rollback_to_save_point pop_save_point set_name prepare commit rollback \
         set_write_options get_for_update_opt",
    ),
    (
        "model",
        "BackupEngine",
        "open create_new_backup verify_backup purge_old_backups restore_db_from_backup \
         restore_db_from_latest_backup_with",
    ),
    ("model", "fn", "repair_db_with downgrade destroy_db"),
    ("metamorphic", "Db", "ingest_write_batch_with_index"),
    ("following", "Db", "changes"),
    ("metamorphic", "OptimisticTransactionDb", "open_cf_opt begin_transaction_opt"),
    (
        "metamorphic",
        "OptimisticTransaction",
        "put_cf delete_cf merge_cf single_delete_cf delete_range_cf commit",
    ),
];

/// Calls that no campaign makes: the reason, the type, and the methods.
const NOT_CALLED: [(&str, &str, &str); 37] = [
    (
        "reads, or tells something",
        "Db",
        "aggregated_int_property all_column_family_metadata all_key_versions approximate_memtable_size approximate_size \
         approximate_sizes creation_time_of_oldest_file info_log_list newest_user_defined_timestamp \
         properties_of_all_tables properties_of_tables_by_level properties_of_tables_in_range background_error column_family column_family_metadata \
         coalescing_iter column_family_names contains_key contains_key_cf db_options default_column_family explain_get explain_multi_get explain_multi_scan \
         explain_scan explain_seek first first_cf full_history_ts_low get get_cf get_entity get_entity_attribute_groups get_opt \
         get_pinned get_pinned_opt get_with_timestamp int_property int_property_cf is_empty is_empty_cf iter iter_cf iter_opt \
         key_may_exist last last_cf latest_sequence_number sorted_wal_files current_wal_file list_column_families live_files live_files_checksum_info live_files_storage_info map_property \
         map_property_cf multi_get multi_get_cf multi_get_entity multi_get_into multi_get_lent multi_get_lent_cf \
         multi_get_opt multi_scan new_multi_scan options_cf path prefix prefix_cf prefix_opt property property_cf destroy_column_family_handle range range_cf range_opt scrub_state snapshot \
         db_identity db_session_id env get_merge_operands get_stats_history get_with_metadata multi_get_with_metadata quarantined_tables verify_checksum verify_file_checksums \
         get_async multi_get_async prepared_file_info",
    ),
    (
        "a shorter form of one that is called",
        "Db",
        "put put_cf delete delete_cf single_delete merge delete_range write flush compact_range open open_cf \
         open_default open_for_read_only ingest_external_file ingest_external_file_cf \
         commit_file_ingestion_handle",
    ),
    (
        "entities: db_stress writes them in batches; esker/tests/it/entities.rs",
        "Db",
        "put_entity put_entity_attribute_groups",
    ),
    (
        "writes a trace beside the database: esker/tests/it/traces.rs",
        "Db",
        "start_trace end_trace start_block_cache_trace end_block_cache_trace start_io_trace end_io_trace",
    ),
    ("removes history, by a model: esker/tests/it/timestamps/trim_history.rs", "Db", "open_and_trim_history"),
    ("a whole family, by a model: esker/tests/it/clip.rs", "Db", "clip_column_family"),
    ("histories beside a twin: esker/tests/it/remote_compaction.rs", "Db", "open_and_compact"),
    ("histories of its own: esker/tests/it/updates/model.rs", "Db", "get_updates_since"),
    ("its transactions meet a model in tools/tests/it/shell.rs", "TransactionDb", "wrap"),
    ("its transactions meet a model in tools/tests/it/shell.rs", "OptimisticTransactionDb", "wrap"),
    (
        "a write between others: esker/tests/it/write_callbacks.rs",
        "Db",
        "write_with_callback write_with_callbacks",
    ),
    ("a secondary writes nothing of the database: esker/tests/it/secondary.rs", "Db", "open_as_secondary"),
    ("a follower writes links and its LOG only: esker/tests/it/follower.rs", "Db", "open_as_follower"),
    (
        "compactions, by another form: esker/tests/it/manual_work.rs, listeners.rs",
        "Db",
        "compact_files_with_info suggest_compact_range",
    ),
    (
        "keeps files, or ends work; what is stored stays the same",
        "Db",
        "disable_file_deletions enable_file_deletions cancel_all_background_work disable_manual_compaction \
         enable_manual_compaction abort_compactions resume_compactions wait_for_compact lock_wal reset_stats \
         enable_auto_compaction",
    ),
    (
        "reads, or tells something",
        "TransactionDb",
        "db get_all_prepared_transactions get_deadlock_info_buffer get_lock_status_data get_transaction_by_name \
         get_waiting_transactions lock_counters options set_deadlock_info_buffer_size",
    ),
    (
        "snapshots by timestamp: esker/tests/it/transactions/timestamped_snapshots.rs",
        "TransactionDb",
        "all_timestamped_snapshots create_timestamped_snapshot latest_timestamped_snapshot \
         release_timestamped_snapshots_older_than timestamped_snapshot timestamped_snapshots",
    ),
    (
        "snapshots by timestamp: esker/tests/it/transactions/timestamped_snapshots.rs",
        "Transaction",
        "commit_and_try_create_snapshot timestamped_snapshot",
    ),
    (
        "adds ops to a commit: esker/tests/it/transactions/counts.rs",
        "Transaction",
        "with_commit_time_write_batch",
    ),
    (
        "a shorter form of a transaction of one write",
        "TransactionDb",
        "begin_transaction open put put_cf put_opt delete delete_cf delete_opt merge merge_cf merge_opt delete_range \
         delete_range_cf delete_range_opt write",
    ),
    (
        "reads, or tells something",
        "Transaction",
        "canceller commit_timestamp contains_key get get_entity get_entity_attribute_groups get_opt get_pinned_opt id iter iter_opt \
         multi_get multi_get_cf multi_get_entity name prefix prefix_cf range range_cf snapshot state with_write_batch \
         write_batch",
    ),
    (
        "locks, and leaves what is stored as it is; esker/tests/it/transactions",
        "Transaction",
        "clear_snapshot get_entity_for_update get_for_update get_range_lock multi_get_for_update multi_get_for_update_cf set_expiration \
         set_lock_timeout set_snapshot set_snapshot_on_next_operation undo_get_for_update",
    ),
    ("a form of one that is called", "Transaction", "put delete single_delete_untracked collapse_key"),
    (
        "entities of transactions: esker/tests/it/entities.rs",
        "Transaction",
        "put_entity put_entity_attribute_groups put_entity_untracked",
    ),
    (
        "timestamps of transactions: esker/tests/it/transactions/timestamps.rs",
        "Transaction",
        "set_commit_timestamp set_read_timestamp_for_validation",
    ),
    ("says something in the WAL only", "Transaction", "put_log_data"),
    (
        "reads, or a shorter form of what a Db or a transaction of one write does",
        "OptimisticTransactionDb",
        "begin_transaction create_column_families db delete delete_cf merge merge_cf open open_opt open_cf put put_cf write \
         write_opt",
    ),
    (
        "reads, or tells something",
        "OptimisticTransaction",
        "contains_key get get_entity get_entity_attribute_groups get_opt get_pinned_opt iter iter_opt multi_get \
         multi_get_cf multi_get_entity prefix prefix_cf range range_cf snapshot with_write_batch write_batch",
    ),
    (
        "tracks keys, and leaves what is stored as it is",
        "OptimisticTransaction",
        "clear_snapshot get_entity_for_update get_for_update get_for_update_opt multi_get_for_update multi_get_for_update_cf \
         set_snapshot set_snapshot_on_next_operation undo_get_for_update",
    ),
    ("options of the commit", "OptimisticTransaction", "set_write_options"),
    ("says something in the WAL only", "OptimisticTransaction", "put_log_data"),
    ("files in several directories: esker/tests/it/paths.rs", "fn", "destroy_db_cf"),
    ("a shorter form of one that is called", "fn", "repair_db"),
    (
        "shorter forms, and those that pessimistic transactions are tried with, over the same batch",
        "OptimisticTransaction",
        "put delete put_untracked rollback pop_save_point rollback_to_save_point set_save_point put_entity \
         put_entity_attribute_groups put_entity_untracked delete_untracked single_delete_untracked merge_untracked",
    ),
    (
        "values with a time, over a Db: esker/tests/it/ttl.rs",
        "DbWithTtl",
        "base_db create_column_family_with_ttl delete get get_opt iter_opt multi_get open put set_ttl ttl write write_opt",
    ),
    (
        "reads, tells something, or stops",
        "BackupEngine",
        "backup_info backup_infos corrupted_backups env_for_open stopper",
    ),
    (
        "other forms of those that are called; esker/tests/it/backup.rs",
        "BackupEngine",
        "create_new_backup_with_metadata create_new_backup_with_options delete_backup garbage_collect \
         restore_db_from_backup_with restore_db_from_latest_backup",
    ),
];

#[test]
fn every_public_call_that_changes_a_database_is_an_operation_of_a_campaign() {
    let there = public_calls();
    let mut listed: BTreeMap<(String, String), u32> = BTreeMap::new();
    let mut wrong = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (campaign, of, names) in CALLED {
        let sources = sources_of(root, campaign);
        for name in names.split_whitespace() {
            *listed.entry((of.to_owned(), name.to_owned())).or_default() += 1;
            if !sources.contains(&format!("{name}(")) {
                wrong.push(format!("{campaign} does not call {of}::{name}"));
            }
        }
    }
    for (_, of, names) in NOT_CALLED {
        for name in names.split_whitespace() {
            *listed.entry((of.to_owned(), name.to_owned())).or_default() += 1;
        }
    }
    for call in there.iter().filter(|call| !listed.contains_key(*call)) {
        wrong.push(format!("{}::{} is in no list: make it an operation, or say why not", call.0, call.1));
    }
    for (call, times) in &listed {
        if !there.contains(call) {
            wrong.push(format!("{}::{} is no public call any more", call.0, call.1));
        }
        if *times > 1 {
            wrong.push(format!("{}::{} is listed {times} times", call.0, call.1));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// All sources of a campaign, joined.
fn sources_of(root: &Path, campaign: &str) -> String {
    let src = root.join("src");
    let mut files = vec![src.join(format!("{campaign}.rs"))];
    rust_files(&src.join(campaign), &mut files);
    files.iter().map(|file| read(file)).collect()
}

fn rust_files(dir: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push(path);
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Type and name of each public method of [`TYPES`] in the sources of the engine.
fn public_calls() -> BTreeSet<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../esker/src");
    let mut files = Vec::new();
    rust_files(&src, &mut files);
    let mut calls = BTreeSet::new();
    for file in files.iter().filter(|file| !file.ends_with("tests.rs")) {
        let has_free = FREE.iter().any(|free| file.ends_with(free));
        let mut of = String::new();
        for line in read(file).lines() {
            if let Some(rest) = line.strip_prefix("impl ") {
                let name = rest.split([' ', '<', '{']).next().unwrap_or_default();
                name.clone_into(&mut of);
            } else if line.starts_with('}') {
                of.clear();
            }
            let (of, rest) = match (line.strip_prefix("    pub fn "), line.strip_prefix("pub fn ")) {
                (Some(rest), _) => (of.as_str(), rest),
                (None, Some(rest)) if has_free => ("fn", rest),
                _ => continue,
            };
            if TYPES.contains(&of) {
                let name = rest.split(['(', '<']).next().unwrap_or_default();
                calls.insert((of.to_owned(), name.to_owned()));
            }
        }
    }
    assert!(calls.len() > 200, "{} calls: has the form of the sources changed?", calls.len());
    calls
}
