-- Goes before each script. Times are microseconds; numbers up to 2^53 are exact.
--
-- What stands at a key may be damaged or hostile: a key of a wrong type is removed, a value that is
-- none of ours is as absent.

local NUMBER_MAX = 9007199254740991
local AHEAD_MAX = 86400000000
local REST = 60000000
local LEASE_KEPT_MS = 120000

local function number(text)
  if type(text) ~= 'string' or #text > 16 or not string.find(text, '^%d+$') then return nil end
  local value = tonumber(text)
  return value <= NUMBER_MAX and value or nil
end

local function digits(value)
  return string.format('%.0f', value)
end

-- The last argument is empty, but in tests: then it is the time. The one before it is empty, or until
-- when the caller waits: what comes later does nothing, since none would use it.
local now = number(ARGV[#ARGV])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local wanted_until = number(ARGV[#ARGV - 1])
if wanted_until and now > wanted_until then
  return redis.error_reply('LATE the command came after its caller had left')
end

local function read(command, key, ...)
  local value = redis.pcall(command, key, ...)
  if type(value) ~= 'table' or not value.err then return value end
  if string.find(value.err, 'WRONGTYPE', 1, true) then redis.call('DEL', key) end
  return redis.call(command, key, ...)
end

-- Lets a key live for at least so long from now.
local function keep(key, length)
  local ms = math.ceil(math.max(length, 1) / 1000)
  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, digits(ms)) end
end

-- The token of what is known; 0 for nothing.
local function known_token(key, bytes_max)
  local head = read('GETRANGE', key, 0, 8)
  if #head < 9 or redis.call('STRLEN', key) > bytes_max then return 0 end
  local token = 0
  for at = 2, 9 do token = token * 256 + string.byte(head, at) end
  return token <= now + AHEAD_MAX and token or 0
end

-- Token, end and holder of the last lease.
local function last_lease(key)
  local token, ends, holder = string.match(read('GETRANGE', key, 0, 511), '^(%d+) (%d+) (.*)$')
  token, ends = number(token), number(ends)
  if not token or not ends or token == 0 or token > now + AHEAD_MAX then return 0, 0, '' end
  return token, ends, holder
end

local function set_lease(key, token, ends, holder)
  local value = digits(token) .. ' ' .. digits(ends) .. ' ' .. holder
  redis.call('SET', key, value, 'PX', LEASE_KEPT_MS)
end

local CAUSES = { retry_after = true, rate_limit = true, back_off = true }

-- What is left of a hold with its status and cause; 0 if there is none.
local function hold_left(ends, status, cause, hold_max)
  ends, status = number(ends), number(status)
  if not ends or ends <= now then return 0, 0, '' end
  if not status or status < 100 or status > 599 then status = 503 end
  if not CAUSES[cause] then cause = 'back_off' end
  return math.min(ends - now, hold_max), status, cause
end

-- How many proxies send requests to the origin; `proxy`, if it is not empty, is one of them. What
-- takes memory goes first, here and elsewhere: a server without memory refuses that only before the
-- first write.
local function count_proxies(key, interval, proxy)
  local first = digits(now - 2 * interval)
  if proxy ~= '' then
    read('ZADD', key, digits(now), proxy)
    redis.call('PEXPIRE', key, digits(math.ceil(3 * interval / 1000)))
  end
  read('ZREMRANGEBYSCORE', key, '-inf', '(' .. first)
  return redis.call('ZCOUNT', key, first, digits(now + 2 * interval))
end
