//! How do I keep a copy of a database in another process, through crashes of both?
//!
//! Run: `cargo run -p esker --example follower`
//!
//! A leader writes, and serves its change stream on a socket. A follower begins with a checkpoint,
//! and then applies batch after batch, each with the position behind it in the same write: so it
//! applies each operation exactly once. Without arguments the program starts both as processes,
//! kills them again and again (`kill -9`), and compares the two databases at the end.
//!
//! A frame on the socket is a kind, a length and a body:
//!  * `F`: a file of a checkpoint: the length of its name, the name, the content; `E`: the last one
//!  * `B`: a batch: the position behind it, its families, its operations in the bytes of a WAL
//!  * `L`: the leader's families, when no batch is due
//!  * `G`: the stream cannot go on from the position: a new copy is needed
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example talks to its reader")]
#![allow(clippy::disallowed_methods, reason = "a program on the real files and the real clock only")]

use esker::{
    BatchOp, ChangeBatch, ChangePosition, ChangesOptions, ColumnFamilyDescriptor, ColumnFamilyHandle, Db,
    Options, WriteBatch, WriteOptions, builtin,
};
use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command};
use std::thread::sleep;
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

/// The follower's own family: its position, and the leader's id of each family.
const OWN: &str = "follower";
const POSITION: &str = "position";
const LONGEST_FRAME_BYTES: usize = 1 << 30;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => drill(),
        ["leader", dir, port, work] => lead(Path::new(dir), port.parse()?, work),
        ["follower", dir, port, until] => {
            while !follow(Path::new(dir), port.parse()?, *until == "caught-up").unwrap_or(false) {
                sleep(Duration::from_millis(20)); // The leader may come back.
            }
            Ok(())
        }
        _ => Err("follower [leader DIR PORT WORK | follower DIR PORT UNTIL]".into()),
    }
}

/// Opens a database with all its families.
fn open(dir: &Path) -> Outcome<Db> {
    let mut options = Options::new().create_if_missing(true);
    options.db.wal_ttl_seconds = 3600; // WALs for followers that are away
    options.cf.write_buffer_size = 64 << 10;
    options.cf.merge_operator = Some(builtin::string_append(","));
    let names = match dir.join("CURRENT").exists() {
        true => Db::list_column_families(&options.db, dir)?,
        false => vec!["default".to_owned()],
    };
    let families = names.iter().map(|name| ColumnFamilyDescriptor::new(name, options.cf.clone()));
    Ok(Db::open_cf(&options.db, dir, families)?)
}

// The leader.

fn lead(dir: &Path, port: u16, work: &str) -> Outcome {
    let db = open(dir)?;
    if work == "gap" {
        // No WAL has this write: followers need a new copy.
        let unlogged = WriteOptions::new().disable_wal(true);
        db.put_opt(&unlogged, &db.default_column_family(), "not in a WAL", "1")?;
    }
    if work != "quiet" {
        for writer in 0..2 {
            let db = db.clone();
            std::thread::spawn(move || write_for_ever(&db, writer).unwrap_or_else(|e| eprintln!("{e}")));
        }
    }
    // A killed leader has left its copies.
    remove_if_there(&dir.with_extension("copies"))?;
    for stream in TcpListener::bind(("127.0.0.1", port))?.incoming() {
        let (db, stream, copies) = (db.clone(), stream?, dir.with_extension("copies"));
        // A follower that goes away is no failure of the leader.
        std::thread::spawn(move || serve(&db, stream, &copies).unwrap_or(()));
    }
    Ok(())
}

fn write_for_ever(db: &Db, writer: u32) -> esker::Result<()> {
    let mut rng = fastrand::Rng::new();
    let name = format!("family{writer}");
    let options = options_of(db);
    for round in 0u64.. {
        let family = match db.column_family(&name) {
            Some(family) if round % 400 == 399 => {
                db.drop_column_family(&family)?;
                db.create_column_family(&name, &options)?
            }
            Some(family) => family,
            None => db.create_column_family(&name, &options)?,
        };
        let mut batch = WriteBatch::new();
        for _ in 0..rng.usize(1..5) {
            let key = format!("{:03}", rng.u32(..500));
            match rng.u8(..8) {
                0 => batch.delete(&key)?,
                1 => batch.merge_cf(&family, &key, writer.to_string())?,
                2 => batch.delete_range_cf(&family, &key, format!("{key}9"))?,
                3 => batch.merge("count", "x")?,
                _ => batch.put_cf(&family, &key, vec![b'v'; rng.usize(..300)])?,
            }
        }
        db.write(batch)?;
        sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// Answers one follower: "copy", or the position that it needs next.
fn serve(db: &Db, stream: TcpStream, copies: &Path) -> Outcome {
    let mut request = String::new();
    BufReader::new(stream.try_clone()?).read_line(&mut request)?;
    let mut out = BufWriter::new(stream);
    if request.trim() == "copy" {
        return send_copy(db, &mut out, &copies.join(fastrand::u64(..).to_string()));
    }
    let position: ChangePosition = request.trim().parse()?;
    let options = ChangesOptions::new().max_retained_bytes(1 << 30);
    let mut changes = db.changes(position, &options)?;
    loop {
        match changes.wait(Duration::from_millis(50)) {
            Ok(Some(batch)) => send(&mut out, b'B', &batch_frame(&batch)?)?,
            Ok(None) => {
                let names = db.column_family_names();
                let live = names.iter().filter_map(|name| db.column_family(name));
                let line = |family: ColumnFamilyHandle| format!("{} {}\n", family.id(), family.name());
                send(&mut out, b'L', live.map(line).collect::<String>().as_bytes())?;
            }
            Err(error) if changes.end().is_some() => {
                println!("leader: {error}");
                send(&mut out, b'G', b"")?;
                return Ok(out.flush()?);
            }
            Err(error) => return Err(error.into()),
        }
        if changes.lag()?.sequence_numbers == 0 {
            out.flush()?;
        }
    }
}

fn send(out: &mut impl Write, kind: u8, body: &[u8]) -> Outcome {
    out.write_all(&[kind])?;
    out.write_all(&u32::try_from(body.len())?.to_le_bytes())?;
    Ok(out.write_all(body)?)
}

fn send_copy(db: &Db, out: &mut impl Write, dir: &Path) -> Outcome {
    fs::create_dir_all(dir.parent().ok_or("a copy needs a parent directory")?)?;
    db.create_checkpoint(dir, 0)?;
    let sent = send_files(out, dir);
    // Also if the follower has gone: the copy's links keep tables that the leader has replaced.
    fs::remove_dir_all(dir)?;
    sent
}

fn send_files(out: &mut impl Write, dir: &Path) -> Outcome {
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name().into_string();
        let name = name.map_err(|_| "a file of a database has a name in ASCII")?;
        let content = fs::read(dir.join(&name))?;
        let length = u32::try_from(name.len())?.to_le_bytes();
        send(out, b'F', &[&length, name.as_bytes(), &content].concat())?;
    }
    send(out, b'E', b"")?;
    Ok(out.flush()?)
}

fn remove_if_there(dir: &Path) -> Outcome {
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    Ok(())
}

/// position u64, number of families u32, { id u32, is_dropped u8, length u32, name }*, batch
fn batch_frame(batch: &ChangeBatch) -> Outcome<Vec<u8>> {
    let mut frame = batch.next_position().next_sequence().0.to_le_bytes().to_vec();
    frame.extend(u32::try_from(batch.families().count())?.to_le_bytes());
    for family in batch.families() {
        let name = family.name.as_deref().unwrap_or_default();
        frame.extend(family.id.0.to_le_bytes());
        frame.push(family.is_dropped.into());
        frame.extend(u32::try_from(name.len())?.to_le_bytes());
        frame.extend(name.as_bytes());
    }
    frame.extend(batch.write_batch().data());
    Ok(frame)
}

// The follower.

/// The bytes of a frame that are not read yet.
struct Frame<'a>(&'a [u8]);

impl<'a> Frame<'a> {
    fn bytes(&mut self, count: usize) -> Outcome<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count).ok_or("a frame is cut off")?;
        self.0 = rest;
        Ok(front)
    }

    fn number(&mut self, bytes: usize) -> Outcome<u64> {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(self.bytes(bytes)?);
        Ok(u64::from_le_bytes(number))
    }

    fn name(&mut self) -> Outcome<&'a str> {
        let length = self.number(4)?;
        Ok(std::str::from_utf8(self.bytes(usize::try_from(length)?)?)?)
    }
}

fn receive(from: &mut impl Read) -> Outcome<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    from.read_exact(&mut head)?;
    let [kind, length @ ..] = head;
    let length = usize::try_from(u32::from_le_bytes(length))?;
    if length > LONGEST_FRAME_BYTES {
        return Err("a frame is too long".into());
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body)?;
    Ok((kind, body))
}

/// Follows until the connection ends, or the follower has caught up with a leader that is quiet:
/// then it returns true.
fn follow(dir: &Path, port: u16, until_caught_up: bool) -> Outcome<bool> {
    if !dir.exists() {
        fetch_copy(dir, port)?;
    }
    let mut replica = Replica::open(dir)?;
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    writeln!(stream, "{}", replica.position)?;
    let mut stream = BufReader::new(stream);
    loop {
        let (kind, body) = receive(&mut stream)?;
        match kind {
            b'B' => replica.apply(&body)?,
            b'L' => {
                replica.drop_others(std::str::from_utf8(&body)?)?;
                if until_caught_up {
                    return Ok(true);
                }
            }
            b'G' => {
                drop(replica);
                // A kill leaves the whole directory, or none of its name.
                let discarded = dir.with_extension("discarded");
                remove_if_there(&discarded)?;
                fs::rename(dir, &discarded)?;
                fs::remove_dir_all(discarded)?;
                return Ok(false);
            }
            _ => return Err("an unknown frame".into()),
        }
    }
}

/// Makes `dir` from a checkpoint, all at once: it has its name when it is complete and durable.
fn fetch_copy(dir: &Path, port: u16) -> Outcome {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(b"copy\n")?;
    let mut stream = BufReader::new(stream);
    let unfinished = dir.with_extension("unfinished");
    remove_if_there(&unfinished)?;
    fs::create_dir_all(&unfinished)?;
    loop {
        let (kind, body) = receive(&mut stream)?;
        if kind != b'F' {
            break;
        }
        let mut frame = Frame(&body);
        let name = frame.name()?;
        if name.contains('/') {
            return Err("a file of a copy lies in the copy's directory".into());
        }
        let mut file = fs::File::create(unfinished.join(name))?;
        file.write_all(frame.0)?;
        file.sync_all()?;
    }
    fs::File::open(&unfinished)?.sync_all()?;
    fs::rename(&unfinished, dir)?;
    Ok(fs::File::open(dir.parent().ok_or("a database needs a parent directory")?)?.sync_all()?)
}

struct Replica {
    db: Db,
    own: ColumnFamilyHandle,
    /// Families by the leader's ids.
    families: BTreeMap<u64, ColumnFamilyHandle>,
    position: ChangePosition,
}

fn family_key(name: &str) -> String {
    format!("family/{name}")
}

impl Replica {
    fn open(dir: &Path) -> Outcome<Replica> {
        let db = open(dir)?;
        // Nothing is written here before the position is: a new copy continues behind its newest
        // number.
        let behind_copy = ChangePosition::after(db.latest_sequence_number());
        let own = match db.column_family(OWN) {
            Some(own) => own,
            None => db.create_column_family(OWN, &options_of(&db))?,
        };
        let names = db.column_family_names().into_iter().filter(|name| name != OWN);
        let handles: Vec<_> = names.filter_map(|name| db.column_family(&name)).collect();
        if !db.contains_key_cf(&own, POSITION)? {
            // A copy has the leader's ids.
            let mut batch = WriteBatch::new();
            for handle in &handles {
                batch.put_cf(&own, family_key(handle.name()), handle.id().to_string())?;
            }
            batch.put_cf(&own, POSITION, behind_copy.to_string())?;
            db.write(batch)?;
        }
        let text = |key: &str| -> Outcome<Option<String>> {
            Ok(db.get_cf(&own, key)?.map(|value| String::from_utf8_lossy(&value).into_owned()))
        };
        let position = text(POSITION)?.ok_or("the replica has no position")?.parse()?;
        let mut families = BTreeMap::new();
        for handle in handles {
            match text(&family_key(handle.name()))? {
                Some(id) => {
                    families.insert(id.parse()?, handle);
                }
                // It was made before a kill, and never written.
                None => db.drop_column_family(&handle)?,
            }
        }
        Ok(Replica { db, own, families, position })
    }

    /// Applies a batch, and stores the position behind it, in one write.
    fn apply(&mut self, body: &[u8]) -> Outcome {
        let mut frame = Frame(body);
        let next = frame.number(8)?;
        let mut applied = WriteBatch::new();
        for _ in 0..frame.number(4)? {
            let (id, is_dropped, name) = (frame.number(4)?, frame.number(1)? == 1, frame.name()?);
            if !is_dropped && !self.families.contains_key(&id) {
                // Another family of this name was dropped.
                self.drop_where(|_, family| family.name() == name)?;
                let family = self.db.create_column_family(name, &options_of(&self.db))?;
                applied.put_cf(&self.own, family_key(name), id.to_string())?;
                self.families.insert(id, family);
            }
        }
        for op in WriteBatch::from_bytes(frame.0.to_vec())?.iter() {
            self.add(op, &mut applied)?;
        }
        applied.put_cf(&self.own, POSITION, next.to_string())?;
        self.db.write(applied)?;
        Ok(())
    }

    /// Adds an operation, with the replica's own id of the family. The leader has dropped families
    /// that are not here.
    fn add(&self, op: BatchOp<'_>, to: &mut WriteBatch) -> Outcome {
        let own = |family: esker::ColumnFamilyId| self.families.get(&family.0.into());
        match op {
            BatchOp::Put { family, key, value } => own(family).map(|own| to.put_cf(own, key, value)),
            BatchOp::Delete { family, key } => own(family).map(|own| to.delete_cf(own, key)),
            BatchOp::SingleDelete { family, key } => own(family).map(|own| to.single_delete_cf(own, key)),
            BatchOp::Merge { family, key, operand } => own(family).map(|own| to.merge_cf(own, key, operand)),
            BatchOp::DeleteRange { family, begin, end } => {
                own(family).map(|own| to.delete_range_cf(own, begin, end))
            }
            BatchOp::LogData(_) => None,
            other => return Err(format!("this example does not replicate {other:?}").into()),
        }
        .transpose()?;
        Ok(())
    }

    /// Drops the families that are not in the leader's list.
    fn drop_others(&mut self, list: &str) -> Outcome {
        let live: Vec<u64> = list.lines().filter_map(|line| line.split_once(' ')?.0.parse().ok()).collect();
        self.drop_where(|id, _| !live.contains(&id))
    }

    fn drop_where(&mut self, goes: impl Fn(u64, &ColumnFamilyHandle) -> bool) -> Outcome {
        for (_, family) in self.families.extract_if(.., |id, family| goes(*id, family)) {
            let name = family.name().to_owned();
            self.db.drop_column_family(&family)?;
            self.db.delete_cf(&self.own, family_key(&name))?;
        }
        Ok(())
    }
}

fn options_of(db: &Db) -> esker::ColumnFamilyOptions {
    db.options_cf(&db.default_column_family())
}

// The drill.

/// A process that is killed when it is dropped.
struct Process(Child);

impl Process {
    fn start(arguments: &[&str]) -> Outcome<Process> {
        Ok(Process(Command::new(std::env::current_exe()?).args(arguments).spawn()?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGKILL. The process may have ended by itself.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn drill() -> Outcome {
    let dir = std::env::temp_dir().join(format!("esker-example-follower-{}", std::process::id()));
    fs::create_dir_all(&dir)?;
    let (leader_dir, follower_dir) = (dir.join("leader"), dir.join("replica"));
    let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port().to_string();
    let leader = |work| Process::start(&["leader", path(&leader_dir)?, &port, work]);
    let follower = |until| Process::start(&["follower", path(&follower_dir)?, &port, until]);

    let mut leading = Some(leader("write")?);
    let mut following = Some(follower("killed")?);
    let mut rng = fastrand::Rng::new();
    for round in 0..12 {
        sleep(Duration::from_millis(rng.u64(50..400)));
        if round % 3 != 0 {
            drop(following.take());
            following = Some(follower("killed")?);
        }
        if round % 3 != 1 {
            drop(leading.take());
            leading = Some(leader(if round == 6 { "gap" } else { "write" })?);
        }
    }
    drop((leading, following));
    let quiet = leader("quiet")?;
    let mut last = follower("caught-up")?;
    let until = Instant::now() + Duration::from_secs(120);
    while last.0.try_wait()?.is_none() {
        if Instant::now() > until {
            return Err("the follower does not catch up".into());
        }
        sleep(Duration::from_millis(20));
    }
    drop((quiet, last));

    let (leader, replica) = (contents(&leader_dir)?, contents(&follower_dir)?);
    println!("leader:  {} keys, digest {:016x}", leader.0, leader.1);
    println!("replica: {} keys, digest {:016x}", replica.0, replica.1);
    if leader != replica || leader.0 == 0 {
        return Err(format!("the databases in {} differ", dir.display()).into());
    }
    Ok(fs::remove_dir_all(&dir)?)
}

fn path(path: &Path) -> Outcome<&str> {
    path.to_str().ok_or_else(|| "the temporary directory has no UTF-8 name".into())
}

/// The number of keys, and a digest of all families, names, keys and values.
fn contents(dir: &Path) -> Outcome<(u64, u64)> {
    let db = open(dir)?;
    let (mut keys, mut digest) = (0, 0xcbf2_9ce4_8422_2325_u64);
    let mut names = db.column_family_names();
    names.sort();
    for name in names.iter().filter(|name| *name != OWN) {
        let family = db.column_family(name).ok_or("a family is missing")?;
        let mut iter = db.iter_cf(&family)?;
        iter.seek_to_first();
        while let Some((key, value)) = iter.item() {
            for part in [name.as_bytes(), key, value] {
                let length = part.len().to_le_bytes();
                for byte in length.iter().chain(part) {
                    digest = (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
                }
            }
            keys += 1;
            iter.next();
        }
        iter.status()?;
    }
    Ok((keys, digest))
}
