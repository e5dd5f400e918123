-- KEYS pace
-- ARGV what ends: backoff or hold; time
-- Returns whether there were failures in a row, or a hold

local stored = read('HMGET', KEYS[1], 'h', 'f')
local is_held = (number(stored[1]) or 0) > now
if ARGV[1] == 'hold' then
  redis.call('HDEL', KEYS[1], 'h', 's', 'c', 'f')
  return is_held and 1 or 0
end
if is_held then return 0 end
redis.call('HDEL', KEYS[1], 'f')
return (number(stored[2]) or 0) > 0 and 1 or 0
