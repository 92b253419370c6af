use super::*;
use esker_monitor::{BackgroundJobKind, CacheStatistics, HistogramSummary, LevelStatistics, StallPressure};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// A busy database: two families, two jobs, a delay.
fn busy(step: u64) -> Arc<StatisticsSnapshot> {
    let mut now = StatisticsSnapshot::default();
    now.process.pid = 4242;
    now.process.path = "/data/orders".to_owned();
    now.process.version = "0.1.0".to_owned();
    now.process.resident_bytes = 512 << 20;
    now.uptime_seconds = 100.0 + step as f64;
    now.taken_at_micros = 1_000_000 * (step + 1);
    now.family_count = 2;
    now.has_statistics = true;
    now.writes.keys = 1000 * step;
    now.writes.bytes = (1 << 20) * step;
    now.tickers = [("rocksdb.number.keys.read", 5000 * step), ("rocksdb.block.cache.hit", 99 * step)]
        .into_iter()
        .chain([("rocksdb.block.cache.miss", step)])
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let mut get = HistogramSummary::default();
    (get.p50, get.p99, get.max, get.count) = (3.25, 40.0, 2540.0, 123_456);
    now.histograms.insert("rocksdb.db.get.micros".to_owned(), get);
    now.stall.state = StallKind::Delayed;
    now.stall.write_rate = 16 << 20;
    for (name, files) in [("default", [21, 4, 9]), ("a\u{1b}[2J\nb", [1, 0, 0])] {
        let mut family = FamilyStatistics::default();
        family.name = name.to_owned();
        family.levels = files.map(level).to_vec();
        now.families.push(family);
    }
    let mut pressure = StallPressure::default();
    pressure.cause = "l0-file-count-limit".to_owned();
    (pressure.value, pressure.delay_at, pressure.stop_at) = (21, 20, 36);
    now.families[0].stall = StallKind::Delayed;
    now.families[0].pressures = vec![pressure];
    let mut cache = CacheStatistics::default();
    (cache.capacity, cache.usage) = (32 << 20, 8 << 20);
    now.block_caches = vec![cache];
    let mut job = RunningJob::default();
    (job.kind, job.job_id, job.family) = (BackgroundJobKind::Compaction, 17, "default".to_owned());
    (job.input_level, job.output_level, job.reason) = (Some(0), 1, "LevelL0FilesNum".to_owned());
    (job.input_bytes, job.written_bytes, job.elapsed_micros) = (64 << 20, 3 << 20, 1_500_000);
    now.jobs = vec![job];
    Arc::new(now)
}

fn level(files: u64) -> LevelStatistics {
    let mut level = LevelStatistics::default();
    (level.files, level.bytes, level.score) = (files, files << 20, files as f64 / 4.0);
    level
}

fn screen(has_colours: bool) -> Screen {
    let mut screen = Screen::new("/run/socket", has_colours);
    screen.update(busy(1));
    screen.update(busy(3));
    screen
}

/// The rows that a terminal of this size shows.
fn drawn(screen: &Screen, width: u16, height: u16) -> (Vec<String>, Buffer) {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| screen.draw(frame.area(), frame.buffer_mut())).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>().trim_end().to_owned();
    ((0..height).map(row).collect(), buffer)
}

const WANTED: [&str; 12] = [
    "/data/orders",
    "process 4242, Esker 0.1.0, open for 103 s, 2 families",
    "written      1,000/s      1.0 MiB/s",
    "read         5,000/s   seeks          0/s   cache hits 99.0%",
    "get            3.2 µs     40 µs    2.5 ms        123,456",
    "delayed to 16.0 MiB/s",
    "default: delayed, l0-file-count-limit 21 of 20",
    "block cache 8.0 MiB of 32.0 MiB (25%)",
    "compaction 17 default L0 to L1: LevelL0FilesNum, reads 64.0 MiB",
    "Levels of 'default' (1 of 2)",
    "L0     21 files  21.0 MiB score 5.25",
    "> default",
];

#[test]
fn screens_of_80_and_140_columns_show_everything() {
    for (width, height) in [(80, 50), (140, 40)] {
        let (rows, _) = drawn(&screen(false), width, height);
        for wanted in WANTED {
            assert!(rows.iter().any(|row| row.contains(wanted)), "{width}: {wanted}\n{}", rows.join("\n"));
        }
        let is_beside = rows.iter().any(|row| row.contains("Throughput") && row.contains("Flushes"));
        assert_eq!(is_beside, width == 140);
        let text = screen(false).text(width);
        assert_eq!(text.lines().collect::<Vec<_>>(), &rows[..text.lines().count()]);
    }
}

#[test]
fn a_narrow_and_a_low_screen_lose_their_ends_only() {
    for (width, height) in [(40, 20), (20, 5), (1, 1), (80, 3)] {
        let (rows, _) = drawn(&screen(true), width, height);
        let (full, _) = drawn(&screen(true), width, 100);
        assert_eq!(rows, full[..usize::from(height)], "{width}");
        assert!(width == 1 || full.iter().filter(|row| !row.is_empty()).count() > 10, "{width}");
    }
}

#[test]
fn bars_are_as_long_as_their_levels_are_large() {
    let (rows, _) = drawn(&screen(false), 80, 50);
    let cells = |level: &str| {
        let row = rows.iter().find(|row| row.starts_with(level)).unwrap();
        row.matches('█').count()
    };
    let (l0, l1, l2) = (cells("L0"), cells("L1"), cells("L2"));
    assert!(l0 > l2 && l2 > l1 && l1 > 0, "{l0} {l1} {l2}");
    assert_eq!((part(10, 0, 10), part(10, 1, 1000), part(10, 1000, 1000)), (0, 1, 10));
}

#[test]
fn a_screen_without_colours_has_no_style() {
    let (_, plain) = drawn(&screen(false), 80, 50);
    assert!(
        plain
            .content()
            .iter()
            .all(|cell| cell.style() == Buffer::empty(Rect::new(0, 0, 1, 1))[(0, 0)].style())
    );
    let (_, coloured) = drawn(&screen(true), 80, 50);
    assert!(coloured.content().iter().any(|cell| cell.fg == Color::Yellow));
    let text =
        |buffer: &Buffer| buffer.content().iter().map(|cell| cell.symbol().to_owned()).collect::<String>();
    assert_eq!(text(&plain), text(&coloured));
}

#[test]
fn control_characters_of_names_do_not_reach_the_terminal() {
    let text = screen(true).text(140);
    assert!(text.contains("a [2J b"), "{text}");
    assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn arrows_choose_a_family_and_p_pauses() {
    let mut screen = screen(false);
    let title = |screen: &Screen| {
        let text = screen.text(80);
        text.lines().find(|line| line.starts_with("Levels of")).unwrap().to_owned()
    };
    screen.press(KeyCode::Left);
    assert!(title(&screen).ends_with("(1 of 2)"));
    (0..3).for_each(|_| screen.press(KeyCode::Down));
    assert!(title(&screen).ends_with("(2 of 2)"), "{}", title(&screen));
    screen.press(KeyCode::Char('p'));
    assert!(screen.is_paused() && screen.text(80).lines().next().unwrap().ends_with("paused"));
    // The chosen family has been dropped.
    let mut fewer = StatisticsSnapshot::clone(&busy(4));
    fewer.families.truncate(1);
    screen.update(Arc::new(fewer));
    assert!(title(&screen).ends_with("(1 of 1)"));
}

#[test]
fn a_lost_server_is_named_and_a_new_opening_begins_anew() {
    let mut screen = screen(false);
    screen.lose("connection refused");
    let text = screen.text(80);
    assert!(text.contains("no answer") && text.contains("/run/socket: connection refused"), "{text}");
    let mut reopened = StatisticsSnapshot::clone(&busy(0));
    reopened.uptime_seconds = 1.0;
    screen.update(Arc::new(reopened));
    let text = screen.text(80);
    assert!(text.contains("written          0/s") && !text.contains("no answer"), "{text}");
}
