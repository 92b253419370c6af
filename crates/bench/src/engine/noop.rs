//! An engine that does nothing: it shows the cost of a loop by itself.

use super::{BenchBatch, BenchCursor, BenchEngine, Store};
use esker::{MultiScanArgs, ReadOptions, Result, WriteOptions};
use std::hint::black_box;

/// A database that stores no write, finds every key with an empty value, and never ends a scan.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoStore;

impl Store for NoStore {
    type Engine = NoStore;

    fn open(&self) -> Result<NoStore> {
        Ok(NoStore)
    }
    fn destroy(&self) -> Result<()> {
        Ok(())
    }
    fn path(&self) -> String {
        String::from("nowhere")
    }
    fn memtable_name(&self) -> &'static str {
        "None"
    }
    fn statistics(&self) -> Option<String> {
        None
    }
}

impl BenchEngine for NoStore {
    type Batch = NoStore;
    type Cursor = NoStore;
    type Values = ();

    fn new_batch(&self) -> NoStore {
        NoStore
    }
    fn write(&self, options: &WriteOptions, _: &mut NoStore) -> Result<()> {
        black_box(options);
        Ok(())
    }
    fn put(&self, options: &WriteOptions, key: &[u8], value: &[u8]) -> Result<()> {
        black_box((options, key, value));
        Ok(())
    }
    fn merge(&self, options: &WriteOptions, key: &[u8], operand: &[u8]) -> Result<()> {
        black_box((options, key, operand));
        Ok(())
    }
    fn delete(&self, options: &WriteOptions, key: &[u8]) -> Result<()> {
        black_box((options, key));
        Ok(())
    }
    fn delete_range(&self, options: &WriteOptions, begin: &[u8], end: &[u8]) -> Result<()> {
        black_box((options, begin, end));
        Ok(())
    }
    fn get(&self, options: &ReadOptions, key: &[u8]) -> Result<Option<usize>> {
        black_box((options, key));
        Ok(Some(0))
    }
    fn multi_get(
        &self,
        options: &ReadOptions,
        keys: &[Vec<u8>],
        _: &mut (),
        mut each: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        black_box((options, keys));
        (0..keys.len()).for_each(|i| each(i, Some(&[])));
        Ok(())
    }
    fn under_snapshot(&self, options: &ReadOptions) -> ReadOptions {
        options.clone()
    }
    fn cursor(&self, _: ReadOptions) -> Result<NoStore> {
        Ok(NoStore)
    }
    fn multi_scan(
        &self,
        _: ReadOptions,
        args: &MultiScanArgs,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<()> {
        args.ranges.iter().for_each(|(start, _)| each(start, &[]));
        Ok(())
    }
    fn flush(&self) -> Result<()> {
        Ok(())
    }
    fn compact(&self, _: bool, _: u32) -> Result<()> {
        Ok(())
    }
    fn wait_for_background_work(&self) -> Result<()> {
        Ok(())
    }
    fn property(&self, _: &str) -> Option<String> {
        None
    }
    fn close(self) -> Result<()> {
        Ok(())
    }
}

impl BenchBatch for NoStore {
    fn clear(&mut self) {}
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        black_box((key, value));
        Ok(())
    }
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        black_box(key);
        Ok(())
    }
    fn delete_range(&mut self, begin: &[u8], end: &[u8]) -> Result<()> {
        black_box((begin, end));
        Ok(())
    }
}

impl BenchCursor for NoStore {
    fn valid(&self) -> bool {
        black_box(true)
    }
    fn seek_to_first(&mut self) {}
    fn seek_to_last(&mut self) {}
    fn seek(&mut self, target: &[u8]) {
        black_box(target);
    }
    fn seek_for_prev(&mut self, target: &[u8]) {
        black_box(target);
    }
    fn next(&mut self) {}
    fn prev(&mut self) {}
    fn key(&self) -> &[u8] {
        &[]
    }
    fn value(&self) -> &[u8] {
        &[]
    }
    fn status(&self) -> Result<()> {
        Ok(())
    }
}
