-- KEYS lease
-- ARGV token, how long the lease is to last from now (0: it ends), time
-- Returns whether it is still that of the token

local token, _, holder = last_lease(KEYS[1])
if token == 0 or token ~= number(ARGV[1]) then return 0 end
set_lease(KEYS[1], token, now + tonumber(ARGV[2]), holder)
return 1
