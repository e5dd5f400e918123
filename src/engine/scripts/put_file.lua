-- KEYS file
-- ARGV content, how long it is kept in milliseconds, how long if it is new, time
-- Returns whether it is new

local is_new = read('STRLEN', KEYS[1]) == 0
redis.call('SET', KEYS[1], ARGV[1], 'PX', is_new and ARGV[3] or ARGV[2])
return is_new and 1 or 0
