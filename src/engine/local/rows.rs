//! The rows of one transaction. What they mean is computed by [`Lane`] and [`Site`], which are pure.

use std::cell::Cell;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Result, params};
use sha2::{Digest, Sha256};

use super::file;
use crate::engine::cells::RANKS_MAX;
use crate::engine::clock::{Micros, micros};
use crate::engine::format::FORMAT;
use crate::engine::lane::{Lane, REST, Reservation, StoredHold};
use crate::engine::members::Heartbeat;
use crate::engine::site::{Lease, Site, Value};
use crate::engine::{
    FileDigest, Hold, HoldCause, KeptRank, LeaseToken, LookupOutcome, Presence, PublishOutcome,
    Rank, bounded_micros, has_digest,
};
use crate::runtime::clock::Clock;
use crate::types::origin::{Origin, split_url};

/// Before the name of a group; an empty name is that of the lane itself.
const GROUP: &str = "g:";
/// Rows that are forgotten at once: others wait meanwhile.
const FORGOTTEN_AT_ONCE: u32 = 32;
/// A process that has not been seen for so long is gone.
const SILENT: Micros = 15 * 1_000_000;
const RANK_TABLE: &str = "CREATE TABLE IF NOT EXISTS rank (rank INTEGER NOT NULL,
    highest INTEGER NOT NULL, is_settled INTEGER NOT NULL, offset INTEGER NOT NULL,
    name TEXT NOT NULL) STRICT";
/// Holds that one look reports.
const TOLD_AT_ONCE: u32 = 1024;

/// A transaction.
pub(super) struct Rows<'a> {
    tx: &'a Connection,
    /// The process whose operations these are; none is that of a command.
    process: &'a str,
    /// The time of the file.
    pub now: Micros,
    /// When its data began; 0 unless something was lost before.
    pub epoch: Micros,
    is_damaged: Cell<bool>,
    broken: Cell<u64>,
}

/// What the file has of an origin.
#[derive(Clone, Debug)]
pub struct KnownOrigin {
    pub token: LeaseToken,
    pub value: Bytes,
    /// The files that the value names.
    pub files: Vec<Bytes>,
}

/// What lies ahead of a lane, from now on.
#[derive(Clone, Debug)]
pub struct LaneAhead {
    pub lane: Origin,
    /// Until the next start by the lane's own delay.
    pub next: Duration,
    /// Until the next start of each group, by name.
    pub groups: Vec<(String, Duration)>,
    pub hold: Option<Hold>,
}

impl<'a> Rows<'a> {
    pub(super) fn new(tx: &'a Connection, clock: &dyn Clock, process: &'a str) -> Result<Self> {
        let (now, epoch) = file::now(tx)?;
        let now = now + micros(clock.advanced());
        Ok(Self { tx, process, now, epoch, is_damaged: Cell::new(false), broken: Cell::new(0) })
    }

    /// Notes what an operation has failed by.
    pub(super) fn note(&self, error: &rusqlite::Error) {
        self.is_damaged.set(self.is_damaged.get() || file::is_damage(error));
    }

    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.get()
    }

    /// Rows that were not what had been written.
    pub(super) fn broken(&self) -> u64 {
        self.broken.get()
    }

    fn execute(&self, sql: &str, values: impl rusqlite::Params) -> Result<usize> {
        self.tx.prepare_cached(sql)?.execute(values)
    }

    fn find<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        read: impl FnOnce(&rusqlite::Row<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        self.tx.prepare_cached(sql)?.query_row(values, read).optional()
    }

    /// What is known of an origin, and its lease.
    fn site(&self, name: &str) -> Result<Site> {
        let known = "SELECT token, sha256, known FROM origin WHERE origin = ?1";
        let known = self.find(known, [name], |row| {
            Ok((row.get::<_, u64>(0)?, row.get::<_, Vec<u8>>(1)?, row.get::<_, Vec<u8>>(2)?))
        })?;
        // SQLite has no checksums: of eight damaged files it noticed four.
        let is_whole = |(token, sha256, known): &(u64, Vec<u8>, Vec<u8>)| {
            *sha256 == checksum(name, *token, known)
        };
        let is_broken = known.as_ref().is_some_and(|row| !is_whole(row));
        self.broken.set(self.broken.get() + u64::from(is_broken));
        let known = known.filter(|_| !is_broken);
        let lease = "SELECT token, ends, holder FROM lease WHERE origin = ?1";
        let lease = self.find(lease, [name], |row| {
            Ok(Lease { token: LeaseToken(row.get(0)?), until: row.get(1)?, holder: row.get(2)? })
        })?;
        let value = |(token, _, known)| Value::lasting(LeaseToken(token), Bytes::from(known));
        Ok(Site::of(known.map(value), lease))
    }

    fn put_lease(&self, name: &str, lease: Option<&Lease>) -> Result<()> {
        let Some(Lease { token, until, holder }) = lease else { return Ok(()) };
        self.execute(
            "INSERT OR REPLACE INTO lease VALUES (?1, ?2, ?3, ?4)",
            params![name, token.0, until, holder],
        )?;
        Ok(())
    }

    /// What is known beyond `have`, or which process fetches; `process` would.
    pub(super) fn lookup(
        &self,
        origin: &Origin,
        have: LeaseToken,
        process: Option<&str>,
    ) -> Result<LookupOutcome> {
        let name = origin.to_string();
        let mut site = self.site(&name)?;
        let holder = process.unwrap_or_default();
        let outcome = site.lookup(have, holder, process.is_some(), self.now);
        if matches!(outcome, LookupOutcome::Lease(_)) {
            self.put_lease(&name, site.lease.as_ref())?;
        }
        Ok(outcome)
    }

    pub(super) fn publish(
        &self,
        origin: &Origin,
        token: LeaseToken,
        value: &[u8],
    ) -> Result<PublishOutcome> {
        let name = origin.to_string();
        let mut site = self.site(&name)?;
        let outcome = site.publish(token, value, 0, self.now);
        if outcome == PublishOutcome::Stored {
            self.put_known(&name, token, value)?;
            self.put_lease(&name, site.lease.as_ref())?;
        }
        Ok(outcome)
    }

    /// What is known of an origin, with the files that it names; none where one is missing.
    pub(super) fn known(
        &self,
        origin: &Origin,
        files: fn(&[u8]) -> Option<Vec<FileDigest>>,
    ) -> Result<Option<KnownOrigin>> {
        let Some(Value { token, value, .. }) = self.site(&origin.to_string())?.known else {
            return Ok(None);
        };
        let Some(named) = files(&value) else { return Ok(None) };
        let mut files = Vec::new();
        for sha256 in named {
            let Some(content) = self.file(&sha256)? else { return Ok(None) };
            files.push(content);
        }
        Ok(Some(KnownOrigin { token, value, files }))
    }

    /// Writes what is known of an origin, unless there is a later version than that of `token`.
    pub(super) fn keep(&self, origin: &Origin, token: LeaseToken, value: &[u8]) -> Result<()> {
        let name = origin.to_string();
        let later = "SELECT token FROM origin WHERE origin = ?1 AND token > ?2";
        let later: Option<u64> = self.find(later, params![name, token.0], |row| row.get(0))?;
        // One from a clock that ran ahead is damage: it would stay for ever.
        if later.is_some_and(|token| LeaseToken(token).unless_ahead(self.now).is_some()) {
            return Ok(());
        }
        self.put_known(&name, token, value)
    }

    fn put_known(&self, name: &str, token: LeaseToken, value: &[u8]) -> Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO origin VALUES (?1, ?2, ?3, ?4, ?5)",
            params![name, token.0, self.now, checksum(name, token.0, value), value],
        )?;
        Ok(())
    }

    /// Removes what is known of an origin and its hold; whether there was anything.
    pub(super) fn forget(&self, origin: &Origin) -> Result<bool> {
        let known = self.execute("DELETE FROM origin WHERE origin = ?1", [origin.to_string()])?;
        let was_held = self.with_lane(&origin.lane(), None, |lane, now| lane.end_hold(now))?;
        Ok(known > 0 || was_held)
    }

    /// What lies ahead of a lane.
    pub(super) fn lane_ahead(&self, lane: Origin) -> Result<LaneAhead> {
        let host = lane.to_string();
        let left = |until: Micros| Duration::from_micros(until.saturating_sub(self.now));
        let next = self.reservation(&host, "")?.map_or(Duration::ZERO, |it| left(it.next));
        let mut groups = self.tx.prepare_cached(
            "SELECT name, next FROM lane WHERE host = ?1 AND name <> '' AND next > ?2",
        )?;
        let groups = groups.query_map(params![host, self.now], |row| {
            Ok((row.get::<_, String>(0)?, left(row.get(1)?)))
        })?;
        let groups = groups
            .filter_map(|row| row.ok())
            .map(|(name, next)| (name.strip_prefix(GROUP).unwrap_or(&name).to_owned(), next))
            .collect();
        let hold = self
            .with_lane(&lane, None, |lane, now| lane.hold_at(now, bounded_micros(Duration::MAX)))?;
        Ok(LaneAhead { lane, next, groups, hold })
    }

    /// All lanes with a time ahead, whether they are all there is to know, and the rank among the proxies
    /// that shared a server. The lanes are not whole from then on.
    pub(super) fn begin_lanes(&self) -> Result<(Vec<LaneAhead>, bool, Option<KeptRank>)> {
        let is_whole = self.tx.query_row("SELECT is_whole FROM left", [], |row| row.get(0))?;
        self.execute(RANK_TABLE, [])?;
        let rank =
            self.find("SELECT rank, highest, is_settled, offset, name FROM rank", [], |row| {
                let rank =
                    Rank { rank: row.get(0)?, highest: row.get(1)?, is_settled: row.get(2)? };
                Ok(KeptRank { rank, clock_offset: row.get(3)?, name: row.get(4)? })
            })?;
        self.execute("UPDATE left SET is_whole = 0", [])?;
        let mut hosts = self.tx.prepare_cached(
            "SELECT host FROM lane WHERE next > ?1 UNION SELECT host FROM hold WHERE until > ?1",
        )?;
        let hosts = hosts.query_map([self.now], |row| row.get::<_, String>(0))?;
        let mut lanes = Vec::new();
        for host in hosts {
            if let Ok((lane, _)) = split_url(host?.as_bytes()) {
                lanes.push(self.lane_ahead(lane)?);
            }
        }
        Ok((lanes, is_whole, rank))
    }

    /// Moves lanes forward to these times.
    pub(super) fn keep_lanes(&self, lanes: &[LaneAhead], is_whole: bool) -> Result<()> {
        for LaneAhead { lane, next, groups, hold } in lanes {
            let host = lane.to_string();
            let of_lane = std::iter::once((String::new(), *next));
            let of_groups = groups.iter().map(|(name, next)| (format!("{GROUP}{name}"), *next));
            for (name, next) in of_lane.chain(of_groups).filter(|(_, next)| !next.is_zero()) {
                let next = self.now + micros(next);
                let is_later = |it: &Reservation| it.next >= next;
                if self.reservation(&host, &name)?.is_none_or(|it| !is_later(&it)) {
                    self.reserve(&host, &name, Some(Reservation { next, reach: next }))?;
                }
            }
            if let Some(Hold { left, status, cause }) = *hold {
                let until = self.now + micros(left);
                self.with_lane(lane, None, |lane, now| {
                    lane.hold_for(
                        StoredHold { until, status, cause },
                        now,
                        bounded_micros(Duration::MAX),
                    );
                })?;
            }
        }
        self.execute("UPDATE left SET is_whole = ?1", [is_whole])?;
        Ok(())
    }

    /// Keeps the rank among the proxies that share a server; `None`: it was given back.
    pub(super) fn keep_rank(&self, kept: Option<KeptRank>) -> Result<()> {
        self.execute(RANK_TABLE, [])?;
        self.execute("DELETE FROM rank", [])?;
        if let Some(KeptRank { name, rank, clock_offset }) = kept {
            let Rank { rank, highest, is_settled } = rank;
            let values = params![rank, highest, is_settled, clock_offset, name];
            self.execute("INSERT INTO rank VALUES (?1, ?2, ?3, ?4, ?5)", values)?;
        }
        Ok(())
    }

    /// Renews a lease, or ends it.
    pub(super) fn set_lease_end(
        &self,
        origin: &Origin,
        token: LeaseToken,
        lasts: bool,
    ) -> Result<bool> {
        let name = origin.to_string();
        let mut site = self.site(&name)?;
        let length = if lasts { micros(crate::engine::LEASE) } else { 0 };
        let is_held = site.set_lease_end(token, self.now + length);
        if is_held {
            self.put_lease(&name, site.lease.as_ref())?;
        }
        Ok(is_held)
    }

    /// Acts on a lane, as far as this group is concerned, and keeps what has changed.
    pub(super) fn with_lane<T>(
        &self,
        lane: &Origin,
        group: Option<&str>,
        act: impl FnOnce(&mut Lane, Micros) -> T,
    ) -> Result<T> {
        let host = lane.to_string();
        let mut state = Lane { own: self.reservation(&host, "")?, ..Lane::default() };
        let group_name = group.map(|group| format!("{GROUP}{group}"));
        if let (Some(group), Some(name)) = (group, &group_name) {
            let reserved = self.reservation(&host, name)?;
            state.groups = reserved.map(|it| (group.to_owned(), it)).into_iter().collect();
        }
        let hold = "SELECT until, status, cause, streak FROM hold WHERE host = ?1";
        if let Some((hold, streak)) = self.find(hold, [&host], |row| {
            let cause: String = row.get(2)?;
            let cause = HoldCause::of(cause.as_bytes());
            Ok((StoredHold { until: row.get(0)?, status: row.get(1)?, cause }, row.get(3)?))
        })? {
            state.hold = (hold.until > 0).then_some(hold);
            state.streak = streak;
        }
        let (own, hold, streak) = (state.own, state.hold, state.streak);
        let reserved = group.and_then(|group| state.groups.get(group)).copied();
        let result = act(&mut state, self.now);
        if state.own != own {
            self.reserve(&host, "", state.own)?;
        }
        if let (Some(group), Some(name)) = (group, &group_name)
            && state.groups.get(group).copied() != reserved
        {
            self.reserve(&host, name, state.groups.get(group).copied())?;
        }
        if (state.hold, state.streak) != (hold, streak) {
            self.put_hold(&host, state.hold, state.streak)?;
        }
        Ok(result)
    }

    fn reservation(&self, host: &str, name: &str) -> Result<Option<Reservation>> {
        self.find(
            "SELECT next, reach FROM lane WHERE host = ?1 AND name = ?2",
            [host, name],
            |row| Ok(Reservation { next: row.get(0)?, reach: row.get(1)? }),
        )
    }

    fn reserve(&self, host: &str, name: &str, reserved: Option<Reservation>) -> Result<()> {
        let Some(Reservation { next, reach }) = reserved else { return Ok(()) };
        self.execute(
            "INSERT OR REPLACE INTO lane VALUES (?1, ?2, ?3, ?4)",
            params![host, name, next, reach],
        )?;
        Ok(())
    }

    fn put_hold(&self, host: &str, hold: Option<StoredHold>, streak: u32) -> Result<()> {
        let Some(StoredHold { until, status, cause }) = hold else {
            self.execute("DELETE FROM hold WHERE host = ?1", [host])?;
            return Ok(());
        };
        self.execute(
            "INSERT OR REPLACE INTO hold
             VALUES (?1, ?2, ?3, ?4, ?5, max(?7, (SELECT ifnull(max(seq), 0) + 1 FROM hold)), ?6)",
            // Later than that of a hold that is not there any more, too, which others have seen.
            params![host, until, status, cause.word(), streak, self.process, self.now],
        )?;
        Ok(())
    }

    /// How many processes send requests to the host of a lane, `used` one of them from now on, and its
    /// hold.
    pub(super) fn presence(
        &self,
        lane: &Origin,
        used: Option<&str>,
        interval: Duration,
        hold_max: Micros,
    ) -> Result<Presence> {
        let host = lane.to_string();
        let (interval, now) = (micros(interval), self.now);
        if let Some(process) = used {
            self.execute(
                "DELETE FROM presence WHERE host = ?1 AND seen < ?2",
                params![host, now.saturating_sub(2 * interval)],
            )?;
            self.execute(
                "INSERT OR REPLACE INTO presence VALUES (?1, ?2, ?3)",
                params![host, process, now],
            )?;
        }
        let seen = "SELECT count(*) FROM presence WHERE host = ?1 AND seen BETWEEN ?2 AND ?3";
        let span = params![host, now.saturating_sub(2 * interval), now + 2 * interval];
        let proxies = self.find(seen, span, |row| row.get(0))?.unwrap_or_default();
        let hold = self.with_lane(lane, None, |lane, now| lane.hold_at(now, hold_max))?;
        Ok(Presence { proxies, hold })
    }

    /// Marks that this process lives, and that time has come so far.
    pub(super) fn heartbeat(&self, process: &str) -> Result<Heartbeat> {
        let count = |tx: &Self| -> Result<usize> {
            Ok(tx.find("SELECT count(*) FROM process", [], |row| row.get(0))?.unwrap_or_default())
        };
        let boot = crate::runtime::clock::Boottime::now().boot.unwrap_or_default();
        self.execute(
            "DELETE FROM process WHERE seen < ?1 OR seen > ?2",
            [self.now.saturating_sub(SILENT), self.now + SILENT],
        )?;
        self.execute(
            "INSERT OR REPLACE INTO process VALUES (?1, ?2, '', ?3, ?4)",
            params![process, std::process::id(), boot, self.now],
        )?;
        self.forget_what_is_over()?;
        let (time, _) = file::now(self.tx)?;
        self.execute("UPDATE clock SET seen = max(seen, ?1)", [time])?;
        let members = count(self)?;
        let sql = "SELECT count(*) FROM process WHERE id < ?1";
        let before = self.find(sql, [process], |row| row.get(0))?.unwrap_or_default();
        let highest = u32::try_from(members).unwrap_or(u32::MAX).saturating_sub(1);
        let rank =
            (highest < RANKS_MAX).then_some(Rank { rank: before, highest, is_settled: true });
        Ok(Heartbeat {
            members,
            same_settings: members,
            format: FORMAT,
            now: self.now,
            epoch: self.epoch,
            rank,
            ..Heartbeat::default()
        })
    }

    /// Forgets lanes, leases and processes at origins whose times are over.
    fn forget_what_is_over(&self) -> Result<()> {
        for (sql, rest) in [
            ("DELETE FROM lane WHERE next < ?1", REST),
            ("DELETE FROM lease WHERE ends < ?1", REST),
            ("DELETE FROM presence WHERE seen < ?1", 10 * REST),
            // The number of failures in a row counts for a day.
            ("DELETE FROM hold WHERE until < ?1", 24 * 60 * REST),
        ] {
            self.execute(sql, [self.now.saturating_sub(rest)])?;
        }
        Ok(())
    }

    pub(super) fn file(&self, sha256: &FileDigest) -> Result<Option<Bytes>> {
        let found = self.find("SELECT content FROM file WHERE sha256 = ?1", [sha256], |row| {
            row.get::<_, Vec<u8>>(0)
        })?;
        let is_broken = found.as_ref().is_some_and(|content| !has_digest(content, sha256));
        if is_broken {
            self.broken.set(self.broken.get() + 1);
            // The whole one takes its place.
            self.execute("DELETE FROM file WHERE sha256 = ?1", [sha256])?;
        }
        Ok(found.filter(|_| !is_broken).map(Bytes::from))
    }

    pub(super) fn put_file(&self, sha256: &FileDigest, content: &[u8]) -> Result<()> {
        let used =
            self.execute("UPDATE file SET used = ?2 WHERE sha256 = ?1", params![sha256, self.now])?;
        if used == 0 {
            self.execute(
                "INSERT INTO file VALUES (?1, ?2, ?3)",
                params![sha256, self.now, content],
            )?;
        }
        Ok(())
    }
}

/// Includes origin and token, so that a row under another key does not pass.
fn checksum(origin: &str, token: u64, known: &[u8]) -> [u8; 32] {
    let digest = Sha256::new().chain_update(origin).chain_update(b"\n");
    digest.chain_update(token.to_be_bytes()).chain_update(known).finalize().into()
}

/// The number of the last hold that was set.
pub(super) fn last_seq(connection: &Connection) -> Result<u64> {
    connection.query_row("SELECT ifnull(max(seq), 0) FROM hold", [], |row| row.get(0))
}

/// The holds that others than `process` have set after that of a number, with theirs.
pub(super) fn holds_since(
    connection: &Connection,
    (seq, process): (u64, &str),
    clock: &dyn Clock,
    hold_max: Micros,
) -> Result<Vec<(u64, Origin, Hold)>> {
    let now = file::now(connection)?.0 + micros(clock.advanced());
    let mut holds = connection.prepare_cached(
        "SELECT seq, host, until, status, cause FROM hold
         WHERE seq > ?1 AND until > ?2 AND process <> ?3 ORDER BY seq LIMIT ?4",
    )?;
    let rows = holds.query_map(params![seq, now, process, TOLD_AT_ONCE], |row| {
        let (host, until, cause): (String, Micros, String) =
            (row.get(1)?, row.get(2)?, row.get(4)?);
        let left = Duration::from_micros((until.saturating_sub(now)).min(hold_max));
        let hold = Hold { left, status: row.get(3)?, cause: HoldCause::of(cause.as_bytes()) };
        Ok((row.get(0)?, host, hold))
    })?;
    let origin = |(seq, host, hold): (u64, String, Hold)| {
        Some((seq, split_url(host.as_bytes()).ok()?.0, hold))
    };
    Ok(rows.filter_map(|row| row.ok().and_then(origin)).collect())
}

/// Calls `each` for every origin, as long as that returns true; how many rows are not what was written.
pub(super) fn for_each(
    connection: &Connection,
    mut each: impl FnMut(&str, LeaseToken, &[u8]) -> bool,
) -> Result<u64> {
    let mut origins =
        connection.prepare("SELECT origin, token, sha256, known FROM origin ORDER BY origin")?;
    let mut rows = origins.query([])?;
    let mut broken = 0;
    while let Some(row) = rows.next()? {
        let (origin, token) = (row.get_ref(0)?.as_str()?, row.get(1)?);
        let (sha256, known) = (row.get_ref(2)?.as_blob()?, row.get_ref(3)?.as_blob()?);
        if sha256 != checksum(origin, token, known) {
            broken += 1;
        } else if !each(origin, LeaseToken(token), known) {
            break;
        }
    }
    Ok(broken)
}

/// Forgets the origins and files that were written least recently; how many origins.
pub(super) fn forget_oldest(connection: &Connection) -> Result<u64> {
    let forget = |sql| connection.prepare_cached(sql)?.execute([FORGOTTEN_AT_ONCE]);
    let origins = forget(
        "DELETE FROM origin WHERE rowid IN (SELECT rowid FROM origin ORDER BY changed LIMIT ?1)",
    )?;
    forget("DELETE FROM file WHERE rowid IN (SELECT rowid FROM file ORDER BY used LIMIT ?1)")?;
    Ok(origins as u64)
}

/// Forgets a process that ends.
pub(super) fn forget_process(connection: &Connection, process: &str) -> Result<()> {
    connection.execute("DELETE FROM process WHERE id = ?1", [process])?;
    connection.execute("DELETE FROM presence WHERE process = ?1", [process])?;
    Ok(())
}
