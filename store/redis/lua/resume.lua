-- After a restore nobody knows what was done since the backup.
if tonumber(ARGV[5]) < restored or not lost(ARGV[3]) then return {'fenced'} end
redis.call('HSET', OP, 'fence', I(tonumber(ARGV[3]) + 1), 'state', 'executing')
redis.call('ZREM', P .. 'unknown', id)
extend(tonumber(ARGV[4]))
return view('there')
