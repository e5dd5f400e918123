-- KEYS here, pace
-- ARGV proxy, presence, longest hold, time
-- Returns here, hold, status, cause

local here = count_here(KEYS[1], tonumber(ARGV[2]), ARGV[1])
local stored = read('HMGET', KEYS[2], 'h', 's', 'c')
local left, status, cause = hold_left(stored[1], stored[2], stored[3], tonumber(ARGV[3]))
return { here, left, status, cause }
