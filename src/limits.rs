//! Every bound that is not a setting, with its unit and its source. Bounds that are settings have
//! their defaults in `config/courtesy.toml`.

use std::num::NonZeroUsize;
use std::time::Duration;

/// Bytes of a host name without its trailing dot (RFC 1035 §2.3.4).
pub const HOST_BYTES_MAX: usize = 253;

/// Origins that a worker knows again by the words they were asked for in.
pub const RECENT_ORIGINS: usize = 1024;

/// Bytes of those words: a host with a dot at its end, a colon and a port.
pub const RECENT_AUTHORITY_BYTES_MAX: usize = HOST_BYTES_MAX + 7;

/// How long an answer of the resolver is kept, floor and ceiling in one: getaddrinfo tells no TTL, so
/// short enough to follow a change, long enough that a crawl does not ask for each connection.
pub const DNS_TTL: Duration = Duration::from_secs(30);

/// How long a failed look-up is kept.
pub const DNS_NEGATIVE_TTL: Duration = Duration::from_secs(5);

/// Deadline of one look-up, waiting for a place included.
pub const DNS_TIMEOUT: Duration = Duration::from_secs(8);

/// Names kept by the resolver's cache.
pub const DNS_CACHE_ENTRIES: usize = 10_000;

/// Look-ups of names under way at once, whatever is set: each occupies a thread until the system's resolver
/// gives up, and of the 512 threads of a worker's pool some are for files.
pub const LOOKUPS_MAX: usize = 448;

/// Addresses used of one answer.
pub const DNS_ADDRESSES_MAX: usize = 16;

/// TLS sessions remembered for resumption, over all origins (RFC 8446 §2.2).
pub const TLS_SESSIONS_MAX: usize = 1024;

/// Signatures of certificates remembered as good, over all origins: 32 bytes and their place.
pub const SIGNATURES_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("it is not zero");

/// Exchanges on one HTTP/2 connection at one time: what RFC 9113 §6.5.2 advises origins to allow at
/// the least. One more gets another connection.
pub const HTTP2_STREAMS_MAX: usize = 100;

/// Bytes that an origin may send on one stream before they are read (RFC 9113 §5.2): what a slow
/// client makes us hold. The window of a connection has room for every stream, so that slow readers never
/// stop the others (§5.2.2).
pub const HTTP2_SMALL_WINDOW_BYTES: u32 = 32 << 10;

/// The same for clients that are known to read, where there is memory for it.
pub const HTTP2_LARGE_WINDOW_BYTES: u32 = 256 << 10;

/// Bytes of one body that wait to be sent, a request's or an answer's.
pub const HTTP2_SEND_BUFFER_BYTES: usize = 16 << 10;

/// Streams that we have reset and still ignore frames of (RFC 9113 §5.4.2): all clients of a
/// connection may leave at once.
pub const HTTP2_RESET_STREAMS_MAX: usize = HTTP2_STREAMS_MAX;

/// Malformed answers on one connection before it is closed.
pub const HTTP2_MALFORMED_MAX: usize = 100;

/// Silence after which an origin with open streams is asked for a sign of life (RFC 9113 §6.7), and
/// how long it has for it: many exchanges hang on one connection.
pub const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(15);
pub const HTTP2_PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Origins remembered as speaking HTTP/1.1 only: nobody waits to share a connection to them.
pub const HTTP1_ORIGINS_MAX: usize = 4096;

/// The longest gap between two failed tries that still counts as one outage observed: who did not
/// look for longer does not know that the file was unreachable all the time (RFC 9309 §2.3.1.4).
pub const OUTAGE_GAP_MAX: Duration = Duration::from_secs(10 * 24 * 60 * 60);

/// Failed tries without which no outage has been observed, however long ago it began.
pub const OUTAGE_TRIES_MIN: u32 = 3;

/// The longest Retry-After that is honoured (RFC 9110 §10.2.3): a slip of the pen must not shut a
/// site out for a year.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60 * 60);

/// How far into the future something may have been learnt before the clock must have been set back
/// and what is known cannot be dated.
pub const CLOCK_SET_BACK_MAX: Duration = Duration::from_secs(5 * 60);

/// How long an origin may take to say 100 (Continue) before the body is sent all the same.
pub const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// Interim responses passed on to one request.
pub const INTERIM_RESPONSES_MAX: usize = 16;

/// Interim responses read before one request's answer; an origin that sends more sends a flood, and
/// no answer is waited for behind it.
pub const INTERIM_RESPONSES_READ_MAX: usize = 1024;

/// How long a request may be under way, after its client has ended its side of the connection, before
/// it is probed whether the client is still there. Doubled after each probe.
pub const HALF_CLOSED_PROBE: Duration = Duration::from_millis(500);

/// How long a client's connection may do nothing, for each request that it has made, before the HTTP
/// engine and the ten kilobytes that it holds are let go of until there is another; and how long at the
/// most. To begin anew costs a sixth of a request: who asks again and again hardly ever pays it.
pub const ENGINE_REST: Duration = Duration::from_millis(100);
pub const ENGINE_REST_MAX: Duration = Duration::from_secs(3);

/// Bytes that are read ahead while a request is being answered, to see whether its client is there.
pub const LOOK_AHEAD_BYTES_MAX: usize = 16 << 10;

/// Bytes for a client that wait in the system to be sent, beside those on their way (Linux:
/// TCP_NOTSENT_LOWAT): what a slow reader makes us take from the origin beyond our own buffers. Left to itself,
/// the system would take megabytes. As many as it sends as one piece: with half as many a large answer costs
/// a tenth more, with more it costs no less.
pub const CLIENT_UNSENT_BYTES_MAX: u32 = 64 << 10;

/// Bytes fewer of them by which it is seen that a client reads: so many it must within
/// `limits.body_idle_timeout`, and those of a segment or of a step of its window more, where these are larger.
pub const UNSENT_BYTES_SEEN: u32 = 4 << 10;

/// Bytes of an answer of HTTP/1.1 that are read at once in its beginning: three such pieces, one on its way
/// out, one that follows and one being read, are what a slow client makes us hold. One less than the
/// engine's room for them, which would double each time that it was filled.
pub const ORIGIN_READ_BYTES: usize = (8 << 10) - 1;

/// Bytes of it that may be read at once where the client has shown that it reads
/// ([`ORIGIN_READ_SMALL_BYTES`]): three such pieces are held at most where it stops. One less than room for
/// them, as above.
pub const ORIGIN_READ_LARGE_BYTES: usize = (128 << 10) - 1;

/// The same of long answers over a few connections ([`ORIGIN_BULKS_MAX`]): two fifths less of the processor's time for
/// each byte.
pub const ORIGIN_READ_BULK_BYTES: usize = 768 << 10;

/// Bytes of a request's content that wait for the origin to take them: with as many, no more are taken from the
/// client. There is one piece more at most, of what its connection may read at once.
pub const ORIGIN_WAITING_SMALL_BYTES: usize = 16 << 10;

/// The same where the origin has taken some ([`ORIGIN_READ_SMALL_BYTES`]) and there is memory for it.
pub const ORIGIN_WAITING_BYTES_MAX: usize = 128 << 10;

/// Bytes of a request's content that are read at once from a client until then. One less than the engine's room for
/// them, which would double each time that it was filled.
pub const CONTENT_READ_BYTES: usize = (8 << 10) - 1;

/// How many connections read so at a time: where all their clients stop, 72 MiB are held. Each that idles keeps the
/// room for one piece; half of them may.
pub const ORIGIN_BULKS_MAX: usize = 32;

/// How many connections idle with each worker that were once read in large pieces ([`ORIGIN_READ_LARGE_BYTES`]): each
/// keeps the room for two, 32 MiB in all. For one more, the one that has idled longest is closed.
pub const ORIGIN_GROWN_MAX: usize = 128;

/// An answer is long from so many bytes on.
pub const ORIGIN_BULK_BYTES_MIN: u64 = 8 << 20;

/// So much of it is read in smaller pieces at its end: when its connection brings another, none of the largest
/// is held of this one.
pub const ORIGIN_BULK_REST_BYTES: u64 = 4 * ORIGIN_READ_BULK_BYTES as u64;

/// So long is that beginning: more than what the systems on either side hold for a client that does not
/// read. After it reads are larger, which costs less than half of the time.
pub const ORIGIN_READ_SMALL_BYTES: usize = 256 << 10;

/// Bytes of a request target that the HTTP engine takes. RFC 9112 §3 asks for 8,000 at the least.
pub const TARGET_BYTES_MAX: usize = 65_534;

/// Bytes of chunk extensions in one request (RFC 9112 §7.1.1: to be limited).
pub const CHUNK_EXTENSION_BYTES_MAX: usize = 16 << 10;

/// Bytes read at once from one direction of an upgraded connection.
pub const TUNNEL_BUFFER_BYTES: usize = 16 * 1024;

/// Pipes between sockets, each two descriptors. Where more tunnels have something under way at once, the
/// others copy.
pub const PIPES_MAX: usize = 16;

/// Bytes that a pipe holds: what one turn of a tunnel moves.
pub const PIPE_BYTES: usize = 256 * 1024;

/// Bytes that come one way without a word the other way, before they are taken for a stream and let gather.
pub const STREAM_BYTES_MIN: usize = 1 << 20;

/// In pieces of so many bytes, at the least: what comes more slowly is moved as it comes.
pub const STREAM_PIECE_BYTES_MIN: usize = 16 << 10;

/// Where fewer bytes of a stream are there, it is let gather: half of what a turn moves.
pub const STREAM_GATHERED_BYTES: u64 = PIPE_BYTES as u64 / 2;

/// How long a stream gathers: a moment beside the way there and back through most networks. What follows the
/// end of one in the same direction waits no longer than that, rounded up by the timer.
pub const STREAM_GATHERS: Duration = Duration::from_millis(1);

/// How long neither side of a tunnel may say anything once the proxy stops.
pub const TUNNEL_DRAIN_SILENCE: Duration = Duration::from_secs(1);

/// How long a proxy that stops waits for the first request of a client that has just come, and how
/// often it looks for it.
pub const FIRST_REQUEST_GRACE: Duration = Duration::from_secs(1);
pub const FIRST_REQUEST_LOOK: Duration = Duration::from_millis(10);

/// Bytes of a robots.txt that are read: the default, and the least that RFC 9309 §2.5 permits.
pub const ROBOTS_TXT_BYTES: usize = 500 * 1024;

/// How many bytes longer than the decoded limit an encoded robots.txt may be. No honest gzip file
/// grows by more than its few headers.
pub const ENCODED_SURPLUS_BYTES: usize = 16 * 1024;

/// Bytes of the head of an answer to a fetch of a robots.txt that are kept as evidence.
pub const CAPTURED_HEAD_BYTES_MAX: usize = 16 << 10;

/// Profiles under which one origin is remembered. More can only come of reloaded settings.
pub const PROFILES_PER_ORIGIN_MAX: usize = 16;

/// Bytes that the place of an origin that is ready takes beside what is known of it: its key, the table and the
/// list of the least recently used.
pub const STORE_KEY_BYTES: usize = 256;

/// Bytes that a piece which several origins may share takes in the tables that find it and count its uses:
/// a row in two tables that may be half empty.
pub const STORE_SHARED_BYTES: usize = 128;

/// One part in so many of the memory for what is known of origins is for those that are ready to answer
/// with, also where those that are packed could fill all of it. Of a gigabyte, a million origins leave a fifth.
pub const STORE_READY_SHARE: usize = 6;

/// So large is that part at most, as long as there is room for it: of what it loses when there is none any
/// more, a third is lost, for what the allocator has cut up for large pieces hardly serves for small ones.
pub const STORE_READY_SHARE_MOST: usize = 3;

/// Bytes that a shared allocation takes for the counts of those who share it, and a place in a list for
/// its neighbours.
pub const STORE_ARC_BYTES: usize = 16;
pub const STORE_LINKS_BYTES: usize = 16;

/// Bytes that a row of two words takes in a table that is between half full and full.
pub const STORE_ROW_BYTES: usize = 32;

/// One byte in so many is free between the pieces, as `benches/memory.rs` has it after many have come and
/// gone.
pub const STORE_BETWEEN_PIECES: usize = 32;

/// Bytes that one allocation takes beside its content: the allocator's own, what it rounds up to, and
/// the count of those who share it.
pub const STORE_PIECE_BYTES: usize = 48;

/// Number of the last line that a log can have: RFC 8785 §3.2.2.3 and the readers of JSON know no
/// larger whole number for sure (RFC 7493 §2.2).
pub const RECORD_SEQ_MAX: u64 = (1 << 53) - 1;

/// States of origins for which denials have in words what they rest on: as many as have denials again and
/// again. Each is 2 KiB, or up to 60 where URLs are long.
pub const STATEMENTS_MAX: usize = 512;

/// Bytes of a URL that a denial record keeps. With the other bounds, and every byte of the texts
/// escaped at its worst, a record stays under [`RECORD_LINE_BYTES_MAX`].
pub const RECORD_URL_BYTES_MAX: usize = 8 << 10;

/// Bytes of a User-Agent, or of any other text of a request, that a denial record keeps.
pub const RECORD_TEXT_BYTES_MAX: usize = 2 << 10;

/// Bytes of a path pattern that a denial record keeps.
pub const RECORD_PATTERN_BYTES_MAX: usize = 2 << 10;

/// Bytes of one denial record, its line end included: what readers need to hold.
pub const RECORD_LINE_BYTES_MAX: usize = 64 << 10;

/// Records that wait for the writer; a request that would be one more waits itself.
pub const RECORDS_WAITING_MAX: usize = 1024;

/// Bytes at the end of the record file that are searched for the last whole record at start.
pub const RECORD_TAIL_BYTES_MAX: u64 = 4 << 20;

/// How long after a write it is brought to the disk, and the head written down beside it, under
/// `audit.sync = "batch"`: what a power cut may take.
pub const AUDIT_SYNC_DELAY: Duration = Duration::from_millis(100);

/// How long a writer that begins tries to have the directory of records to itself: who asks whether
/// one is at work holds the lock for an instant.
pub const LOCK_PATIENCE: Duration = Duration::from_millis(500);

/// How often it tries meanwhile.
pub const LOCK_INTERVAL: Duration = Duration::from_millis(10);

/// How often the log is tried again while it cannot be written, so that it heals without traffic.
pub const AUDIT_RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// How often it is looked whether the directory of the log is still where it was, without traffic; with
/// it, before each write.
pub const AUDIT_PLACE_INTERVAL: Duration = Duration::from_secs(1);

/// How long a segment that could not be closed is written on before that is tried again; and how
/// often its age is looked at, for clocks that are set.
pub const ROTATION_INTERVAL: Duration = Duration::from_secs(60);

/// Pieces of evidence that are known to be kept, without a look at the disk.
pub const EVIDENCE_KNOWN_MAX: usize = 16_384;

/// Pieces of evidence that are written at once: each waits for the disk, and they wait together.
pub const EVIDENCE_WRITERS_MAX: usize = 8;

/// Pieces of evidence that are brought to the disk together, for what they share is brought there once: a
/// record waits for those that came before its own, and no longer than for twice as many.
pub const EVIDENCE_TOGETHER_MAX: usize = 1024;

/// Records that wait for their evidence while others are written; with more, all wait.
pub const EVIDENCE_RECORDS_WAITING_MAX: usize = 8192;

/// Pieces of evidence that could not be kept and wait for the disk; others wait for the next record
/// that names them.
pub const EVIDENCE_WAITING_MAX: usize = 64;

/// Closed files of which the writer has told what they have, beside the one that is put away: others are read
/// to know it.
pub const CLOSINGS_WAITING_MAX: usize = 1;

/// How long closed files of the log are left alone at most: some grow too old without another being
/// closed.
pub const KEEPER_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);

/// The same where the log has a bound of size: evidence makes it larger without a file being closed.
pub const KEEPER_SIZE_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Pieces of evidence that the writer removes between two writes: a few milliseconds.
pub const EVIDENCE_FORGOTTEN_AT_ONCE: usize = 64;

/// How often the files of a log are listed again because others have renamed some meanwhile.
pub const LISTINGS_MAX: usize = 100;

/// How often the log is told how many decisions there were.
pub const TOTALS_INTERVAL: Duration = Duration::from_secs(60 * 60);

/// How often the log of the process sums up the decisions that had no line of their own.
pub const DECISION_SUMMARY_INTERVAL: Duration = Duration::from_secs(60);

/// Lines that the log of the process has for single decisions in that time.
pub const DECISION_LINES_MAX: usize = 60;

/// Of those, lines for requests of one client.
pub const DECISION_LINES_OF_CLIENT_MAX: usize = 10;

/// Origins with an agent and an event that are known to have had a line: eight bytes each.
pub const DECISION_LINES_SEEN_MAX: usize = 16_384;

/// Origins that are counted apart for a summary of decisions.
pub const DECISION_ORIGINS_COUNTED_MAX: usize = 64;

/// Origins that a summary of decisions names.
pub const DECISION_ORIGINS_NAMED: usize = 5;

/// Notices of the denial log about the proxy itself that wait to be written, as on a full disk.
pub const NOTICES_WAITING_MAX: usize = 128;

/// Changes of settings that have a notice each in an hour; those beyond share one.
pub const SETTINGS_NOTICES_MAX: usize = 30;

/// The time in which that is counted.
pub const SETTINGS_NOTICES_TIME: Duration = Duration::from_secs(60 * 60);

/// Bytes of a setting's value, as JSON, that a notice of its change has; a longer one is named by its digest.
pub const SETTING_BYTES_MAX: usize = 2 << 10;

/// Bytes of all values in one notice: it has to be a line of at most [`RECORD_LINE_BYTES_MAX`].
pub const SETTINGS_BYTES_MAX: usize = 16 << 10;

/// How far the times of lines that follow each other may go back, as when a clock is set right:
/// segments are passed over by time only beyond that.
pub const REVIEW_CLOCK_SLACK: Duration = Duration::from_secs(24 * 60 * 60);

/// How often a reader that follows the log looks for more.
pub const FOLLOW_INTERVAL: Duration = Duration::from_millis(250);

/// Records that a query for the last ones can be asked for: they are held until the end.
pub const QUERY_TAIL_MAX: i64 = 100_000;

/// Bytes of the log that a reader holds at once: several lines, and few enough for a processor's cache.
pub const REVIEW_BLOCK_BYTES: usize = 256 << 10;

/// The same where several logs are read together: room for any line.
pub const REVIEW_SMALL_BLOCK_BYTES: usize = 2 * RECORD_LINE_BYTES_MAX;

/// Logs that are read together: each takes two descriptors and the memory for a few lines.
pub const LOGS_MAX: usize = 400;

/// Bytes of one piece of evidence that are read back; more than any `robots.max_size` in use.
pub const EVIDENCE_BYTES_MAX: u64 = 64 << 20;

/// Origins whose knowledge waits to be written to the store. Of more, the oldest goes unwritten: it
/// is asked for again after a restart.
pub const STORE_PENDING_MAX: usize = 32_768;

/// Bytes that this knowledge may take at the most: a quarter of `robots.cache_size` within these bounds.
/// Some dozens, or a few hundred, files of the largest kind.
pub const STORE_PENDING_BYTES_MIN: usize = 16 << 20;
pub const STORE_PENDING_BYTES_MAX: usize = 64 << 20;

/// Origins in one transaction of the store: each costs a wait for the disk, so the more, the faster.
pub const STORE_BATCH_MAX: usize = 4096;

/// How long a change waits for others to share its transaction: what a killed process may lose.
pub const STORE_BATCH_WAIT: Duration = Duration::from_millis(200);

/// Pages of the store that are held in memory.
pub const STORE_CACHE_BYTES: usize = 16 << 20;

/// Origins read from the store at once: each occupies a thread of the blocking pool.
pub const STORE_LOADS_MAX: usize = 8;

/// How long a request's flight waits for the store before it asks the origin instead.
pub const STORE_LOAD_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a store that failed is left alone before it is opened again.
pub const STORE_RETRY: Duration = Duration::from_secs(60);

/// How long the proxy's end waits for what is still to be written to the store.
pub const STORE_CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes of a file below which the store is never compacted at start.
pub const STORE_COMPACT_BYTES_MIN: u64 = 32 << 20;

/// So many workers accept clients, for themselves and for the others. The system wakes all of them for each client
/// that comes; one alone would keep everybody out while it is busy.
pub const ACCEPTORS_MAX: usize = 2;

/// So many connections more than another a worker may have, and keep what it accepts all the same.
pub const KEPT_AHEAD_MAX: usize = 4;

/// How long accepting pauses after it failed, as it does when no descriptors are left.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Descriptors that the process needs for itself: files, runtimes, the operator's connections, fetches
/// that nobody waits for any more, and those who are turned away.
pub const DESCRIPTORS_OF_OUR_OWN: usize = 128 + TURNED_AWAY_MAX;

/// Connection attempts to further addresses of a name, beside the first attempt of each request. Where the
/// limit on open files is low: one for so many descriptors, and no more look-ups of names either.
pub const ATTEMPTS_BESIDE_MAX: usize = 256;
pub const DESCRIPTORS_PER_ATTEMPT_BESIDE: usize = 16;

/// Descriptors that the system's resolver uses for one look-up: one socket for each family of addresses.
pub const DESCRIPTORS_PER_LOOKUP: usize = 2;

/// Descriptors that clients leave to the origins they ask for: where there are few, one for each.
pub const DESCRIPTORS_FOR_ORIGINS_MAX: usize = 4096;

/// Connections to the admin listener at one time; one more is served, and the oldest is closed for it.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;

/// For a whole conversation with the admin listener, which is one request.
pub const ADMIN_DEADLINE: Duration = Duration::from_secs(10);

/// Bytes of the head of a request to the admin listener: the least that the engine takes.
pub const ADMIN_HEAD_BYTES_MAX: usize = 8 << 10;

/// Conversations by the control socket at one time; one more waits to be accepted.
pub const CONTROL_CONNECTIONS_MAX: usize = 4;

/// Bytes of a question by the control socket: an origin, and what stands around it.
pub const CONTROL_QUESTION_BYTES_MAX: u64 = 4 << 10;

/// Bytes of a line of the answer: what is known of one origin, under every profile.
pub const CONTROL_LINE_BYTES_MAX: u64 = 1 << 20;

/// For the next line by the control socket, on either side: the store may have to be looked through.
pub const CONTROL_TIMEOUT: Duration = Duration::from_secs(30);

/// How often the files of the configuration are looked at, and how long one that is another must have
/// stayed as it is before it is read.
pub const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// How often they are looked at within that time by who is told to read them, until two looks see the same.
pub const WATCH_SETTLE_LOOKS: u32 = 10;

/// Connections that are not served and are told why; more are dropped without a word.
pub const TURNED_AWAY_MAX: usize = 64;

/// How often idle connections to origins are looked through for those whose time is over.
pub const POOL_SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// How often a worker borrows a connection to one origin between two sweeps, before it opens its own: to wake
/// another thread, and to be woken by it, costs about a thirtieth of a handshake.
pub const BORROWED_MAX: u32 = 32;

/// How long a connection that is being closed is read from, so that the last answer arrives.
pub const LINGER: Duration = Duration::from_secs(1);

/// Bytes read, and thrown away, from a connection that is being closed.
pub const LINGER_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of a malformed line that the answer repeats.
pub const DETAIL_BYTES_MAX: usize = 120;

/// Bytes of a robots.txt or a URL that a line of `check --batch` may describe.
pub const BATCH_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a line of `check --batch`: the above in base64, with room for the other members.
pub const BATCH_LINE_BYTES_MAX: usize = 96 << 20;

/// Bytes of a line in a list of URLs.
pub const LISTED_URL_BYTES_MAX: usize = 1 << 20;

/// Bytes of a robots.txt that are parsed where they arrived: a millisecond's work, where they are hundreds of
/// rules with wildcards. More is done on a thread that serves nobody.
pub const PARSED_INLINE_BYTES_MAX: usize = 16 * 1024;

/// Bytes of a robots.txt that are packed where room is needed: half a millisecond's work. More is done on a
/// thread that serves nobody.
pub const PACKED_INLINE_BYTES_MAX: usize = 16 * 1024;

/// How many origins are packed in one go, before others of the worker's clients have their turn.
pub const PACKED_AT_ONCE: usize = 4;

/// Distinct origins that the summary of one run counts.
pub const ORIGINS_COUNTED_MAX: usize = 100_000;

/// How long the records of a run are kept, unless `--keep` says how many are.
pub const RUN_KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 3600);

/// A younger run is never removed: it may be about to open its log.
pub const RUN_AGE_MIN: Duration = Duration::from_secs(60);

/// Old runs that the start of another removes at most.
pub const RUNS_REMOVED_AT_ONCE: usize = 100;

/// How long `courtesy env` waits for the proxy to take a connection before it says that none listens.
pub const PROXY_LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections of a command's own, each program and address once, that the summary of its run names.
pub const OWN_CONNECTIONS_NAMED_MAX: usize = 5;

/// Processes of a command, and threads of each, at whose sockets `courtesy run` looks.
pub const RUN_PROCESSES_LOOKED_AT_MAX: usize = 256;

/// Descriptors of all of them that one look reads.
pub const RUN_DESCRIPTORS_LOOKED_AT_MAX: usize = 16 * 1024;

/// What one look reads of each table of TCP connections: some 7,000 of them.
pub const TCP_TABLE_BYTES_MAX: u64 = 1 << 20;

/// Connections of a command that are known to have been looked at; then they are forgotten, and those
/// that are still there counted again.
pub const SOCKETS_KNOWN_MAX: usize = 64 * 1024;

/// The longest name of a program that is shown: the system keeps 15 bytes of it.
pub const PROGRAM_NAME_BYTES_MAX: usize = 16;

/// How long requests that a command left behind may go on after it has ended.
pub const LEFT_BEHIND_MAX: Duration = Duration::from_secs(5);

/// The fields that the HTTP engine takes in a head if it is not told how many. For so many it has room
/// on the stack, which for a number that it is told, and be it this one, it fills each time.
pub const ENGINES_FIELDS_MAX: usize = 100;

/// Requests under way at once on one HTTP/2 connection of a client: what RFC 9113 §6.5.2 advises to allow at the
/// least.
pub const H2_STREAMS_MAX: u32 = 100;

/// The same where there is no memory for as many streams that are refused.
pub const H2_STREAMS_FEW: u32 = 10;

/// Bytes of a request's content that a client may send on one HTTP/2 stream before the origin takes them, and room
/// for all streams of the connection.
pub const H2_STREAM_WINDOW_BYTES: u32 = 64 << 10;
pub const H2_CONNECTION_WINDOW_BYTES: u32 = H2_STREAM_WINDOW_BYTES * H2_STREAMS_MAX;

/// Life of a CA that is made here: long enough that rotating is rare, short enough that a key that
/// has leaked is not good for ever.
pub const CA_LIFE: Duration = Duration::from_secs(2 * 365 * 24 * 60 * 60);

/// Former CAs that clients are still told to trust; more have been rotated away on purpose.
pub const CA_PREVIOUS_MAX: usize = 3;

/// How far before its making a certificate begins, for clients whose clock is slow.
pub const CERTIFICATE_BACKDATE: Duration = Duration::from_secs(60 * 60);

/// Life of a leaf certificate from its making. Another is made after two thirds of it.
pub const LEAF_LIFE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Bytes of a serial number: 126 random bits, more than the 64 that are asked of public CAs, and
/// within the 20 bytes of RFC 5280 §4.1.2.2.
pub const SERIAL_BYTES: usize = 16;

/// Leaf certificates being made at once: each is some ten microseconds of one core, or a millisecond and more
/// where the CA's key takes its time (RSA, P-384).
pub const LEAVES_MINTED_AT_ONCE_MAX: usize = 4;

/// Room on the disk under which `courtesy doctor` asks for more: a closed file of the log and its
/// compressed copy stand side by side for a moment, and so do two copies of a small store.
pub const DISK_FREE_NOTICE_BYTES: u64 = 256 << 20;

/// Days before the end of a CA from which on `courtesy doctor` asks for another.
pub const CA_EXPIRY_NOTICE_DAYS: u64 = 30;

/// How long after a state came due a record may still rest on it: from the answer of the store to the
/// record is a moment, even where the machine is overloaded.
pub const REPLAY_OVERDUE_MAX: Duration = Duration::from_secs(60);

/// Bytes of robots.txt files that are kept parsed while a log is decided again.
pub const REPLAY_CACHE_BYTES: usize = 64 << 20;

/// How often a log is verified whose beginning retention removes meanwhile, before its faults are told.
pub const VERIFY_READINGS_MAX: u32 = 3;

/// How far the time of a line may be before that of the line before it and mean nothing: lines wait for the disk,
/// and so do not stand quite in the order of their times.
pub const VERIFY_TIME_SLACK: Duration = Duration::from_secs(60);

/// Faults of a log that are described, and notes; the others are counted.
pub const FAULTS_DESCRIBED_MAX: usize = 20;

/// Captures that an archive of evidence is known to have; of more, one may be in it again.
pub const ARCHIVE_CAPTURES_MAX: usize = 800_000;

/// Bytes of lines in one file of a bundle, before the line that goes beyond it.
pub const BUNDLE_SEGMENT_BYTES: usize = 4 << 20;

/// Files in a bundle.
pub const BUNDLE_ENTRIES_MAX: usize = 200_000;

/// Bytes of all files in a bundle: they are unpacked to be verified.
pub const BUNDLE_BYTES_MAX: u64 = 8 << 30;

/// Bytes of a bundle's `bundle.json`.
pub const BUNDLE_MANIFEST_BYTES_MAX: u64 = 4 << 10;

/// Runs of missing lines that are remembered, to tell lines that were moved from others.
pub const HOLES_REMEMBERED_MAX: usize = 1024;

/// Keys that a report counts exactly, of each kind: more origins, rules or clients than anybody
/// reads about. Beyond it the rarest are let go.
pub const REPORT_KEYS_MAX: usize = 100_000;

/// Bytes of the keys of one kind that a report holds: patterns may be long.
pub const REPORT_KEY_BYTES_MAX: usize = 32 << 20;

/// Exemptions that a report tells apart, by origin; people write them, so there are few.
pub const REPORT_EXEMPTIONS_MAX: usize = 10_000;

/// Outages of one origin that a report holds at one time; the earliest are summed up.
pub const REPORT_STRETCHES_MAX: usize = 16;

/// Versions of one robots.txt that a report tells apart; the earliest are counted.
pub const REPORT_VERSIONS_MAX: usize = 8;

/// Proxies, and versions of the program, that a report names of a log.
pub const REPORT_NODES_MAX: usize = 100;

/// Gaps in the log that a report names; the rest are counted.
pub const REPORT_GAPS_MAX: usize = 20;

/// Buckets of time in which a report counts before they become wider.
pub const REPORT_BUCKETS_MAX: usize = 4096;

/// Bars of a report's chart over time: the days of a quarter, and what a terminal has room for.
pub const REPORT_BARS_MAX: usize = 92;

/// How long before its end an exemption is said to expire soon.
pub const EXEMPTION_NOTICE: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Bytes of a user's name.
pub const USER_NAME_BYTES_MAX: usize = 64;

/// Bytes of a password that is set.
pub const PASSWORD_BYTES_MAX: usize = 256;

/// Bytes of encoded credentials that are looked at: the longest name and password, and some room.
pub const CREDENTIALS_BYTES_MAX: usize = 1024;

/// Memory that the hash of a password may ask for, in KiB: ten times what ours do.
pub const PASSWORD_COST_KIB_MAX: u32 = 256 << 10;

/// Passes that it may ask for.
pub const PASSWORD_PASSES_MAX: u32 = 16;

/// Bytes of a file that an operator names: settings, certificates, keys, tokens.
pub const NAMED_FILE_BYTES_MAX: usize = 1 << 20;

/// Bytes of the run file, in which a running proxy says where its admin listener is: two paths and a few numbers.
pub const RUN_FILE_BYTES_MAX: usize = 16 << 10;

/// The same of files with a line for each of many: users, published heads.
pub const NAMED_LIST_BYTES_MAX: usize = 16 << 20;

/// Verifications of passwords under way: each takes some tens of milliseconds of a core and 19 MiB.
pub const VERIFICATIONS_MAX: usize = 2;

/// How many of them may be for addresses that have been wrong before: the rest is kept for the others.
pub const VERIFICATIONS_OF_FAILED_MAX: usize = 1;

/// How long a request waits for its turn to be verified.
pub const VERIFICATION_WAIT: Duration = Duration::from_secs(5);

/// Credentials that are known without a verification, right ones and wrong ones each.
pub const CREDENTIALS_KNOWN_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Addresses whose failed attempts are remembered.
pub const ATTEMPTS_REMEMBERED_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("not zero");

/// Failed attempts of one address that cost it nothing: a slip of the finger is none.
pub const ATTEMPTS_FREE: u32 = 5;

/// How long an address waits after the first that does; it doubles each time.
pub const ATTEMPT_WAIT_MIN: Duration = Duration::from_secs(1);

/// The longest wait: whoever has the right password behind the same address waits, too.
pub const ATTEMPT_WAIT_MAX: Duration = Duration::from_secs(60);

/// After so long without a failed attempt, those before are forgotten.
pub const ATTEMPTS_FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);

/// Notices of changes of one origin's robots.txt in a day. A file with a date in a rule, or one that fails every other
/// time, has no more; then one tells how many were left out.
pub const CHANGES_OF_ORIGIN_MAX: u32 = 24;

/// The same in all in an hour, and bytes of evidence that they may bring.
pub const CHANGES_MAX: u64 = 1000;
pub const CHANGES_EVIDENCE_BYTES_MAX: u64 = 256 << 20;

/// Origins whose notices are counted apart.
pub const CHANGED_ORIGINS_MAX: NonZeroUsize = NonZeroUsize::new(4096).expect("it is not zero");

/// Changes that wait to be compared and written, and bytes of the files that they hold.
pub const CHANGES_WAITING_MAX: usize = 2048;
pub const CHANGES_WAITING_BYTES_MAX: usize = 64 << 20;

/// How long what waits has at the end of the process.
pub const CHANGES_WAIT: Duration = Duration::from_secs(2);

/// Paths that a notice names.
pub const CHANGE_EXAMPLES_MAX: usize = 5;

/// Agents at origins of which it is remembered what they were told last: 64 bytes and their names.
pub const TOLD_MAX: NonZeroUsize = NonZeroUsize::new(16_384).expect("it is not zero");

/// Bytes of files that are kept for agents that are told others than the rest.
pub const TOLD_BYTES_MAX: usize = 16 << 20;

/// Origins of which a sample of the allowed requests is kept in memory, to measure changes of their robots.txt by. In
/// all they take no more than 32 MiB.
pub const SAMPLE_ORIGINS_MAX: usize = 4096;

/// Places that an origin may have one of: as of a cache that is four-way associative.
pub const SAMPLE_PLACES_OF_SET: usize = 4;

/// Requests that are kept of each.
pub const SAMPLE_PATHS_MAX: usize = 64;

/// Bytes of each sample: paths and tokens, their places in lists, and what the allocator adds. The rest of it and its
/// origin's name take less than 1 KiB.
pub const SAMPLE_ORIGIN_BYTES_MAX: usize = 7 << 10;

/// Bytes of a path with its query. Longer ones are not sampled.
pub const SAMPLE_PATH_BYTES_MAX: usize = 1 << 10;

/// Bytes of a product token. Requests of longer ones are not sampled.
pub const SAMPLE_TOKEN_BYTES_MAX: usize = 64;

/// Agents of a sample, those of other profiles counted apart.
pub const SAMPLE_AGENTS_MAX: usize = 16;

/// Clients of which it is remembered whether they trust the proxy's certificates.
pub const DISTRUST_CLIENTS_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// Hosts of one client of which that is remembered.
pub const DISTRUST_HOSTS_MAX: NonZeroUsize = NonZeroUsize::new(32).expect("not zero");

/// Hosts for which one client is named in the log because it does not trust the proxy's certificates.
pub const DISTRUST_NAMED_MAX: usize = 16;

/// How long a request is waited for of a client that has left without one: a few seconds are enough for one that only
/// wanted to know which protocol there is.
pub const DISTRUST_WAIT: Duration = Duration::from_secs(5);

/// How long a client that has made requests is known for one that trusts the proxy's certificates.
pub const TRUST_REMEMBERED: Duration = Duration::from_mins(10);

/// Clients of which it is remembered that the log has named them for a protocol that is not spoken here.
pub const FOREIGN_NAMED_MAX: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");
