//! `esker top`: a running process's database, live.
//!
//! In: a statistics server, by its socket, by the database's directory or by the process. Out: a
//! screen that a terminal shows, one screen as text, snapshots as JSON, or an HTML page.
//!
//! `--http` serves the page from this process, and not from the process of the database. So the
//! database's process opens no port, and the page ends with this command. The mode of the socket
//! decides who may start it, but not who sees the page: every user of this machine (of this network
//! namespace) can read a port of loopback.

mod find;
mod rates;
mod screen;

use crate::failure::{CommandOutcome, Failure};
use crate::host::Host;
use clap::Args;
use esker::{Env, ErrorKind};
use esker_monitor::{PageServer, PageServerOptions, RemoteStatistics, SnapshotSource, StatisticsSnapshot};
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use screen::Screen;
use std::io::{IsTerminal, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Columns of `--once`, if the environment names none.
const ONCE_WIDTH: u16 = 100;
/// The narrowest and the widest screen of `--once`.
const WIDTHS: std::ops::RangeInclusive<u16> = 40..=400;
/// The time between two looks for an answer of the server.
const ANSWER_STEP: Duration = Duration::from_millis(20);

#[derive(Args)]
pub(crate) struct TopOptions {
    /// The socket of a statistics server, the directory of a database, or the number of a process
    target: PathBuf,
    /// Seconds between two snapshots
    #[arg(long, default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Print one screen as text; needs no terminal
    #[arg(long, conflicts_with_all = ["json", "http"])]
    once: bool,
    /// Columns of --once [default: $COLUMNS, else 100]
    #[arg(long, requires = "once")]
    width: Option<u16>,
    /// Print snapshots as JSON, one a line
    #[arg(long, conflicts_with = "http")]
    json: bool,
    /// Number of snapshots of --json; without it they end with the server
    #[arg(long, requires = "json")]
    count: Option<u64>,
    /// Serve an HTML page and Prometheus' metrics at this address, such as 127.0.0.1:9187; every
    /// user of this machine can read it
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Let --http serve other hosts: everyone who reaches the address sees the statistics
    #[arg(long, requires = "http")]
    allow_remote: bool,
    /// A name of this host that browsers use, beside localhost
    #[arg(long, requires = "http", value_name = "NAME")]
    http_host: Vec<String>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.05..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0.05 to 3600".to_owned()),
    }
}

pub(crate) fn run(options: &TopOptions, host: &Host) -> CommandOutcome {
    let socket = find::socket(&options.target, host)?;
    let mut source = RemoteStatistics::new(&socket);
    if let Some(address) = options.http {
        return serve(options, address, source, host);
    }
    let interval = Duration::from_secs_f64(options.interval);
    if options.json {
        return print_json(options, interval, &mut source, host);
    }
    let target = socket.display().to_string();
    let mut screen = Screen::new(&target, std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()));
    if options.once {
        screen.update(source.latest()?);
        Env::default().clock.sleep(interval);
        screen.update(source.latest()?);
        let text = screen.text(width(options));
        return Ok(host.output().write_all(text.as_bytes())?);
    }
    if !std::io::stdout().is_terminal() {
        return Err(Failure::new("top: the output is no terminal; use --once or --json"));
    }
    screen.update(source.latest()?);
    live(&mut screen, Fetcher::start(source)?, interval)
}

/// The columns of `--once`.
fn width(options: &TopOptions) -> u16 {
    let of_shell = || std::env::var("COLUMNS").ok()?.parse().ok();
    let width = options.width.or_else(of_shell).unwrap_or(ONCE_WIDTH);
    width.clamp(*WIDTHS.start(), *WIDTHS.end())
}

fn serve(options: &TopOptions, address: SocketAddr, source: RemoteStatistics, host: &Host) -> CommandOutcome {
    let page = PageServerOptions::new(address);
    let page = page.allow_remote(options.allow_remote).hosts(options.http_host.clone());
    if !address.ip().is_loopback() && !options.allow_remote {
        return Err(Failure::new(format_args!("--http {address}: other hosts need --allow-remote")));
    }
    let server = PageServer::start(Box::new(source), &page)?;
    writeln!(host.output(), "http://{}/ and /metrics and /snapshot.json", server.address())?;
    host.output().flush()?;
    server.wait();
    Ok(())
}

/// Whether an error means that the server has ended: nobody listens, or the connection has ended.
fn is_end(error: &esker::Error) -> bool {
    use std::io::ErrorKind as Os;
    let of_system = std::error::Error::source(error).and_then(|e| e.downcast_ref::<std::io::Error>());
    let is_gone = |e: &std::io::Error| {
        let ends =
            [Os::NotFound, Os::ConnectionRefused, Os::UnexpectedEof, Os::ConnectionReset, Os::BrokenPipe];
        ends.contains(&e.kind())
    };
    error.kind() == ErrorKind::ShutdownInProgress || of_system.is_some_and(is_gone)
}

fn print_json(
    options: &TopOptions,
    interval: Duration,
    source: &mut RemoteStatistics,
    host: &Host,
) -> CommandOutcome {
    let mut left = options.count;
    let mut last: Option<Arc<StatisticsSnapshot>> = None;
    while left != Some(0) {
        if last.is_some() {
            Env::default().clock.sleep(interval);
        }
        let snapshot = match source.latest() {
            Ok(snapshot) => snapshot,
            // The snapshots before the server's end are printed.
            Err(e) if last.is_some() && options.count.is_none() && is_end(&e) => return Ok(()),
            Err(e) => return Err(e.into()),
        };
        let mut line = serde_json::to_vec(&*snapshot).expect("maps have keys of text");
        line.push(b'\n');
        let mut output = host.output();
        output.write_all(&line)?;
        output.flush()?;
        left = left.map(|left| left - 1);
        last = Some(snapshot);
    }
    Ok(())
}

/// A thread that fetches snapshots, so that a server that does not answer holds no key. Nobody
/// waits for its end: it ends with the process.
struct Fetcher {
    asks: SyncSender<()>,
    answers: Receiver<esker::Result<Arc<StatisticsSnapshot>>>,
    is_asked: bool,
}

impl Fetcher {
    fn start(mut source: impl SnapshotSource + 'static) -> std::io::Result<Fetcher> {
        let (asks, asked) = sync_channel::<()>(1);
        let (answer, answers) = sync_channel(1);
        let run = move || {
            while asked.recv().is_ok() && answer.send(source.latest()).is_ok() {}
        };
        std::thread::Builder::new().name("esker-top".to_owned()).spawn(run)?;
        Ok(Fetcher { asks, answers, is_asked: false })
    }

    /// Asks for a snapshot, if none is on its way.
    fn ask(&mut self) {
        if !self.is_asked {
            self.is_asked = self.asks.try_send(()).is_ok();
        }
    }

    /// The answer, if it has come.
    fn answer(&mut self) -> Option<esker::Result<Arc<StatisticsSnapshot>>> {
        let answer = self.answers.try_recv().ok()?;
        self.is_asked = false;
        Some(answer)
    }
}

/// Shows the screen until a key ends it. The terminal is as before afterwards, also after a panic.
fn live(screen: &mut Screen, mut fetcher: Fetcher, interval: Duration) -> CommandOutcome {
    let mut terminal = ratatui::try_init()?;
    let clock = Env::default().clock;
    let mut next = clock.monotonic_micros();
    let outcome = loop {
        match fetcher.answer() {
            Some(Ok(snapshot)) => screen.update(snapshot),
            Some(Err(e)) => screen.lose(&e.to_string()),
            None => {}
        }
        if let Err(e) = terminal.draw(|frame| screen.draw(frame.area(), frame.buffer_mut())) {
            break Err(e.into());
        }
        let now = clock.monotonic_micros();
        if now >= next {
            next = now + interval.as_micros() as u64;
            if !screen.is_paused() {
                fetcher.ask();
            }
        }
        let wait = Duration::from_micros(next.saturating_sub(now));
        match next_key(if fetcher.is_asked { wait.min(ANSWER_STEP) } else { wait }) {
            Ok(Some(key)) if ends(key) => break Ok(()),
            Ok(Some(key)) => screen.press(key.code),
            Ok(None) => {}
            Err(e) => break Err(e.into()),
        }
    };
    ratatui::restore();
    outcome
}

/// A key that is pressed within `wait`; a resize counts as none.
fn next_key(wait: Duration) -> std::io::Result<Option<KeyEvent>> {
    let deadline = Env::default().clock.monotonic_micros() + wait.as_micros() as u64;
    loop {
        let now = Env::default().clock.monotonic_micros();
        if !event::poll(Duration::from_micros(deadline.saturating_sub(now)))? {
            return Ok(None);
        }
        match event::read()? {
            Event::Key(key) if key.kind == KeyEventKind::Press => return Ok(Some(key)),
            // Any key draws the screen anew.
            Event::Resize(..) => return Ok(Some(KeyCode::Null.into())),
            _ => {}
        }
    }
}

fn ends(key: KeyEvent) -> bool {
    let is_interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_interrupt || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A source that does not answer before its channel ends.
    struct Stuck(Receiver<()>);

    impl SnapshotSource for Stuck {
        fn latest(&mut self) -> esker::Result<Arc<StatisticsSnapshot>> {
            self.0.recv().unwrap_or_default();
            Ok(Arc::default())
        }
    }

    #[test]
    fn keys_are_read_while_a_fetch_takes_long() {
        let (release, stuck) = sync_channel(0);
        let mut fetcher = Fetcher::start(Stuck(stuck)).unwrap();
        for _ in 0..3 {
            fetcher.ask();
            assert!(fetcher.is_asked && fetcher.answer().is_none());
        }
        drop(release);
        while fetcher.is_asked {
            assert!(fetcher.answer().is_none_or(|answer| answer.is_ok()));
            Env::default().clock.sleep(ANSWER_STEP);
        }
        // The asks above were one.
        Env::default().clock.sleep(ANSWER_STEP);
        assert!(fetcher.answer().is_none());
    }
}
