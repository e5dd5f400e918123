-- KEYS known, lease, pace, presence
-- ARGV token that the caller has, its name, whether it fetches, whether it uses the origin,
--      interval of announcements, longest hold, longest value, length of a lease, how long what is
--      known is kept, time
-- Returns 1 token value | 2 token | 3 left of another's lease | 4; then proxies, hold, status,
--      cause

local have = number(ARGV[1]) or 0
if have > now + AHEAD_MAX then have = 0 end
local bytes_max, lease_length = tonumber(ARGV[7]), tonumber(ARGV[8])

local function find()
  local known = known_token(KEYS[1], bytes_max)
  -- What is asked for again is kept for longer than what was asked for once.
  if known > 0 and (ARGV[3] == '1' or ARGV[4] == '1') then keep(KEYS[1], tonumber(ARGV[9])) end
  if known > have then return 1, digits(known), redis.call('GET', KEYS[1]) end
  if ARGV[3] ~= '1' then return 4, '0', '' end
  local token, ends, holder = last_lease(KEYS[2])
  if ends > now and ends - now <= lease_length and holder ~= ARGV[2] then
    return 3, digits(ends - now), ''
  end
  token = math.max(now, known + 1, token + 1, have + 1)
  set_lease(KEYS[2], token, now + lease_length, ARGV[2])
  return 2, digits(token), ''
end

local kind, token, value = find()
local proxies = count_proxies(KEYS[4], tonumber(ARGV[5]), ARGV[4] == '1' and ARGV[2] or '')
local stored = read('HMGET', KEYS[3], 'h', 's', 'c')
local left, status, cause = hold_left(stored[1], stored[2], stored[3], tonumber(ARGV[6]))
return { kind, token, value, proxies, left, status, cause }
