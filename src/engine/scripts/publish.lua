-- KEYS known, lease
-- ARGV token, value, how long it is kept in milliseconds, longest value, how long if nothing was
--      known, time
-- Returns 1 and the token if the value is kept, else 0 and the higher token; whether nothing was
--      known

local token, known = number(ARGV[1]) or 0, known_token(KEYS[1], tonumber(ARGV[4]))
local is_new = known == 0 and 1 or 0
if token == 0 or token > now + AHEAD_MAX or known > token then return { 0, digits(known), 0 } end
redis.call('SET', KEYS[1], ARGV[2], 'PX', is_new == 1 and ARGV[5] or ARGV[3])
local last, _, holder = last_lease(KEYS[2])
if last == token then set_lease(KEYS[2], token, now, holder) end
return { 1, digits(token), is_new }
