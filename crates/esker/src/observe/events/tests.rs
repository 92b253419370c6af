use super::*;

#[test]
fn lines_are_those_of_rocksdb() {
    let flush = Event::FlushStarted {
        job: 3,
        num_memtables: 1,
        total_num_input_entries: 10,
        num_deletes: 2,
        total_data_size: 300,
        memory_usage: 4096,
        num_range_deletes: 0,
        flush_reason: FlushReason::ManualFlush,
    };
    assert_eq!(
        flush.to_line(1421360005788015),
        "EVENT_LOG_v1 {\"time_micros\": 1421360005788015, \"job\": 3, \"event\": \"flush_started\", \
         \"num_memtables\": 1, \"total_num_input_entries\": 10, \"num_deletes\": 2, \"total_data_size\": 300, \
         \"memory_usage\": 4096, \"num_range_deletes\": 0, \"flush_reason\": \"Manual Flush\"}"
    );
    let compaction = Event::CompactionStarted {
        job: 5,
        cf_name: "default",
        compaction_reason: CompactionReason::LevelL0FilesNum,
        inputs: &[(0, vec![12, 10]), (6, vec![7])],
        score: 1.25,
        input_data_size: 99,
        oldest_snapshot_seqno: None,
    };
    assert_eq!(
        compaction.to_line(1),
        "EVENT_LOG_v1 {\"time_micros\": 1, \"job\": 5, \"event\": \"compaction_started\", \"cf_name\": \"default\", \
         \"compaction_reason\": \"LevelL0FilesNum\", \"files_L0\": [12, 10], \"files_L6\": [7], \"score\": 1.25, \
         \"input_data_size\": 99, \"oldest_snapshot_seqno\": -1}"
    );
}

#[test]
fn failures_say_why() {
    let error = Error::corruption("000012.sst at 4096: block checksum");
    let deletion = Event::TableFileDeletion { job: 1, file_number: FileNumber(12), status: Err(&error) };
    assert!(deletion.to_line(1).ends_with("\"status\": \"Corruption: 000012.sst at 4096: block checksum\"}"));
    let recovery = Event::RecoveryFinished { job: 1, status: Err(&error) };
    assert!(recovery.to_line(1).contains("\"event\": \"recovery_failed\""));
}

#[test]
fn table_file_creation_names_the_family_first() {
    let creation = Event::TableFileCreation(TableFileCreation {
        cf_name: "a\"b",
        job: 2,
        file_number: FileNumber(9),
        file_size: 1000,
        smallest_seqno: SequenceNumber(1),
        largest_seqno: SequenceNumber(8),
        file_checksum: None,
        table_properties: &TableProperties {
            data_size: 900,
            num_entries: 8,
            raw_key_size: 100,
            comparator_name: "leveldb.BytewiseComparator".to_owned(),
            ..TableProperties::absent()
        },
        status: Ok(()),
    });
    let line = creation.to_line(1);
    assert!(
        line.starts_with(
            "EVENT_LOG_v1 {\"time_micros\": 1, \"cf_name\": \"a\\\"b\", \"job\": 2, \"event\": \"table_file_creation\", \
             \"file_number\": 9, \"file_size\": 1000, \"file_checksum\": \"\", \"file_checksum_func_name\": \"Unknown\", \
             \"smallest_seqno\": 1, \"largest_seqno\": 8, \"table_properties\": {\"data_size\": 900, \"index_size\": 0, "
        ),
        "{line}"
    );
    assert!(
        line.contains("\"raw_key_size\": 100, \"raw_average_key_size\": 12, \"raw_value_size\": 0, "),
        "{line}"
    );
    assert!(
        line.contains(
            "\"comparator\": \"leveldb.BytewiseComparator\", \"user_defined_timestamps_persisted\": 1"
        ),
        "{line}"
    );
    assert!(line.ends_with("\"orig_file_number\": 0}, \"status\": \"OK\"}"), "{line}");
}

#[test]
fn blob_files_are_reported_with_the_names_of_rocksdb() {
    let addition = BlobFileAddition {
        number: FileNumber(7),
        total_blob_count: 2,
        total_blob_bytes: 90,
        ..BlobFileAddition::default()
    };
    let created = Event::BlobFileCreation { cf_name: "default", job: 3, addition: &addition };
    let expected = "EVENT_LOG_v1 {\"time_micros\": 1, \"cf_name\": \"default\", \"job\": 3, \"event\": \
                    \"blob_file_creation\", \"file_number\": 7, \"total_blob_count\": 2, \
                    \"total_blob_bytes\": 90, \"file_checksum\": \"\", \"file_checksum_func_name\": \"\", \
                    \"status\": \"OK\"}";
    assert_eq!(created.to_line(1), expected);
    let deleted = Event::BlobFileDeletion { job: 0, file_number: FileNumber(7), status: Ok(()) };
    let expected = "EVENT_LOG_v1 {\"time_micros\": 1, \"job\": 0, \"event\": \"blob_file_deletion\", \
                    \"file_number\": 7, \"status\": \"OK\"}";
    assert_eq!(deleted.to_line(1), expected);
}
