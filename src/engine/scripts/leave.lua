-- KEYS members, about, ranks, seen, widths, alone, processes of the name
-- ARGV proxy, its process or nothing, until when, time
-- Returns whether it was a member

local own = ARGV[2] == '' and ARGV[1] or ARGV[1] .. ' ' .. ARGV[2]
local was_member = read('ZREM', KEYS[1], own)
for at = 2, 6 do read('ZREM', KEYS[at], own) end
local last = string.match(read('GETRANGE', KEYS[7], 0, 63), '^(%x+)')
if last and last == ARGV[2] then redis.call('DEL', KEYS[7]) end
return was_member
