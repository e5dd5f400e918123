-- KEYS presence, pace
-- ARGV proxy, interval of announcements, longest hold, time
-- Returns proxies, hold, status, cause

local proxies = count_proxies(KEYS[1], tonumber(ARGV[2]), ARGV[1])
local stored = read('HMGET', KEYS[2], 'h', 's', 'c')
local left, status, cause = hold_left(stored[1], stored[2], stored[3], tonumber(ARGV[3]))
return { proxies, left, status, cause }
