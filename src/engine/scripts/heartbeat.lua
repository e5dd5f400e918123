-- KEYS members, about, epoch, heads
-- ARGV proxy, latest format that it reads, its settings, head of its log or nothing, time
-- Returns members, members with the same settings, latest format that all read, now, epoch

local FORMAT_PART = 4294967296
local HEAD_KEPT = 34560000000000
local proxy, format, settings = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])

local epoch = number(read('GETRANGE', KEYS[3], 0, 16))
if not epoch or epoch > now + AHEAD_MAX then
  epoch = now
  redis.call('SET', KEYS[3], digits(epoch))
end

-- A proxy that has missed three heartbeats is gone. Of many proxies, each sends fewer.
local missed = 3 * math.max(5000000, read('ZCARD', KEYS[1]) * 5000)
redis.call('ZADD', KEYS[1], digits(now), proxy)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. digits(now - missed))
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. digits(now + missed), '+inf')
local members = redis.call('ZCARD', KEYS[1])

-- The score is format and settings: the lowest is that of the oldest format.
read('ZCARD', KEYS[2])
redis.call('ZADD', KEYS[2], digits(format * FORMAT_PART + settings), proxy)
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

-- Heads of logs that are no longer written are removed, two at a time.
if ARGV[4] ~= '' then
  read('HLEN', KEYS[4])
  redis.call('HSET', KEYS[4], proxy, digits(now) .. ' ' .. ARGV[4])
  keep(KEYS[4], HEAD_KEPT)
  local some = redis.call('HRANDFIELD', KEYS[4], 2, 'WITHVALUES')
  for at = 1, #some, 2 do
    local noted = number(string.match(some[at + 1], '^(%d+) '))
    if not noted or noted + HEAD_KEPT < now then redis.call('HDEL', KEYS[4], some[at]) end
  end
end
return { members, same, oldest, digits(now), digits(epoch) }
