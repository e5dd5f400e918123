//! The logs that the pages show, and what is read of them for each.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::jobs::{Jobs, ReadSoFar, Reading, in_background};
use super::pages::view::Frame;
use super::proxy::RunningProxy;
use crate::admin::guard::{Guard, Role, Visitor};
use crate::audit::evidence::{BlobStore, CaptureRecord, Found, Kind};
use crate::audit::read::archive::LineInPlace;
use crate::audit::read::page::{LinePage, PageRequest, page};
use crate::audit::read::report::{Report, Request, Survey};
use crate::audit::read::{CompiledFilter, Filter, Log};
use crate::audit::record::redact::Redactor;
use crate::audit::summary::Needs;
use crate::audit::{Content, Operation, checked_hash};
use crate::cli::audit::log_source::LogSourceFlags;
use crate::cli::audit::remarks::gathering;
use crate::cli::audit::report::{read_all, verify_all};
use crate::cli::audit::search::{Search, Taken};
use crate::cli::audit::verify::{Against, stated_head};
use crate::cli::exit::{Exit, Failure};
use crate::runtime::clock::{Clock, SystemClock};
use axum::http::HeaderMap;
use tokio::sync::{Semaphore, oneshot};

/// Rows of each list of a report: the pages link to the others.
const ROWS_MAX: usize = 20;

/// Bytes of a log, as it is stored, that are read for one page of records, before it is shown with a link to search on.
const PAGE_BYTES_MAX: u64 = 256 << 20;

/// Pages of records to which new ones are added.
const STREAMS_MAX: usize = 16;

/// Searches that wait for the one that is under way.
const SEARCHES_WAITING_MAX: usize = 8;

/// What the pages are of.
pub struct ConsoleArchive {
    pub logs: Vec<Log>,
    pub guard: Arc<Guard>,
    /// The proxy that writes the log, where it serves these pages.
    pub proxy: Option<RunningProxy>,
    reports: Jobs<ReportRead>,
    searching: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
    /// Pages that go on.
    pub streams: Arc<Semaphore>,
    /// Hides from viewers who asked, and the values of queries.
    redactor: Redactor,
    /// Keeps what was unpacked as long as the pages are served.
    place: LogSourceFlags,
}

/// What a report is asked for.
#[derive(Clone, Debug, Default)]
pub struct ReportAsked {
    pub filter: Filter,
    /// As they were written.
    pub origins: Vec<String>,
    pub agents: Vec<String>,
    pub clients: Vec<String>,
    /// A published head, or a checkpoint, to hold the log against.
    pub head: Option<String>,
}

/// A report, or why there is none, and what is remarked of it.
pub struct ReportRead {
    pub report: Result<Report, String>,
    pub remarks: Vec<String>,
}

/// A line of a page, as it may be shown.
#[derive(Clone, Debug)]
pub struct PageLine {
    /// The place of its log.
    pub log: usize,
    /// Its number in the chain.
    pub seq: u64,
    /// Without its end.
    pub line: Vec<u8>,
    /// It is not what was written.
    pub is_changed: bool,
}

/// A page of several logs, the newest first.
pub struct MergedPage {
    pub lines: Vec<PageLine>,
    /// The cursor of the page behind it.
    pub older: Option<String>,
    /// The search ended before the page was full, and goes on from the cursor.
    pub is_cut: bool,
    /// Lines that cannot be read and were passed over.
    pub damaged: u64,
    /// The number of the newest line of the first log, whether it is on the page or not.
    pub newest: Option<u64>,
}

impl ConsoleArchive {
    /// Of `logs`, which `place` names.
    pub fn new(
        logs: Vec<Log>,
        place: LogSourceFlags,
        guard: Arc<Guard>,
        proxy: Option<RunningProxy>,
    ) -> Arc<Self> {
        Arc::new(Self {
            logs,
            guard,
            proxy,
            redactor: Redactor::of_viewers(),
            reports: Jobs::new(),
            searching: Arc::new(Semaphore::new(1)),
            waiting: Arc::new(Semaphore::new(1 + SEARCHES_WAITING_MAX)),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
            place,
        })
    }

    /// Makes it a line of the log that a visitor looked or acted, where the proxy that writes the log serves this.
    pub fn note(&self, visitor: &Visitor, action: Operation, subject: Option<&str>) {
        if let Some(proxy) = &self.proxy {
            proxy.note(visitor, action, subject);
        }
    }

    /// Whether it may still see what goes on: its session holds, and the proxy goes on.
    pub fn is_let_in(&self, visitor: &Visitor, headers: &HeaderMap) -> bool {
        self.guard.visitor(headers).as_ref() == Some(visitor)
            && !self.proxy.as_ref().is_some_and(RunningProxy::is_stopping)
    }

    /// A line, as this role may see it. `None`: it cannot be read, so that what of it is about persons is not known.
    pub fn shown(&self, role: Role, line: &[u8]) -> Option<Vec<u8>> {
        match role {
            Role::Operator => Some(line.to_vec()),
            Role::Viewer => self.redactor.line(line),
        }
    }

    /// The flags that name the logs.
    pub fn place(&self) -> &LogSourceFlags {
        &self.place
    }

    /// How a robots.txt was fetched; or why that is not known.
    pub fn capture(&self, sha256: &str) -> Result<CaptureRecord, String> {
        let found =
            self.dirs().into_iter().map(|dir| BlobStore::of(&dir).get(Kind::Capture, sha256));
        let content = found.filter_map(|found| match found {
            Ok(Found::Content(content)) => Some(content),
            _ => None,
        });
        let content =
            content.into_iter().next().ok_or("It is not kept how this file was fetched.")?;
        serde_json::from_slice(&content)
            .map_err(|error| format!("The evidence of how it was fetched cannot be read: {error}"))
    }

    /// The directories of the logs.
    pub fn dirs(&self) -> Vec<PathBuf> {
        self.logs.iter().map(Log::dir).collect()
    }

    /// From now on every report is read, and verified, again.
    pub fn read_again(&self) {
        self.reports.forget();
    }

    /// The report, verified, or how far its reading has come.
    pub fn report(&self, asked: &ReportAsked) -> Reading<ReportRead> {
        let (logs, asked) = (self.logs.clone(), asked.clone());
        let key = format!("{asked:?}");
        self.reports.get(&key, move |so_far| {
            let (report, remarks) = gathering(|| Self::read(logs, asked, so_far));
            ReportRead { report, remarks }
        })
    }

    fn read(logs: Vec<Log>, asked: ReportAsked, so_far: &ReadSoFar) -> Result<Report, String> {
        // Who looks names no file of this machine.
        let given: Vec<_> = asked.head.iter().filter_map(|text| stated_head(text)).collect();
        // The first page says whether the log holds; those of one site or person show their lines of it.
        let is_whole = asked.filter == Filter::default();
        let verified =
            is_whole.then(|| verify_all(&logs, &Against::new(&given, None), &[])).transpose();
        let verified = verified.map_err(words)?;
        let since = asked.filter.since;
        let mut survey = Survey::of(asked.filter);
        read_all(logs, since, &mut survey, &mut |extent, _| {
            extent.into_iter().for_each(|extent| so_far.at(extent));
        })
        .map_err(words)?;
        Ok(survey.finish(Request {
            rows_max: ROWS_MAX,
            made_at: SystemClock.wall(),
            origins: asked.origins,
            agents: asked.agents,
            clients: asked.clients,
            verified,
        }))
    }

    /// Does something with the files on a thread for that, one at a time. It goes on where the viewer leaves, and so keeps
    /// its place until it ends. `None`: too many wait.
    pub async fn search<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> Option<T> {
        let waiting = Arc::clone(&self.waiting).try_acquire_owned().ok()?;
        let searching = Arc::clone(&self.searching).acquire_owned().await.ok()?;
        let archive = Arc::clone(self);
        let (done, found) = oneshot::channel();
        let _ = in_background(move || {
            let _places = (waiting, searching);
            let _ = done.send(gathering(|| work(&archive)));
        });
        let (found, remarks) = found.await.ok()?;
        Frame::remark(&remarks);
        Some(found)
    }

    /// A page of the records, and of the notices where their words are asked for, that `filter` admits. What a role may
    /// not see, it may not find either.
    pub fn page(
        &self,
        role: Role,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<MergedPage, String> {
        let from = self.cursor(cursor)?;
        let compiled = CompiledFilter::new(filter.clone());
        let wants = |line: &[u8]| self.admits(role, &compiled, line);
        let needs = Self::needs(role, filter);
        let mut pages: Vec<LinePage> = Vec::new();
        for (log, before) in self.logs.iter().zip(&from) {
            let request = self.request(&needs, *before, limit);
            let found = match before {
                Some(0) => LinePage::default(),
                _ => page(log.clone(), request, wants)
                    .map_err(|error| format!("{error}: {}", error.source))?,
            };
            pages.push(found);
        }
        Ok(self.merged(role, pages, from, limit))
    }

    /// The newest lines behind that one of the log that a running proxy writes, as [`Self::page`] has them.
    pub fn newer(
        &self,
        role: Role,
        filter: &Filter,
        after: u64,
        limit: usize,
    ) -> Result<MergedPage, String> {
        let compiled = CompiledFilter::new(filter.clone());
        let wants = |line: &[u8]| self.admits(role, &compiled, line);
        let needs = Self::needs(role, filter);
        let request = PageRequest { after, ..self.request(&needs, None, limit) };
        let log = self.logs.first().ok_or("there is no log")?;
        let found = page(log.clone(), request, wants).map_err(|error| error.to_string())?;
        Ok(self.merged(role, vec![found], vec![None], limit))
    }

    /// What segments are passed over by. A summary is of what was written: what stands for a client to a viewer is not in
    /// it, and whether a client is, no viewer may find.
    fn needs(role: Role, filter: &Filter) -> Needs {
        match role {
            Role::Operator => filter.needs(),
            Role::Viewer => Needs { clients: Vec::new(), ..filter.needs() },
        }
    }

    fn request<'a>(&self, needs: &'a Needs, before: Option<u64>, limit: usize) -> PageRequest<'a> {
        let (after, bytes_max, summarised_only) = (0, PAGE_BYTES_MAX, false);
        PageRequest { before, after, limit, bytes_max, needs, summarised_only }
    }

    /// Whether a line is meant, as that role sees it: what it may not see, it may not find either. Notices are meant
    /// where their words are asked for.
    fn admits(&self, role: Role, compiled: &CompiledFilter, line: &[u8]) -> bool {
        let admits = |line: &[u8]| {
            compiled.admits(line) || !compiled.asks_for_any() && compiled.admits_notice(line, false)
        };
        match role {
            Role::Operator => admits(line),
            Role::Viewer => self.redactor.line(line).is_some_and(|line| admits(&line)),
        }
    }

    fn merged(
        &self,
        role: Role,
        pages: Vec<LinePage>,
        from: Vec<Option<u64>>,
        limit: usize,
    ) -> MergedPage {
        let mut merged = Self::merge(pages, from, limit);
        for found in &mut merged.lines {
            found.line = self.shown(role, &found.line).unwrap_or_default();
        }
        merged
    }

    /// Each log stays in the order of its numbers, whatever its clock says. A line that two logs have stands once.
    fn merge(pages: Vec<LinePage>, from: Vec<Option<u64>>, limit: usize) -> MergedPage {
        let mut taken = vec![0; pages.len()];
        let mut owners: HashMap<&[u8], usize> = HashMap::new();
        let mut lines = Vec::new();
        loop {
            let next = pages.iter().zip(&taken).enumerate();
            let next = next.filter_map(|(log, (page, at))| Some((log, page.lines.get(*at)?)));
            let next = next.max_by_key(|(log, (_, line))| {
                (CompiledFilter::order(line), std::cmp::Reverse(*log))
            });
            let Some((log, (seq, line))) = next else { break };
            let is_changed = checked_hash(line).is_err();
            let is_repeated = owners.get(&**line).is_some_and(|owner| *owner != log) && !is_changed;
            if !is_repeated && lines.len() >= limit {
                break;
            }
            taken[log] += 1;
            if !is_repeated {
                owners.insert(line, log);
                lines.push(PageLine { log, seq: *seq, line: line.clone(), is_changed });
            }
        }
        let next = pages.iter().zip(from).zip(&taken).map(|((page, before), taken)| {
            let shown = taken.checked_sub(1).map(|last| page.lines[last].0);
            match (*taken < page.lines.len(), page.older) {
                (true, _) => shown.or(before),
                (false, Some(older)) => Some(older),
                (false, None) => Some(0),
            }
        });
        let next: Vec<_> = next.collect();
        let is_more = next.iter().any(|seq| *seq != Some(0));
        let words = next.iter().map(|seq| seq.map(|seq| seq.to_string()).unwrap_or_default());
        MergedPage {
            older: is_more.then(|| words.collect::<Vec<_>>().join("-")),
            is_cut: lines.len() < limit && is_more,
            damaged: pages.iter().map(|page| page.damaged).sum(),
            newest: pages.first().and_then(|page| page.newest),
            lines,
        }
    }

    /// The place of each log: before which line; 0: it is read to its beginning.
    fn cursor(&self, text: Option<&str>) -> Result<Vec<Option<u64>>, String> {
        let Some(text) = text.filter(|text| !text.is_empty()) else {
            return Ok(vec![None; self.logs.len()]);
        };
        let parse = |part: &str| match part {
            "" => Some(None),
            part => part.parse().ok().map(Some),
        };
        let parsed: Option<Vec<_>> = text.split('-').map(parse).collect();
        parsed
            .filter(|parsed| parsed.len() == self.logs.len())
            .ok_or_else(|| "before: it is not the place of a page of these logs".into())
    }

    /// The line of that number, with its neighbours.
    pub fn line(&self, log: usize, seq: u64) -> Result<Option<LineInPlace>, String> {
        let Some(log) = self.logs.get(log) else { return Ok(None) };
        LineInPlace::find(log, seq).map_err(|error| error.to_string())
    }

    /// A robots.txt of the evidence of any of the logs; or why there is none.
    pub fn file(&self, sha256: &str) -> Result<Vec<u8>, String> {
        let mut why = "it is no longer kept, or never was: its digest stands in the log".to_owned();
        for dir in self.dirs() {
            match BlobStore::of(&dir).get(Kind::File, sha256) {
                Ok(Found::Content(content)) => return Ok(content),
                Ok(Found::Damaged(what)) => why = format!("it was changed: {what}"),
                Ok(Found::Missing) => {}
                Err(error) => why = error.to_string(),
            }
        }
        Err(why)
    }

    /// Passes each line of the logs that `filter` admits, notices too, to `take`, with the place of its log.
    pub fn each(
        &self,
        filter: &Filter,
        take: &mut dyn FnMut(usize, Content),
    ) -> Result<Exit, String> {
        let search = Search::new(self.logs.clone(), filter.clone());
        let mut search = search.map_err(words)?.with_notices();
        let done = search.run(&mut |hit| {
            if !hit.is_changed
                && let Ok(content) = Content::parse(hit.line)
            {
                take(hit.log, content);
            }
            Ok(Taken::Good)
        });
        let _ = done.map_err(words)?;
        Ok(search.conclude("left out"))
    }
}

/// What failed, for a page.
pub fn words(failure: Failure) -> String {
    format!("{:#}", failure.error)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_search_keeps_its_place_when_its_viewer_leaves() {
        let guard = Arc::new(Guard::new(std::net::SocketAddr::from(([127, 0, 0, 1], 1))));
        let archive = ConsoleArchive::new(Vec::new(), LogSourceFlags::default(), guard, None);
        let (go, wait) = mpsc::channel::<()>();
        let (tell, mut begun) = tokio::sync::mpsc::channel::<()>(1);
        let searched = Arc::clone(&archive);
        let viewer = tokio::spawn(async move {
            let work = move |_: &ConsoleArchive| {
                tell.blocking_send(()).unwrap();
                wait.recv().unwrap();
            };
            searched.search(work).await
        });
        begun.recv().await.unwrap();
        viewer.abort();
        assert!(viewer.await.unwrap_err().is_cancelled());
        assert_eq!(archive.searching.available_permits(), 0, "it goes on");
        go.send(()).unwrap();
        assert_eq!(archive.search(|_| "the next").await, Some("the next"));
    }
}
