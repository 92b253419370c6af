//! `esker io_tracer_parser`: prints a trace of I/O, as RocksDB's `io_tracer_parser`.
//!
//! In: a trace that Esker or RocksDB has written. Out: the times and the release of its header, and
//! a line for each operation, in the form of RocksDB 11.8's tool. A trace without a footer, which a
//! killed process leaves, is printed. Unlike RocksDB's tool, a cut or damaged record is an error,
//! after the lines before it. Cost: memory of one record.

use crate::failure::{CommandOutcome, Failure};
use crate::host::{Host, Stream};
use clap::Args;
use esker::trace::{IoOp, TraceFrame, TraceKind, TraceReader, new_file_trace_reader, parse_binary_header};
use esker::{Error, Result};
use std::fmt::Display;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

#[derive(Args)]
#[command(rename_all = "snake_case")]
pub(crate) struct IoTracerOptions {
    /// The trace
    #[arg(long)]
    io_trace_file: PathBuf,
}

pub(crate) fn run(options: &IoTracerOptions, host: &Host) -> CommandOutcome {
    let here = |e: Error| Failure::new(e.at(options.io_trace_file.display()));
    let mut reader = new_file_trace_reader(&host.env(), &options.io_trace_file)?;
    let mut out = BufWriter::with_capacity(64 << 10, host.output());
    let header = reader.read().map_err(here)?;
    let header = header.ok_or_else(|| here(Error::incomplete("the trace is empty")))?;
    let header = TraceFrame::decode(&header).map_err(here)?;
    let (major, minor) = parse_binary_header(&header).map_err(here)?;
    writeln!(out, "Start Time: {}", header.timestamp)?;
    writeln!(out, "RocksDB Major Version: {major}")?;
    writeln!(out, "RocksDB Minor Version: {minor}")?;
    let outcome = print_all(reader.as_mut(), &mut out, &here);
    out.flush()?;
    outcome
}

/// Prints each record up to the footer, or to the end of the file.
fn print_all(
    reader: &mut dyn TraceReader,
    out: &mut BufWriter<Stream>,
    here: &dyn Fn(Error) -> Failure,
) -> CommandOutcome {
    while let Some(record) = reader.read().map_err(here)? {
        let Some(line) = line_of(&record).map_err(here)? else { break };
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The line of a record. `None`: it is the footer.
fn line_of(record: &[u8]) -> Result<Option<String>> {
    let frame = TraceFrame::decode(record)?;
    if frame.kind == TraceKind::End as u8 {
        return Ok(None);
    }
    let op = IoOp::decode(&frame)?;
    let text = |bytes| String::from_utf8_lossy(bytes);
    let mut line = format!(
        "Access Time : {:<20}, File Name: {:<20}, File Operation: {:<18}, Latency: {:<10}, IO Status: {}",
        op.timestamp,
        text(op.file_name),
        text(op.file_operation),
        op.latency,
        text(op.io_status)
    );
    let mut add = |name: &str, value: Option<&dyn Display>| {
        if let Some(value) = value {
            line += &format!(", {name}: {value}");
        }
    };
    add("File Size", op.file_size.as_ref().map(|size| size as &dyn Display));
    add("Length", op.len.as_ref().map(|len| len as &dyn Display));
    add("Offset", op.offset.as_ref().map(|offset| offset as &dyn Display));
    let request = op.request_id.map(text);
    add("Request Id", request.as_ref().map(|id| id as &dyn Display));
    Ok(Some(line))
}
