-- KEYS members, about, epoch, heads, ranks, seen, widths, alone, missing, hours,
--      processes of the name
-- ARGV proxy, latest format that it reads, its settings, head of its log or nothing, its process or
--      nothing, whether this is its first heartbeat, the place of that head, 1 if it contradicts what
--      was seen of the log, its rank and the highest that it knows or nothing, the epoch that they are
--      of, 1 if it may start without the engine, until when, time
-- Returns members, members with the same settings, latest format that all read, now, epoch, whether
--      another process of the same name lives, rank or -1, highest rank, whether all others know of
--      enough ranks, the width and the bits of the missing ranks

local FORMAT_PART = 4294967296
local HEAD_KEPT = 34560000000000
local HOUR = 3600000000
local HOURS_KEPT = 168
-- More proxies are not believed, and more ranks are not given.
local MEMBERS_MAX = 10000
local RANKS_MAX = 16384
-- How long a rank is kept for a proxy that is missing.
local HELD = 600000000
local proxy, format, settings = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local function member(process)
  return process == '' and proxy or proxy .. ' ' .. process
end
local own = member(ARGV[5])

local epoch = number(read('GETRANGE', KEYS[3], 0, 16))
if not epoch or epoch > now + AHEAD_MAX then
  epoch = now
  redis.call('SET', KEYS[3], digits(epoch))
  redis.pcall('PUBLISH', KEYS[3], digits(epoch))
end

-- A proxy that has missed three heartbeats is gone. Of many proxies, each sends fewer.
local interval = math.max(500000, math.min(read('ZCARD', KEYS[1]), MEMBERS_MAX) * 1000)
local missed = 3 * interval
redis.call('ZADD', KEYS[1], digits(now), own)
for _, key in ipairs({ KEYS[2], KEYS[5], KEYS[6], KEYS[7], KEYS[8] }) do read('ZCARD', key) end

-- Ranks that were not given here.
redis.call('ZREMRANGEBYSCORE', KEYS[5], '-inf', '(0')
redis.call('ZREMRANGEBYSCORE', KEYS[5], digits(RANKS_MAX), '+inf')

local function is_silent(name)
  local seen = tonumber(redis.call('ZSCORE', KEYS[6], name) or '')
  return not seen or seen < now - missed
end

local function forget_rank(name)
  for at = 5, 8 do redis.call('ZREM', KEYS[at], name) end
end

local function rank_of(name)
  return tonumber(redis.call('ZSCORE', KEYS[5], name) or '')
end

-- The process of a name that beat last, another that may live, and 1 if that was seen to. One that is
-- silent has ended: its place, and its rank, are this one's.
local namesake = 0
if ARGV[5] ~= '' then
  local last, other, is_seen = string.match(read('GETRANGE', KEYS[11], 0, 63), '^(%x+) ?(%x*) ?(1?)')
  if last and last ~= ARGV[5] then
    other, is_seen = last, ARGV[6] == '1' and '' or '1'
  end
  if other and other ~= '' and is_silent(member(other)) then
    local rank = rank_of(member(other))
    redis.call('ZREM', KEYS[1], member(other))
    forget_rank(member(other))
    if rank and not rank_of(own) then redis.call('ZADD', KEYS[5], digits(rank), own) end
    other = nil
  end
  local both = ARGV[5]
  if other and other ~= '' then
    namesake = is_seen == '1' and 1 or 0
    both = both .. ' ' .. other .. ' ' .. is_seen
  end
  redis.call('SET', KEYS[11], both, 'PX', digits(HELD / 1000))
end

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. digits(now - missed))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. digits(now + missed), '+inf')
local members = redis.call('ZCARD', KEYS[1])

-- The lowest rank that is free. Ranks are whole numbers, each given once: as long as none is free
-- below, the rank in a place is the number of that place.
local function lowest_free()
  local first, last = 0, redis.call('ZCARD', KEYS[5])
  while first < last do
    local middle = math.floor((first + last) / 2)
    local found = redis.call('ZRANGE', KEYS[5], middle, middle, 'WITHSCORES')
    if tonumber(found[2]) == middle then first = middle + 1 else last = middle end
  end
  return first
end

local function highest_rank()
  return tonumber(redis.call('ZRANGE', KEYS[5], -1, -1, 'WITHSCORES')[2] or '')
end

local function is_taken(rank)
  return redis.call('ZCOUNT', KEYS[5], digits(rank), digits(rank)) > 0
end

for _, ends in ipairs({ { '-inf', '(' .. digits(now - HELD) }, { '(' .. digits(now + HELD), '+inf' } }) do
  for _, name in ipairs(redis.call('ZRANGE', KEYS[6], ends[1], ends[2], 'BYSCORE')) do forget_rank(name) end
end

-- After a loss of data, ranks that were given before and are not claimed are those of missing proxies.
local claimed, claimed_highest = number(ARGV[9]), number(ARGV[10])
local claimed_epoch = number(ARGV[11])
if claimed and claimed_highest and claimed_epoch and claimed_epoch ~= epoch then
  local first = (highest_rank() or -1) + 1
  local seen, ranks = {}, {}
  local last = math.min(claimed_highest, RANKS_MAX - 1)
  for rank = first, last do
    if rank ~= claimed then
      local name = '?' .. digits(rank)
      seen[#seen + 1], seen[#seen + 2] = digits(now - missed - 1), name
      ranks[#ranks + 1], ranks[#ranks + 2] = digits(rank), name
    end
    if #ranks > 0 and (#ranks >= 1000 or rank == last) then
      redis.call('ZADD', KEYS[6], unpack(seen))
      redis.call('ZADD', KEYS[5], unpack(ranks))
      seen, ranks = {}, {}
    end
  end
end
if not rank_of(own) then
  if claimed then forget_rank('?' .. digits(claimed)) end
  local rank = claimed and not is_taken(claimed) and claimed or lowest_free()
  if rank < RANKS_MAX then redis.call('ZADD', KEYS[5], digits(rank), own) end
end
redis.call('ZADD', KEYS[6], digits(now), own)
if ARGV[12] == '1' then
  redis.call('ZADD', KEYS[8], 0, own)
else
  redis.call('ZREM', KEYS[8], own)
end

local function width_of(highest)
  local width = 1
  while width <= highest do width = width * 2 end
  return width
end

local rank, highest = rank_of(own), highest_rank() or 0
local width = width_of(highest)
local known = width
if claimed and claimed_highest then known = math.min(width_of(claimed_highest), width) end
redis.call('ZADD', KEYS[7], digits(known), own)
local unsettled = 0
if rank then
  unsettled = redis.call('ZCOUNT', KEYS[7], '-inf', digits(rank)) - (known <= rank and 1 or 0)
end

-- The cells of the missing ranks; of one that knew a smaller width there are more. Computed once for
-- all heartbeats of an interval.
local missing = read('GETRANGE', KEYS[9], 0, 4095)
local until_text, listed = string.match(missing, '^(%d+) (%d+ .*)$')
local listed_until = number(until_text)
if not listed_until or listed_until <= now or listed_until > now + missed then
  local names = redis.call('ZRANGE', KEYS[6], '-inf', '(' .. digits(now - missed), 'BYSCORE')
  for _, name in ipairs(redis.call('ZRANGE', KEYS[8], 0, -1)) do names[#names + 1] = name end
  local octets = {}
  for _, name in ipairs(names) do
    local its = rank_of(name)
    if its then
      local its_width = tonumber(redis.call('ZSCORE', KEYS[7], name) or '') or width
      local step = math.min(math.max(math.floor(its_width), 1), width)
      for cell = its % step, width - 1, step do
        local at, bit = math.floor(cell / 8) + 1, 2 ^ (cell % 8)
        local octet = octets[at] or 0
        if math.floor(octet / bit) % 2 == 0 then octets[at] = octet + bit end
      end
    end
  end
  local parts = {}
  if next(octets) then
    for at = 1, math.ceil(width / 8) do parts[at] = string.char(octets[at] or 0) end
  end
  listed = digits(width) .. ' ' .. table.concat(parts)
  redis.call('SET', KEYS[9], digits(now + interval) .. ' ' .. listed, 'PX', digits(HELD / 1000))
end

-- The score is format and settings: the lowest is that of the oldest format.
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

-- Notes the head in one of the heads' keys. What was noted too long ago is removed, two at a time.
local function note(key, field)
  redis.call('HSET', key, field, digits(now) .. ' ' .. ARGV[4])
  keep(key, HEAD_KEPT)
  local some = redis.call('HRANDFIELD', key, 2, 'WITHVALUES')
  for at = 1, #some, 2 do
    local noted = number(string.match(some[at + 1], '^(%d+) '))
    if not noted or noted + HEAD_KEPT < now then redis.call('HDEL', key, some[at]) end
  end
end

-- The head of a log moves forward only: once it is contradicted, it stays as it is, and what comes
-- later is kept beside it. Of what follows, the last head of each hour is kept for a week of hours.
if ARGV[4] ~= '' then
  for _, key in ipairs({ KEYS[4], KEYS[10] }) do read('HLEN', key) end
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
  note(KEYS[4], place)
  if place ~= beside then
    note(KEYS[10], place .. ' ' .. digits(math.floor(now / HOUR) % HOURS_KEPT))
  end
end
return { members, same, oldest, digits(now), digits(epoch), namesake, rank or -1, highest,
  unsettled <= 0 and 1 or 0, listed }
