-- KEYS file
-- ARGV offset of its last byte at most, how long it is kept, time
-- Returns the file, or nothing: what is asked for again is kept for longer

local content = redis.call('GETRANGE', KEYS[1], 0, ARGV[1])
if #content > 0 then keep(KEYS[1], tonumber(ARGV[2])) end
return content
