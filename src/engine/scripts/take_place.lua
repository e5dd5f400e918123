-- KEYS places
-- ARGV id, how many there are, how long one lasts unless it is taken again, until when, time
-- Returns 1 if the id has a place

local length = tonumber(ARGV[3])
read('ZCARD', KEYS[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', '(' .. digits(now))
-- One that lasts longer than it can was taken before the clock went back.
redis.call('ZREMRANGEBYSCORE', KEYS[1], '(' .. digits(now + length), '+inf')
local has = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not has and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], digits(now + length), ARGV[1])
redis.call('PEXPIRE', KEYS[1], digits(math.ceil(length / 1000)))
return 1
