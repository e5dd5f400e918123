-- KEYS what was shared once
-- ARGV for how long that is kept at most, in milliseconds; time
-- Returns whether it was removed: what was asked for again is kept for longer

if redis.call('PTTL', KEYS[1]) > tonumber(ARGV[1]) then return 0 end
return redis.call('DEL', KEYS[1])
