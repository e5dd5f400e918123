-- KEYS pace
-- ARGV kind, length or first, longest back-off, jitter in thousandths, status, cause, longest hold,
--      until when, time
-- Returns hold, status, cause

local hold_max = tonumber(ARGV[7])
local stored = read('HMGET', KEYS[1], 'h', 's', 'c', 'f')
local left, status, cause = hold_left(stored[1], stored[2], stored[3], hold_max)

local function hold(length)
  left, status, cause = length, tonumber(ARGV[5]), ARGV[6]
  redis.call('HSET', KEYS[1], 'h', digits(now + left), 's', digits(status), 'c', cause)
  keep(KEYS[1], left + REST)
  -- Who may not publish is obeyed later.
  redis.pcall('PUBLISH', KEYS[1], digits(left) .. ' ' .. digits(status) .. ' ' .. cause)
end

if ARGV[1] == 'for' then
  local length = math.min(tonumber(ARGV[2]), hold_max)
  if length > left or left == 0 then hold(length) end
elseif left == 0 then
  local first, longest = tonumber(ARGV[2]), tonumber(ARGV[3])
  local streak, last = number(stored[4]) or 0, number(stored[1]) or 0
  if now > last + longest then streak = 0 end
  streak = math.min(streak, 32)
  local wait = math.min(first * 2 ^ streak, longest)
  local more = math.floor(wait * tonumber(ARGV[4]) / 10000)
  hold(math.min(wait + more, hold_max))
  redis.call('HSET', KEYS[1], 'f', digits(math.min(streak + 1, 32)))
  keep(KEYS[1], left + longest + REST)
end
return { left, status, cause }
