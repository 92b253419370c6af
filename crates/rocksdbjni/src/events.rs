//! Objects of Java that describe events: flushes, compactions, tables, stalls.
//!
//! In: the engine's infos. Out: new objects of RocksJava's classes. The classes are looked up once,
//! by a thread of Java: a thread of the engine sees the system's classes only.
//!
//! A `CompactionJobInfo` is valid during the call of the listener, as in RocksJava. Its statistics
//! are a copy, which Java owns.

use crate::border::{NativeResult, StatusParts, new_status, status_texts};
use crate::field::JavaField;
use crate::handle::{NativeHandle, give};
use crate::jni::{JavaConstructor, JavaEnv, Method, Reference, boolean, byte, int, long, reference};
use crate::release::JavaRelease;
use esker::observe::{
    CompactionJobInfo, CompactionJobStats, CompactionReason, ExternalFileIngestionInfo, FileOperationInfo,
    FlushJobInfo, MemTableInfo, TableFileCreationBriefInfo, TableFileCreationInfo, TableFileDeletionInfo,
    WriteStallCondition, WriteStallInfo,
};
use esker::{Error, TableProperties};
use jni_sys::jvalue;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Local references that the making of one event needs at once.
pub(crate) const EVENT_REFERENCES: i32 = 32;

/// The classes of events.
#[derive(Debug)]
pub(crate) struct EventClasses {
    status: JavaConstructor,
    flush: JavaConstructor,
    compaction: JavaConstructor,
    creation: JavaConstructor,
    creation_start: JavaConstructor,
    deletion: JavaConstructor,
    memtable: JavaConstructor,
    ingestion: JavaConstructor,
    stall: JavaConstructor,
    file_operation: JavaConstructor,
    family: JavaConstructor,
    tables: TableClasses,
}

/// The class of properties of a table, and that of their maps.
#[derive(Debug)]
struct TableClasses {
    properties: JavaConstructor,
    map: JavaConstructor,
    put: Method,
}

impl TableClasses {
    fn find(env: &JavaEnv<'_>) -> NativeResult<TableClasses> {
        let descriptor = format!("({}[B{}Ljava/util/Map;Ljava/util/Map;)V", "J".repeat(22), TEXT.repeat(6));
        let map = env.class("java/util/HashMap")?;
        let put = env.method(map, "put", "(Ljava/lang/Object;Ljava/lang/Object;)Ljava/lang/Object;")?;
        env.forget(map);
        Ok(TableClasses {
            properties: JavaConstructor::find(env, "org/rocksdb/TableProperties", &descriptor)?,
            map: JavaConstructor::find(env, "java/util/HashMap", "()V")?,
            put,
        })
    }

    /// A new map of pairs that `pairs` makes.
    fn new_map<T>(
        &self,
        env: &JavaEnv<'_>,
        pairs: impl IntoIterator<Item = T>,
        make: impl Fn(T) -> NativeResult<(Reference, Reference)>,
    ) -> NativeResult<Reference> {
        let map = self.map.make(env, &[])?;
        for pair in pairs {
            let replaced = env.in_frame(EVENT_REFERENCES, || {
                let (key, value) = make(pair)?;
                env.call_object(map, self.put, &[reference(key), reference(value)])
            })?;
            env.forget(replaced);
        }
        Ok(map)
    }

    fn new_properties(&self, env: &JavaEnv<'_>, table: &TableProperties) -> NativeResult<Reference> {
        let numbers = [
            table.data_size,
            table.index_size,
            table.index_partitions,
            table.top_level_index_size,
            u64::from(table.index_key_is_user_key),
            u64::from(table.index_value_is_delta_encoded),
            table.filter_size,
            table.raw_key_size,
            table.raw_value_size,
            table.num_data_blocks,
            table.num_entries,
            table.num_deletions,
            table.num_merge_operands,
            table.num_range_deletions,
            table.format_version,
            table.fixed_key_len,
            table.column_family_id,
            table.creation_time,
            table.oldest_key_time,
            table.slow_compression_estimated_data_size,
            table.fast_compression_estimated_data_size,
            table.global_seqno_offset.unwrap_or(0) as u64,
        ];
        let texts = [
            &table.filter_policy_name,
            &table.comparator_name,
            &table.merge_operator_name,
            &table.prefix_extractor_name,
            &table.property_collectors_names,
            &table.compression_name,
        ];
        let mut arguments: Vec<jvalue> =
            numbers.into_iter().map(|number| long(number.cast_signed())).collect();
        arguments.push(reference(env.new_bytes(table.column_family_name.as_bytes())?));
        for text in texts {
            // As in RocksJava, the name of nothing is null.
            let text = if text.is_empty() { Reference::NULL } else { env.new_text(text)? };
            arguments.push(reference(text));
        }
        let collected = self.new_map(env, &table.user_collected_properties, |(name, value)| {
            Ok((
                env.new_text(&String::from_utf8_lossy(name))?,
                env.new_text(&String::from_utf8_lossy(value))?,
            ))
        })?;
        let readable = self.map.make(env, &[])?;
        arguments.extend([reference(collected), reference(readable)]);
        self.properties.make(env, &arguments)
    }
}

/// The descriptor of a text.
const TEXT: &str = "Ljava/lang/String;";

fn new_path(env: &JavaEnv<'_>, path: &Path) -> NativeResult<Reference> {
    env.new_text(&path.to_string_lossy())
}

/// A job's number as Java counts.
fn job(id: u64) -> jvalue {
    int(i32::try_from(id).unwrap_or(i32::MAX))
}

/// The number of a condition. In release 7.0 the normal one comes first, later it comes last.
pub(crate) fn condition_number(release: JavaRelease, condition: WriteStallCondition) -> i8 {
    let number = condition as i8;
    if release == JavaRelease::V7_0 { (number + 1) % 3 } else { number }
}

/// Code, sub-code and state of a result.
fn parts_of(result: Option<&Error>) -> StatusParts {
    result.map_or(StatusParts { code: 0, subcode: 0, state: String::new() }, status_texts)
}

impl EventClasses {
    pub(crate) fn find(env: &JavaEnv<'_>) -> NativeResult<EventClasses> {
        let find = |name: &str, descriptor: &str| {
            JavaConstructor::find(env, &format!("org/rocksdb/{name}"), descriptor)
        };
        let (status, table) = ("Lorg/rocksdb/Status;", "Lorg/rocksdb/TableProperties;");
        Ok(EventClasses {
            status: find("Status", &format!("(BB{TEXT})V"))?,
            flush: find("FlushJobInfo", &format!("(J{TEXT}{TEXT}JIZZJJ{table}B)V"))?,
            compaction: find("CompactionJobInfo", "(J)V")?,
            creation: find("TableFileCreationInfo", &format!("(J{table}{status}{TEXT}{TEXT}{TEXT}IB)V"))?,
            creation_start: find("TableFileCreationBriefInfo", &format!("({TEXT}{TEXT}{TEXT}IB)V"))?,
            deletion: find("TableFileDeletionInfo", &format!("({TEXT}{TEXT}I{status})V"))?,
            memtable: find("MemTableInfo", &format!("({TEXT}JJJJ)V"))?,
            ingestion: find("ExternalFileIngestionInfo", &format!("({TEXT}{TEXT}{TEXT}J{table})V"))?,
            stall: find("WriteStallInfo", &format!("({TEXT}BB)V"))?,
            file_operation: find("FileOperationInfo", &format!("({TEXT}JJJJ{status})V"))?,
            family: find("ColumnFamilyHandle", "(J)V")?,
            tables: TableClasses::find(env)?,
        })
    }

    /// A `Status`; `None` means that the work succeeded.
    pub(crate) fn status(&self, env: &JavaEnv<'_>, error: Option<&Error>) -> NativeResult<Reference> {
        let parts = parts_of(error);
        let state = if parts.state.is_empty() { Reference::NULL } else { env.new_text(&parts.state)? };
        self.status.make(env, &[byte(parts.code), byte(parts.subcode), reference(state)])
    }

    pub(crate) fn flush(&self, env: &JavaEnv<'_>, info: &FlushJobInfo) -> NativeResult<Reference> {
        let arguments = [
            long(i64::from(info.cf_id.0)),
            reference(env.new_text(&info.cf_name)?),
            reference(new_path(env, &info.file_path)?),
            long(info.thread_id.cast_signed()),
            job(info.job_id),
            boolean(info.triggered_writes_slowdown),
            boolean(info.triggered_writes_stop),
            long(info.smallest_seqno.0.cast_signed()),
            long(info.largest_seqno.0.cast_signed()),
            reference(self.tables.new_properties(env, &info.table_properties)?),
            byte(info.flush_reason as i8),
        ];
        self.flush.make(env, &arguments)
    }

    /// A `CompactionJobInfo` over the native object, which Java does not free.
    pub(crate) fn compaction(
        &self,
        env: &JavaEnv<'_>,
        info: NativeHandle<CompactionInfo>,
    ) -> NativeResult<Reference> {
        self.compaction.make(env, &[long(info.number())])
    }

    fn creation_arguments(env: &JavaEnv<'_>, info: &TableFileCreationBriefInfo) -> NativeResult<[jvalue; 5]> {
        Ok([
            reference(env.new_text(&info.db_name)?),
            reference(env.new_text(&info.cf_name)?),
            reference(new_path(env, &info.file_path)?),
            job(info.job_id),
            byte(info.reason as i8),
        ])
    }

    pub(crate) fn creation_start(
        &self,
        env: &JavaEnv<'_>,
        info: &TableFileCreationBriefInfo,
    ) -> NativeResult<Reference> {
        self.creation_start.make(env, &EventClasses::creation_arguments(env, info)?)
    }

    /// The properties have only the number of entries: the engine tells no others.
    pub(crate) fn creation(
        &self,
        env: &JavaEnv<'_>,
        info: &TableFileCreationInfo,
    ) -> NativeResult<Reference> {
        let table = TableProperties { num_entries: info.num_entries, ..TableProperties::default() };
        let mut arguments = vec![
            long(info.file_size.cast_signed()),
            reference(self.tables.new_properties(env, &table)?),
            reference(self.status(env, info.status.as_ref().err())?),
        ];
        arguments.extend(EventClasses::creation_arguments(env, &info.brief)?);
        self.creation.make(env, &arguments)
    }

    pub(crate) fn deletion(
        &self,
        env: &JavaEnv<'_>,
        info: &TableFileDeletionInfo,
    ) -> NativeResult<Reference> {
        let arguments = [
            reference(env.new_text(&info.db_name)?),
            reference(new_path(env, &info.file_path)?),
            job(info.job_id),
            reference(self.status(env, info.status.as_ref().err())?),
        ];
        self.deletion.make(env, &arguments)
    }

    pub(crate) fn memtable(&self, env: &JavaEnv<'_>, info: &MemTableInfo) -> NativeResult<Reference> {
        let arguments = [
            reference(env.new_text(&info.cf_name)?),
            long(info.first_seqno.0.cast_signed()),
            long(info.earliest_seqno.0.cast_signed()),
            long(info.num_entries.cast_signed()),
            long(info.num_deletes.cast_signed()),
        ];
        self.memtable.make(env, &arguments)
    }

    pub(crate) fn ingestion(
        &self,
        env: &JavaEnv<'_>,
        info: &ExternalFileIngestionInfo,
    ) -> NativeResult<Reference> {
        let arguments = [
            reference(env.new_text(&info.cf_name)?),
            reference(new_path(env, &info.external_file_path)?),
            reference(new_path(env, &info.internal_file_path)?),
            long(info.global_seqno.0.cast_signed()),
            reference(self.tables.new_properties(env, &info.table_properties)?),
        ];
        self.ingestion.make(env, &arguments)
    }

    pub(crate) fn stall(&self, env: &JavaEnv<'_>, info: &WriteStallInfo) -> NativeResult<Reference> {
        let name = reference(env.new_text(&info.cf_name)?);
        let release = JavaRelease::of_caller(env)?;
        let [now, before] = [info.cur, info.prev].map(|condition| byte(condition_number(release, condition)));
        self.stall.make(env, &[name, now, before])
    }

    /// A `FileOperationInfo`. As in RocksJava, its times are in nanoseconds, the first since 1970.
    pub(crate) fn file_operation(
        &self,
        env: &JavaEnv<'_>,
        info: &FileOperationInfo,
    ) -> NativeResult<Reference> {
        let nanos = i64::try_from(info.duration.as_nanos()).unwrap_or(i64::MAX);
        let arguments = [
            reference(new_path(env, &info.path)?),
            long(info.offset.cast_signed()),
            long(info.length.cast_signed()),
            long(info.start_micros.saturating_mul(1000).cast_signed()),
            long(nanos),
            reference(self.status(env, info.status.as_ref().err())?),
        ];
        self.file_operation.make(env, &arguments)
    }

    /// A `ColumnFamilyHandle` that does not free its family.
    pub(crate) fn family(&self, env: &JavaEnv<'_>, family: i64) -> NativeResult<Reference> {
        self.family.make(env, &[long(family)])
    }
}

/// `CompactionJobInfo`. Java makes empty ones.
#[derive(Debug, Default)]
pub(crate) struct CompactionInfo(pub(crate) Option<CompactionJobInfo>);

/// `CompactionJobStats`. As in RocksJava, statistics of an info lack its bounds, and whether a
/// caller requested the compaction.
#[derive(Debug, Default)]
pub(crate) struct CopiedStats {
    pub(crate) stats: CompactionJobStats,
}

impl CompactionInfo {
    /// A fact of the compaction; the default for an empty info.
    fn fact<T: Default>(&self, fact: impl FnOnce(&CompactionJobInfo) -> T) -> T {
        self.0.as_ref().map(fact).unwrap_or_default()
    }
}

type Info = NativeHandle<CompactionInfo>;

pub(crate) fn compaction_family(env: &JavaEnv<'_>, info: Info) -> NativeResult<Reference> {
    env.new_bytes(info.get()?.fact(|info| info.cf_name.clone()).as_bytes())
}

pub(crate) fn compaction_status(env: &JavaEnv<'_>, info: Info) -> NativeResult<Reference> {
    new_status(env, &parts_of(info.get()?.fact(|info| info.status.clone().err()).as_ref()))
}

pub(crate) fn compaction_thread(info: Info) -> NativeResult<i64> {
    Ok(info.get()?.fact(|info| info.thread_id).cast_signed())
}

pub(crate) fn compaction_job(info: Info) -> NativeResult<i32> {
    Ok(i32::try_from(info.get()?.fact(|info| info.job_id)).unwrap_or(i32::MAX))
}

pub(crate) fn compaction_input_level(info: Info) -> NativeResult<i32> {
    Ok(i32::try_from(info.get()?.fact(|info| info.base_input_level)).unwrap_or(i32::MAX))
}

pub(crate) fn compaction_output_level(info: Info) -> NativeResult<i32> {
    Ok(i32::try_from(info.get()?.fact(|info| info.output_level)).unwrap_or(i32::MAX))
}

fn new_paths(env: &JavaEnv<'_>, paths: &[PathBuf]) -> NativeResult<Reference> {
    env.new_array_of("java/lang/String", paths, |path| new_path(env, path))
}

pub(crate) fn compaction_inputs(env: &JavaEnv<'_>, info: Info) -> NativeResult<Reference> {
    new_paths(env, &info.get()?.fact(|info| info.input_files.clone()))
}

pub(crate) fn compaction_outputs(env: &JavaEnv<'_>, info: Info) -> NativeResult<Reference> {
    new_paths(env, &info.get()?.fact(|info| info.output_files.clone()))
}

/// A map from paths of inputs and outputs to their properties.
pub(crate) fn compaction_tables(env: &JavaEnv<'_>, info: Info) -> NativeResult<Reference> {
    let tables: BTreeMap<_, _> = info.get()?.fact(|info| info.table_properties.clone());
    let classes = TableClasses::find(env)?;
    classes.new_map(env, &tables, |(path, table)| {
        Ok((new_path(env, path)?, classes.new_properties(env, table)?))
    })
}

/// RocksJava's number of the reason.
pub(crate) fn compaction_reason(info: Info) -> NativeResult<i8> {
    let reason = info.get()?.0.as_ref().map(|info| info.compaction_reason);
    Ok(match reason {
        // RocksJava has no number for the last one.
        None | Some(CompactionReason::ReadTriggered) => 0,
        Some(CompactionReason::FilesMarkedForCompaction) => 16,
        Some(CompactionReason::BottommostFiles) => 10,
        Some(CompactionReason::Ttl) => 11,
        Some(CompactionReason::Flush) => 12,
        Some(CompactionReason::ExternalSstIngestion) => 13,
        Some(CompactionReason::PeriodicCompaction) => 14,
        Some(CompactionReason::ChangeTemperature) => 15,
        Some(other) => other as i8,
    })
}

pub(crate) fn compaction_compression(info: Info) -> NativeResult<i8> {
    Ok(info.get()?.fact(|info| info.compression.load()))
}

pub(crate) fn compaction_stats(info: Info) -> NativeResult<i64> {
    Ok(give(CopiedStats { stats: info.get()?.fact(|info| info.stats.clone()) }))
}

pub(crate) fn add_stats(
    stats: NativeHandle<CopiedStats>,
    other: NativeHandle<CopiedStats>,
) -> NativeResult<()> {
    let added = other.get()?.stats.clone();
    stats.get_mut()?.stats += &added;
    Ok(())
}

pub(crate) fn reset_stats(stats: NativeHandle<CopiedStats>) -> NativeResult<()> {
    stats.get_mut()?.stats = CompactionJobStats::default();
    Ok(())
}
