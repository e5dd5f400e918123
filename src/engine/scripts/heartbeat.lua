-- KEYS members, about, epoch, heads, process of the name
-- ARGV proxy, latest format that it reads, its settings, head of its log or nothing, its process or
--      nothing, whether this is its first heartbeat, the place of that head, 1 if it contradicts what
--      was seen of the log, time
-- Returns members, members with the same settings, latest format that all read, now, epoch, whether
--      another process of the same name lives

local FORMAT_PART = 4294967296
local HEAD_KEPT = 34560000000000
-- More proxies are not believed.
local MEMBERS_MAX = 10000
local proxy, format, settings = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local function member(process)
  return process == '' and proxy or proxy .. ' ' .. process
end
local own = member(ARGV[5])

local epoch = number(read('GETRANGE', KEYS[3], 0, 16))
if not epoch or epoch > now + AHEAD_MAX then
  epoch = now
  redis.call('SET', KEYS[3], digits(epoch))
end

-- A proxy that has missed three heartbeats is gone. Of many proxies, each sends fewer.
local missed = 3 * math.max(5000000, math.min(read('ZCARD', KEYS[1]), MEMBERS_MAX) * 5000)

-- The process of a name that beat last. A process that begins takes the place of the one before,
-- which has ended; one that goes on and finds another has a namesake that lives.
local namesake = 0
if ARGV[5] ~= '' then
  local other = string.match(read('GETRANGE', KEYS[5], 0, 63), '^(%x+)')
  if other == ARGV[5] then other = nil end
  if other and ARGV[6] == '1' then
    redis.call('ZREM', KEYS[1], member(other))
    read('ZREM', KEYS[2], member(other))
    other = nil
  end
  namesake = other and 1 or 0
  local both = other and ARGV[5] .. ' ' .. other or ARGV[5]
  redis.call('SET', KEYS[5], both, 'PX', digits(math.ceil(missed / 1000)))
end

redis.call('ZADD', KEYS[1], digits(now), own)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. digits(now - missed))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. digits(now + missed), '+inf')
local members = redis.call('ZCARD', KEYS[1])

-- The score is format and settings: the lowest is that of the oldest format.
read('ZCARD', KEYS[2])
redis.call('ZADD', KEYS[2], digits(format * FORMAT_PART + settings), own)
if redis.call('ZCARD', KEYS[2]) ~= members then
  for _, other in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
    if not redis.call('ZSCORE', KEYS[1], other) then redis.call('ZREM', KEYS[2], other) end
  end
end
local lowest = tonumber(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2])
local oldest = math.floor(lowest / FORMAT_PART)
if not (oldest >= 0 and oldest <= format) then oldest = format end
local same = 0
for other = math.max(format - 1, 0), format + 1 do
  local score = digits(other * FORMAT_PART + settings)
  same = same + redis.call('ZCOUNT', KEYS[2], score, score)
end

-- The head of a log moves forward only: once it is contradicted, it stays as it is, and what comes
-- later is kept beside it. Heads of logs that are no longer written are removed, two at a time.
if ARGV[4] ~= '' then
  read('HLEN', KEYS[4])
  local place, beside = ARGV[7], ARGV[7] .. '!'
  local before = redis.call('HGET', KEYS[4], place) or ''
  local seen, seen_hash = string.match(before, '^%d+ (%d+) (%x+) ')
  local at, hash = string.match(ARGV[4], '^(%d+) (%x+) ')
  seen, at = number(seen), number(at)
  if seen then
    local is_behind = at and (at < seen or (at == seen and hash ~= seen_hash))
    if ARGV[8] == '1' or is_behind or redis.call('HEXISTS', KEYS[4], beside) == 1 then
      place = beside
    end
  end
  redis.call('HSET', KEYS[4], place, digits(now) .. ' ' .. ARGV[4])
  keep(KEYS[4], HEAD_KEPT)
  local some = redis.call('HRANDFIELD', KEYS[4], 2, 'WITHVALUES')
  for at = 1, #some, 2 do
    local noted = number(string.match(some[at + 1], '^(%d+) '))
    if not noted or noted + HEAD_KEPT < now then redis.call('HDEL', KEYS[4], some[at]) end
  end
end
return { members, same, oldest, digits(now), digits(epoch), namesake }
