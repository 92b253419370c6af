//! Any bytes as a log: the reader ends, stays within the file, and gives the records of a good log
//! back.

use esker_format::log::{BLOCK_BYTES, LogEvent, LogReader, LogWriter, SliceSource, next_strict};

/// One input.
pub fn run(data: &[u8]) {
    let Some((&kind, bytes)) = data.split_first() else { return };
    // Small files suffice; the log number lets recyclable records pass.
    let number = u64::from(kind & 0x0F);
    let mut reader = LogReader::new(SliceSource(bytes), number).with_max_record_bytes(4 * BLOCK_BYTES);
    let mut record = Vec::new();
    let mut records = Vec::new();
    let mut events = 0;
    loop {
        match reader.next_record(&mut record).unwrap() {
            LogEvent::End => break,
            LogEvent::Record { offset } => {
                assert!(offset < bytes.len() as u64);
                records.push(record.clone());
            }
            LogEvent::Truncated { offset, .. } | LogEvent::Corrupt { offset, .. } => {
                assert!(offset <= bytes.len() as u64);
            }
            _ => {}
        }
        events += 1;
        assert!(events <= bytes.len() + 1, "the reader does not advance");
    }
    assert!(reader.offset() <= bytes.len() as u64);

    let mut writer = LogWriter::new(number, kind & 0x10 != 0);
    let mut again = Vec::new();
    for record in &records {
        writer.add_record(record, &mut again);
    }
    let mut reader = LogReader::new(SliceSource(&again), number);
    for expected in &records {
        assert!(next_strict(&mut reader, &mut record, &"log").unwrap());
        assert_eq!(&record, expected);
    }
    assert!(!next_strict(&mut reader, &mut record, &"log").unwrap());
}
