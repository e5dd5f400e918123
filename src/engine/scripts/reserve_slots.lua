-- KEYS pace
-- ARGV group, delay of the lane, delay of the site, slack, horizon, how many, left, time since when
--      starts are known, longest hold, when the next start of the lane and that of the group are
--      at the earliest by what the caller has reserved before (from now, also negative; or empty),
--      begin and slack of a slot that it has missed, or nothing twice, length of a cell, width and bits
--      of the ranks whose cells are left free, or nothing, until when, time
-- With how many = 0, nothing starts before what is left.
-- Returns next slot beyond the horizon, or -1, or if what the caller has reserved is missing, -1 less
--      by how much; hold, status, cause, now; then the slots from now

local lane_delay, site_delay, slack = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local horizon, known_since = tonumber(ARGV[5]), math.min(tonumber(ARGV[8]), now)
local group_field = 'g:' .. ARGV[1]
-- No next start is further ahead than this: a horizon, and the longest delay that any proxy may have.
local reach_max = horizon + math.max(lane_delay, site_delay, 172800000000) + slack

-- A next start is stored with how far ahead it can be. One further ahead is left by a clock that
-- has gone back. Without one, a request may have started before starts were known.
local function next_start(text, delay)
  local at, reach = string.match(text or '', '^(%d+) (%d+)$')
  at, reach = number(at), number(reach)
  if at and reach and reach <= reach_max then
    return at > now + reach and now + horizon or at
  end
  return known_since > 0 and delay > 0 and known_since + delay or 0
end

local stored = read('HMGET', KEYS[1], 'n', group_field, 'h', 's', 'c')
local own, group = next_start(stored[1], lane_delay), next_start(stored[2], site_delay)
local left, status, cause = hold_left(stored[3], stored[4], stored[5], tonumber(ARGV[9]))
local earliest = now + math.max(left, tonumber(ARGV[7]))
-- A next start only grows: one that is less than was reserved has been removed. The caller knows how
-- long this was on its way.
local function missing(at, promised)
  promised = tonumber(promised)
  return promised and math.max(now + promised - at, 0) or 0
end
-- Nothing starts before a slot that was missed by what was reserved before it; where nothing was
-- reserved behind it, that time is given again.
local missed, missed_slack = number(ARGV[12]), number(ARGV[13])
local function is_next(delay, at)
  return delay == 0 or at == missed + delay + missed_slack
end
local is_given_again = missed and missed_slack and is_next(lane_delay, own) and is_next(site_delay, group)
local gone = math.max(missing(own, ARGV[10]), missing(group, ARGV[11]))
if is_given_again then own, group = missed, missed end

-- While proxies are missing, slots are the begins of cells, but theirs.
local cell, width, bits = tonumber(ARGV[14]), number(ARGV[15]), ARGV[16]
local function is_left_free(at)
  local rank = at % width
  local octet = string.byte(bits, math.floor(rank / 8) + 1) or 0
  return math.floor(octet / 2 ^ (rank % 8)) % 2 == 1
end
local function slot_from(at)
  if not width then return at end
  local first = math.ceil(at / cell)
  for number = first, first + width - 1 do
    if not is_left_free(number) then return number * cell end
  end
end

local count = tonumber(ARGV[6])
local reply = { -1, left, status, cause, digits(now) }
for _ = 1, count do
  local slot = slot_from(math.max(earliest, own, group)) or now + horizon + 1
  if slot > now + horizon then
    reply[1] = slot - now
    break
  end
  reply[#reply + 1] = slot - now
  if lane_delay > 0 then own = slot + lane_delay + slack end
  if site_delay > 0 then group = slot + site_delay + slack end
end

-- Groups that were once used are forgotten, when there are twice as many fields as after that.
local function sweep()
  local mark = number(redis.call('HGET', KEYS[1], 'w')) or 64
  if redis.call('HLEN', KEYS[1]) < mark + 8 then return end
  local fields = redis.call('HGETALL', KEYS[1])
  for at = 1, #fields, 2 do
    local ends = number(string.match(fields[at + 1], '^(%d+) %d+$'))
    if string.sub(fields[at], 1, 2) == 'g:' and (not ends or ends + REST < now) then
      redis.call('HDEL', KEYS[1], fields[at])
    end
  end
  redis.call('HSET', KEYS[1], 'w', digits(math.max(64, 2 * redis.call('HLEN', KEYS[1]))))
end

local function reserve(field, at, delay)
  if delay == 0 then return end
  redis.call('HSET', KEYS[1], field, digits(at) .. ' ' .. digits(horizon + delay + slack))
  keep(KEYS[1], at - now + REST)
end

if count == 0 then own, group = math.max(own, earliest), math.max(group, earliest) end
if count == 0 or #reply > 5 then
  reserve('n', own, lane_delay)
  reserve(group_field, group, site_delay)
  if site_delay > 0 and not stored[2] then sweep() end
end
if gone > 0 then reply[1] = -1 - gone end
return reply
